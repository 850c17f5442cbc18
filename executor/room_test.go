package executor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestWantOfOurOwnIsNoAnswer: a lack of descriptors, processes or memory is retried for a limited time and then reported.
// An error of the program itself is not retried.
func TestWantOfOurOwnIsNoAnswer(t *testing.T) {
	for _, want := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			short := func() error {
				if tries++; tries < 5 {
					return &fs.PathError{Op: "fork/exec", Path: "x", Err: want}
				}
				return nil
			}
			if err := withRoom(t.Context(), &Run{}, short); err != nil || tries != 5 {
				t.Errorf("%v for a moment: %v after %d tries", want, err, tries)
			}
			began := time.Now()
			err := withRoom(t.Context(), &Run{}, func() error { return os.NewSyscallError("pipe2", want) })
			if d := time.Since(began); d > startFor || d < startFor-2*time.Second {
				t.Errorf("%v for good: tried for %s", want, d)
			}
			if !errors.Is(err, want) || !strings.Contains(err.Error(), "this executor had too few file descriptors, processes or memory") {
				t.Errorf("%v for good: %v", want, err)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errTimeout)
			defer cancel()
			if err := withRoom(ctx, &Run{}, func() error { return want }); !errors.Is(err, errTimeout) {
				t.Errorf("%v until its timeout: %v", want, err)
			}
		})
	}
	tries := 0
	if err := withRoom(t.Context(), &Run{}, func() error { tries++; return fs.ErrNotExist }); !errors.Is(err, fs.ErrNotExist) || tries != 1 {
		t.Errorf("no program: %v after %d tries", err, tries)
	}
}
