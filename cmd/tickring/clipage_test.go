package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestCLIPageEqualsHelp compares docs/reference/cli.md, from its first command on, with the grammar.
func TestCLIPageEqualsHelp(t *testing.T) {
	const file, mark = "../../docs/reference/cli.md", "\n## Flags of all commands\n"
	page, err := os.ReadFile(file)
	check.OK(t, err)
	var g grammar
	parser, err := newParser(&g, io.Discard, io.Discard)
	check.OK(t, err)
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
		row(flagTerm(f), f.Help)
	}
}

// inProse returns a text of the help with variables as code, because GitHub reads $ as the start of a formula, and with links.
func inProse(text string) string {
	text = regexp.MustCompile(`\$[A-Z_]+`).ReplaceAllString(text, "`$0`")
	return regexp.MustCompile(`docs/([a-z-]+/[a-z-]+\.md)`).ReplaceAllString(text, "[$0](../$1)")
}
