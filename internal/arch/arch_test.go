// Package arch_test checks the structure of the code: allowed imports, forbidden parts of core,
// and that texts which guide a reader name existing code.
package arch_test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

const module = "github.com/tickring/tickring"

// layers is the order from the top: a package imports only from lines below its own, and inside
// a line only the packages in exceptions. A name that ends with /... stands for all packages
// below it.
var layers = [][]string{
	{"cmd/tickring", "functions/..."},
	{"internal/lambdaboot"},
	{"server"},
	{"internal/executorhttp", "internal/doctor", "internal/paging", "internal/traces", "internal/localexec", "console/..."},
	{"api", "api/client", "wirehttp", "manifest", "send/...", "notify/...", "store/sqlite", "store/dynamo",
		"internal/oidc"},
	{"internal/wiring", "internal/poller"},
	{"words"},
	{"core/people"},
	{"core/bulk"},
	{"core/tick/...", "core/dispatch", "core/callback", "core/registry", "core/manage", "core/operate", "core/pullqueue", "core/restore",
		"core/report", "core/rotate", "core/access"},
	{"core/query", "core/postrun", "core/notification", "core/probe"},
	{"core/finish"},
	{"internal/items"},
	{"store"},
	{"core/plan"},
	{"core/schedule", "core/ring", "core/route"},
	{"core/cron", "core/budget", "core/glance", "internal/secretbox"},
	{"core"},
}

// exceptions lists the imports inside a line, and of packages without a line.
var exceptions = map[string][]string{
	"send":         {"wirehttp"},
	"send/awssend": {"send"},
	// A webhook is signed like a call, so that one check verifies both.
	"notify":           {"send"},
	"notify/awsnotify": {"notify"},
	// The console reads and writes a job as a text, as apply and get do. Commands and pages
	// share doctor's findings, and how parts are summed up.
	"console":      {"internal/doctor", "internal/paging"},
	"manifest":     {"api", "api/client"},
	"api":          {},
	"cmd/tickring": {},
}

// free packages import only the named packages of ours, and may be imported by every line from
// wirehttp's up.
var free = map[string][]string{
	"wire":                {},
	"internal/safedial":   {},
	"internal/rejectlog":  {},
	"internal/ratelog":    {},
	"internal/connlimit":  {},
	"internal/fairsem":    {},
	"internal/must":       {},
	"internal/cfnoutputs": {},
	"internal/awsclient":  {},
	"internal/iampolicy":  {},
	"internal/password":   {},
	"executor/...":        {"wire", "internal/connlimit", "executor/..."}, // executor itself: its own TestImports
	"examples/...":        {"executor/..."},
}

// anything lists the packages that may import all packages.
var anything = []string{"internal/testkit/...", "store/storetest", "internal/arch"}

type listed struct {
	ImportPath string
	Imports    []string
}

func TestImports(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	check.OK(t, err)
	seen := 0
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		check.OK(t, d.Decode(&p))
		seen++
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				if strings.HasPrefix(from, "core") && strings.Contains(strings.Split(imp, "/")[0], ".") {
					t.Errorf("%s imports %s: nothing in core reaches outside the standard library", from, imp)
				}
				continue
			}
			check.Equal(t, refusal(from, to), "", "%s imports %s", from, to)
		}
	}
	if seen < 15 {
		t.Fatalf("only %d packages were listed", seen)
	}
}

// refusal returns why from may not import to; empty if it may.
func refusal(from, to string) string {
	if in(anything, from) {
		return ""
	}
	if list, ok := lookup(free, from); ok {
		if in(list, to) || strings.HasPrefix(to, from+"/") {
			return ""
		}
		return "it may import only " + strings.Join(list, ", ")
	}
	line, ok := layer(from)
	if !ok {
		return "the list of layers does not know " + from
	}
	if _, ok := lookup(free, to); ok {
		if strings.HasPrefix(from, "core") || strings.HasPrefix(from, "store") {
			return "core and engines know no transport"
		}
		return ""
	}
	below, ok := layer(to)
	switch {
	case in(exceptions[from], to):
		return ""
	case !ok:
		return "the list of layers does not know " + to
	case below > line:
		return ""
	case below == line && strings.HasPrefix(to, from+"/"):
		return ""
	}
	return "that is not below it"
}

