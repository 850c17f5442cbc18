package sqlite_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	zombie "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/enginetest"
	"github.com/tickring/tickring/store/sqlite"
)

// openDir opens a directory for a test.
func openDir(t testing.TB, dir string, o sqlite.Options) *engine.Engine {
	t.Helper()
	lock, err := sqlite.TryLock(dir)
	check.OK(t, err)
	o.Lock = lock
	e, err := sqlite.Open(t.Context(), o)
	check.OK(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestEngine(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	var dirs, clocks sync.Map // by engine
	dirOf := func(e *engine.Engine) string {
		dir, _ := dirs.Load(e)
		return dir.(string)
	}
	o := sqlite.Options{Visibility: enginetest.Visibility, Synchronous: "OFF", Gather: -1, Secrets: enginetest.NewBox()}
	enginetest.Run(t, enginetest.Harness{
		Open: func(t *testing.T) *engine.Engine {
			dir, passed, o := t.TempDir(), new(atomic.Int64), o
			o.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
			e := openDir(t, dir, o)
			dirs.Store(e, dir)
			clocks.Store(e, passed)
			return e
		},
		Wait: func(e *engine.Engine, d time.Duration) {
			passed, _ := clocks.Load(e)
			passed.(*atomic.Int64).Add(int64(d))
		},
		Damage: func(t *testing.T, e *engine.Engine, job core.JobID) {
			damage(t, dirOf(e), "UPDATE sched SET spec = '{' WHERE id = ?", int64(job))
		},
		DamageApp: func(t *testing.T, e *engine.Engine, name string) {
			damage(t, dirOf(e), "UPDATE records SET body = '{' WHERE kind = 'app' AND name = ?", name)
		},
		SetOwes: func(t *testing.T, e *engine.Engine, run core.RunID, text string) {
			damage(t, dirOf(e), "UPDATE runs SET owes = ? WHERE key = ?", text, sqlite.Key(run))
		},
		Reopen: func(t *testing.T, e *engine.Engine) *engine.Engine {
			check.OK(t, e.Close())
			return openDir(t, dirOf(e), o)
		},
	})
}

func damage(t *testing.T, dir, with string, args ...any) {
	c, err := zombie.OpenConn(filepath.Join(dir, "tickring.db"), zombie.OpenReadWrite)
	check.OK(t, err)
	defer c.Close()
	check.OK(t, sqlitex.Execute(c, with, &sqlitex.ExecOptions{Args: args}))
}

func BenchmarkEngine(b *testing.B) {
	enginetest.Benchmarks(b, func(b *testing.B) *engine.Engine { return openDir(b, b.TempDir(), sqlite.Options{}) })
}

// BenchmarkMillion creates a million sleeping jobs, or a million waiting runs, first, which takes a while. Neither must change
// the cost of a tick.
func BenchmarkMillion(b *testing.B) {
	for _, n := range []int{1000, 1000000} {
		b.Run(fmt.Sprintf("Due1000Of%d", n), func(b *testing.B) {
			e := openDir(b, b.TempDir(), sqlite.Options{})
			enginetest.Sleeping(b, e, n)
			enginetest.BenchDue(b, e)
		})
		b.Run(fmt.Sprintf("Due1000And%dRuns", n), func(b *testing.B) {
			e := openDir(b, b.TempDir(), sqlite.Options{})
			enginetest.Sleeping(b, e, 1000)
			enginetest.WaitingRuns(b, e, n)
			enginetest.BenchDue(b, e)
		})
	}
}
