//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package executor

import (
	"errors"
	"os"
	"syscall"
)

var errLocked = errors.New("another process uses the directory: set another directory for this process (Options.Dir, --dir)")

// lockFolder takes a lock that the kernel releases when the process ends.
func lockFolder(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, err
	}
	return f, nil
}

// unlockFolder releases the lock. A program that is being started may still hold a copy of the file: closing it would not release
// the lock.
func unlockFolder(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	f.Close()
}
