package console

import (
	"errors"
	"testing"

	"github.com/tickring/tickring/internal/must"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestNeedInEach: a failure in another goroutine ends the request, not the process.
func TestNeedInEach(t *testing.T) {
	broken := errors.New("broken")
	err := must.Caught(func() error {
		each(3, func(i int) { must.Get(i, map[bool]error{true: broken}[i == 1]) })
		return nil
	})
	check.Equal(t, err, broken)
}
