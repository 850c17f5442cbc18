package operate_test

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store"
)

// TestReplan: a run without a record is enqueued again with its ID once it is not in transit. No
// other run is.
func TestReplan(t *testing.T) {
	at := func(s int) core.Instant { return core.InstantOf(start) + core.Instant(s) }
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Second)))
	other := f.Create(spec("other", every(30*time.Second)))
	f.Quiet()
	f.Ran(j.Def.ID, at(10), 0)
	f.Ran(j.Def.ID, at(40), 0)
	f.Ran(other.Def.ID, at(30), 0)
	f.E.PutSkips(ctx, []core.Skip{{Job: j.Def.ID, First: at(50), Last: at(60), Count: 2, Reason: core.ReasonMisfire}})
	f.PushNext(j.Def.ID, at(90))
	f.PushNext(other.Def.ID, at(90))
	f.Clock = at(85).Time()
	want := func(ref string, missing int64, runs ...core.RunID) {
		t.Helper()
		f.Fires()
		r, err := f.M.Replan(ctx, ann, ref, at(0), at(100))
		if err != nil || r.Missing != missing || r.Sent != missing || r.Partial {
			t.Fatalf("%+v %v, want %d", r, err, missing)
		}
		got := map[core.RunID]core.Cause{}
		for _, x := range f.Fires() {
			got[x.Run] = x.Cause
		}
		for _, id := range runs {
			check.Equal(t, got[id], core.CauseMisfire, "run %d", id)
		}
	}
	var lost []core.RunID
	for _, s := range []int{20, 30, 70, 80} {
		lost = append(lost, planned(j.Def.ID, at(s)))
	}
	want("shop/sweep", 4, lost...)
	want("shop/sweep", 4, lost...) // not claimed yet
	for _, id := range lost {
		instant, _ := id.Planned()
		f.Ran(j.Def.ID, instant, 0)
	}
	want("", 1, planned(other.Def.ID, at(60)))
	f.Ran(other.Def.ID, at(60), 0)
	want("", 0)

	for _, bad := range []struct {
		ref      string
		from, to core.Instant
		code     core.Code
	}{{"", at(10), at(10), core.CodeInvalid}, {"", 5, at(10), core.CodeInvalid}, {"shop/none", at(0), at(10), core.CodeNotFound}} {
		fails(t, bad.code, "%+v", bad)(f.M.Replan(ctx, ann, bad.ref, bad.from, bad.to))
	}
	if _, err := f.M.Replan(ctx, core.Actor{}, "", at(0), at(10)); err == nil {
		t.Error("it was done without a request")
	}
}

