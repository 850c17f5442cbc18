package main

import (
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tickring/tickring/internal/testkit/golden"
)

// parserWords matches words of the parser that our messages do not use.
var parserWords = regexp.MustCompile(`(?i)unexpected|expected|positional|missing|unknown|must be one of|but got|bit int|EOL|can't be used|perhaps`)

func TestWordsAreOurs(t *testing.T) {
	parser := testParser()
	wrong := [][]string{{"--wat"}, {"-z"}, {"gett"}, {"-"}, {"-o", "json"}, {"-o", "x", "get"}, {"--limit", "3", "runs"}, {"list"}}
	names := commands(parser.Model.Node)
	for word, name := range otherWord {
		if !slices.Contains(names, name) || slices.Contains(names, word) {
			t.Errorf("%s: here it is %s: there is no such command, or there are both", word, name)
		}
	}
	var of func(n *kong.Node)
	of = func(n *kong.Node) {
		path := strings.Fields(commandPath(n))
		line := func(more ...string) { wrong = append(wrong, append(slices.Clone(path), more...)) }
		line()
		line("--no-such-flag")
		line("--no-such-flag=x")
		line("-z")
		line("~")
		line("a", "b", "c", "d")
		for _, f := range n.Flags {
			flag := "--" + f.Name
			line(flag)
			line(flag, "--utc")
			line(flag + "=~")
			line(flag, "~")
		}
		for _, child := range n.Children {
			of(child)
		}
	}
	of(parser.Model.Node)
	for _, args := range wrong {
		_, err := parse(args)
		p, wrong := errors.AsType[*kong.ParseError](err)
		switch {
		case err == nil: // that one is right
		case !wrong:
			t.Errorf("%q: %v", args, err)
		case parserWords.MatchString(wrongLine(p)):
			t.Errorf("%q: %s", args, wrongLine(p))
		}
	}
	if len(wrong) < 300 {
		t.Errorf("only %d lines", len(wrong))
	}
}

// testParser is one parser for many command lines, because building it takes 10 ms.
var testParser = sync.OnceValue(func() *kong.Kong { return newParser(&grammar{}, io.Discard, io.Discard) })

// parse is the parser alone.
func parse(args []string) (ctx *kong.Context, err error) {
	parser := testParser()
	err = kong.Visit(parser.Model, func(n kong.Visitable, next kong.Next) error { // Parse leaves which values were set
		switch v := n.(type) {
		case *kong.Flag:
			v.Set = false
		case *kong.Value:
			v.Set = false
		}
		return next(nil)
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if p := recover(); p != nil {
			if _, ok := p.(helped); !ok {
				panic(p)
			}
		}
	}()
	return parser.Parse(args)
}

func TestWrongLine(t *testing.T) {
	texts := golden.New(t)
	for _, line := range []string{
		"gett", "upc", "list", "get a b", "serve x", "--limit 3 runs", "create x --handlr x", "doctor --wat", "version --wat",
		"apply", "exec", "describe", "runs --limit", "runs --limit x", "trigger x --params -x", "apply -f --dry-run",
		"serve --drain soon", "pause --all=maybe", "create a/b --label x", "serve --log-level warm", "serve --tls-cert x",
		"get -oxml", "serve --require-token --demo --allow-no-token", "xyzzy",
	} {
		_, err := parse(strings.Fields(line))
		p, ok := err.(*kong.ParseError)
		if !ok {
			t.Errorf("%s: %v of %v", line, err, reflect.TypeOf(err))
			continue
		}
		texts.Equal(t, line, wrongLine(p))
	}
}
