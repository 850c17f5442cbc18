package dispatch_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// limited is a dispatcher over a store with jobs whose runs share a limit.
type limited struct {
	willing
	t  *testing.T
	s  *data
	d  *dispatch.Dispatcher
	mu sync.Mutex
	// sent lists the runs in the order of their sends; work has those without an end.
	sent []core.RunID
	work map[core.RunID]bool
	most int
	at   core.Instant
}

func (l *limited) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent, l.work[s.Run.ID] = append(l.sent, s.Run.ID), true
	l.most = max(l.most, len(l.work))
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

func newLimited(t *testing.T, jobs map[core.JobID]core.Overlap) *limited {
	l := &limited{t: t, s: newData(t, plan.AWS(), memory.Options{}), work: map[core.RunID]bool{}, at: core.InstantOf(time.Now())}
	l.d = l.s.dispatcher(l, dispatch.Options{SendsMin: 1, SendsMax: 1}) // so that sent is in order
	l.s.App("a", "http://10.0.0.1:1")
	for id, o := range jobs {
		j := core.Job{Def: core.Def{ID: id, App: "a", Name: "j" + id.String(), Handler: "h", Overlap: o}}
		j.Normalize()
		must(t, j.Validate())
		j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
		l.s.Job(j)
	}
	time.Sleep(30 * time.Second)
	return l
}

// fires dispatches n runs of a job that are due.
func (l *limited) fires(job core.JobID, n int) (ids []core.RunID) {
	m := ring.Message{Kind: ring.KindFires, Slot: core.InstantOf(time.Now())}
	rev := l.s.JobOf(job).Sched.Rev
	for range n {
		l.at++
		f := planned(job, l.at)
		f.Rev = rev
		m.Fires, ids = append(m.Fires, f), append(ids, f.Run)
	}
	for _, v := range l.d.Handle(l.t.Context(), []ring.Message{m}) {
		if !v.Ack {
			l.t.Errorf("not acked: %v", v.Err)
		}
	}
	return ids
}

// ring dispatches a message of a stored run.
func (l *limited) ring(id core.RunID, cause core.Cause) {
	f := core.Fire{Run: id, Rev: 1, At: l.at, Slot: l.at, Cause: cause}
	l.d.Handle(l.t.Context(), []ring.Message{messageOf(f)})
}

// ends reports the end of a sent run.
func (l *limited) ends(id core.RunID, state core.State) {
	l.t.Helper()
	l.mu.Lock()
	delete(l.work, id)
	l.mu.Unlock()
	must(l.t, l.s.f.End(l.t.Context(), []finish.Result{{Run: id, State: state, Reason: core.ReasonHandler, Reported: true}})[0])
}

// goesOn lets a minute pass in which each sent run succeeds.
func (l *limited) goesOn() {
	l.t.Helper()
	for range 3 {
		time.Sleep(20 * time.Second)
		l.comes()
		for id := range l.work {
			l.ends(id, core.Succeeded)
		}
	}
}

// comes handles all due messages.
func (l *limited) comes() {
	for {
		due, _ := l.s.Depth(ring.KindFires)
		if due == 0 {
			return
		}
		got := l.s.Receive(ring.KindFires, 10)
		for _, x := range got {
			if v := l.d.Handle(l.t.Context(), []ring.Message{x.Message})[0]; v.Ack {
				l.s.Ack(x)
			}
		}
	}
}

// TestNeverBegan: a chain that holds both permits but never began loses the app's permit first. Otherwise it would keep
// that one while it waits for the job's permit, whose holder waits for the app's.
func TestNeverBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		l.app(func(a *core.App) { a.Limits.InFlight = 1 })
		fire := func() core.Fire {
			l.at++
			return planned(7, l.at)
		}
		dead, next := fire(), fire()
		comes := func(f core.Fire) {
			l.d.Handle(t.Context(), []ring.Message{messageOf(f)})
		}
		for _, name := range []string{"job/7", "app/a"} { // the process that took these died before its claim
			p := core.Permits{Name: name, V: 1, Limit: 1, Holders: []core.Holder{{First: dead.Run, Until: time.Now().Add(-time.Second)}}}
			l.s.SavePermits(p)
		}
		// It comes once it has lost its job's permit, before the app's permits are read.
		l.s.read = func(_ context.Context, k store.Key) error {
			if p := l.s.PermitsOf("job/7"); k.Kind == "permit#app/a" && !p.Holds(dead.Run) {
				l.s.read = nil
				comes(dead)
			}
			return nil
		}
		comes(next)
		if l.s.read != nil {
			t.Fatal("no other process came between the two requests")
		}
		l.goesOn()
		if len(l.sent) != 2 || l.most != 1 {
			t.Errorf("sent %v, %d at once: they are %s and %s", l.sent, l.most, l.s.Run(next.Run).State, l.s.Run(dead.Run).State)
		}
	})
}

