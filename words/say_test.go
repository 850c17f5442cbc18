package words

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode"

	"github.com/goccy/go-yaml"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// spoken lists the directories whose sentences reach users.
var spoken = []string{"core", "api", "send", "internal/executorhttp", "internal/localexec", "functions", "store", "server",
	"internal/lambdaboot", "internal/doctor", "internal/items", "internal/oidc", "internal/secretbox", "manifest", "cmd/tickring", "console"}

// how explains how to translate a missing sentence.
const how = "add to words/catalog/%s.po\nmsgid %q\nmsgstr \"…with the same %%d and %%s; %%[2]s if their order differs…\""

// TestEverySentence scans the source for the arguments of core.Say, core.Phrase, core.Invalid and core.Errorf and compares them
// with the table: each is in it, nothing else is, and the verbs of fmt are the same.
func TestEverySentence(t *testing.T) {
	codes := map[string]string{} // where each is used
	for _, root := range spoken {
		for dir, files := range packages(t, filepath.Join("..", root)) {
			consts, handOn := stringConsts(files), forwarders(files)
			for name, f := range files {
				at := filepath.Join(dir, name)
				ast.Inspect(f, func(n ast.Node) bool {
					arg := sentenceOf(n, handOn)
					if id, ok := arg.(*ast.Ident); arg == nil || ok && handOn.params[id] {
						return true
					}
					code, ok := eval(arg, consts)
					if !ok && isPhrase(n) {
						return true // data: it is found where it is written
					}
					if !ok {
						t.Errorf("%s: %s is no constant: a sentence is one literal with %%s where something goes in, "+
							"and use an argument, itself a core.Say if it is text", at, types(arg))
						return true
					}
					codes[code] = at
					return true
				})
			}
		}
	}
	for code, at := range templateSentences(t) {
		codes[code] = at
	}
	if len(codes) < 150 {
		t.Fatalf("only %d sentences were found", len(codes))
	}
	document := documentTexts(t) // package manifest has its phrases tested
	for l, catalog := range catalogs() {
		for code, at := range codes {
			if _, ok := catalog[entry{"", code}]; !ok && wordsIn(code) {
				t.Errorf("%s says %q: "+how, at, code, l, code)
			}
		}
		for e, text := range catalog {
			if _, ok := codes[e.english]; e.list == "" && !ok && !document[e.english] {
				t.Errorf("%s.po translates %q, which is not in the source: delete it", l, e.english)
			}
			if !slices.Equal(verbs(t, e.english), verbs(t, text)) {
				t.Errorf("%q takes %v, and %s.po %q takes %v", e.english, verbs(t, e.english), l, text, verbs(t, text))
			}
			check.Equal(t, prose.FindString(text), "", "%s.po has an English sentence", l)
			han := strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
			if l == Chinese && e.list == "" && wordsIn(text) && !han {
				t.Errorf("the Chinese of %q is %q", e.english, text)
			}
		}
	}
}

// TestCatalogIsWhole: no entry of a catalog is there twice or is without a translation.
func TestCatalogIsWhole(t *testing.T) {
	document, err := os.ReadFile("../api/openapi.yaml")
	if enum := "language: {type: string, enum: [" + core.JoinAllowed(Languages) + "],"; err != nil ||
		!strings.Contains(string(document), enum) {
		t.Errorf("api/openapi.yaml does not have %q: %v", enum, err)
	}
	for l, catalog := range catalogs() {
		raw, err := files.ReadFile("catalog/" + string(l) + ".po")
		check.OK(t, err)
		if n := strings.Count("\n"+string(raw), "\nmsgid ") - 1; n != len(catalog) || n < 2000 {
			t.Errorf("%s.po has %d entries, and %d of them are translated and there once", l, n, len(catalog))
		}
	}
}

