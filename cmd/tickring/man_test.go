package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestManPagesDescribeEveryCommandAndFlag compares the pages with the grammar.
func TestManPagesDescribeEveryCommandAndFlag(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	var out strings.Builder
	if code := Main(t.Context(), []string{"man", dir}, strings.NewReader(""), &out, &out, os.LookupEnv); code != 0 {
		t.Fatal(out.String())
	}
	var g grammar
	parser, err := newParser(&g, io.Discard, io.Discard)
	check.OK(t, err)
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
			if f, ok := node.(*kong.Flag); ok && !f.Hidden && !strings.Contains(page, escape("--"+f.Name)) &&
				!strings.Contains(page, escape("--[no-]"+f.Name)) {
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
