package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/sqlite"
)

const childDir = "TICKRING_TEST_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir, os.Getenv(childDir+"_ROUND"))
		return
	}
	waiting.Parallel(16) // of the suite, which waits for visibility timeouts
	os.Exit(m.Run())
}

// child writes from several goroutines and prints the answers until it is killed.
func child(dir, round string) {
	lock, err := sqlite.TryLock(dir)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	e, err := sqlite.Open(context.Background(), sqlite.Options{Lock: lock})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var number int
	fmt.Sscan(round, &number)
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	ctx := context.Background()
	for w := range 4 {
		go func() {
			for i := 0; ; i += 20 {
				var runs []core.Run
				var closes []core.RunPut
				for k := range 20 {
					id := core.NumberedRun(core.JobID(number*10+w+1), uint32(i+k))
					runs = append(runs, core.Run{ID: id, First: id, App: "a", State: core.Running, Cause: core.CauseAPI, Owner: "o"})
					if k%2 == 0 {
						closes = append(closes, core.End(id, core.Run{State: core.Succeeded, Code: 200, EndedAt: time.UnixMilli(1)}))
					}
				}
				for k, err := range e.CreateRuns(ctx, runs) {
					if err != nil {
						say("error %v", err)
					}
					say("made %d", runs[k].ID)
				}
				for k, err := range e.ChangeRuns(ctx, closes) {
					if err != nil {
						say("error %v", err)
					}
					say("closed %d", closes[k].ID)
				}
				m := ring.Message{Kind: ring.KindFires, Slot: 1, Fires: []core.Fire{{Run: runs[0].ID, At: 1, Slot: 1, Cause: core.CauseAPI}}}
				if err := e.Queue.Enqueue(ctx, []ring.Out{{NotBefore: time.UnixMilli(1), Message: m}})[0]; err != nil {
					say("error %v", err)
				}
				say("sent %d", runs[0].ID)
			}
		}()
	}
	select {}
}

// startChild starts a process that writes to a directory, and returns the lines that it prints.
func startChild(t *testing.T, dir string, round int) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprintf("%s_ROUND=%d", childDir, round))
	out, err := c.StdoutPipe()
	check.OK(t, err)
	check.OK(t, c.Start())
	return c, bufio.NewScanner(out)
}

// TestKill: after kill -9 the file opens and has every answered write.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	made, sent := map[core.RunID]bool{}, map[core.RunID]bool{}
	for round := range 3 {
		c, lines := startChild(t, dir, round)
		for n := 0; lines.Scan(); n++ {
			if n == 1500*(round+1) {
				if _, err := sqlite.TryLock(dir); !errors.Is(err, sqlite.ErrLocked) {
					t.Errorf("the lock of a live process: %v", err)
				}
				check.OK(t, c.Process.Kill())
			}
			verb, rest, _ := strings.Cut(lines.Text(), " ")
			var id core.RunID
			if verb == "error" {
				t.Fatalf("the child printed: %s", rest)
			}
			if _, err := fmt.Sscan(rest, &id); err != nil {
				continue // the last line may be incomplete
			}
			switch verb {
			case "made":
				made[id] = made[id] || false
			case "closed":
				made[id] = true
			case "sent":
				sent[id] = true
			}
		}
		_ = c.Wait()

		lock, err := sqlite.TryLock(dir)
		check.OK(t, err)
		e, err := sqlite.Open(t.Context(), sqlite.Options{Lock: lock})
		check.OK(t, err)
		var ids []core.RunID
		for id := range made {
			ids = append(ids, id)
		}
		found, err := store.Complete(e.Runs.Get(t.Context(), ids))
		check.OK(t, err)
		for id, closed := range made {
			if r, is := found[id]; !is || closed && r.State != core.Succeeded {
				t.Fatalf("round %d: run %d: %v %+v", round, id, is, r)
			}
		}
		due, _, _, err := e.Queue.Depth(t.Context(), ring.KindFires)
		if err != nil || due < len(sent) {
			t.Fatalf("%d messages, %d were answered; %v", due, len(sent), err)
		}
		for left := len(sent); left > 0; {
			got, err := e.Queue.Receive(t.Context(), ring.KindFires, 1000)
			check.OK(t, err)
			for _, d := range got {
				if sent[d.Message.Fires[0].Run] {
					left--
				}
			}
		}
		check.OK(t, e.Close())
		t.Logf("round %d: %d runs and %d messages were answered", round, len(made), len(sent))
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	lock, err := sqlite.TryLock(dir)
	check.OK(t, err)
	if _, err := sqlite.TryLock(dir); !errors.Is(err, sqlite.ErrLocked) {
		t.Fatalf("a second lock: %v", err)
	}
	files, err := os.ReadDir(dir)
	check.OK(t, err)
	if info, err := files[0].Info(); err != nil || len(files) != 1 || files[0].Name() != "lock" || info.Size() != 0 ||
		runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the lock wrote %v, %v", files, err)
	}
	ended, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := sqlite.WaitLock(ended, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("an ended wait: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := sqlite.WaitLock(t.Context(), dir)
		if err == nil {
			err = l.Release()
		}
		got <- err
	}()
	check.OK(t, lock.Release())
	check.OK(t, <-got)
	if err := lock.Release(); err != nil {
		t.Fatalf("a second release: %v", err)
	}
}
