package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tickring/tickring/core"
)

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
	if err := copyData(ctx, from, to); err != nil {
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

// copyData also reads the log that a killed server left.
func copyData(ctx context.Context, from, to string) error {
	c, err := connect(from)
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetInterrupt(ctx.Done())
	out := conn{Conn: c}
	out.exec("VACUUM INTO ?", to)
	return cmp.Or(ctx.Err(), out.err)
}
