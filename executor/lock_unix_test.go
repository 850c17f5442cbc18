//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package executor

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestUnlockWithACopy: a copy of the file, as a program that is being started has, does not keep the lock.
func TestUnlockWithACopy(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	f, err := lockFolder(name)
	check.OK(t, err)
	held, err := syscall.Dup(int(f.Fd()))
	check.OK(t, err)
	defer syscall.Close(held)
	unlockFolder(f)
	f, err = lockFolder(name)
	check.OK(t, err)
	unlockFolder(f)
}
