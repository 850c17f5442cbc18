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
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/sqlite"
	"github.com/tickring/tickring/store/storetest"
)

// openDir opens a directory for a test.
func openDir(t testing.TB, dir string, o sqlite.Options) *store.Store {
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
	var dirs, clocks sync.Map // by store
	dirOf := func(s *store.Store) string {
		dir, _ := dirs.Load(s)
		return dir.(string)
	}
	o := sqlite.Options{Visibility: storetest.Visibility, Synchronous: "OFF", Gather: -1, Secrets: storetest.NewBox()}
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) *store.Store {
			dir, passed, o := t.TempDir(), new(atomic.Int64), o
			o.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
			e := openDir(t, dir, o)
			dirs.Store(e, dir)
			clocks.Store(e, passed)
			return e
		},
		Wait: func(s *store.Store, d time.Duration) {
			passed, _ := clocks.Load(s)
			passed.(*atomic.Int64).Add(int64(d))
		},
		Damage: func(t *testing.T, s *store.Store, job core.JobID) {
			damage(t, dirOf(s), "UPDATE sched SET spec = '{' WHERE id = ?", int64(job))
		},
		SetOwes: func(t *testing.T, s *store.Store, run core.RunID, text string) {
			damage(t, dirOf(s), "UPDATE runs SET owes = ? WHERE key = ?", text, sqlite.Key(run))
		},
		Reopen: func(t *testing.T, s *store.Store) *store.Store {
			check.OK(t, s.Close())
			return openDir(t, dirOf(s), o)
		},
	})
}

func damage(t *testing.T, dir, with string, args ...any) {
	c, err := zombie.OpenConn(filepath.Join(dir, "tickring.db"), zombie.OpenReadWrite)
	check.OK(t, err)
	defer c.Close()
	check.OK(t, sqlitex.Execute(c, with, &sqlitex.ExecOptions{Args: args}))
}

func BenchmarkFire(b *testing.B) { storetest.BenchFire(b, openDir(b, b.TempDir(), sqlite.Options{})) }

// BenchmarkMillion creates a million sleeping jobs, or a million waiting runs, first, which takes a while. Neither must change
// the cost of a tick.
func BenchmarkMillion(b *testing.B) {
	for _, n := range []int{1000, 1000000} {
		b.Run(fmt.Sprintf("Due1000Of%d", n), func(b *testing.B) {
			s := openDir(b, b.TempDir(), sqlite.Options{})
			storetest.Sleeping(b, s, n)
			storetest.BenchDue(b, s)
		})
		b.Run(fmt.Sprintf("Due1000And%dRuns", n), func(b *testing.B) {
			s := openDir(b, b.TempDir(), sqlite.Options{})
			storetest.Sleeping(b, s, 1000)
			storetest.WaitingRuns(b, s, n)
			storetest.BenchDue(b, s)
		})
	}
}
