package api

import (
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/tickring/tickring/core"
)

// queryMux is a mux that remembers which query parameters each operation reads, by the
// pattern of the operation.
type queryMux struct {
	*http.ServeMux
	params map[string][]string
}

// HandleFunc registers the handler of an operation. The handler generated from the OpenAPI document has the name of a
// method of ServerInterface. The last argument of this method is a struct with one field for each query parameter.
func (m *queryMux) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	m.ServeMux.HandleFunc(pattern, handler)
	name := runtime.FuncForPC(reflect.ValueOf(handler).Pointer()).Name()
	name = strings.TrimSuffix(name[strings.LastIndex(name, ".")+1:], "-fm")
	op, ok := reflect.TypeFor[ServerInterface]().MethodByName(name)
	if !ok {
		panic("api: no operation " + name + " for " + pattern)
	}
	last := op.Type.In(op.Type.NumIn() - 1)
	if last.Kind() != reflect.Struct {
		return
	}
	for _, f := range reflect.VisibleFields(last) {
		if param, _, _ := strings.Cut(f.Tag.Get("form"), ","); param != "" {
			m.params[pattern] = append(m.params[pattern], param)
		}
	}
}

// check rejects query parameters that the operation does not read, and times up to the beginning of 1970.
func (m *queryMux) check(pattern string, r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	query, known := r.URL.Query(), m.params[pattern]
	for _, name := range slices.Sorted(maps.Keys(query)) {
		switch {
		case slices.Contains(known, name):
			if name == "from" || name == "to" { // the times among the parameters
				if err := checkTime(name, query.Get(name)); err != nil {
					return err
				}
			}
		case len(known) == 0:
			return core.Invalid(core.Truncate(name), query.Get(name), "unknown parameter: this operation has none")
		default:
			return core.Invalid(core.Truncate(name), query.Get(name), "unknown parameter: allowed values: %s", strings.Join(known, ", "))
		}
	}
	return nil
}
