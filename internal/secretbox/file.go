package secretbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tickring/tickring/core"
)

// File returns a Box with the keys of a file, and whether it made the file because there was none. A file that cannot be read, that other
// users can read, or that has no keys is refused: with a new key in its place the stored secrets would be lost.
func File(ctx context.Context, path string) (b *Box, made bool, err error) {
	refuse := func(reason string, args ...any) error {
		return &core.Error{Code: core.CodeRefused, Field: "secret-key-file", Value: path, Reason: core.Say(reason, args...), Err: err}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err = writeFile(path, NewKey()); err != nil {
			return nil, false, refuse("the key file cannot be created: %s; set --secret-key-file to a path that the server can write", cause(err))
		}
		made = true
	case err != nil:
		return nil, false, refuse("the key file cannot be read: %s", cause(err))
	case info.IsDir():
		return nil, false, refuse("the key file is a directory: expected a file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0:
		return nil, false, refuse("every user of the machine can use the key file: run chmod 600 on it")
	}
	b = New(func(context.Context) (string, error) {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxText+1))
		return string(text), err
	}, func(_ context.Context, text string) error {
		if err := writeFile(path, text); err != nil {
			return core.Errorf(core.CodeRefused, "the key file %s cannot be written: %s", path, cause(err))
		}
		return nil
	})
	if err = b.Load(ctx); err != nil {
		return nil, false, refuse("the key file cannot be used: %s", cause(err))
	}
	return b, made, nil
}

// cause is the innermost reason of an error of the system.
func cause(err error) string {
	if pe, is := errors.AsType[*fs.PathError](err); is {
		return pe.Err.Error()
	}
	return err.Error()
}

// writeFile replaces a file at once and durably: a crash leaves the old text or the new one.
func writeFile(path, text string) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a rename would replace the link
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename it is not there
	if _, err = f.WriteString(text); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	if dir, e := os.Open(filepath.Dir(path)); e == nil { // not every system can sync a directory
		_ = dir.Sync()
		dir.Close()
	}
	return nil
}
