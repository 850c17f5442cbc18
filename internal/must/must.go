// Package must ends the work on a request or a command with the error of a call, without a return after each call.
// The functions panic with the error, and Caught returns it at the place where the work began. Outside the goroutine that
// called Caught, the panic ends the process.
package must

// A failure is the panic value of Get and Do.
type failure struct{ err error }

// Get returns the result of a call. If the call failed, Get ends the work with the error.
func Get[T any](result T, err error) T {
	Do(err)
	return result
}

// Do ends the work with an error; it does nothing if err is nil.
func Do(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Caught returns the error of a function, or the error with which Get or Do ended the function.
func Caught(do func() error) (err error) {
	defer func() {
		p := recover()
		if f, is := p.(failure); is {
			err = f.err
		} else if p != nil {
			panic(p)
		}
	}()
	return do()
}