// TestThirdLanguage: a file is all that a language needs.
func TestThirdLanguage(t *testing.T) {
	fsys := fstest.MapFS{"catalog/fr.po": {Data: []byte("msgid \"\"\nmsgstr \"Language: fr\\n\"\n\n" +
		"msgid \"needed\"\nmsgstr \"requis\"\n\nmsgctxt \"state\"\nmsgid \"failed\"\nmsgstr \"échoué\"\n\nmsgid \"too long\"\nmsgstr \"\"\n")}}
	if got := languages(fsys); !slices.Equal(got, []Language{"fr"}) {
		t.Errorf("languages are %v", got)
	}
	got, err := read(fsys, "fr")
	if want := (map[entry]string{{"", "needed"}: "requis", {"state", "failed"}: "échoué"}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

// templateSentences returns the texts on the pages of the console: the code after .Say or .Mark. Words outside of them exist in one
// language only.
func templateSentences(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../console/pages/*.html")
	if err != nil || len(names) == 0 {
		t.Fatal("no pages were found", err)
	}
	say := regexp.MustCompile(`\.(?:Say|Mark)\s+("(?:[^"\\]|\\.)*"|\S+)`)
	markup := regexp.MustCompile(`(?s)\{\{.*?\}\}|<[^>]*>`)
	codes := map[string]string{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		check.OK(t, err)
		for _, m := range say.FindAllStringSubmatch(string(b), -1) {
			code, err := strconv.Unquote(m[1])
			if err != nil {
				t.Errorf("%s: .Say or .Mark %s: a sentence is one literal", name, m[1])
				continue
			}
			codes[code] = name
		}
		for _, word := range strings.FieldsFunc(markup.ReplaceAllString(string(b), " "), func(r rune) bool { return !unicode.IsLetter(r) }) {
			if len(word) > 1 && !slices.Contains(namesInPages, word) {
				t.Errorf("%s has the word %q outside of .Say", name, word)
			}
		}
	}
	return codes
}

// namesInPages lists the words that are the same in every language.
var namesInPages = []string{"tickring", "Ctrl", "OK", "ID", "JSON", "YAML", "nbsp", "UTC", "Esc", "Enter", "OIDC"}

// documentTexts are the values of the API's document that are text, each in whole.
func documentTexts(t *testing.T) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile("../api/openapi.yaml")
	check.OK(t, err)
	var document any
	check.OK(t, yaml.Unmarshal(raw, &document))
	texts := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			texts[v] = true
		case []any:
			for _, one := range v {
				walk(one)
			}
		case map[string]any:
			for _, one := range v {
				walk(one)
			}
		}
	}
	walk(document)
	return texts
}

// packages parses the Go files below a directory, except tests, by directory and name.
func packages(t *testing.T, root string) map[string]map[string]*ast.File {
	t.Helper()
	found := map[string]map[string]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		dir, name := filepath.Split(path)
		if found[dir] == nil {
			found[dir] = map[string]*ast.File{}
		}
		found[dir][name] = f
		return nil
	})
	check.OK(t, err)
	return found
}

// sentenceOf returns the code from which a call makes a text; nil for any other node, and for an internal error, whose text stays
// in the log.
func sentenceOf(n ast.Node, handOn handing) ast.Expr {
	c, ok := n.(*ast.CallExpr)
	if !ok {
		return nil
	}
	name := ""
	switch f := c.Fun.(type) {
	case *ast.Ident: // in core itself, or in a forwarding function
		if at, ok := handOn.at[f.Name]; ok && at < len(c.Args) {
			return c.Args[at]
		}
		name = f.Name
	case *ast.SelectorExpr:
		pkg, ok := f.X.(*ast.Ident)
		if ok && pkg.Name == "core" {
			name = f.Sel.Name
		} else if ok && pkg.Name == "words" {
			return nil // the argument is a finished text
		} else if at, ok := handOn.methods[f.Sel.Name]; ok && at < len(c.Args) { // a method
			return c.Args[at]
		}
	}
	switch {
	case (name == "Say" || name == "Phrase") && len(c.Args) > 0:
		return c.Args[0]
	case name == "Invalid" && len(c.Args) > 2:
		return c.Args[2]
	case name == "Errorf" && len(c.Args) > 1 && !strings.HasSuffix(types(c.Args[0]), "CodeInternal"):
		return c.Args[1]
	}
	return nil
}

// isPhrase reports whether a call makes a text of possible data.
func isPhrase(n ast.Node) bool {
	f, ok := n.(*ast.CallExpr).Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Phrase"
}

// handing are the functions of a package that hand a parameter on as a sentence: which of
// their parameters it is, by their names; and where it is handed on.
type handing struct {
	at, methods map[string]int
	params      map[*ast.Ident]bool
}

func forwarders(files map[string]*ast.File) handing {
	h := handing{at: map[string]int{}, methods: map[string]int{}, params: map[*ast.Ident]bool{}}
	look := func(to map[string]int, name string, typ *ast.FuncType, body ast.Node) {
		i := 0
		for _, field := range typ.Params.List {
			for _, param := range field.Names {
				ast.Inspect(body, func(n ast.Node) bool {
					if id, ok := sentenceOf(n, h).(*ast.Ident); ok && id.Name == param.Name {
						to[name], h.params[id] = i, true
					}
					return true
				})
				i++
			}
		}
	}
	for before := -1; before < len(h.params); { // functions that forward to forwarding functions
		before = len(h.params)
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					switch {
					case n.Body != nil && n.Recv != nil:
						look(h.methods, n.Name.Name, n.Type, n.Body)
					case n.Body != nil:
						look(h.at, n.Name.Name, n.Type, n.Body)
					}
				case *ast.AssignStmt:
					if lit, ok := n.Rhs[0].(*ast.FuncLit); ok {
						if id, ok := n.Lhs[0].(*ast.Ident); ok {
							look(h.at, id.Name, lit.Type, lit.Body)
						}
					}
				}
				return true
			})
		}
	}
	return h
}

// types writes an expression in short.
func types(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return types(x.X) + "." + x.Sel.Name
	case *ast.CallExpr:
		return types(x.Fun) + "(…)"
	}
	return fmt.Sprintf("%T", e)
}

// stringConsts are the constants of a package that are text.
func stringConsts(files map[string]*ast.File) map[string]ast.Expr {
	consts := map[string]ast.Expr{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if g, ok := n.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, s := range g.Specs {
					if v := s.(*ast.ValueSpec); len(v.Values) == len(v.Names) {
						for i, name := range v.Names {
							consts[name.Name] = v.Values[i]
						}
					}
				}
			}
			return true
		})
	}
	return consts
}

// eval is the text of a constant expression; false where it is none.
func eval(e ast.Expr, consts map[string]ast.Expr) (string, bool) {
	switch x := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(x.Value)
		return s, err == nil && x.Kind == token.STRING
	case *ast.ParenExpr:
		return eval(x.X, consts)
	case *ast.Ident:
		if def, ok := consts[x.Name]; ok {
			return eval(def, consts)
		}
	case *ast.BinaryExpr:
		a, ok := eval(x.X, consts)
		b, also := eval(x.Y, consts)
		return a + b, ok && also && x.Op == token.ADD
	}
	return "", false
}

var verb = regexp.MustCompile(`%(?:\[(\d+)\])?[-+# 0]*\d*(?:\.\d+)?([a-zA-Z%])`)

// wordsIn reports whether a code has text to translate apart from its verbs.
func wordsIn(code string) bool {
	return strings.ContainsFunc(verb.ReplaceAllString(code, ""), unicode.IsLetter)
}

// verbs lists the verbs of a format, each with the number of its argument.
func verbs(t *testing.T, format string) (list []string) {
	t.Helper()
	next := 1
	if strings.Contains(verb.ReplaceAllString(format, ""), "%") {
		t.Errorf("%q has a %% that begins no verb: use %%%% for a percent sign", format)
	}
	for _, m := range verb.FindAllStringSubmatch(format, -1) {
		if m[2] == "%" {
			continue
		}
		if m[1] != "" {
			n, err := strconv.Atoi(m[1])
			check.OK(t, err)
			next = n
		}
		list = append(list, fmt.Sprintf("%d:%s", next, m[2]))
		next++
	}
	slices.Sort(list)
	return list
}

// TestSay: a sentence is translated with its arguments, at any depth; texts without a translation stay unchanged.
func TestSay(t *testing.T) {
	inner := core.Invalid("schedule.every", "0s", "allowed values: %s", "1s")
	ended := core.Say("run %d has ended: %s", 7, core.Failed)
	said := golden.New(t)
	for name, text := range map[string]string{
		"English":             Say(English, ended),
		"Chinese":             Say(Chinese, ended),
		"another order":       Say(Chinese, core.Say("%d polls of app %s are already waiting: try again, or use fewer connections", 20, "a/b")),
		"error in a sentence": Say(Chinese, core.Say("the schedule of job %s cannot be started: %v", "a/b", inner)),
		"text in a sentence":  Say(Chinese, core.Say("%s has no run at %s: %s", "a/b", "02:30", core.Say("the parent job cannot be read"))),
		"error with a field":  Error(Chinese, core.Invalid("handler", "", "required")),
		"error":               Error(Chinese, core.Errorf(core.CodeNotFound, "app %s does not exist", "pay")),
		"no translation":      Say(Chinese, core.Say("untranslated: %d", 1)),
		"phrase":              Say(Chinese, core.Phrase("due index")),
		"phrase with %":       Say(Chinese, core.Say("the deployment could not read: %s", core.Phrase("100% of it"))),
	} {
		said.Equal(t, name, text)
	}
	check.Equal(t, Say(Chinese, core.Text{}), "", "no text")
}

// TestSchedules: a schedule in words is Chinese in whole, in the order of that language.
func TestSchedules(t *testing.T) {
	said := golden.New(t)
	for _, c := range []struct {
		kind       core.Kind
		expr, zone string
	}{
		{core.KindCron, "0 30 2 * * ?", "Asia/Shanghai"},
		{core.KindCron, "0 0 9 ? * MON-FRI", ""},
		{core.KindCron, "0 */5 8-18 * * ?", ""},
		{core.KindCron, "*/20 * * * * ?", ""},
		{core.KindCron, "0 0 0 1,15 * ?", ""},
		{core.KindCron, "0 0 3,4,5 L * ?", ""},
		{core.KindCron, "0 0 3 ? 3,6 6L", ""},
		{core.KindCron, "0 0 3 LW * ? 2027-2029", ""},
		{core.KindCron, "0 1,2,4 * * * ?", ""},
		{core.KindCrontab, "0 12 13 * 5", ""},
		{core.KindCrontab, "0 12 30 2 *", ""},
	} {
		s, err := schedule.Compile(core.Schedule{Any: []core.When{{Kind: c.kind, Expr: c.expr}}, Timezone: c.zone}, 7)
		if err != nil {
			t.Errorf("%s: %v", c.expr, err)
			continue
		}
		said.Equal(t, c.expr, Say(Chinese, s.Describe()))
	}
	mixed := core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: 90 * time.Minute}, {Kind: core.KindAt, At: 1_800_000_000}},
		From: "2026-12-01", Jitter: 2 * time.Minute}
	s, err := schedule.Compile(mixed, 7)
	check.OK(t, err)
	said.Equal(t, "two schedules", Say(Chinese, s.Describe()))
	after := &core.Def{After: []core.Parent{{Job: "a/b", When: core.UponSuccess}, {Job: "c/d", When: core.UponFailure}}, Within: 6 * time.Hour}
	said.Equal(t, "parents", Say(Chinese, (&schedule.Schedule{}).DescribeJob(after)))
	said.Equal(t, "trap of a date", Say(Chinese, trapOf(t, "0 0 2 31 * ?", "Europe/Berlin")[0]))
	said.Equal(t, "trap of a clock change", Say(Chinese, trapOf(t, "0 30 2 * * ?", "Europe/Berlin")[0]))
	_, err = schedule.Compile(core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 0 25 * * ?"}}}, 7)
	e, is := errors.AsType[*core.Error](err)
	if !is {
		t.Fatal(err)
	}
	said.Equal(t, "an error", Error(Chinese, e))
}

func trapOf(t *testing.T, expr, zone string) []core.Text {
	t.Helper()
	s, err := schedule.Compile(core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: expr}}, Timezone: zone}, 7)
	check.OK(t, err)
	traps := s.Traps(core.InstantOf(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
	if len(traps) == 0 {
		t.Fatalf("%s has no trap", expr)
	}
	return traps
}