// TestReplanOfWhatIsPlannedAhead: a replan without an end treats the ring as empty. It enqueues
// all planned fires, due or ahead, and each run that is open or has pending follow-ups. This
// includes claimed runs, since an owner may die before its journal. Other ended runs are not
// sent.
func TestReplanOfWhatIsPlannedAhead(t *testing.T) {
	at := func(s int) core.Instant { return core.InstantOf(start) + core.Instant(s) }
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Second)))
	f.Quiet()
	f.Clock = at(45).Time()
	open := func(id core.RunID, slot int, change func(r *core.Run)) core.RunID {
		r := newRun(id, core.Planned, at(slot))
		if change != nil {
			change(&r)
		}
		f.Put(r)
		return id
	}
	owned := func(until int) func(r *core.Run) {
		return func(r *core.Run) {
			r.State, r.Owner, r.Until, r.SentAt, r.Address = core.Running, "nonce", at(until).Time(), at(30).Time(), "http://10.0.0.1:9999"
		}
	}
	due := func(s int) core.RunID { return planned(j.Def.ID, at(s)) }
	owes := func(r *core.Run) {
		owned(40)(r)
		r.State, r.Reason, r.Owes = core.Failed, core.ReasonHandler, []core.Owed{{Run: numbered(j.Def.ID, 9), Kind: core.CauseRetry}}
	}
	want := []core.RunID{due(10), due(20), due(30), due(40), due(60), due(80), due(90)}
	open(due(10), 10, owes)
	open(due(20), 20, nil)       // released
	open(due(30), 30, owned(40)) // its claim has expired
	open(due(40), 40, owned(70)) // its owner is working on it
	f.Ran(j.Def.ID, at(50), 0)   // claimed before it was due
	f.E.PutSkips(ctx, []core.Skip{{Job: j.Def.ID, First: at(70), Last: at(70), Count: 1, Reason: core.ReasonMisfire}})
	retry := numbered(j.Def.ID, 1)
	want = append(want, open(retry, 46, func(r *core.Run) { r.Cause = core.CauseRetry }), open(numbered(j.Def.ID, 3), 30, owes))
	open(numbered(j.Def.ID, 2), 30, func(r *core.Run) { r.State = core.Succeeded })
	f.PushNext(j.Def.ID, at(100))
	f.Fires() // empties the ring

	if r, err := f.M.Replan(ctx, ann, "", at(0), at(100)); err != nil || r.Sent != 0 {
		t.Errorf("with an end, up to the planned runs: %+v %v", r, err)
	}
	r, err := f.M.Replan(ctx, ann, "", at(0), 0)
	if err != nil || r.Jobs != 1 || r.Missing != int64(len(want)) || r.Sent != r.Missing || r.Next != "" {
		t.Fatalf("%+v %v, want %d", r, err, len(want))
	}
	got := map[core.RunID]core.Cause{}
	for _, fire := range f.Fires() {
		got[fire.Run] = fire.Cause
	}
	for _, id := range want {
		if got[id] == "" {
			t.Errorf("run %s is not on the ring: %v", id, got)
		}
	}
	if len(got) != len(want) || got[due(60)] != core.CauseSchedule || got[retry] != core.CauseRetry {
		t.Errorf("on the ring are %v, want %v", got, want)
	}
}

// TestReplanSendsInstantsThatATickPlans: a tick enqueues fires before it moves the job on. If the
// ring is emptied in between, replan sends the fires from the job's next time on, up to MaxAhead.
// It sends none of a job that is not due to be planned.
func TestReplanSendsInstantsThatATickPlans(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("sweep", every(5*time.Second)))
	f.Fires()
	next := core.InstantOf(f.Clock)/5*5 + 5
	for due, want := range map[time.Duration]int{0: 3, 10 * time.Second: 0, -time.Hour: 0} {
		s := f.Job("shop/sweep").Sched
		a := s.Stay()
		a.NewNext, a.NewPlanAt = next, core.InstantOf(f.Clock.Add(due))
		must(t, f.E.Advance(ctx, []core.Advance{a})[0])
		r, err := f.M.Replan(ctx, ann, "", next-1, 0)
		if fires := f.Fires(); err != nil || len(fires) != want || r.Sent != int64(want) {
			t.Errorf("to be planned in %s: %v, %+v, %v; want %d", due, fires, r, err, want)
		}
	}
}

// TestReplanSendsInstantsBehindAnOpenPause: during a pause of the app or of everything, future
// fires are on the ring. They are due if the pause ends before them. Fires inside the pause are
// not sent again.
func TestReplanSendsInstantsBehindAnOpenPause(t *testing.T) {
	for name, paused := range map[string]manage.Target{"app": {App: "shop"}, "everything": {All: true}} {
		t.Run(name, func(t *testing.T) {
			at := func(s int) core.Instant { return core.InstantOf(start) + core.Instant(s) }
			f := newFixture(t)
			j := f.Create(spec("sweep", every(10*time.Second)))
			f.Quiet()
			f.PushNext(j.Def.ID, at(100))
			f.Clock = at(15).Time()
			f.Pause(paused)
			f.Clock = at(45).Time()
			f.Fires() // empties the ring
			check.Call(t)(f.M.Replan(ctx, ann, "", at(15), 0))
			var got []core.Instant
			for _, fire := range f.Fires() {
				got = append(got, fire.At)
			}
			slices.Sort(got)
			if want := []core.Instant{at(50), at(60), at(70), at(80), at(90)}; !slices.Equal(got, want) {
				t.Errorf("sent again are %v, want %v", got, want)
			}
		})
	}
}

