package query_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
)

// sweep removes data past its retention.
func (f *fixture) sweep() {
	f.T.Helper()
	check.Call(f.T)(f.E.Sweep(ctx, f.Clock, 0, 20*24*time.Hour, 100_000))
}

// hours runs a job at each of the next n full hours, except the hours in lost. It leaves the clock a minute after the
// last.
func (f *fixture) hours(job core.JobID, n int, lost ...int) (last core.Instant) {
	f.T.Helper()
	at := core.InstantOf(f.Clock)/3600*3600 + 3600
	for i := range n {
		f.Clock = at.Time().Add(20 * time.Millisecond)
		gone := false
		for _, l := range lost {
			gone = gone || l == i
		}
		if !gone {
			f.Ran(job, at, 0)
		}
		at += 3600
	}
	f.PushNext(job, at)
	f.Clock = f.Clock.Add(time.Minute)
	return at - 3600
}

// TestAuditBeyondWhatIsKept checks that removed runs are out of reach, not missing, and that a replan does not send
// them. Runs lost within reach are found.
func TestAuditBeyondWhatIsKept(t *testing.T) {
	hourly := func(f *fixture, keep int) (manage.JobSpec, core.Job) {
		s := spec("sweep", every(time.Hour))
		s.Def.Keep.Days = keep
		j := f.Create(s)
		f.Fires()
		f.Quiet()
		return s, j
	}
	for name, c := range map[string]struct {
		do   func(f *fixture)
		want string // for the last 70 hours
		sent int64
	}{
		"kept for a day": {func(f *fixture) {
			_, j := hourly(f, 1)
			f.hours(j.Def.ID, 72)
			f.sweep()
		}, "demanded 70, on time 24, late 0 (0s), skipped map[], pending 0, unaccounted 0, out of reach 46", 0},
		"and one was lost yesterday, one before": {func(f *fixture) {
			_, j := hourly(f, 1)
			f.hours(j.Def.ID, 72, 60, 20)
			f.sweep()
		}, "demanded 70, on time 23, late 0 (0s), skipped map[], pending 0, unaccounted 1, out of reach 46", 1},
		"not swept yet": {func(f *fixture) {
			_, j := hourly(f, 1)
			f.hours(j.Def.ID, 72)
		}, "demanded 70, on time 70, late 0 (0s), skipped map[], pending 0, unaccounted 0", 0},
		"kept for longer since ten hours ago": {func(f *fixture) {
			s, j := hourly(f, 1)
			f.hours(j.Def.ID, 62)
			f.sweep()
			s.Def.Keep.Days = 30
			f.Save(s)
			f.hours(j.Def.ID, 10, 0)
			f.sweep()
		}, "demanded 70, on time 33, late 0 (0s), skipped map[], pending 0, unaccounted 1, out of reach 36", 1},
		"kept for ever, and one was lost": {func(f *fixture) {
			_, j := hourly(f, core.KeepForever)
			f.hours(j.Def.ID, 72, 20)
			f.sweep()
		}, "demanded 70, on time 69, late 0 (0s), skipped map[], pending 0, unaccounted 1", 1},
		"deleted": {func(f *fixture) {
			_, j := hourly(f, 1)
			f.hours(j.Def.ID, 72)
			f.sweep()
			check.Call(t)(f.M.Delete(ctx, ann, "shop/sweep", nil))
		}, "demanded 70, on time 24, late 0 (0s), skipped map[], pending 0, unaccounted 0, out of reach 46", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.do(f)
			from, to := core.InstantOf(f.Clock.Add(-70*time.Hour)), core.InstantOf(f.Clock)
			all, err := f.M.AuditAll(ctx, from, to)
			if err != nil || sum(all.AuditCount) != c.want || all.NotSent() != 0 || all.Well() != (c.sent == 0) {
				t.Errorf("%s (%v)\nwant %s", sum(all.AuditCount), err, c.want)
			}
			r, err := f.M.Replan(ctx, ann, "", from, to)
			if err != nil || r.Missing != c.sent || r.Sent != c.sent {
				t.Errorf("replan: %+v %v, want %d sent", r, err, c.sent)
			}
		})
	}
}

