package dispatch_test

import (
	"context"
	"fmt"
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
	"github.com/tickring/tickring/internal/testkit/golden"
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

// closes ends a run without a release of its permits.
func (l *limited) closes(ids ...core.RunID) {
	l.t.Helper()
	for _, id := range ids {
		delete(l.work, id)
		must(l.t, l.s.Change(core.End(id, core.Run{State: core.Skipped, EndedAt: time.Now()})))
	}
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

// beforePermits calls do once, before a dispatcher reads permits.
func (l *limited) beforePermits(do func()) {
	l.s.read = func(_ context.Context, k store.Key) error {
		if strings.HasPrefix(k.Kind, "permit#") {
			l.s.read = nil
			do()
		}
		return nil
	}
}

// TestLimitSkips: runs are skipped with whenFull: skip, and when the queue is full.
func TestLimitSkips(t *testing.T) {
	texts := golden.New(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1, Full: core.FullSkip}, 8: {Limit: 1, Max: 2}})
		ids := l.fires(7, 3)
		for _, id := range ids[1:] {
			r := l.s.Run(id)
			if r.State != core.Skipped || r.Reason != core.ReasonOverlap {
				t.Errorf("%s: %s: %s", r.State, r.Reason, r.Message)
			}
			texts.Equal(t, "skip", r.Message)
		}
		more := l.fires(8, 5)
		states := map[string]int{}
		for _, id := range more {
			r := l.s.Run(id)
			states[strings.TrimSpace(fmt.Sprint(r.State, " ", r.Reason))]++
			if r.State == core.Skipped {
				texts.Equal(t, "full queue", r.Message)
			}
		}
		if states["running"] != 1 || states["queued"] != 2 || states["skipped queue-full"] != 2 {
			t.Errorf("%v", states)
		}
		l.ends(ids[0], core.Succeeded)
		if id := l.fires(7, 1)[0]; l.s.Run(id).State != core.Running {
			t.Errorf("after the end the next is %s", l.s.Run(id).State)
		}
	})
}

// TestLostPermitsOfAll: if the running run and the first in the queue both end without releasing, the runs behind
// notice it themselves.
func TestLostPermitsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		ids := l.fires(7, 4)
		time.Sleep(20 * time.Second)
		l.comes()
		if len(l.sent) != 1 || l.s.Run(ids[1]).State != core.Queued {
			t.Fatalf("sent %v, the second is %s", l.sent, l.s.Run(ids[1]).State)
		}
		// Ends whose releases are lost: closed without finish. No message names the second.
		l.closes(ids[:2]...)
		time.Sleep(20 * time.Second)
		got := l.s.Receive(ring.KindFires, 10)
		for _, x := range got {
			if x.Message.Fires[0].Run == ids[1] || l.d.Handle(t.Context(), []ring.Message{x.Message})[0].Ack {
				l.s.Ack(x)
			}
		}
		l.comes()
		if len(l.sent) != 2 || l.sent[1] != ids[2] || l.most != 1 {
			t.Errorf("sent %v, %d at once", l.sent, l.most)
		}
	})
}

// TestClosedAsksNoMore: a run closed while it asks does not enter the queue again.
func TestClosedAsksNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		ids := l.fires(7, 3)
		time.Sleep(20 * time.Second)
		l.comes()
		writes := 0 // of permits
		l.s.write = func(_ context.Context, groups []store.Group) error {
			if strings.HasPrefix(groups[0].Writes[0].Kind, "permit#") {
				writes++
			}
			return nil
		}
		l.closes(ids[0])
		l.beforePermits(func() { l.closes(ids[1]) })
		f := planned(7, l.at-1)
		l.d.Handle(t.Context(), []ring.Message{{Kind: ring.KindFires, Slot: f.Slot, Try: 1, Fires: []core.Fire{f}}})
		if p := l.s.PermitsOf("job/7"); writes != 1 || !p.Holds(ids[2]) || len(p.Queue) > 0 {
			t.Errorf("after %d writes the permits are %+v, want run %d alone", writes, p, ids[2])
		}
	})
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

