package main

import (
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// parserWords matches words of the parser that our messages do not use.
var parserWords = regexp.MustCompile(`(?i)unexpected|expected|positional|missing|unknown|must be one of|but got|bit int|EOL|can't be used|perhaps`)

func TestWordsAreOurs(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine makes 1,500 parsers: the race detector needs minutes for it")
	}
	parser, err := newParser(&grammar{}, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
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

// parse is the parser alone.
func parse(args []string) (ctx *kong.Context, err error) {
	parser, err := newParser(&grammar{}, io.Discard, io.Discard)
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
	for line, want := range map[string]string{
		"gett":                "command gett does not exist, did you mean get?",
		"upc":                 "command upc does not exist, did you mean upcoming?",
		"list":                "command list does not exist: in tickring it is get",
		"get a b":             `get takes only APP|JOB: "b" is one too many`,
		"serve x":             `serve takes only flags: "x" is one too many`,
		"--limit 3 runs":      "--limit must follow its command: changes, rerun, runs, upcoming",
		"create x --handlr x": "create has no flag --handlr, did you mean --handler?",
		"doctor --wat":        "doctor has no flag --wat: its flags are --all",
		"version --wat":       "version has no flag --wat: it has only the global flags",
		"apply":               "apply requires --file FILE|DIR|-: Manifest file, directory, or - for standard input",
		"exec":                "exec requires --app NAME, --handler NAME, -- PROGRAM",
		"describe":            "describe requires JOB|APP|RUN: Job, app or run to describe",
		"runs --limit":        "--limit requires a value, as in --limit 20: Maximum number of runs",
		"runs --limit x":      `--limit: "x": allowed values: whole numbers`,
		"trigger x --params -x": "--params requires a value, as in --params TEXT, but -x after it is a flag: " +
			"write the value between them, or --params=-x if it is the value",
		"apply -f --dry-run": "--file requires a value, as in --file FILE|DIR|-, but --dry-run after it is a flag: " +
			"write the value between them, or --file=--dry-run if it is the value",
		"serve --drain soon":     `--drain: "soon": allowed values: durations such as 30s, 10m and 1h30m`,
		"pause --all=maybe":      `--all: "maybe": allowed values: true and false`,
		"create a/b --label x":   `--label: "x": allowed values: KEY=VALUE`,
		"serve --log-level warm": `--log-level: "warm": allowed values: debug, info, warn, error, did you mean warn?`,
		"serve --tls-cert x":     "--tls-cert and --tls-key: set both or none",
		"get -oxml":              `--output: "xml": allowed values: text, json, yaml`,
		"serve --require-token --demo --allow-no-token": "--allow-no-token and --require-token: set only one of them",
	} {
		_, err := parse(strings.Fields(line))
		p, ok := err.(*kong.ParseError)
		if !ok {
			t.Errorf("%s: %v of %v", line, err, reflect.TypeOf(err))
		} else if got := wrongLine(p); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", line, got, want)
		}
	}
	_, err := parse([]string{"xyzzy"})
	if got := wrongLine(err.(*kong.ParseError)); !strings.HasPrefix(got, "command xyzzy does not exist: there are serve, apply, ") {
		t.Error(got)
	}
}
