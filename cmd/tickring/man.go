package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// manCmd writes the man pages that packages contain: tickring.1, and tickring-COMMAND.1 for each
// command. The pages come from the grammar, so that they equal --help.
type manCmd struct {
	Dir string `arg:"" help:"Directory for the pages; created if it does not exist." type:"path"`
}

func (c *manCmd) Run(e *Env) error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil { //nolint:gosec // pages for all users
		return err
	}
	for name, text := range manPages(newParser(&grammar{}, io.Discard, io.Discard).Model) {
		if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

// manPages returns the pages by their file names.
func manPages(app *kong.Application) map[string]string {
	var main roff
	main.title("tickring", app.Help)
	main.section("Synopsis")
	main.line(`.B tickring`)
	main.line(`.I command`)
	main.text("[flags]")
	main.section("Description")
	main.text(app.Help)
	pages := map[string]string{}
	group := ""
	main.section("Commands")
	for _, n := range app.Children {
		if n.Hidden {
			continue
		}
		if n.Group != nil && n.Group.Key != group {
			group = n.Group.Key
			main.line(".SS " + escape(group))
		}
		main.item("tickring-"+n.Name+"(1)", n.Help)
		pages["tickring-"+n.Name+".1"] = commandPage(n)
	}
	main.section("Flags of all commands")
	main.flags(app.Flags)
	pages["tickring.1"] = main.String()
	return pages
}

func commandPage(n *kong.Node) string {
	var p roff
	p.title("tickring-"+n.Name, n.Help)
	p.section("Synopsis")
	leaves := n.Leaves(true)
	if len(leaves) == 0 {
		leaves = []*kong.Node{n}
	}
	for _, leaf := range leaves {
		p.line(".B " + escape("tickring "+leaf.Summary()))
		p.line(".br")
	}
	p.section("Description")
	p.text(n.Help)
	p.text(n.Detail)
	if len(n.Aliases) > 0 {
		p.text("Alias: " + strings.Join(n.Aliases, ", "))
	}
	p.parts(n)
	p.section("See also")
	p.line(`.BR tickring (1)`)
	p.text("for the flags of all commands and for all other commands.")
	return p.String()
}

// roff is a page under construction, for the macros of man(7).
type roff struct{ strings.Builder }

// parts writes the arguments, flags and subcommands of n.
func (p *roff) parts(n *kong.Node) {
	if len(n.Positional) > 0 {
		p.section("Arguments")
		for _, a := range n.Positional {
			p.item(a.Summary(), a.Help)
		}
	}
	if len(manFlags(n.Flags)) > 0 {
		p.section("Flags")
		p.flags(n.Flags)
	}
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		p.section(strings.TrimPrefix(child.FullPath(), "tickring "))
		p.text(child.Help)
		p.text(child.Detail)
		for _, a := range child.Positional {
			p.item(a.Summary(), a.Help)
		}
		p.flags(child.Flags)
	}
}

func (p *roff) title(name, help string) {
	p.line(fmt.Sprintf(`.TH "%s" "1" "" "tickring %s" "User commands"`, escape(strings.ToUpper(name)), escape(release)))
	p.section("Name")
	p.line(escape(name) + ` \- ` + escape(strings.TrimSuffix(help, ".")))
}

func (p *roff) section(name string) { p.line(`.SH "` + escape(strings.ToUpper(name)) + `"`) }

// item writes a term and its description.
func (p *roff) item(term, text string) {
	p.line(".TP")
	p.line(".B " + escape(term))
	p.lines(text)
}

func (p *roff) flags(list []*kong.Flag) {
	for _, f := range manFlags(list) {
		p.item(f.String(), f.Help)
	}
}

func manFlags(list []*kong.Flag) (visible []*kong.Flag) {
	for _, f := range list {
		if !f.Hidden {
			visible = append(visible, f)
		}
	}
	return visible
}

// text writes paragraphs. Lines with an indent are examples, and keep their form.
func (p *roff) text(text string) {
	for part := range strings.SplitSeq(text, "\n\n") {
		switch {
		case strings.TrimSpace(part) == "":
		case strings.HasPrefix(part, "  "):
			p.line(".PP")
			p.line(".nf")
			p.lines(part)
			p.line(".fi")
		default:
			p.line(".PP")
			p.lines(part)
		}
	}
}

func (p *roff) lines(text string) {
	for l := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		p.line(escape(l))
	}
}

func (p *roff) line(l string) { p.WriteString(l + "\n") }

// escape returns text without the characters that mean something to roff.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	var b strings.Builder
	if strings.HasPrefix(text, ".") {
		b.WriteString(`\&`)
	}
	for _, r := range text {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}