func layer(p string) (int, bool) {
	for i, l := range layers {
		if in(l, p) {
			return i, true
		}
	}
	return 0, false
}

func in(list []string, p string) bool {
	return slices.ContainsFunc(list, func(l string) bool {
		if base, ok := strings.CutSuffix(l, "/..."); ok {
			return p == base || strings.HasPrefix(p, base+"/")
		}
		return l == p
	})
}

func lookup(m map[string][]string, p string) ([]string, bool) {
	for k, v := range m {
		if in([]string{k}, p) {
			return v, true
		}
	}
	return nil, false
}

// TestCoreIsPlain parses package core: no interface, no context, no clock, no goroutine, and a
// limit on the number of files.
func TestCoreIsPlain(t *testing.T) {
	files := sources(t, "../../core")
	if len(files) > 24 {
		t.Errorf("core has %d files, at most 24 are allowed: is the newest one a noun of two use cases?", len(files))
	}
	for name, f := range files {
		for _, imp := range f.Imports {
			switch imp.Path.Value {
			case `"context"`, `"sync"`, `"os"`, `"net/http"`, `"math/rand/v2"`:
				t.Errorf("%s imports %s", name, imp.Path.Value)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.InterfaceType:
				if len(n.Methods.List) > 0 {
					t.Errorf("%s declares an interface: ports are declared by the use case that needs them", name)
				}
			case *ast.GoStmt:
				t.Errorf("%s starts a goroutine", name)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && (n.Sel.Name == "Now" || n.Sel.Name == "Since" || n.Sel.Name == "Until") {
					t.Errorf("%s asks the clock: now is a parameter", name)
				}
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if field.Tag != nil && strings.Contains(field.Tag.Value, "dynamodb") {
						t.Errorf("%s has a store's tag", name)
					}
				}
			}
			return true
		})
	}
}

// sources parses the non-test files of a folder.
func sources(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	check.OK(t, err)
	files := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		check.OK(t, err)
		files[filepath.Base(name)] = f
	}
	if len(files) == 0 {
		t.Fatalf("no Go files in %s", dir)
	}
	return files
}

// TestListsAreComplete: every constant of a closed list stands in that list.
func TestListsAreComplete(t *testing.T) {
	lists := map[string]string{"State": "States", "Cause": "Causes", "Misfire": "Misfires", "Route": "Routes", "Block": "Blocks",
		"Backoff":  "Backoffs",
		"JobState": "JobStates", "Declared": "Declareds", "Kind": "Kinds", "Reason": "Reasons"}
	constants := map[string][]string{}
	members := map[string]map[string]bool{}
	for _, f := range sources(t, "../../core") {
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range g.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				if typ, ok := v.Type.(*ast.Ident); ok && g.Tok == token.CONST {
					for _, n := range v.Names {
						constants[typ.Name] = append(constants[typ.Name], n.Name)
					}
				}
				for i, n := range v.Names {
					if g.Tok != token.VAR || i >= len(v.Values) {
						continue
					}
					set := map[string]bool{}
					ast.Inspect(v.Values[i], func(n ast.Node) bool {
						if id, ok := n.(*ast.Ident); ok {
							set[id.Name] = true
						}
						return true
					})
					members[n.Name] = set
				}
			}
		}
	}
	for typ, list := range lists {
		if len(constants[typ]) == 0 || members[list] == nil {
			t.Errorf("no constants of %s, or no list %s", typ, list)
		}
		for _, c := range constants[typ] {
			if !members[list][c] {
				t.Errorf("core.%s is not in core.%s", c, list)
			}
		}
	}
}