// TestAuditBeyondTheRecordsOfPauses checks that pauses older than the change records are unknown, however long runs
// are kept.
func TestAuditBeyondTheRecordsOfPauses(t *testing.T) {
	f := newFixture(t)
	s := spec("sweep", every(24*time.Hour))
	s.Def.Keep.Days = 90
	j := f.Create(s)
	f.Fires()
	f.Quiet()
	shop := manage.Target{App: "shop"}
	pause := func() {
		check.Call(t)(f.M.Pause(ctx, ann, shop, manage.PauseRequest{}))
	}
	resume := func() {
		check.Call(t)(f.M.Resume(ctx, ann, shop, ""))
		f.Resumed()
	}
	from := core.InstantOf(f.Clock)
	first := j.Sched.Next
	days := func(n int) { f.Clock = f.Clock.Add(time.Duration(n) * 24 * time.Hour) }
	pause()
	days(5)
	resume()
	days(30)
	pause()
	resume()
	days(31)
	audit := func(want string) {
		t.Helper()
		f.sweep()
		f.PushNext(j.Def.ID, first+66*86400)
		r, err := f.M.Audit(ctx, "shop/sweep", from, core.InstantOf(f.Clock))
		if err != nil || sum(r.AuditCount) != want {
			t.Errorf("%s (%v)\nwant %s", sum(r.AuditCount), err, want)
		}
	}
	for range core.MaxPast - 1 {
		pause()
		resume()
	}
	audit("demanded 61, on time 0, late 0 (0s), skipped map[], pending 0, unaccounted 61") // the item has the first pause
	pause()                                                                                // not any more, and its records are swept
	resume()
	audit("demanded 66, on time 0, late 0 (0s), skipped map[], pending 0, unaccounted 61, out of reach 5")
}

