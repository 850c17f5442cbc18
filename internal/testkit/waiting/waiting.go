// Package waiting is for tests that wait more than they compute. Only tests import this package.
package waiting

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
)

// Parallel sets the maximum number of parallel tests to n, unless the command line sets -parallel. TestMain calls it.
func Parallel(n int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		if err := f.Value.Set(strconv.Itoa(n)); err != nil {
			panic(err)
		}
	}
}

// For calls f repeatedly until f returns nil. After the limit it returns the last error.
func For(limit time.Duration, f func() error) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-deadline.C:
			return fmt.Errorf("after %s: %w", limit, err)
		}
	}
}

// Until waits for an effect of another process: until the function is returns true. After a minute it ends the test.
func Until(t check.T, what string, is func() bool) {
	t.Helper()
	check.OK(t, For(time.Minute, func() error {
		if !is() {
			return errors.New("not yet: " + what)
		}
		return nil
	}))
}
