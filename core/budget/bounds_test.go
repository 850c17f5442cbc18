package budget_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestEachBoundSaysWhatLiesBeyond checks that each constant of bounds.go documents its limit and names an
// existing test that uses it.
func TestEachBoundSaysWhatLiesBeyond(t *testing.T) {
	tests := bodies(t, "../..")
	file, err := parser.ParseFile(token.NewFileSet(), "bounds.go", nil, parser.ParseComments)
	check.OK(t, err)
	doc := regexp.MustCompile(`(?s)Beyond: \w.*Test: (Test\w+)\.\n$`)
	bounds := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is {
			return true
		}
		bounds++
		name, says := spec.Names[0].Name, doc.FindStringSubmatch(spec.Doc.Text())
		if says == nil {
			t.Errorf("%s: its comment is to end with \"Beyond: …. Test: Test….\": %q", name, spec.Doc.Text())
		} else if !strings.Contains(tests[says[1]], "budget."+name) {
			t.Errorf("%s: no test %s uses budget.%[1]s", name, says[1])
		}
		return true
	})
	if bounds == 0 {
		t.Fatal("bounds.go has no bounds")
	}
}

// bodies returns the texts of all tests below a directory, by name.
func bodies(t *testing.T, dir string) map[string]string {
	t.Helper()
	tests := map[string]string{}
	begin := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		at := begin.FindAllSubmatchIndex(text, -1)
		for i, m := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			tests[string(text[m[2]:m[3]])] = string(text[m[0]:end])
		}
		return err
	})
	check.OK(t, err)
	return tests
}
