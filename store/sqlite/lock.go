package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// ErrLocked reports that the data directory is already locked, by another process or by another FileLock in this process.
var ErrLocked = errors.New("the directory is in use by another process")

// lockPoll is how often WaitLock tries.
const lockPoll = 250 * time.Millisecond

// FileLock is the lock of a data directory. Its holder is the only one that has the data open. The kernel drops it when
// the process ends, however it ends.
type FileLock struct {
	dir  string
	mu   sync.Mutex
	file *os.File
}

// TryLock locks a directory, which it creates if necessary, or returns ErrLocked at once. It writes only the directory and
// the empty file "lock" in it.
func TryLock(dir string) (*FileLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unwritable(dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	if err := tryLockFile(f); err != nil {
		f.Close()
		if errors.Is(err, ErrLocked) {
			return nil, err
		}
		return nil, &core.Error{Code: core.CodeRefused, Field: "data", Value: dir,
			Reason: core.Say("the directory cannot be locked: %v; the directory must be on a local disk", err), Err: err}
	}
	return &FileLock{dir: dir, file: f}, nil
}

// WaitLock waits until the lock is free and takes it, or until ctx ends. It tries four times a second. Errors other than
// ErrLocked end the wait.
func WaitLock(ctx context.Context, dir string) (*FileLock, error) {
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		l, err := TryLock(dir)
		if !errors.Is(err, ErrLocked) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-poll.C:
		}
	}
}

// Held reports whether the lock was not released yet.
func (l *FileLock) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file != nil
}

// Release releases the lock; a second call does nothing.
func (l *FileLock) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

func unwritable(dir string, err error) error {
	return &core.Error{Code: core.CodeRefused, Field: "data", Value: dir,
		Reason: core.Say("the directory cannot be written: this user needs write permission"), Err: err}
}
