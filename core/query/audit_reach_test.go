package query_test

import (
	"slices"
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
		if !slices.Contains(lost, i) {
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
	for name, c := range map[string]struct {
		keep int // days
		lost []int
		do   func(f *fixture)
		want string // for the last 70 hours
		sent int64
	}{
		"kept for a day": {1, nil, (*fixture).sweep, "demanded 70, on time 24, out of reach 46", 0},
		"and one was lost yesterday, one before": {1, []int{60, 20}, (*fixture).sweep,
			"demanded 70, on time 23, unaccounted 1, out of reach 46", 1},
		"not swept yet":                   {1, nil, func(*fixture) {}, "demanded 70, on time 70", 0},
		"kept for ever, and one was lost": {core.KeepForever, []int{20}, (*fixture).sweep, "demanded 70, on time 69, unaccounted 1", 1},
		"deleted": {1, nil, func(f *fixture) {
			f.sweep()
			f.Delete("shop/sweep")
		}, "demanded 70, on time 24, out of reach 46", 0},
		"kept for longer since ten hours ago": {1, nil, func(f *fixture) {
			f.sweep()
			s := spec("sweep", every(time.Hour))
			s.Def.Keep.Days = 30
			f.Save(s)
			f.hours(1, 10, 0)
			f.sweep()
		}, "demanded 70, on time 33, unaccounted 1, out of reach 36", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			s := spec("sweep", every(time.Hour))
			s.Def.Keep.Days = c.keep
			f.Create(s)
			f.Fires()
			f.Quiet()
			f.hours(1, 72, c.lost...)
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
	resume := func() {
		f.Resume(shop)
		f.Resumed()
	}
	from := core.InstantOf(f.Clock)
	first := j.Sched.Next
	days := func(n int) { f.Clock = f.Clock.Add(time.Duration(n) * 24 * time.Hour) }
	f.Pause(shop)
	days(5)
	resume()
	days(30)
	f.Pause(shop)
	resume()
	days(31)
	audit := func(want string) {
		t.Helper()
		f.sweep()
		f.PushNext(j.Def.ID, first+66*86400)
		f.audited(j.Def.ID, from, core.InstantOf(f.Clock), want)
	}
	for range core.MaxPast - 1 {
		f.Pause(shop)
		resume()
	}
	audit("demanded 61, on time 0, unaccounted 61") // the item has the first pause
	f.Pause(shop)                                   // not any more, and its records are swept
	resume()
	audit("demanded 66, on time 0, unaccounted 61, out of reach 5")
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
				f.Resume(target)
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
	f.Clock = first.Time().Add(30*time.Minute + time.Second)
	f.Pause(shop)
	f.Clock = first.Time().Add(10*time.Minute + time.Second)
	f.Pause(shop)
	f.Clock = first.Time().Add(20 * time.Minute)
	f.Resume(shop) // 11 to 20 were skipped
	f.Clock = first.Time().Add(60 * time.Minute)
	f.PushNext(j.Def.ID, first+60*60)
	f.audited(j.Def.ID, first-1, first+59*60, "demanded 50, on time 0, unaccounted 50")
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
	given := newRun(planned(j.Def.ID, begin), core.Planned, begin)
	given.Slot, given.SentAt = begin+1, begin.Time() // its executor is busy
	f.Put(given)
	f.PushNext(j.Def.ID, begin+5*600)
	busy := ring.Message{Kind: ring.KindFires, Slot: begin, Try: 60,
		Fires: []core.Fire{{Run: given.ID, Rev: 1, At: begin, Slot: begin, Cause: core.CauseSchedule}}}
	check.OK(t, f.E.Queue.Enqueue(ctx, []ring.Out{{NotBefore: begin.Time(), Message: busy}})[0])
	for _, c := range []struct {
		after   time.Duration // its first scheduled time
		want    string
		behind  bool
		missing int
		waiting []core.Instant
	}{
		{14 * time.Minute, "demanded 2, on time 0, pending 2", false, 0, nil},
		{16 * time.Minute, "demanded 2, on time 0, pending 1, overdue 1", false, 0,
			[]core.Instant{begin}},
		{26 * time.Minute, "demanded 3, on time 0, pending 1, unaccounted 1, overdue 1", true, 1,
			[]core.Instant{begin}},
		{67 * time.Minute, "demanded 7, on time 0, pending 1, unaccounted 4, overdue 2", true, 4,
			[]core.Instant{begin, begin + 5*600}},
	} {
		f.Clock = begin.Time().Add(c.after)
		r, all := f.audited(j.Def.ID, begin-1, core.InstantOf(f.Clock), c.want)
		if r.Behind.Equal(begin.Time()) != c.behind || len(r.Missing) != c.missing || !slices.Equal(r.Waiting, c.waiting) {
			t.Errorf("after %s: behind %s, missing %v, waiting %v", c.after, r.Behind, r.Missing, r.Waiting)
		}
		if all.Behind != r.Behind || all.Well() != (len(c.waiting) == 0) || len(all.Missing) == 0 != all.Well() {
			t.Errorf("after %s, all: behind %s, missing %v", c.after, all.Behind, all.Missing)
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
	f := newFixture(t)
	j := f.Create(spec("sweep", every(10*time.Minute)))
	f.Fires()
	f.Quiet()
	f.PushNext(j.Def.ID, at(60)/600*600)
	f.Clock = at(1).Time()
	f.Pause(shop)
	f.Clock = at(35).Time()
	f.Resume(shop) // 10, 20 and 30 were skipped by the pause; 40 is lost
	f.Clock = at(45).Time()
	f.Pause(shop) // 50 was skipped
	f.Clock = at(55).Time()
	f.Delete("shop/sweep")
	check.OK(t, f.M.DeleteApp(ctx, ann, "shop"))
	audited := func(when, want string) {
		t.Helper()
		all, err := f.M.AuditAll(ctx, at(0), core.InstantOf(f.Clock)-5)
		if err != nil || sum(all.AuditCount) != want {
			t.Errorf("%s: %s (%v)\nwant %s", when, sum(all.AuditCount), err, want)
		}
	}
	f.Clock = at(56).Time()
	audited("deleted", "demanded 1, on time 0, unaccounted 1")
	f.Clock = at(57).Time()
	f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "shop"}))
	heir := f.Create(spec("sweep", every(10*time.Minute)))
	f.Fires()
	f.PushNext(heir.Def.ID, at(90)/600*600)
	f.Clock = at(81).Time() // 60, 70 and 80 were lost
	audited("made anew", "demanded 4, on time 0, unaccounted 4")
}
