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

// File returns a Box with the keys in a file, and reports whether it created the file because the file was missing.
// File returns an error if it cannot read the file, if other users can read the file, or if the file has no keys. A
// new key in place of a missing key would make the stored secrets unreadable.
func File(ctx context.Context, path string) (b *Box, made bool, err error) {
	refuse := func(reason string, args ...any) error {
		return &core.Error{Code: core.CodeRefused, Field: "secret-key-file", Value: path, Reason: core.Say(reason, args...), Err: err}
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if made, err = createFile(path, NewKey()); err != nil {
			return nil, false, refuse("the key file cannot be created: %s; set --secret-key-file to a path that the server can write", cause(err))
		}
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		return nil, false, refuse("the key file cannot be read: %s", cause(err))
	case info.IsDir():
		return nil, false, refuse("the key file is a directory: expected a file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0:
		return nil, false, refuse("every user of the machine can access the key file: run `chmod 600` on the key file")
	}
	b = New(core.Say("the key file %s", path), func(context.Context) (string, error) {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			err = core.Errorf(core.CodeRefused, "the key file %s cannot be read: %s", path, cause(err))
		}
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, maxText+1))
		return string(text), err
	}, func(_ context.Context, text string) error {
		if err := WriteFile(path, text); err != nil {
			return core.Errorf(core.CodeRefused, "the key file %s cannot be written: %s", path, cause(err))
		}
		return nil
	})
	if err = b.Load(ctx); err != nil {
		return nil, false, err
	}
	return b, made, nil
}

// cause is the innermost reason of an error of the system.
func cause(err error) string {
	if pe, is := errors.AsType[*fs.PathError](err); is {
		return pe.Err.Error()
	}
	if le, is := errors.AsType[*os.LinkError](err); is {
		return le.Err.Error()
	}
	return err.Error()
}

// createFile writes a file if there is none, and reports whether it did: of several processes that start together one does, and
// the others find a whole file.
func createFile(path, text string) (made bool, err error) {
	tmp, err := tempFile(path, text)
	if err != nil {
		return false, err
	}
	defer os.Remove(tmp)
	if err = os.Link(tmp, path); errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil { // a file system without hard links
		err = os.Rename(tmp, path)
	}
	syncDir(path)
	return err == nil, err
}

// WriteFile replaces a file at once and durably: a crash leaves the old text or the new one.
func WriteFile(path, text string) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a rename would replace the link
	}
	tmp, err := tempFile(path, text)
	if err != nil {
		return err
	}
	defer os.Remove(tmp) // after the rename it is not there
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	syncDir(path)
	return nil
}

// tempFile writes a file of mode 0600 beside path and returns its name.
func tempFile(path, text string) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return "", err
	}
	if _, err = f.WriteString(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
	}
	return f.Name(), err
}

// syncDir makes the names in the directory of path durable, if the system can.
func syncDir(path string) {
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		dir.Close()
	}
}