// edit changes the limit of a job.
func (l *limited) edit(id core.JobID, o core.Overlap) {
	l.t.Helper()
	l.define(id, func(j *core.Job) { j.Def.Overlap = o })
}

func (l *limited) define(id core.JobID, change func(j *core.Job)) {
	l.t.Helper()
	l.s.Edit(id, func(j *core.Job) {
		change(j)
		j.Normalize()
		must(l.t, j.Validate())
	})
}

// TestLimitChangedUnderLoad: a lower limit takes no permit away and applies to later runs; a higher one admits waiting
// runs.
func TestLimitChangedUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 3}})
		ids := l.fires(7, 5)
		l.edit(7, core.Overlap{Limit: 1})
		more := l.fires(7, 1)
		for i, want := range []int{3, 3, 4} { // three running, two, and then one
			l.ends(ids[i], core.Succeeded)
			l.comes()
			if len(l.sent) != want {
				t.Fatalf("after %d ends sent %v of %v", i+1, l.sent, ids)
			}
		}
		if l.sent[3] != ids[3] || len(l.work) != 1 {
			t.Errorf("sent %v, running %v", l.sent, l.work)
		}
		l.edit(7, core.Overlap{Limit: 3})
		time.Sleep(20 * time.Second)
		l.comes()
		if len(l.sent) != 6 || !slices.Contains(l.sent, ids[4]) || !slices.Contains(l.sent, more[0]) { // both at once
			t.Errorf("raised: sent %v, want %v and %v", l.sent, ids, more)
		}
	})
}

// TestKey: the limit holds per key value across the jobs of a group. Parameters of a trigger count, and a run keeps its
// value when its job changes.
func TestKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.Overlap{Limit: 1, Group: "db", Key: "/tenant"}
		l := newLimited(t, map[core.JobID]core.Overlap{7: o, 8: o, 9: {Limit: 1, Group: "db"}})
		l.define(7, func(j *core.Job) { j.Def.Params = `{"tenant": "a"}` })
		l.define(8, func(j *core.Job) { j.Def.Params, j.Def.Template = `{"tenant": "{{scheduledAt 'b'}}"}`, true })
		a, b, none := l.fires(7, 2), l.fires(8, 2), l.fires(9, 2)
		if want := []core.RunID{a[0], b[0], none[0]}; !slices.Equal(l.sent, want) {
			t.Fatalf("sent %v, want %v", l.sent, want)
		}
		l.define(7, func(j *core.Job) { j.Def.Params = `{"tenant": "b"}` })
		by := func(n uint32, params string) core.RunID {
			id, j := core.NumberedRun(8, n), l.s.JobOf(8)
			r := fixture.Trigger("a", id, l.at)
			r.Params = &params
			r.Follow(&j.Def)
			l.s.Create(r)
			l.ring(id, core.CauseAPI)
			return id
		}
		given := []core.RunID{by(1, `{"tenant":"a"}`), by(2, `{"tenant":"c"}`), by(3, "nobody")}
		if !slices.Equal(l.sent[3:], given[1:]) {
			t.Fatalf("sent %v, want %v", l.sent[3:], given[1:])
		}
		l.ends(a[0], core.Succeeded)
		l.comes()
		l.ends(a[1], core.Succeeded)
		l.comes()
		if !slices.Equal(l.sent[5:], []core.RunID{a[1], given[0]}) || l.most != 5 {
			t.Errorf("sent %v of %v and %v, %d at once", l.sent[5:], a, given, l.most)
		}
		if waits := l.fires(7, 1)[0]; l.s.Run(waits).State != core.Queued || l.s.Run(waits).Permit != l.s.Run(b[0]).Permit {
			t.Errorf("%+v", l.s.Run(waits))
		}
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

