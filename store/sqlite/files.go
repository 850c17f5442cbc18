package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// ErrLocked reports that the data directory is already locked, by another process or by another FileLock in this process.
var ErrLocked = errors.New("the directory is in use by another process")

// FileLock is the lock of a data directory. Its holder is the only one that has the data open. The kernel drops it when
// the process ends, however it ends.
type FileLock struct {
	dir  string
	mu   sync.Mutex
	file *sqlite.Conn // in a transaction that excludes all others
}

// TryLock locks a directory, which it creates if necessary, or returns ErrLocked at once. It writes only the directory and
// the empty file "lock" in it.
func TryLock(dir string) (*FileLock, error) { return lock(context.Background(), dir, false) }

// WaitLock waits until the lock is free and takes it, or until ctx ends.
func WaitLock(ctx context.Context, dir string) (*FileLock, error) { return lock(ctx, dir, true) }

func lock(ctx context.Context, dir string, wait bool) (*FileLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unwritable(dir, err)
	}
	path := filepath.Join(dir, "lock")
	if f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		f.Close()
	}
	// From now on, only SQLite may open the file: when a process closes a file, the kernel drops all its locks of the file.
	file, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err == nil {
		if file.SetInterrupt(ctx.Done()); !wait { // by default, a connection waits
			file.SetBusyTimeout(0)
		}
		c := conn{Conn: file}
		c.exec("PRAGMA journal_mode=MEMORY") // or SQLite creates a further file
		if c.exec("BEGIN EXCLUSIVE"); c.err == nil {
			file.SetInterrupt(nil)
			return &FileLock{dir: dir, file: file}, nil
		}
		err = c.err
		file.Close()
	}
	switch code := sqlite.ErrCode(err).ToPrimary(); {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case code == sqlite.ResultBusy:
		return nil, ErrLocked
	case notWritable(code):
		return nil, unwritable(dir, err)
	}
	return nil, &core.Error{Code: core.CodeRefused, Field: "data", Value: dir,
		Reason: core.Say("the directory cannot be locked: %v; the directory must be on a local disk", err), Err: err}
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

func notWritable(code sqlite.ResultCode) bool {
	return slices.Contains([]sqlite.ResultCode{sqlite.ResultReadOnly, sqlite.ResultCantOpen, sqlite.ResultPerm}, code)
}

func unwritable(dir string, err error) error {
	return &core.Error{Code: core.CodeRefused, Field: "data", Value: dir,
		Reason: core.Say("the directory cannot be written: this user needs write permission"), Err: err}
}

// Backup copies the data of a directory, as of one moment, to a new file and returns its size. A server may use the
// directory at the same time, also in another process, and is not interrupted. If Backup returns nil, the copy is on the
// disk. After an error no file is left.
func Backup(ctx context.Context, dir, to string) (size int64, err error) {
	from := filepath.Join(dir, "tickring.db")
	if _, err := os.Stat(from); err != nil {
		return 0, &core.Error{Code: core.CodeNotFound, Field: "data", Value: dir,
			Reason: core.Say("the directory has no tickring.db of a server"), Err: err}
	}
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return 0, core.Invalid("file", to, "the file already exists: choose another name")
	case err != nil:
		return 0, core.Invalid("file", to, "cannot be created: %v", err)
	}
	defer func() {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			os.Remove(to)
		}
	}()
	c, err := connect(from) // it also reads the log that a killed server left
	if err == nil {
		c.SetInterrupt(ctx.Done())
		out := conn{Conn: c}
		out.exec("VACUUM INTO ?", to)
		err = cmp.Or(ctx.Err(), out.err)
		c.Close()
	}
	if err != nil {
		return 0, refusal(dir, fmt.Errorf("copy the data: %w", err))
	}
	info, err := file.Stat()
	if err = cmp.Or(err, file.Sync()); err != nil {
		return 0, fmt.Errorf("write the copy to the disk: %w", err)
	}
	if folder, err := os.Open(filepath.Dir(to)); err == nil {
		_ = folder.Sync() // not every system can sync a directory
		folder.Close()
	}
	return info.Size(), nil
}
