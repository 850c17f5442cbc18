// Package waiting runs tests beside each other that wait more than they compute. Only tests import this package.
package waiting

import (
	"flag"
	"runtime"
	"strconv"
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