// TestPerSecond: an app starts no more attempts per second than its limit, in order, retries included. A waiting run
// that is retried keeps its second.
func TestPerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {}})
		l.define(7, func(j *core.Job) { j.Def.Retry = core.Retry{Max: 1, Delay: time.Second} })
		l.app(func(a *core.App) { a.Limits.PerSecond = 2 })
		ids := l.fires(7, 7)
		for s := range 4 {
			got := slices.Sorted(slices.Values(l.sent)) // runs of one second start in any order
			if want := ids[:min(7, 2*s+2)]; !slices.Equal(got, want) {
				t.Fatalf("after %d s: sent %v, want %v", s, got, want)
			}
			if s < 3 {
				l.ring(ids[6], core.CauseSchedule) // a copy
			}
			time.Sleep(time.Second)
			l.comes()
		}
		for _, id := range ids[:3] {
			l.ends(id, core.Failed)
		}
		time.Sleep(1100 * time.Millisecond)
		l.comes()
		if len(l.sent) != 9 {
			t.Fatalf("sent %v", l.sent)
		}
		time.Sleep(time.Second)
		if l.comes(); len(l.sent) != 10 || l.s.Run(l.sent[9]).Attempt != 2 {
			t.Errorf("sent %v", l.sent)
		}
	})
}

// TestGroupRenamed: runs made under the old name keep it and do not wait forever; new runs use the new name.
func TestGroupRenamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1, Group: "old"}})
		ids := l.fires(7, 3)
		l.edit(7, core.Overlap{Limit: 1, Group: "new"})
		next := l.fires(7, 1)
		if !slices.Equal(l.sent, []core.RunID{ids[0], next[0]}) {
			t.Fatalf("sent %v", l.sent)
		}
		l.ends(ids[0], core.Succeeded)
		l.comes()
		l.edit(7, core.Overlap{})
		l.ends(ids[1], core.Succeeded)
		l.comes()
		if !slices.Contains(l.sent, ids[2]) || l.s.Run(ids[2]).Permit != "group/old" {
			t.Errorf("sent %v of %v", l.sent, ids)
		}
		// A run made under a name with no stored permits.
		never := fixture.Trigger("a", core.NumberedRun(7, 1), l.at)
		never.Permit = "group/never"
		l.s.Create(never)
		l.ring(never.ID, core.CauseAPI)
		if l.sent[len(l.sent)-1] != never.ID {
			t.Errorf("sent %v", l.sent)
		}
	})
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

// TestBuriedRunFreesItsPermit: a waiting run of a group is in the dead-letter queue. Its permit goes to the next run,
// and it runs once its message is redriven.
func TestBuriedRunFreesItsPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := core.Overlap{Limit: 1, Group: "db"}
		l := newLimited(t, map[core.JobID]core.Overlap{7: o, 8: o})
		ids := slices.Concat(l.fires(7, 1), l.fires(8, 1), l.fires(7, 1))
		l.ends(ids[0], core.Succeeded)
		l.purge()
		r := l.s.Run(ids[1])
		body := ring.Encode(messageOf(r.Fire()))
		_, err := l.s.dead().Record(t.Context(), &core.Letter{ID: "1", Body: string(body), Reason: "job 8 cannot be read"})
		must(t, err)
		l.comes()
		if want := []core.RunID{ids[0], ids[2]}; !slices.Equal(l.sent, want) {
			t.Fatalf("sent %v, want %v", l.sent, want)
		}
		l.ends(ids[2], core.Succeeded)
		l.ring(ids[1], core.CauseSchedule)
		if want := []core.RunID{ids[0], ids[2], ids[1]}; !slices.Equal(l.sent, want) || l.most != 1 {
			t.Errorf("sent %v, want %v; %d at once", l.sent, want, l.most)
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

// TestRetimedGivesItsPermitBack: a trigger is released because its executor is busy and then moved to a later time. It
// does not hold its permit until then.
func TestRetimedGivesItsPermitBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		full := true
		l.d = l.s.dispatcher(sends(func(ctx context.Context, s dispatch.SendRequest) dispatch.Answer {
			if full {
				return dispatch.Answer{Kind: dispatch.AnswerBusy}
			}
			return l.Send(ctx, s)
		}), dispatch.Options{})
		id := core.NumberedRun(7, 1)
		l.s.Create(fixture.Trigger("a", id, l.at))
		l.ring(id, core.CauseAPI)
		r := l.s.Run(id)
		if r.State != core.Planned || r.Owner != "" {
			t.Fatalf("%+v", r)
		}
		full = false
		next := r
		next.Slot = core.InstantOf(time.Now().Add(30 * 24 * time.Hour))
		next.At = next.Slot
		must(t, l.s.retime(r.Retime(next, time.Now()), next.Slot.Add(-10*time.Minute)))
		ids := l.fires(7, 1)
		for range 4 {
			time.Sleep(15 * time.Second)
			l.comes()
		}
		if s := l.s.Run(ids[0]).State; s != core.Running {
			t.Errorf("after a minute it is %s, for run %d, due in 30 days, holds the permit: %+v", s, id, l.s.PermitsOf("job/7"))
		}
	})
}