// TestHealGoesOn: runs that a tick found lost are sent again for all jobs, from the place where
// the last scan stopped. Then nothing more is done.
func TestHealGoesOn(t *testing.T) {
	at := func(s int) core.Instant { return core.InstantOf(start) + core.Instant(s) }
	for name, c := range map[string]struct {
		loss core.Loss
		want int64
	}{
		"nothing was lost": {core.Loss{}, 0},
		"all":              {core.Loss{From: at(0)}, 9},
		"from the second":  {core.Loss{From: at(0), Next: "1"}, 6},
		"lost again":       {core.Loss{From: at(0), Again: at(1)}, 9},
		"within the third": {core.Loss{From: at(0), Next: "3@" + strconv.FormatInt(int64(at(25)), 10)}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.Quiet()
			for _, name := range []string{"one", "two", "three"} {
				j := f.Create(spec(name, every(10*time.Second)))
				f.PushNext(j.Def.ID, at(40))
			}
			f.Clock = at(5).Time()
			f.lost(c.loss)
			m := people.New(f.E, nil, nil, people.Options{Plan: plan.Local(), Ask: query.Options{Now: f.Now, PageFor: 1, Together: 1}})
			for range 2 {
				sent, err := m.Heal(ctx)
				if err != nil || sent != c.want {
					t.Errorf("%d sent, want %d: %v", sent, c.want, err)
				}
				c.want = 0
			}
			if g, err := f.E.Global(ctx); err != nil || g.Loss.From != 0 || g.Loss.Again != c.loss.Again ||
				(g.Loss.At.IsZero() != (c.loss.From == 0)) {
				t.Errorf("noted is %+v: %v", g.Loss, err)
			}
			late, cancel := context.WithTimeout(ctx, 0)
			defer cancel()
			if sent, err := m.Heal(late); sent != 0 || err != nil {
				t.Errorf("without time %d are sent: %v", sent, err)
			}
		})
	}
}

// TestReplanOfRetriesAsFarAheadAsTheRingHoldsThem: a retry that is due within MaxAhead is only on
// the ring. A later one has an entry in the due index.
func TestReplanOfRetriesAsFarAheadAsTheRingHoldsThem(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Hour)))
	f.Quiet()
	f.Fires()
	ahead := plan.AWS().MaxAhead
	var ids []core.RunID
	for i, d := range []time.Duration{0, plan.AWS().PlanAhead + time.Second, ahead, ahead + time.Second} {
		ids = append(ids, f.numbered(j.Def.ID, i+1, core.Planned, core.InstantOf(f.Clock.Add(d))))
	}
	res, err := f.inAWS(f.E, 0).Replan(ctx, ann, "", core.InstantOf(f.Clock.Add(-ahead)), 0)
	if err != nil || res.Sent != 3 {
		t.Errorf("%+v %v, want 3 sent", res, err)
	}
	got := f.sent()
	for i, id := range ids {
		if want := i < 3; (got[id] == 1) != want {
			t.Errorf("run %s is %d times on the ring, want it there: %v", id, got[id], want)
		}
	}
}

// TestReplanOfAllThatWaitWithANumber: each waiting run is sent again once, with any number of
// newer runs of the job and any page size.
func TestReplanOfAllThatWaitWithANumber(t *testing.T) {
	for name, c := range map[string]struct {
		waiting int
		pageFor time.Duration
	}{
		"at the bound": {budget.Again - 1, time.Minute}, "one beyond": {budget.Again, time.Minute},
		"far beyond": {3 * budget.Again, time.Minute}, "short pages": {budget.Again, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			j := f.Create(spec("sweep", every(time.Hour)))
			other := f.Create(spec("other", every(time.Hour)))
			f.Quiet()
			f.Fires()
			now := core.InstantOf(f.Clock)
			const closed = 2500
			for i := range c.waiting + closed {
				state := core.Planned
				if i >= c.waiting {
					state = core.Succeeded
				}
				f.numbered(j.Def.ID, i+1, state, now)
			}
			last, want := f.numbered(other.Def.ID, 1, core.Planned, now), int64(c.waiting)+1
			res, err := f.inAWS(f.E, c.pageFor).Replan(ctx, ann, "", now-900, 0)
			if err != nil || res.Sent != want || res.Missing != want || res.Jobs != 2 {
				t.Errorf("%+v %v, want %d of 2 jobs", res, err, want)
			}
			got := f.sent()
			for n := range c.waiting {
				if id := numbered(j.Def.ID, uint32(n+1)); got[id] != 1 {
					t.Fatalf("run %s is %d times on the ring", id, got[id])
				}
			}
			check.Equal(t, got[last], 1, "the job behind it was not checked")
		})
	}
}

