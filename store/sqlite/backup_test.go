package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store/sqlite"
)

// TestBackup: a copy made while another process writes is complete and has every answered write, as has a copy of the data
// that a killed process left.
func TestBackup(t *testing.T) {
	dir, copies := t.TempDir(), t.TempDir()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), childDir+"="+dir, childDir+"_ROUND=0")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var made []core.RunID
	some, over := make(chan bool), make(chan bool)
	go func() {
		defer close(over)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var id core.RunID
			if _, err := fmt.Sscanf(lines.Text(), "made %d", &id); err != nil {
				continue
			}
			mu.Lock()
			if made = append(made, id); len(made) == 2000 {
				close(some)
			}
			mu.Unlock()
		}
	}()
	<-some
	for n := range 5 {
		if n == 4 {
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait()
			<-over
		}
		mu.Lock()
		before := len(made)
		mu.Unlock()
		file := filepath.Join(copies, fmt.Sprint(n), "tickring.db")
		if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		size, err := sqlite.Backup(t.Context(), dir, file)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Size() != size || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %d bytes said: %v", info, size, err)
		}
		if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
			t.Errorf("beside it: %v", left)
		}
		mu.Lock()
		ids := made[:before]
		mu.Unlock()
		check, err := zombie.OpenConn(file, zombie.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := sqlitex.ResultText(check.Prep("PRAGMA integrity_check"))
		if err != nil || whole != "ok" {
			t.Errorf("%s %v", whole, err)
		}
		if err := check.Close(); err != nil {
			t.Fatal(err)
		}
		found, err := openDir(t, filepath.Dir(file), sqlite.Options{}).Runs.Get(t.Context(), ids)
		if err != nil || len(found) != len(ids) {
			t.Errorf("copy %d has %d of the %d runs that were answered: %v", n, len(found), len(ids), err)
		}
	}
}

// TestBackupRefused: a backup that cannot be read or written returns an error and leaves no file.
func TestBackupRefused(t *testing.T) {
	dir, copies := t.TempDir(), t.TempDir()
	openDir(t, dir, sqlite.Options{})
	taken := filepath.Join(copies, "taken")
	if err := os.WriteFile(taken, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx      context.Context
		dir, to  string
		code     core.Code
		leftover bool
	}{
		{t.Context(), dir, taken, core.CodeInvalid, true},
		{t.Context(), dir, filepath.Join(copies, "no", "folder"), core.CodeInvalid, false},
		{t.Context(), t.TempDir(), filepath.Join(copies, "new"), core.CodeNotFound, false},
		{ended, dir, filepath.Join(copies, "new"), core.CodeInternal, false},
	} {
		_, err := sqlite.Backup(c.ctx, c.dir, c.to)
		if err == nil || core.CodeOf(err) != c.code {
			t.Errorf("%s: %v", c.to, err)
		}
		if _, err := os.Stat(c.to); (err == nil) != c.leftover {
			t.Errorf("%s: %v", c.to, err)
		}
	}
	if b, err := fs.ReadFile(os.DirFS(copies), "taken"); err != nil || string(b) != "mine" {
		t.Errorf("%q %v", b, err)
	}
}
