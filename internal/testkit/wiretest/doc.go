// Package wiretest is a fake executor for tests: an HTTP server in the test's
// process that speaks the wire in the dialect it is told to, behaves like the
// executor of that dialect (repeats, block strategies, kill, idleBeat, log),
// can be made to misbehave run by run, and registers and calls back like a
// real one.
//
// It takes its knowledge of the bytes from package wire, so it proves how the
// scheduler behaves, not that the bytes are right; vectors and real executors
// prove that.
package wiretest