// TestReplanReadsNumbersNoFurtherThanARetryCanWait: after a page of runs that are older than any
// retry can wait, no further page is read.
func TestReplanReadsNumbersNoFurtherThanARetryCanWait(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Hour)))
	f.Quiet()
	old := core.InstantOf(f.Clock.Add(-core.MaxDelay - time.Hour))
	for i := range 3000 {
		f.numbered(j.Def.ID, i+1, core.Succeeded, old)
	}
	s := *f.E
	runs := &spans{Runs: s.Runs}
	s.Runs = runs
	if _, err := f.inAWS(&s, 0).Replan(ctx, ann, "", core.InstantOf(f.Clock)-900, 0); err != nil || runs.numbered != 1 {
		t.Errorf("numbers were read %d times: %v", runs.numbered, err)
	}
}

// spans counts the reads of runs with numbers.
type spans struct {
	store.Runs
	numbered int
}

func (s *spans) Span(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	if last < first {
		s.numbered++
	}
	return s.Runs.Span(ctx, first, last, limit)
}

// numbered stores a run with a number.
func (f *fixture) numbered(job core.JobID, n int, state core.State, slot core.Instant) core.RunID {
	f.T.Helper()
	id := numbered(job, uint32(n))
	r := newRun(id, state, slot)
	r.Cause, r.Attempt = core.CauseRetry, 2
	f.Put(r)
	return id
}

// TestReplanCountsOnce: a run that the ring rejected is found and counted by the repeated call,
// not before.
func TestReplanCountsOnce(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Second)))
	f.Quiet()
	at := core.InstantOf(start)
	f.PushNext(j.Def.ID, at+40)
	f.Clock = at.Time().Add(5 * time.Second)
	m := f.Fresh(&faults{At: 1, Err: core.ErrThrottled, Quiet: true})
	first, err := m.Replan(ctx, ann, "", at, 0)
	if err == nil || first.Jobs+int(first.Demanded+first.Missing+first.Sent) != 0 {
		t.Errorf("nothing was taken: %+v %v", first, err)
	}
	second, err := m.Replan(ctx, ann, "", at, 0)
	if err != nil || second.Jobs != 1 || second.Demanded != 3 || second.Missing != 3 || second.Sent != 3 {
		t.Errorf("all was taken: %+v %v", second, err)
	}
}

// TestOneJobHoldsUpNoOther: heal, replan and audit name a job with an unreadable schedule, and go
// on to their end.
func TestOneJobHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	f.Quiet()
	bad := f.Create(spec("bad", every(10*time.Second)))
	good := f.Create(spec("good", every(10*time.Second)))
	at := core.InstantOf(start)
	f.Clock = at.Time().Add(5 * time.Second)
	f.PushNext(good.Def.ID, at+40)
	seen := bad.Sched.Rev
	bad.Sched.Rev++
	bad.Sched.Schedule.Any[0] = core.When{Kind: core.KindCron, Expr: "0 0 0 * * ?"}
	bad.Sched.Schedule.Timezone = "Mars/Olympus" // as if the time zone data had lost it
	must(t, f.E.Jobs.Put(ctx, []store.JobPut{{Update: &store.JobUpdate{Seen: seen, Job: bad}}})[0])
	named := func(what string, failed []string, err error) {
		t.Helper()
		if err != nil || len(failed) != 1 || !strings.HasPrefix(failed[0], "shop/bad: ") {
			t.Errorf("%s passed over %q: %v", what, failed, err)
		}
	}
	r, err := f.M.Replan(ctx, ann, "", at, 0)
	named("replan", r.Failed, err)
	sum, err := f.M.AuditAll(ctx, at, at+100)
	named("audit", sum.Failed, err)
	if r.Jobs != 1 || r.Sent != 3 || sum.Jobs != 1 || sum.Demanded == 0 {
		t.Errorf("of the other: %+v, %+v", r, sum)
	}
	fails(t, core.CodeInternal, "asked for alone")(f.M.Replan(ctx, ann, "shop/bad", at, 0))
	f.lost(core.Loss{From: at})
	sent, err := f.M.Heal(ctx)
	if sent != 3 || err == nil || !strings.Contains(err.Error(), "shop/bad") {
		t.Errorf("the scan sent %d: %v", sent, err)
	}
	if g, err := f.E.Global(ctx); err != nil || g.Loss.From != 0 {
		t.Errorf("the scan has not ended: %+v %v", g.Loss, err)
	}
}

