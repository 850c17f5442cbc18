package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// Key is for tests that damage a run.
var Key = key

func testStore(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	lock, err := TryLock(dir)
	check.OK(t, err)
	o.Lock = lock
	data, err := Open(t.Context(), o)
	check.OK(t, err)
	t.Cleanup(func() { data.Close() })
	return data.Records.(*Store)
}

func raw(t *testing.T, s *Store, q string) {
	t.Helper()
	check.OK(t, s.write(t.Context(), false, 1, func(tx *tx) { tx.exec(q) }))
}

func tell(t *testing.T, s *Store, q string) (n int64) {
	t.Helper()
	check.OK(t, s.read(t.Context(), func(c *conn) { n = c.integer(q) }))
	return n
}

func TestNoDatabase(t *testing.T) {
	dir := t.TempDir()
	check.OK(t, os.WriteFile(filepath.Join(dir, "tickring.db"), []byte(strings.Repeat("not a database ", 1000)), 0o600))
	lock, err := TryLock(dir)
	check.OK(t, err)
	defer lock.Release()
	if _, err = Open(t.Context(), Options{Lock: lock}); core.CodeOf(err) != core.CodeRefused {
		t.Fatalf("got %v", err)
	}
	if _, err := Open(t.Context(), Options{}); err == nil {
		t.Fatal("opened without a lock")
	}
	if _, err := TryLock(filepath.Join(dir, "tickring.db", "data")); core.CodeOf(err) != core.CodeRefused {
		t.Fatalf("got %v", err)
	}
}

func claim(i int) core.Run {
	id := core.NumberedRun(core.JobID(i%7+1), uint32(i/7))
	return core.Run{ID: id, First: id, App: "a", State: core.Running, Cause: core.CauseManual, Owner: "o", Address: "http://a/",
		SentAt: time.UnixMilli(int64(1000 + i)).UTC()}
}

// TestBadOp: an op that fails unexpectedly does not affect the other ops of its transaction.
func TestBadOp(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{Gather: -1})
	hold, held := make(chan struct{}), make(chan struct{})
	go s.write(context.Background(), true, 1, func(*tx) { close(held); <-hold })
	<-held // the following ops share one transaction
	bad := errors.New("bad")
	answers := make(chan error, 3)
	go func() { answers <- s.CreateRuns(context.Background(), []core.Run{claim(1)})[0] }()
	go func() {
		answers <- s.write(context.Background(), true, 1, func(tx *tx) {
			tx.setState("half", 1)
			tx.fail(bad)
		})
	}()
	ended, cancel := context.WithCancel(t.Context())
	go func() { answers <- s.CreateRuns(ended, []core.Run{claim(3)})[0] }()
	for len(s.w.urgent) < 3 {
		runtime.Gosched()
	}
	cancel()
	if err := <-answers; !errors.Is(err, context.Canceled) {
		t.Fatalf("the dropped one: %v", err)
	}
	close(hold)
	a, b := <-answers, <-answers
	if (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), bad) {
		t.Fatalf("got %v and %v", a, b)
	}
	if n := tell(t, s, "SELECT count(*) FROM runs"); n != 1 {
		t.Fatalf("%d runs", n)
	}
	if n := tell(t, s, "SELECT count(*) FROM state WHERE name = 'half'"); n != 0 {
		t.Fatal("half of the bad one is there")
	}
}