// TestAuditOfAnEarlyFile checks that an item by an earlier version, which has only the last pause, gets older pauses
// from the change records. No time in them is missing or replanned, and a query shows the pauses.
func TestAuditOfAnEarlyFile(t *testing.T) {
	for name, target := range map[string]manage.Target{"of an app": {App: "shop"}, "of everything": {All: true}} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			j := f.Create(spec("sweep", every(time.Minute)))
			f.Fires()
			f.Quiet()
			f.Faults.Early = true
			from, first := core.InstantOf(f.Clock), j.Sched.Next
			for range 2 {
				check.Call(t)(f.M.Pause(ctx, ann, target, manage.PauseRequest{Why: "stocktaking"}))
				f.Clock = f.Clock.Add(30 * time.Minute)
				check.Call(t)(f.M.Resume(ctx, ann, target, ""))
				f.Resumed()
			}
			f.PushNext(j.Def.ID, first+60*60)
			f.Clock = f.Clock.Add(20 * time.Second)
			r, err := f.M.Replan(ctx, ann, "", from, core.InstantOf(f.Clock))
			if err != nil || r.Missing != 0 || r.Sent != 0 || r.OutOfReach != 0 {
				t.Errorf("%+v %v", r, err)
			}
			_, err = f.M.Run(ctx, "shop/sweep@"+(first+60).String())
			if core.CodeOf(err) != core.CodeNotFound || !strings.Contains(err.Error(), "stocktaking") || !strings.Contains(err.Error(), "ann") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestAuditOfAPauseThatWasCutShort checks a pause that ended before it began, because the clock was set back. Only
// the records have it, without an end. It excuses nothing.
func TestAuditOfAPauseThatWasCutShort(t *testing.T) {
	f := newFixture(t)
	j := f.Create(spec("sweep", every(time.Minute)))
	f.Fires()
	f.Quiet()
	shop := manage.Target{App: "shop"}
	first := j.Sched.Next
	must := func(_ manage.StateResult, err error) {
		t.Helper()
		check.OK(t, err)
	}
	f.Clock = first.Time().Add(30*time.Minute + time.Second)
	must(f.M.Pause(ctx, ann, shop, manage.PauseRequest{}))
	f.Clock = first.Time().Add(10*time.Minute + time.Second)
	must(f.M.Pause(ctx, ann, shop, manage.PauseRequest{}))
	f.Clock = first.Time().Add(20 * time.Minute)
	must(f.M.Resume(ctx, ann, shop, "")) // 11 to 20 were skipped
	f.Clock = first.Time().Add(60 * time.Minute)
	f.PushNext(j.Def.ID, first+60*60)
	r, err := f.M.Audit(ctx, "shop/sweep", first-1, first+59*60)
	if want := "demanded 50, on time 0, late 0 (0s), skipped map[], pending 0, unaccounted 50"; err != nil || sum(r.AuditCount) != want {
		t.Errorf("%s (%v)\nwant %s", sum(r.AuditCount), err, want)
	}
}

// TestAuditOfWhatIsOverdue checks that an old message excuses later runs for some minutes only. Unplanned and unsent
// runs become overdue.
func TestAuditOfWhatIsOverdue(t *testing.T) {
	begin := core.InstantOf(start)/600*600 + 600
	f := newFixture(t)
	jittered := spec("sweep", every(10*time.Minute))
	jittered.Schedule.Jitter = time.Second
	j := f.Create(jittered)
	f.Fires() // the queue loses all planned messages
	id := core.PlannedRun(j.Def.ID, begin)
	given := core.Run{ID: id, App: "shop", State: core.Planned, Cause: core.CauseSchedule, At: begin, Slot: begin + 1, Attempt: 1, First: id,
		SentAt: begin.Time()}
	if err := f.E.CreateRuns(ctx, []core.Run{given})[0]; err != nil { // its executor is busy
		t.Fatal(err)
	}
	f.PushNext(j.Def.ID, begin+5*600)
	busy := ring.Message{Kind: ring.KindFires, Slot: begin, Try: 60,
		Fires: []core.Fire{{Run: id, Rev: 1, At: begin, Slot: begin, Cause: core.CauseSchedule}}}
	check.OK(t, f.E.Queue.Enqueue(ctx, []ring.Out{{NotBefore: begin.Time(), Message: busy}})[0])
	for _, c := range []struct {
		after   time.Duration // its first scheduled time
		want    string
		behind  bool
		missing int
		waiting []core.Instant
	}{
		{14 * time.Minute, "demanded 2, on time 0, late 0 (0s), skipped map[], pending 2, unaccounted 0", false, 0, nil},
		{16 * time.Minute, "demanded 2, on time 0, late 0 (0s), skipped map[], pending 1, unaccounted 0, overdue 1", false, 0,
			[]core.Instant{begin}},
		{26 * time.Minute, "demanded 3, on time 0, late 0 (0s), skipped map[], pending 1, unaccounted 1, overdue 1", true, 1,
			[]core.Instant{begin}},
		{67 * time.Minute, "demanded 7, on time 0, late 0 (0s), skipped map[], pending 1, unaccounted 4, overdue 2", true, 4,
			[]core.Instant{begin, begin + 5*600}},
	} {
		f.Clock = begin.Time().Add(c.after)
		r, err := f.M.Audit(ctx, "shop/sweep", begin-1, core.InstantOf(f.Clock))
		if err != nil || sum(r.AuditCount) != c.want || r.Behind.Equal(begin.Time()) != c.behind || len(r.Missing) != c.missing ||
			len(r.Waiting) != len(c.waiting) || len(c.waiting) > 0 && r.Waiting[len(c.waiting)-1] != c.waiting[len(c.waiting)-1] {
			t.Errorf("after %s: %s (%v), behind %s, missing %v, waiting %v\nwant %s", c.after, sum(r.AuditCount), err, r.Behind, r.Missing,
				r.Waiting, c.want)
		}
		all, err := f.M.AuditAll(ctx, begin-1, core.InstantOf(f.Clock))
		if err != nil || sum(all.AuditCount) != c.want || all.Behind != r.Behind || all.Well() != (len(c.waiting) == 0) ||
			len(all.Missing) == 0 != all.Well() {
			t.Errorf("after %s, all: %s (%v), behind %s, missing %v", c.after, sum(all.AuditCount), err, all.Behind, all.Missing)
		}
	}
	if r, err := f.M.Replan(ctx, ann, "", begin-1, core.InstantOf(f.Clock)); err != nil || r.Sent != 4 {
		t.Errorf("replan: %+v %v, want 4 sent", r, err)
	}
}

// TestAuditOfADeletedAppAndItsHeir checks that the pauses of a deleted app excuse its times until the deletion. A new
// app with its name has none of them.
func TestAuditOfADeletedAppAndItsHeir(t *testing.T) {
	shop := manage.Target{App: "shop"}
	at := func(m int) core.Instant { return core.InstantOf(start) + core.Instant(60*m) }
	must := func(err error) {
		t.Helper()
		check.OK(t, err)
	}
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Minute)))
	f.Fires()
	f.Quiet()
	f.PushNext(j.Def.ID, at(60)/600*600)
	pause := func(m int) {
		f.Clock = at(m).Time()
		_, err := f.M.Pause(ctx, ann, shop, manage.PauseRequest{})
		must(err)
	}
	pause(1)
	f.Clock = at(35).Time()
	_, err := f.M.Resume(ctx, ann, shop, "") // 10, 20 and 30 were skipped by the pause; 40 is lost
	must(err)
	pause(45) // 50 was skipped
	f.Clock = at(55).Time()
	_, err = f.M.Delete(ctx, ann, "shop/sweep", nil)
	must(err)
	must(f.M.DeleteApp(ctx, ann, "shop"))
	check := func(when, want string) {
		t.Helper()
		all, err := f.M.AuditAll(ctx, at(0), core.InstantOf(f.Clock)-5)
		if err != nil || sum(all.AuditCount) != want {
			t.Errorf("%s: %s (%v)\nwant %s", when, sum(all.AuditCount), err, want)
		}
	}
	f.Clock = at(56).Time()
	check("deleted", "demanded 1, on time 0, late 0 (0s), skipped map[], pending 0, unaccounted 1")
	f.Clock = at(57).Time()
	_, err = f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "shop"})
	must(err)
	heir := f.Create(spec("sweep", every(10*time.Minute)))
	f.Fires()
	f.PushNext(heir.Def.ID, at(90)/600*600)
	f.Clock = at(81).Time() // 60, 70 and 80 were lost
	check("made anew", "demanded 4, on time 0, late 0 (0s), skipped map[], pending 0, unaccounted 4")
}