// TestUnreadableJobHoldsUpNoOther: the list, audit, replan and heal name the job and go on, even
// if it is the only job.
func TestUnreadableJobHoldsUpNoOther(t *testing.T) {
	f := newFixture(t)
	f.Quiet()
	bad := f.Create(spec("bad", every(10*time.Second)))
	good := f.Create(spec("good", every(10*time.Second)))
	at := core.InstantOf(start)
	f.Clock = at.Time().Add(5 * time.Second)
	f.PushNext(good.Def.ID, at+40)
	for _, jobs := range [][]core.JobID{{bad.Def.ID}, {bad.Def.ID, good.Def.ID}} {
		m := f.Fresh(&faults{Bad: jobs})
		whole := 2 - len(jobs)
		named := func(what string, failed []string, err error) {
			t.Helper()
			if err != nil || len(failed) != len(jobs) || !strings.HasPrefix(failed[0], "job "+bad.Def.ID.String()) ||
				!strings.Contains(failed[0], "no JSON") {
				t.Errorf("%s passed over %q: %v", what, failed, err)
			}
		}
		page, err := m.Jobs(ctx, query.JobFilter{})
		if why := page.Failed[bad.Def.ID]; err != nil || len(page.Failed) != len(jobs) || why == nil ||
			!strings.Contains(why.Error(), "no JSON") || len(page.Jobs) != whole {
			t.Errorf("listed: %+v, %v, %v", page.Jobs, page.Failed, err)
		}
		sum, err := m.AuditAll(ctx, at, at+100)
		named("audit", sum.Failed, err)
		r, err := m.Replan(ctx, ann, "", at, 0)
		if named("replan", r.Failed, err); r.Jobs != whole || sum.Jobs != whole || r.Sent != int64(3*whole) {
			t.Errorf("replan: %+v, audit: %+v", r, sum)
		}
		fails(t, core.CodeRefused, "its app is deleted")(m.DeleteApp(ctx, ann, "shop"))
	}
}

// TestHealReachesRunsThatWait: a purge deletes the messages of runs that wait for an executor or
// a permit, for minutes or months. It also deletes the message of a trigger behind many newer
// runs. Heal sends each of them again, once.
func TestHealReachesRunsThatWait(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Minute)))
	f.Fires()
	f.Quiet()
	now := core.InstantOf(f.Clock)/600*600 + 100*86400
	f.Clock = now.Time()
	wanted := map[core.RunID]int{numbered(j.Def.ID, 1): 1}
	runs := []core.Run{newRun(numbered(j.Def.ID, 1), core.Queued, now-30*86400)}
	for n := range uint32(2500) {
		runs = append(runs, newRun(numbered(j.Def.ID, n+2), core.Succeeded, now-20*86400))
	}
	for _, waited := range []core.Instant{600, 1800, 86400, 99 * 86400} {
		id := planned(j.Def.ID, now-waited)
		runs, wanted[id] = append(runs, newRun(id, core.Queued, now-waited)), 1
	}
	for i := range runs {
		runs[i].Rev = j.Sched.Rev
	}
	f.Put(runs...)
	f.PushNext(j.Def.ID, now+600)
	f.lost(core.Loss{From: now - 60 - 895}) // as lossdetect.Note does for another job
	check.Call(t)(f.M.Heal(ctx))
	got := f.sent()
	maps.DeleteFunc(got, func(id core.RunID, _ int) bool { return wanted[id] == 0 })
	if !maps.Equal(got, wanted) {
		t.Errorf("the scan sends %v again, want %v", got, wanted)
	}
}