// A row that cannot be read stops nothing.
func TestPoison(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir, Options{})
	m := ring.Message{Kind: ring.KindFires, Slot: 1, Fires: []core.Fire{{Run: core.NumberedRun(1, 1), At: 1, Slot: 1, Cause: core.CauseAPI}}}
	check.OK(t, s.Enqueue(t.Context(), []ring.Out{{NotBefore: time.Now(), Message: m}})[0])
	raw(t, s, "INSERT INTO ring (id, kind, visible_at, slot, body) VALUES (50, 0, 1, 0, 'rubbish'), "+
		"(51, 0, 1, 0, '{\"v\":2}'), (52, 1, 1, 0, '{}')")
	s.Close()
	s = testStore(t, dir, Options{})
	got, err := s.Receive(t.Context(), ring.KindFires, 10)
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	good := ring.Message{Kind: ring.KindCheck, Slot: 1, Check: &ring.Check{Runs: []core.RunID{core.NumberedRun(1, 1)}}}
	check.OK(t, s.Enqueue(t.Context(), []ring.Out{{NotBefore: time.Now(), Message: good}})[0])
	if got, err := s.Receive(t.Context(), ring.KindCheck, 1); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	dead, err := s.Letters(t.Context(), "", 10)
	if err != nil || len(dead) != 2 || !strings.Contains(dead[1].Reason+dead[0].Reason, "JSON") {
		t.Fatalf("%+v, %v", dead, err)
	}
	if n := tell(t, s, "SELECT count(*) FROM ring"); n != 3 { // the good ones and the one in a newer format
		t.Fatalf("%d rows", n)
	}
}

// TestDeadBounded: at most KeepDead dead-letter messages are kept, the newest.
func TestDeadBounded(t *testing.T) {
	now := time.Date(2027, 1, 15, 8, 0, 0, 0, time.UTC)
	s := testStore(t, t.TempDir(), Options{Synchronous: "OFF", Now: func() time.Time { return now }})
	const more = 30
	check.OK(t, s.write(t.Context(), false, 1, func(tx *tx) {
		for i := range store.KeepDead + more {
			now = now.Add(time.Nanosecond)
			tx.bury(nil, fmt.Sprint(i))
		}
	}))
	for n := 1; n > 0; {
		var err error
		if n, err = s.Sweep(t.Context(), now, 0, 20*24*time.Hour, 10); err != nil || n > 10 {
			t.Fatal(n, err)
		}
	}
	list, err := s.Letters(t.Context(), "", 2*store.KeepDead)
	if err != nil || len(list) != store.KeepDead || list[len(list)-1].Reason != fmt.Sprint(more) {
		t.Fatalf("%d dead letters, %v", len(list), err)
	}
}

