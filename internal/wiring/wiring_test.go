package wiring_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
)

// TestPartsAreMadeOfNothing: creating the parts reads nothing, because there is no store here, and leaves no goroutine,
// for which the bubble would wait.
func TestPartsAreMadeOfNothing(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		a := wiring.New(&store.Store{}, wiring.Options{Plan: plan.AWS(), Deployment: "eu-west-1/state"})
		a.Ticker(tick.Options{})
		a.Dispatcher(nil, dispatch.Options{})
		a.Dead()
		a.Watchdog(nil, finish.WatchOptions{})
		a.People(nil, people.Options{})
		a.Registry(registry.Options{})
		a.Tokens(registry.TokensOptions{})
		a.Callback(callback.Options{})
		a.Puller(pullqueue.Options{})
		a.Restorer(restore.Options{})
	})
}

// TestEachPartIsTold: each part with an option of the same name gets the value in Options, and nothing else under that
// name. Otherwise two parts may disagree, which no test of one part detects.
func TestEachPartIsTold(t *testing.T) {
	parts := map[string]reflect.Type{
		"tick.Options": reflect.TypeFor[tick.Options](), "dispatch.Options": reflect.TypeFor[dispatch.Options](),
		"finish.Options":      reflect.TypeFor[finish.Options](),
		"finish.WatchOptions": reflect.TypeFor[finish.WatchOptions](), "people.Options": reflect.TypeFor[people.Options](),
		"query.Options": reflect.TypeFor[query.Options](), "registry.Options": reflect.TypeFor[registry.Options](),
		"registry.TokensOptions": reflect.TypeFor[registry.TokensOptions](),
		"callback.Options":       reflect.TypeFor[callback.Options](), "pullqueue.Options": reflect.TypeFor[pullqueue.Options](),
		"restore.Options": reflect.TypeFor[restore.Options](),
	}
	name := func(x ast.Expr) string {
		if s, ok := x.(*ast.SelectorExpr); ok {
			if p, ok := s.X.(*ast.Ident); ok {
				return p.Name + "." + s.Sel.Name
			}
		}
		return ""
	}
	same := func(x ast.Expr, from, field string) bool { // no other value is set under the name
		text := types.ExprString(x)
		return text == from+"."+field || text == from+".Plan."+field
	}
	f, err := parser.ParseFile(token.NewFileSet(), "wiring.go", nil, 0)
	check.OK(t, err)
	told := map[string]map[string]bool{"query.Options": {}} // names of fields, by the name of the options type
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		set := map[string]bool{}
		for _, p := range fn.Type.Params.List {
			if _, ok := parts[name(p.Type)]; ok {
				told[name(p.Type)] = set
			}
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					s, ok := to.(*ast.SelectorExpr)
					if !ok || !same(n.Rhs[i], "a.o", s.Sel.Name) {
						continue
					}
					if name(s) == "o."+s.Sel.Name {
						set[s.Sel.Name] = true
					}
					if name(s.X) == "o.Ask" {
						told["query.Options"][s.Sel.Name] = true
					}
				}
			case *ast.CompositeLit:
				if of := name(n.Type); parts[of] != nil {
					told[of] = map[string]bool{}
					for _, e := range n.Elts {
						kv := e.(*ast.KeyValueExpr)
						field := kv.Key.(*ast.Ident).Name
						told[of][field] = same(kv.Value, "o", field)
					}
				}
			}
			return true
		})
	}
	for of, options := range parts {
		common := []string{"MaxAhead"} // of the plan
		for _, f := range reflect.VisibleFields(reflect.TypeFor[wiring.Options]()) {
			common = append(common, f.Name)
		}
		for _, name := range common {
			if _, has := options.FieldByName(name); has && !told[of][name] {
				t.Errorf("%s has %s, but does not get it", of, name)
			}
		}
	}
}