// TestAskedAndFoundClosed: a dispatcher that asked for a permit and then finds the trigger closed releases the permit.
func TestAskedAndFoundClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		id := core.NumberedRun(7, 1)
		l.s.Create(fixture.Trigger("a", id, l.at))
		l.beforePermits(func() { // a user cancels it
			must(t, l.s.f.End(t.Context(), []finish.Result{{Run: id, State: core.Skipped, Reason: core.ReasonCancelled, Unowned: true}})[0])
		})
		l.ring(id, core.CauseAPI)
		if p := l.s.PermitsOf("job/7"); len(l.sent) != 0 || l.s.Run(id).State != core.Skipped || len(p.Holders) > 0 {
			t.Errorf("sent %v, %s, %+v", l.sent, l.s.Run(id).State, p)
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

// TestChangedTriggerLeavesItsApp: a trigger asked before a user changed its limits. While it waits for its job's
// permit, it releases its app's permit.
func TestChangedTriggerLeavesItsApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, map[core.JobID]core.Overlap{7: {Limit: 1}})
		l.app(func(a *core.App) { a.Limits.InFlight = 1 })
		id := core.NumberedRun(7, 1)
		l.s.Create(fixture.Trigger("a", id, l.at+1))
		l.s.SavePermits(core.Permits{Name: "app/a", V: 1, Limit: 1, Holders: []core.Holder{{First: id}}})
		next := l.fires(7, 1)[0] // it has its job's permit, and waits for the app's
		l.ring(id, core.CauseAPI)
		l.goesOn()
		if len(l.sent) != 2 || l.most != 1 {
			t.Errorf("sent %v, %d at once: they are %s and %s", l.sent, l.most, l.s.Run(next).State, l.s.Run(id).State)
		}
	})
}

// TestLeaveKeepsPermitsOfAHolder: a chain that got its job's permit after it asked keeps the permit of its app. A
// waiting chain releases it.
func TestLeaveKeepsPermitsOfAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimited(t, nil)
		id := core.NumberedRun(7, 1)
		holds := []core.Holder{{First: id}}
		l.s.SavePermits(core.Permits{Name: "app/a", V: 1, Limit: 1, Holders: holds})
		for i, job := range []core.Permits{{Holders: holds}, {Queue: []core.RunID{id}}} {
			job.Name, job.V, job.Limit = "job/7", int64(i+1), 1
			l.s.SavePermits(job)
			must(t, l.s.f.LeaveQueue(t.Context(), id, "job/7", "app/a"))
			if app := l.s.PermitsOf("app/a"); app.Holds(id) != (i == 0) {
				t.Errorf("job's permits %+v: app's %+v", job, app)
			}
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