// TestDocNamesWhatExists: all names in core/doc.go exist.
func TestDocNamesWhatExists(t *testing.T) {
	dirs := map[string]string{"server": "server", "store": "store", "send": "send", "wire": "wire", "wirehttp": "wirehttp",
		"wiring": "internal/wiring", "core": "core"}
	for _, p := range []string{"cron", "schedule", "plan", "ring", "route", "tick", "dispatch", "callback", "registry", "manage", "query",
		"finish"} {
		dirs[p] = "core/" + p
	}
	doc := sources(t, "../../core")["doc.go"].Doc.Text()
	names := regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w+)(?:\.([A-Z]\w+))?`).FindAllStringSubmatch(doc, -1)
	if len(names) < 15 {
		t.Fatalf("core/doc.go names %d places", len(names))
	}
	for _, n := range names {
		dir, ok := dirs[n[1]]
		if !ok {
			t.Errorf("core/doc.go names %s, which is no package", n[0])
			continue
		}
		if !declares(t, dir, n[2], n[3]) {
			t.Errorf("core/doc.go names %s, which does not exist", n[0])
		}
	}
}

// declares reports whether a folder has a function, a type or, with a method, a method of a type.
func declares(t *testing.T, dir, name, method string) bool {
	t.Helper()
	is := regexp.MustCompile(`(?m)^(func|type) ` + name + `\b|^\t` + name + ` (struct|interface|func)\b`)
	if method != "" {
		is = regexp.MustCompile(`(?m)^func \(\w+ \*?` + name + `\) ` + method + `\b`)
	}
	files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
	check.OK(t, err)
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		check.OK(t, err)
		return !strings.HasSuffix(file, "_test.go") && is.Match(text)
	})
}

// TestTableOfChangesNamesExistingCode checks the table "Where a change goes" of CONTRIBUTING.md.
func TestTableOfChangesNamesExistingCode(t *testing.T) {
	_, table, ok := strings.Cut(contents(t, "CONTRIBUTING.md"), "## Where a change goes")
	if !ok {
		t.Fatal("CONTRIBUTING.md has no part \"Where a change goes\"")
	}
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| A change") {
			rows++
		}
	}
	if rows < 10 || rows > 16 {
		t.Errorf("the table has %d rows, about twelve are wanted", rows)
	}
	code := goText(t, "core") + goText(t, "api")
	for _, m := range regexp.MustCompile("`(?:[A-Z]\\w*\\.)?([A-Z]\\w+)`").FindAllStringSubmatch(table, -1) {
		if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(code) {
			t.Errorf("CONTRIBUTING.md names %s, which no Go file has", m[1])
		}
	}
}

// goText returns all Go files in and below a folder that are no tests.
func goText(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	check.OK(t, filepath.WalkDir(filepath.Join("../..", dir), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		b.Write(append(text, '\n'))
		return err
	}))
	return b.String()
}

// contents returns a file of the repository.
func contents(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../..", path))
	check.OK(t, err)
	return string(b)
}

// output returns the words of the output of a command in the root of the repository.
func output(t *testing.T, command ...string) []string {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = "../.."
	out, err := cmd.Output()
	check.OK(t, err)
	return strings.Fields(string(out))
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Join("../..", path))
	return err == nil
}

// TestTextsNameWhatExists: every path of ours that README.md and CONTRIBUTING.md put between backticks, in commands too, or link to is
// there.
func TestTextsNameWhatExists(t *testing.T) {
	// Texts with a slash that are no path of ours.
	others := []string{"testing/synctest"}
	roots := map[string]bool{}
	entries, err := os.ReadDir("../..")
	check.OK(t, err)
	for _, e := range entries {
		roots[e.Name()] = true
	}
	file := regexp.MustCompile(`\.(go|md|ya?ml|mod|json|sh)$`)
	for _, text := range []string{"README.md", "CONTRIBUTING.md"} {
		prose := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(contents(t, text), "")
		var paths []string
		for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(prose, -1) {
			words := strings.Fields(m[1])
			for _, w := range words {
				w = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(w, "/..."), "./"), "/")
				if _, value, found := strings.Cut(w, "="); found && strings.HasPrefix(w, "-") {
					w = value
				}
				first, _, slash := strings.Cut(w, "/")
				switch {
				case w == "" || w == "." || w == "..." || slices.Contains(others, w):
				case !regexp.MustCompile(`^[.\w][\w./-]*$`).MatchString(w), strings.HasPrefix(w, "-"):
				case slash && regexp.MustCompile(`^[a-z.]`).MatchString(first), len(words) == 1 && file.MatchString(w), len(words) == 1 && roots[w]:
					paths = append(paths, w)
				}
			}
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(prose, -1) {
			paths = append(paths, m[1])
		}
		if len(paths) < 8 {
			t.Errorf("%s names %d paths: are they still found?", text, len(paths))
		}
		for _, p := range paths {
			if !exists(p) {
				t.Errorf("%s names %s, which does not exist", text, p)
			}
		}
	}
}

// TestEnginesRunTheSuite: each folder in store but storetest is an engine, and its tests run
// all that engines must do.
func TestEnginesRunTheSuite(t *testing.T) {
	entries, err := os.ReadDir("../../store")
	check.OK(t, err)
	suite := regexp.MustCompile(`(?m)^\t+(storetest\.Run\(|for _, \w+ := range storetest\.Cases )`)
	engines := 0
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "storetest" {
			continue
		}
		engines++
		names, err := filepath.Glob(filepath.Join("../../store", e.Name(), "*_test.go"))
		check.OK(t, err)
		if !slices.ContainsFunc(names, func(name string) bool {
			text, err := os.ReadFile(name)
			check.OK(t, err)
			return suite.Match(text)
		}) {
			t.Errorf("no test of store/%s runs storetest: call Run, or go through Cases", e.Name())
		}
	}
	if engines < 2 {
		t.Fatalf("only %d engines were found", engines)
	}
}

// TestModulesAreListed: .ci/run knows every module of the repository.
func TestModulesAreListed(t *testing.T) {
	script := contents(t, ".ci/run")
	m := regexp.MustCompile(`(?m)^modules="([^"]*)"`).FindStringSubmatch(script)
	if m == nil {
		t.Fatal(".ci/run has no line modules=\"…\"")
	}
	listed := strings.Fields(m[1])
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "go.mod", "**/go.mod")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Skip("no git here: nothing to compare with")
	}
	for _, f := range strings.Fields(string(out)) {
		if dir := filepath.Dir(f); !slices.Contains(listed, dir) {
			t.Errorf("module %s is not in the modules of .ci/run", dir)
		}
	}
}