// TestHistory: runs inside and outside the history give the same results, also after a restart in between and after
// sweeps.
func TestHistory(t *testing.T) {
	dir := t.TempDir()
	o := Options{Gather: -1, Synchronous: "OFF"}
	s := testStore(t, dir, o)
	small := func() {
		check.OK(t, s.write(t.Context(), false, 1, func(*tx) { s.recent.size = 100 }))
	}
	small()
	next, far := 0, 0
	create := func(n int) {
		t.Helper()
		var list []core.Run
		var closes []core.RunPut
		for range n {
			list = append(list, claim(next))
			if next%10 != 0 {
				closes = append(closes, core.End(claim(next).ID, core.Run{State: core.Succeeded, EndedAt: time.UnixMilli(1)}))
			}
			next++
		}
		check.OK(t, errors.Join(slices.Concat(s.CreateRuns(t.Context(), list), s.ChangeRuns(t.Context(), closes))...))
	}
	of := func(job core.JobID, open bool) (ids []core.RunID) {
		for i := range next {
			if id := claim(i).ID; id.Job() == job && (!open || i%10 == 0) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	idsOf := func(runs []core.Run) (ids []core.RunID) {
		for i := range runs {
			ids = append(ids, runs[i].ID)
		}
		slices.Sort(ids)
		return ids
	}
	openOf := func(job core.JobID) []core.RunID {
		t.Helper()
		runs, _, err := s.Runs.Open(t.Context(), core.NumberedRun(job, core.MaxNumber), core.RunID(job)<<32, false, 10000)
		check.OK(t, err)
		return idsOf(runs)
	}
	same := func(what string, job core.JobID, got, want []core.RunID) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Fatalf("job %d: %s: %v, want %v", job, what, got, want)
		}
	}
	compare := func() {
		t.Helper()
		last, err := s.Runs.Last(t.Context(), []core.JobID{9, 3, 1, 8, 4, 2, 5, 900, 7, 6}, core.Horizon, 3)
		check.OK(t, err)
		check.Equal(t, len(last[900]), min(1, far), "last runs of job 900")
		for job := core.JobID(1); job <= 9; job++ {
			want := of(job, false)
			same("last runs", job, idsOf(last[job]), want[max(0, len(want)-3):])
			first, last := core.NumberedRange(job)
			var got []core.RunID
			for more := true; more; {
				page, err := s.Runs.Span(t.Context(), first, last, 13)
				check.OK(t, err)
				got = append(got, idsOf(page)...)
				if more = len(page) == 13; more {
					first = page[12].ID + 1
				}
			}
			same("all runs", job, got, want)
			same("open runs", job, openOf(job), of(job, true))
		}
	}
	r := claim(0) // of a job far behind others that have none
	r.ID = core.NumberedRun(900, 0)
	r.First = r.ID
	check.OK(t, errors.Join(slices.Concat(s.CreateRuns(t.Context(), []core.Run{r}),
		s.ChangeRuns(t.Context(), []core.RunPut{core.End(r.ID, core.Run{State: core.Succeeded, EndedAt: time.UnixMilli(1)})}))...))
	far++
	for range 30 {
		create(37)
	}
	compare()
	if n := tell(t, s, "SELECT count(*) FROM history"); n < 500 {
		t.Fatalf("%d rows in the history", n)
	}
	s.Close()
	s = testStore(t, dir, o)
	small()
	compare()
	create(500)
	compare()
	// Close the runs that stayed open.
	for i := 0; i < next; i += 10 {
		end := core.End(claim(i).ID, core.Run{State: core.Failed, Reason: core.ReasonHandler, EndedAt: time.UnixMilli(1)})
		check.OK(t, s.ChangeRuns(t.Context(), []core.RunPut{end})[0])
	}
	check.Equal(t, len(openOf(1)), 0, "open runs")
	var ended []core.Run // they fill a generation
	for i := range 300 {
		r := claim(next + i)
		r.State, r.EndedAt = core.Succeeded, time.UnixMilli(1)
		ended = append(ended, r)
	}
	check.OK(t, errors.Join(s.CreateRuns(t.Context(), ended)...))
	small() // the generation enters the history before the next transaction
	check.Equal(t, tell(t, s, "SELECT count(*) FROM lingering"), 0, "runs that seem open")
	if _, err := s.Sweep(t.Context(), time.Now().Add(1000*time.Hour), time.Hour, time.Hour, 1<<20); err != nil {
		t.Fatal(err)
	}
	if n := tell(t, s, "SELECT (SELECT count(*) FROM runs) + (SELECT count(*) FROM history)"); n != 0 {
		t.Fatalf("%d rows after a sweep", n)
	}
	s.Close()
	s = testStore(t, dir, o)
	check.Equal(t, len(openOf(1)), 0, "open runs")
	next, far = 0, 0
	create(50) // rows are not numbered again
	compare()
	s.Close()
	s = testStore(t, dir, o)
	compare()
}

// storeJobs stores n jobs.
func storeJobs(t *testing.T, s *Store, n core.JobID) (ids []core.JobID) {
	t.Helper()
	check.OK(t, s.PutApp(t.Context(), 0, core.App{Name: "a", Rev: 1}, core.Change{ID: 1, App: "a"}))
	for id := core.JobID(1); id <= n; id++ {
		j := core.Job{Def: core.Def{ID: id, App: "a", Name: fmt.Sprint("j", id)},
			Sched: core.Sched{ID: id, App: "a", Rev: 1, State: core.Started}}
		check.OK(t, s.Jobs.Put(t.Context(), []store.JobPut{{Create: &j}})[0])
		ids = append(ids, id)
	}
	return ids
}