func (l *limited) define(id core.JobID, change func(j *core.Job)) {
	l.t.Helper()
	l.s.Edit(id, func(j *core.Job) {
		change(j)
		j.Normalize()
		must(l.t, j.Validate())
	})
}

// app changes the settings of the app.
func (l *limited) app(change func(a *core.App)) {
	l.t.Helper()
	apps, err := l.s.Apps(l.t.Context(), "a")
	must(l.t, err)
	a := apps["a"].Is
	a.Rev++
	change(&a)
	a.Overlap = a.Overlap.Normal()
	must(l.t, a.Validate())
	l.s.SaveApp(a)
}

// TestLongLineBesideAHungRun: a hung run holds the only permit of an app while 2,000 runs wait, half of them beside the
// full queue. Each check reads few runs. After a purge the runs are sent again and still wait. When the hung run ends,
// each starts once.
func TestLongLineBesideAHungRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {}})
		var read atomic.Int64
		l.s.runs = func(ids []core.RunID) error {
			read.Add(int64(len(ids)))
			return nil
		}
		l.app(func(a *core.App) { a.Limits.InFlight = 1 })
		hung := l.fires(7, 1)
		var ids []core.RunID
		for range 40 {
			time.Sleep(time.Minute)
			ids = append(ids, l.fires(7, 50)...)
		}
		time.Sleep(time.Minute)
		read.Store(0)
		l.comes()
		looks := read.Load() / int64(len(ids))
		if beside := int64(5); looks > beside {
			t.Errorf("a check reads %d runs, want %d at most", looks, beside)
		}
		l.purge()
		for _, id := range ids {
			r := l.s.Run(id)
			l.s.Enqueue(time.Time{}, messageOf(r.Fire()))
		}
		l.comes()
		if len(l.sent) != 1 {
			t.Fatalf("%d runs were sent while one hangs", len(l.sent))
		}
		l.ends(hung[0], core.Failed)
		for i := 0; i < 100 && len(l.sent) <= len(ids); i++ {
			for done := 0; done < len(l.sent); {
				done = len(l.sent)
				l.comes()
				for id := range l.work {
					l.ends(id, core.Succeeded)
				}
			}
			time.Sleep(15 * time.Second)
		}
		slices.Sort(l.sent)
		if !slices.Equal(l.sent[1:], ids) || l.most != 1 {
			t.Errorf("%d of %d runs were sent, %d at once", len(l.sent)-1, len(ids), l.most)
		}
	})
}

// purge removes all messages from the delay queue.
func (l *limited) purge() {
	l.t.Helper()
	for {
		due, ahead := l.s.Depth(ring.KindFires)
		if due+ahead == 0 {
			return
		}
		for due == 0 {
			time.Sleep(time.Second)
			due, _ = l.s.Depth(ring.KindFires)
		}
		l.s.Ack(l.s.Receive(ring.KindFires, 10)...)
	}
}

// TestLimitHoldsUpNoOther: runs without a limit do not wait while others in their message ask for one.
func TestLimitHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}, 8: {}})
		may := make(chan struct{})
		l.s.read = func(_ context.Context, k store.Key) error {
			if strings.HasPrefix(k.Kind, "permit#") {
				<-may
			}
			return nil
		}
		m := messageOf(planned(7, l.at+1), planned(8, l.at+1))
		limited, plain := m.Fires[0].Run, m.Fires[1].Run
		var all sync.WaitGroup
		all.Go(func() { l.d.Handle(t.Context(), []ring.Message{m}) })
		synctest.Wait()
		if !slices.Equal(l.sent, []core.RunID{plain}) {
			t.Errorf("sent %v before the limit was asked for, want %v", l.sent, plain)
		}
		close(may)
		all.Wait()
		if !slices.Equal(l.sent, []core.RunID{plain, limited}) {
			t.Errorf("sent %v", l.sent)
		}
	})
}

