// Package check ends a test if the setup of the test fails.
package check

// T is a test, a benchmark or a check of the package rapid.
type T interface {
	Helper()
	Fatal(args ...any)
}

// OK ends the test if err is not nil.
func OK(t T, err error) {
	t.Helper()
	if err != nil {
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