// TestJobCache: jobs are never older than the last committed change, whatever the cache does.
func TestJobCache(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{Gather: -1, Synchronous: "OFF"})
	s.cache.most = 3
	ids := storeJobs(t, s, 8)
	stop := make(chan struct{})
	done := make(chan error, 2)
	for range 2 {
		go func() {
			last := map[core.JobID]core.Instant{}
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				found, err := store.Complete(s.Jobs.Get(context.Background(), store.Whole, ids))
				if err != nil {
					done <- err
					return
				}
				for id, j := range found {
					if j.Sched.Next < last[id] {
						done <- fmt.Errorf("job %d went back from %d to %d", id, last[id], j.Sched.Next)
						return
					}
					last[id] = j.Sched.Next
				}
			}
		}()
	}
	for i := range core.Instant(300) {
		var moves []core.Advance
		for _, id := range ids {
			moves = append(moves, core.Advance{Job: id, Rev: 1, Next: i, NewNext: i + 1})
		}
		check.OK(t, errors.Join(s.Advance(t.Context(), moves)...))
		found, err := store.Complete(s.Jobs.Get(t.Context(), store.Whole, ids[:4]))
		check.OK(t, err)
		for id, j := range found {
			if j.Sched.Next != i+1 {
				t.Fatalf("job %d is at %d after it was moved to %d", id, j.Sched.Next, i+1)
			}
		}
	}
	close(stop)
	for range 2 {
		check.OK(t, <-done)
	}
	check.Equal(t, len(s.cache.jobs), 3, "cached jobs")
}

// TestPlannedJobsAreKept: the jobs of a planner pass are in memory when their runs are due.
func TestPlannedJobsAreKept(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{Gather: -1, Synchronous: "OFF"})
	ids := storeJobs(t, s, 2)
	check.Call(t)(s.Jobs.Get(t.Context(), store.Planning, ids))
	check.OK(t, s.Advance(t.Context(), []core.Advance{{Job: 1, Rev: 1, NewNext: 7}})[0])
	found, err := store.Complete(s.Jobs.Get(t.Context(), store.Whole, ids))
	if err != nil || found[1].Def.Name != "j1" || found[1].Sched.Next != 7 || found[2].Def.Name != "j2" {
		t.Fatalf("%+v, %v", found, err)
	}
	missing, _ := s.cache.get(ids, func(core.JobID, *core.Job) {})
	check.Equal(t, len(missing), 0, "jobs to read from the file")
}

// TestLogBounded: the log stays bounded under load.
func TestLogBounded(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir, Options{Gather: -1, Synchronous: "OFF"})
	for i := range 20 {
		var batch []core.Run
		for k := range 1000 {
			batch = append(batch, claim(i*1000+k))
		}
		s.CreateRuns(t.Context(), batch)
	}
	if info, err := os.Stat(filepath.Join(dir, "tickring.db-wal")); err != nil || info.Size() > 64<<20 {
		t.Fatalf("%d bytes, %v", info.Size(), err)
	}
}

func TestClosed(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{})
	waits := make(chan error, 1)
	go func() {
		_, err := s.Receive(context.Background(), ring.KindFires, 1)
		waits <- err
	}()
	check.OK(t, s.Close())
	check.OK(t, s.Close())
	if err := <-waits; core.CodeOf(err) != core.CodeUnavailable {
		t.Fatalf("the receiver was answered %v", err)
	}
	if err := s.CreateRuns(t.Context(), []core.Run{claim(1)})[0]; core.CodeOf(err) != core.CodeUnavailable {
		t.Fatalf("a write was answered %v", err)
	}
	if _, err := s.Runs.Get(t.Context(), []core.RunID{1}); core.CodeOf(err) != core.CodeUnavailable {
		t.Fatalf("a read was answered %v", err)
	}
}

// TestCheckpointWaitsForNoReader: a long read, such as a page, does not block the writer when it shortens its log. Runs
// wait for the writer.
func TestCheckpointWaitsForNoReader(t *testing.T) {
	dir := t.TempDir()
	s := testStore(t, dir, Options{Gather: -1, Synchronous: "OFF"})
	put := func(rev int64) {
		t.Helper()
		check.OK(t, s.PutApp(t.Context(), rev-1, core.App{Name: "a", Rev: rev}, core.Change{ID: rev, App: "a"}))
	}
	put(1)
	err := s.read(t.Context(), func(r *conn) {
		r.integer("SELECT count(*) FROM records")
		put(2)
		c, err := connect(filepath.Join(dir, "tickring.db"))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		from := time.Now()
		s.checkpoint(c, "RESTART")
		if took := time.Since(from); took > busyTimeout/2 { // without the limit, the call takes busyTimeout
			t.Errorf("the log was waited for %s", took)
		}
		put(3)
	})
	check.OK(t, err)
}