// TestGivenASecondAfterWaiting: a queued run that gets a permit starts in the second it is assigned.
func TestGivenASecondAfterWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {}})
		l.app(func(a *core.App) { a.Limits = core.Limits{InFlight: 1, PerSecond: 1} })
		l.fires(7, 30)
		for range 30 { // they have waited for a while
			time.Sleep(time.Second)
			l.comes()
		}
		began := time.Now()
		for len(l.sent) < 6 && time.Since(began) < 3*time.Minute {
			n, t0 := len(l.sent), time.Now()
			l.ends(l.sent[n-1], core.Succeeded) // each ends within its second
			l.comes()
			for len(l.sent) == n && time.Since(t0) < time.Minute {
				time.Sleep(200 * time.Millisecond)
				l.comes()
			}
			t.Logf("run %d began %s after the end before", len(l.sent), time.Since(t0))
			time.Sleep(300 * time.Millisecond)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%d runs took %s, with one a second", len(l.sent), took)
		}
	})
}

// TestManyJobsOfAnApp: the runs of a batch that need an app's permit ask for it together.
func TestManyJobsOfAnApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		jobs := map[core.JobID]core.Overlap{}
		for id := range core.JobID(200) {
			jobs[id+7] = core.Overlap{}
		}
		l := newLimited(t, jobs)
		l.app(func(a *core.App) { a.Overlap, a.Limits = core.Overlap{Limit: 1}, core.Limits{InFlight: 1000} })
		var reads, writes atomic.Int32 // of app/a, with the latencies of DynamoDB
		slowly := func(k store.Key, of *atomic.Int32, takes time.Duration) error {
			if strings.HasPrefix(k.Kind, "permit#") {
				time.Sleep(takes)
			}
			if k.Kind == "permit#app/a" {
				of.Add(1)
			}
			return nil
		}
		l.s.read = func(_ context.Context, k store.Key) error { return slowly(k, &reads, 5*time.Millisecond) }
		l.s.write = func(_ context.Context, groups []store.Group) error {
			return slowly(groups[0].Writes[0].Key, &writes, 7*time.Millisecond)
		}
		var msgs []ring.Message
		at := core.InstantOf(time.Now())
		for part := range slices.Chunk(slices.Sorted(maps.Keys(jobs)), 25) {
			var fires []core.Fire
			for _, id := range part {
				fires = append(fires, planned(id, at))
			}
			msgs = append(msgs, messageOf(fires...))
		}
		t0 := time.Now()
		l.d.Handle(t.Context(), msgs)
		t.Logf("%d of 200 sent in %s, %d writes of app/a, %d reads", len(l.sent), time.Since(t0), writes.Load(), reads.Load())
		if len(l.sent) < 200 || writes.Load() > 20 {
			t.Errorf("%d of 200 sent, with %d writes of app/a", len(l.sent), writes.Load())
		}
	})
}

// TestWaitsAfterItsDeadline: a manual trigger waits for its permit past its job's deadline, without more frequent
// checks.
func TestWaitsAfterItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		l.fires(7, 1)
		id := core.NumberedRun(7, 1)
		at := core.InstantOf(time.Now())
		r := fixture.Trigger("a", id, at)
		r.Cause = core.CauseManual
		l.s.Create(r)
		l.define(7, func(j *core.Job) { j.Sched.Deadline = 10 * time.Second })
		l.at = at
		l.ring(id, core.CauseManual)
		looks := 0
		for range 120 {
			time.Sleep(time.Second)
			if due, _ := l.s.Depth(ring.KindFires); due > 0 {
				looks++
			}
			l.comes()
		}
		if r := l.s.Run(id); r.State != core.Queued || looks > 16 {
			t.Errorf("checked %d times in two minutes: %s", looks, r.State)
		}
	})
}
