package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestManPagesDescribeEveryCommandAndFlag compares the pages with the grammar.
func TestManPagesDescribeEveryCommandAndFlag(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	var out strings.Builder
	if code := Main(t.Context(), []string{"man", dir}, strings.NewReader(""), &out, &out, os.LookupEnv); code != 0 {
		t.Fatal(out.String())
	}
	parser := newParser(&grammar{}, io.Discard, io.Discard)
	main := manPage(t, dir, "tickring")
	for _, f := range parser.Model.Flags {
		if name := escape("--" + f.Name); f.Hidden == strings.Contains(main, name) {
			t.Errorf("tickring.1: hidden flag %v, and the page has it or not: %s", f.Hidden, f.Name)
		}
	}
	count := 0
	for _, n := range parser.Model.Children {
		file := "tickring-" + n.Name
		if _, err := os.Stat(filepath.Join(dir, file+".1")); n.Hidden != (err != nil) {
			t.Errorf("%s.1: hidden %v, and %v", file, n.Hidden, err)
		}
		if n.Hidden {
			continue
		}
		count++
		check.Contains(t, main, escape(file+"(1)"), "tickring.1 does not list %s", file)
		page := manPage(t, dir, file)
		_ = kong.Visit(n, func(node kong.Visitable, next kong.Next) error {
			if f, ok := node.(*kong.Flag); ok && !f.Hidden && !strings.Contains(page, escape("--"+f.Name)) {
				t.Errorf("%s.1 does not describe --%s", file, f.Name)
			}
			return next(nil)
		})
	}
	if count < 30 {
		t.Errorf("%d commands were found", count)
	}
}

// manPage reads a page, and checks that no line of text is a request of roff.
func manPage(t *testing.T, dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, name+".1"))
	check.OK(t, err)
	for line := range strings.Lines(string(b)) {
		request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch request {
		case ".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".I", ".BR", ".br", ".nf", ".fi":
		default:
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				t.Errorf("%s.1: unknown request in %q", name, line)
			}
		}
	}
	return string(b)
}

// TestCLIPageEqualsHelp compares docs/reference/cli.md, from its first command on, with the grammar.
func TestCLIPageEqualsHelp(t *testing.T) {
	const file, mark = "../../docs/reference/cli.md", "\n## Flags of all commands\n"
	page, err := os.ReadFile(file)
	check.OK(t, err)
	parser := newParser(&grammar{}, io.Discard, io.Discard)
	var p markdown
	p.WriteString(mark + "\n")
	p.table(nil, parser.Model.Flags)
	group := ""
	for _, n := range parser.Model.Children {
		of := "Server"
		if n.Group != nil {
			of = n.Group.Key
		}
		if of != group && !n.Hidden {
			group = of
			p.WriteString("\n## " + group + "\n")
		}
		p.command(n, "###")
	}
	head, _, found := strings.Cut(string(page), mark)
	if !found {
		t.Fatalf("%s has no heading %q", file, mark)
	}
	golden.File(t, file, []byte(head+p.String()))
}

// TestHelpOfOneCommand: a line that begins with a command has a parser of this command alone, with the same help.
func TestHelpOfOneCommand(t *testing.T) {
	for _, n := range newParser(&grammar{}, io.Discard, io.Discard).Model.Children {
		_, alone, _ := runMain(t, "", "", n.Name, "--help")
		_, whole, _ := runMain(t, "", "", "--utc", n.Name, "--help")
		check.Equal(t, alone, whole, "%s", n.Name)
	}
}

// markdown is a page under construction.
type markdown struct{ strings.Builder }

// command writes a command and those below it.
func (p *markdown) command(n *kong.Node, level string) {
	if n.Hidden {
		return
	}
	p.WriteString("\n" + level + " tickring " + commandPath(n) + "\n\n" + inProse(n.Help) + "\n")
	if len(n.Children) == 0 {
		p.WriteString("\n```\ntickring " + n.Summary() + "\n```\n")
	}
	for part := range strings.SplitSeq(n.Detail, "\n\n") {
		switch {
		case strings.TrimSpace(part) == "":
		case strings.HasPrefix(part, "  "):
			p.WriteString("\n```\n" + regexp.MustCompile("(?m)^ +").ReplaceAllString(strings.Trim(part, "\n"), "") + "\n```\n")
		default:
			p.WriteString("\n" + inProse(strings.TrimSpace(part)) + "\n")
		}
	}
	if len(n.Positional)+len(manFlags(n.Flags)) > 0 {
		p.WriteString("\n")
		p.table(n.Positional, n.Flags)
	}
	for _, child := range n.Children {
		p.command(child, level+"#")
	}
}

func (p *markdown) table(args []*kong.Positional, flags []*kong.Flag) {
	p.WriteString("| Argument or flag | Description |\n|---|---|\n")
	row := func(term, help string) {
		bar := strings.NewReplacer("|", `\|`)
		p.WriteString("| `" + bar.Replace(term) + "` | " + bar.Replace(inProse(help)) + " |\n")
	}
	for _, a := range args {
		row(a.Summary(), a.Help)
	}
	for _, f := range manFlags(flags) {
		row(f.String(), f.Help)
	}
}

// inProse returns a text of the help with variables as code, because GitHub reads $ as the start of a formula, and with links.
func inProse(text string) string {
	text = regexp.MustCompile(`\$[A-Z_]+`).ReplaceAllString(text, "`$0`")
	return regexp.MustCompile(`docs/([a-z-]+/[a-z-]+\.md)`).ReplaceAllString(text, "[$0](../$1)")
}
