//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package executor

import (
	"errors"
	"os"
)

var errLocked = errors.New("another process uses the directory: set another directory for this process (Options.Dir, --dir)")

// lockFolder opens the file without a lock: this system cannot report whether another process uses the directory.
func lockFolder(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
}

func unlockFolder(f *os.File) { f.Close() }