// TestPackagesSayWhatTheyAreFor: one package comment for each package.
func TestPackagesSayWhatTheyAreFor(t *testing.T) {
	for _, dir := range output(t, "go", "list", "-f", "{{.Dir}}", "./...") {
		docs, files := 0, 0
		names, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
			check.OK(t, err)
			files++
			if f.Doc != nil && !ast.IsGenerated(f) {
				docs++
			}
		}
		if files > 0 && docs != 1 {
			t.Errorf("%s has %d package comments, one is wanted", dir, docs)
		}
	}
}

// TestFunctionsAreSmall: in the build for AWS, no function calls methods by computed names,
// because the linker would then keep every method of the AWS SDK. The function api does, for
// the pages of the console; no fire passes through it.
func TestFunctionsAreSmall(t *testing.T) {
	code := contents(t, "infra/build.go")
	tags := regexp.MustCompile(`"-tags", "([^"]+)"`).FindStringSubmatch(code)
	if tags == nil {
		t.Fatal("infra/build.go has no -tags")
	}
	entries, err := os.ReadDir("../../functions")
	check.OK(t, err)
	args := []string{"go", "list", "-deps", "-tags", tags[1]}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "api" {
			args = append(args, "./functions/"+e.Name())
		}
	}
	deps := output(t, args...)
	if len(deps) < 100 {
		t.Fatalf("only %d packages", len(deps))
	}
	for _, p := range []string{"text/template", "html/template", "net/rpc", "encoding/gob"} {
		if slices.Contains(deps, p) {
			t.Errorf("a function links %s: it is twice as large for it", p)
		}
	}
}
