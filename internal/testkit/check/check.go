// Package check has the short forms of the checks that most tests need. Each names the line of the test that calls it.
package check

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// Tests allocate much and keep little, so rare collections save a quarter of their processor time.
func init() {
	if testing.Testing() && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// T is a test, a benchmark or a check of the package rapid.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// Long skips a test under -short, with which the race detector runs. Such a test measures memory or latency, which the
// detector changes, or it takes long and starts no goroutines that other tests do not start.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("not for the race detector")
	}
}

// OK ends the test if an error is not nil.
func OK(t T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Call returns a function that ends the test if a call failed. It takes both results of the call and drops the first:
//
//	check.Call(t)(os.Create(name))
func Call(t T) func(result any, err error) {
	return func(_ any, err error) {
		t.Helper()
		OK(t, err)
	}
}

// NoError fails the test if err is not nil, and lets the test continue.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%v", err)
	}
}

// Equal fails the test if got is not want. The last parameters are a format for fmt.Sprintf and its
// arguments: a name for the compared value.
func Equal[V comparable](t T, got, want V, what ...any) {
	t.Helper()
	if got == want {
		return
	}
	if _, is := any(got).(string); is {
		t.Errorf("%sgot %q, want %q", label(what), any(got), any(want))
		return
	}
	t.Errorf("%sgot %+v, want %+v", label(what), got, want)
}

// Contains fails the test if text does not contain part. The last parameters are as for Equal.
func Contains(t T, text, part string, what ...any) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s%q is missing in:\n%s", label(what), part, text)
	}
}

func label(what []any) string {
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf(what[0].(string), what[1:]...) + ": "
}
