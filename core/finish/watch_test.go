package finish_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/memory"
)

const address = "http://10.0.0.1:9999/"

// probe returns the test's answers for each address.
type probe struct {
	beat, idleErr error
	idle          bool
	beats, idles  int
	kills         int
	killErr       error
	limit         time.Duration // of a function
	limitErr      error
}

func (p *probe) Beat(context.Context, *core.App, string) error { p.beats++; return p.beat }

func (p *probe) Kill(context.Context, *core.App, string, core.JobID) error {
	p.kills++
	return p.killErr
}

func (p *probe) Limit(context.Context, string) (time.Duration, error) { return p.limit, p.limitErr }

func (p *probe) Idle(context.Context, *core.App, string, core.JobID) (bool, error) {
	p.idles++
	return p.idle, p.idleErr
}

type watchRig struct {
	*rig
	w *finish.Watchdog
	p *probe
}

func newWatchRig(t *testing.T) *watchRig {
	r := &watchRig{rig: newRig(t), p: &probe{}}
	r.w = finish.NewWatchdog(r.f, r.p, finish.WatchOptions{})
	return r
}

// registered stores an executor whose last heartbeat is age old.
func (r *watchRig) registered(age time.Duration) {
	r.t.Helper()
	r.Must(r.PutExecutor(r.t.Context(), core.Executor{App: "orders", Address: address, Beat: r.now.Add(-age), Since: begin.Add(-time.Hour)}))
}

func (r *watchRig) fixed(list ...string) {
	r.t.Helper()
	r.SaveApp(core.App{Name: "orders", Rev: 2, Executors: list})
}

var key = core.JournalKey{Minute: begin.Unix() / 60, Suffix: 3, Nonce: "nonce"}

// journal stores the dispatcher's journal entry of the run.
func (r *watchRig) journal(k core.JournalKey, outcome core.Outcome) {
	r.t.Helper()
	r.Must(r.PutJournal(r.t.Context(), core.Journal{Key: k, V: 1, Entries: []core.Entry{{Run: id, Address: address, Outcome: outcome}}}))
}

// sent stores a run whose send was accepted at begin, and its journal.
func (r *watchRig) sent(change func(*core.Run)) {
	r.t.Helper()
	r.run(id, func(x *core.Run) {
		x.SentAt, x.Journal, x.Retries = begin, key, 0
		if change != nil {
			change(x)
		}
	})
	r.journal(key, core.Accepted)
}

func (r *watchRig) pass() {
	r.t.Helper()
	_, err := r.w.Pass(r.t.Context())
	r.Must(err)
}

func (r *watchRig) check(idle bool) error {
	return r.w.Check(r.t.Context(), &ring.Check{Runs: []core.RunID{id}, Idle: idle})
}

// TestLost checks each rule of DESIGN 11 just before and at its bound.
func TestLost(t *testing.T) {
	type is struct {
		state  core.State
		reason core.Reason
	}
	open := is{core.Running, ""}
	gone := is{core.Lost, core.ReasonGone}
	unreported, timedOut := is{core.Lost, core.ReasonNoReport}, is{core.TimedOut, core.ReasonTimeout}
	beats := func(r *watchRig) { r.registered(0) }
	idle := func(r *watchRig) { r.registered(0); r.p.idle = true }
	silent := func(r *watchRig) { r.fixed(address); r.p.beat = errUnknown }
	called := func(x *core.Run) { x.Address = "call:https://h" }
	function := func(x *core.Run) { x.Address = "lambda:f" }
	queued := func(x *core.Run) { x.Address = "queue:q" }
	local := func(x *core.Run) { x.Address = core.LocalAddress }
	limited := func(d time.Duration) func(*watchRig) { return func(r *watchRig) { r.p.limit = d } }
	polled := func(age time.Duration) func(*watchRig) {
		return func(r *watchRig) {
			r.fixed("queue:q")
			r.Must(r.PutExecutor(r.t.Context(), core.Executor{App: "orders", Address: "queue:q", Beat: r.now.Add(-age), Since: begin}))
		}
	}
	timeout := func(d time.Duration) func(*core.Job) { return func(j *core.Job) { j.Def.Timeout = d } }
	for _, c := range []struct {
		name  string
		after time.Duration // since the send
		job   func(*core.Job)
		run   func(*core.Run)
		set   func(*watchRig)
		want  is
		asked bool // the executor was asked
		again bool // another check was requested
	}{
		{"young", 10*time.Minute - time.Millisecond, nil, nil, nil, open, false, false},
		{"registered address gone", 10 * time.Minute, nil, nil, nil, gone, false, false},
		{"expired", 10 * time.Minute, nil, nil, func(r *watchRig) { r.registered(91 * time.Second) }, gone, false, false},
		{"last beat just in time", 10 * time.Minute, nil, nil, func(r *watchRig) { r.registered(90 * time.Second) }, open, true, false},
		{"we were away ourselves", 10 * time.Minute, nil, nil, func(r *watchRig) {
			r.registered(100 * time.Second)
			r.Must(r.PutGlobal(r.t.Context(), 0, core.Global{Rev: 1, DownAt: r.now.Add(-99 * time.Second), UpSince: r.now.Add(-10 * time.Second)}))
		}, open, true, false},
		{"lostAfter of the job", time.Hour - time.Millisecond, func(j *core.Job) { j.Def.LostAfter = time.Hour }, nil, nil, open, false, false},
		{"lostAfter of the job over", time.Hour, func(j *core.Job) { j.Def.LostAfter = time.Hour }, nil, nil, gone, false, false},
		{"busy is merely long", 20 * time.Hour, nil, nil, beats, open, true, false},
		{"nobody knows", 20 * time.Hour, nil, nil, func(r *watchRig) { r.registered(0); r.p.idle, r.p.idleErr = true, errUnknown }, open, true,
			false},
		{"idle once", 10 * time.Minute, nil, nil, idle, open, true, true},
		{"fixed and silent", 10 * time.Minute, nil, nil, silent, gone, true, false},
		{"fixed and could not be asked", 20 * time.Hour, nil, nil, func(r *watchRig) { r.fixed(address); r.p.beat = errOurs }, open, true, false},
		{"could not be asked", 20 * time.Hour, nil, nil, func(r *watchRig) { r.registered(0); r.p.idle, r.p.idleErr = true, errOurs }, open, true,
			false},
		{"fixed and there", 10 * time.Minute, nil, nil, func(r *watchRig) { r.fixed(address) }, open, true, false},
		{"given by the trigger and there", 10 * time.Minute, nil, func(x *core.Run) { x.Addresses = []string{address} }, nil, open, true, false},
		{"timeout to come", 35*time.Second - time.Millisecond, timeout(30 * time.Second), nil, idle, open, false, false},
		{"timeout over, idle once", 35 * time.Second, timeout(30 * time.Second), nil, idle, open, true, true},
		{"timeout over, busy", 35 * time.Second, timeout(30 * time.Second), nil, beats, timedOut, true, false},
		{"timeout over, gone only now", 35 * time.Second, timeout(30 * time.Second), nil, nil, open, false, false},
		{"timeout over, fixed and silent only now", 35 * time.Second, timeout(30 * time.Second), nil, silent, open, true, false},
		{"call unreported", 10 * time.Minute, nil, called, nil, unreported, false, false},
		{"call within its timeout", time.Hour, timeout(time.Hour), called, nil, open, false, false},
		{"call over its timeout", time.Hour + 5*time.Second, timeout(time.Hour), called, nil, unreported, false, false},
		{"function within its timeout", 14*time.Minute + 59*time.Second, nil, function, limited(14 * time.Minute), open, false, false},
		{"function over its timeout", 15 * time.Minute, nil, function, limited(14 * time.Minute), unreported, false, false},
		{"function of a moment", 10*time.Minute - time.Millisecond, nil, function, limited(3 * time.Second), open, false, false},
		{"function of a moment, lost", 10 * time.Minute, nil, function, limited(3 * time.Second), unreported, false, false},
		{"function of unknown timeout", 20 * time.Hour, nil, function, func(r *watchRig) { r.p.limitErr = errUnknown }, open, false, false},
		{"function over the job's timeout only", 35 * time.Second, timeout(30 * time.Second), function, limited(time.Minute), open, false, false},
		{"function over both timeouts", 2 * time.Minute, timeout(30 * time.Second), function, limited(time.Minute),
			timedOut, false, false},
		{"queue that is polled", 20 * time.Hour, nil, queued, polled(90 * time.Second), open, true, false},
		{"queue without consumers", 10 * time.Minute, nil, queued, polled(91 * time.Second), gone, false, false},
		{"queue without consumers, young", 35 * time.Second, timeout(30 * time.Second), queued, polled(91 * time.Second), open, false,
			false},
		{"queue that was polled before our outage", 10 * time.Minute, nil, queued, func(r *watchRig) {
			polled(100 * time.Second)(r)
			r.Must(r.PutGlobal(r.t.Context(), 0, core.Global{Rev: 1, DownAt: r.now.Add(-99 * time.Second), UpSince: r.now.Add(-10 * time.Second)}))
		}, open, true, false},
		{"queue of which nothing is known", 20 * time.Hour, nil, queued, func(r *watchRig) { r.fixed("queue:q") }, open, true, false},
		{"queue that was never polled", 10 * time.Minute, nil, queued, func(r *watchRig) { r.fixed("queue:q"); r.p.beat = errUnknown }, gone,
			true, false},
		{"command that waits or works", 20 * time.Hour, timeout(time.Hour), local, nil, open, true, false},
		{"command of a server that runs none any more", 10 * time.Minute, nil, local, func(r *watchRig) { r.p.beat = errUnknown }, gone, true,
			false},
		{"command unknown to every executor, once", 10 * time.Minute, nil, local, func(r *watchRig) { r.p.idle = true }, open, true, true},
		{"queue without the run, once", 10 * time.Minute, nil, queued, func(r *watchRig) { polled(0)(r); r.p.idle = true }, open, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newWatchRig(t)
			r.job(1, c.job)
			r.sent(c.run)
			r.now = begin.Add(c.after)
			if c.set != nil {
				c.set(r)
			}
			r.Must(r.check(false))
			if got := r.Run(id); (is{got.State, got.Reason}) != c.want {
				t.Errorf("it is %s: %s, want %s: %s", got.State, got.Reason, c.want.state, c.want.reason)
			}
			if asked := r.p.beats+r.p.idles > 0; asked != c.asked {
				t.Errorf("the executor was asked: %t", asked)
			}
			m := r.messages(ring.KindCheck)
			if c.again != (len(m) == 1) || len(m) > 1 {
				t.Fatalf("checks: %+v", m)
			}
			if c.again && (!m[0].Check.Idle || len(m[0].Check.Runs) != 1 || m[0].Check.Runs[0] != id ||
				m[0].Slot != core.Ceil(r.now.Add(time.Minute))) {
				t.Errorf("the second look is %+v", m[0])
			}
		})
	}
}

// TestGivenAddressOfARegisteredExecutor: a run that was given a registered executor's address
// follows the rules of a fixed address. The executor's other runs do not: while its heartbeats
// come, it is not gone, even if its port does not answer.
func TestGivenAddressOfARegisteredExecutor(t *testing.T) {
	r := newWatchRig(t)
	r.job(1, nil)
	r.sent(nil)
	given := core.NumberedRun(1, 7)
	r.run(given, func(x *core.Run) {
		x.SentAt, x.Journal, x.Retries, x.Addresses = begin, key, 0, []string{address}
	})
	r.Must(r.PutJournal(t.Context(), core.Journal{Key: key, V: 2, Entries: []core.Entry{{Run: id, Address: address, Outcome: core.Accepted},
		{Run: given, Address: address, Outcome: core.Accepted}}}))
	r.now = begin.Add(20 * time.Minute)
	r.registered(0)
	r.p.beat, r.p.idle = errUnknown, true
	r.Must(r.w.Check(t.Context(), &ring.Check{Runs: []core.RunID{id, given}}))
	if got := r.Run(given); got.State != core.Lost || got.Reason != core.ReasonGone {
		t.Errorf("the run that was given the address is %s: %s", got.State, got.Reason)
	}
	if got := r.Run(id); !got.State.Open() {
		t.Errorf("the other one is %s: %s, and its executor beats", got.State, got.Reason)
	}
}

// TestIdleTwice: an executor that is idle at two checks has forgotten the run.
func TestIdleTwice(t *testing.T) {
	for _, c := range []struct {
		timeout time.Duration
		idle    bool
		state   core.State
		reason  core.Reason
	}{
		{0, true, core.Lost, core.ReasonForgotten},
		{30 * time.Second, true, core.TimedOut, core.ReasonTimeout},
		{0, false, core.Running, ""},
	} {
		r := newWatchRig(t)
		r.job(1, func(j *core.Job) { j.Def.Timeout = c.timeout })
		r.sent(nil)
		r.now = begin.Add(11 * time.Minute)
		r.registered(0)
		r.p.idle = c.idle
		r.Must(r.check(true))
		if got := r.Run(id); got.State != c.state || got.Reason != c.reason {
			t.Errorf("idle %t, timeout %s: it is %s: %s", c.idle, c.timeout, got.State, got.Reason)
		}
	}
}

// TestLeft: a run that a dispatcher left is closed only when no dispatcher can still take it.
func TestLeft(t *testing.T) {
	at := core.InstantOf(begin) - 1
	unsent := func(x *core.Run) { x.Owner, x.Address, x.State, x.Until = "", "", core.Planned, time.Time{} }
	// The ring holds an old message of another job, so it may hold older messages of the left run
	// too.
	waiting := func(r *watchRig, since time.Time) {
		slot := core.InstantOf(since)
		r.Must(r.Queue.Enqueue(r.t.Context(),
			[]ring.Out{{NotBefore: since, Message: ring.Message{Kind: ring.KindFires, Slot: slot,
				Fires: []core.Fire{{Run: core.PlannedRun(2, slot)}}}}})[0])
	}
	old := func(r *watchRig) { waiting(r, begin.Add(time.Minute)) } // as old as the claim can be
	// Another message was requeued for hours, and a third one with a due time at or after this
	// time.
	back := func(r *watchRig, slots ...core.Instant) {
		for _, slot := range slots {
			m := ring.Message{Kind: ring.KindFires, Slot: slot, Try: 9, Fires: []core.Fire{{Run: core.PlannedRun(2, slot)}}}
			r.Must(r.Queue.Enqueue(r.t.Context(), []ring.Out{{NotBefore: r.now.Add(time.Minute), Message: m}})[0])
		}
	}
	jitter := func(j *core.Job) { j.Sched.Schedule.Jitter = time.Minute }
	young := func(r *watchRig) { waiting(r, begin.Add(time.Minute+time.Second)) }
	for _, c := range []struct {
		name   string
		job    func(*core.Job)
		nojob  bool
		run    func(*core.Run)
		set    func(*watchRig)
		state  core.State
		reason core.Reason
	}{
		{"changed", nil, false, unsent, nil, core.Skipped, core.ReasonChanged},
		{"paused", func(j *core.Job) { j.Sched.State = core.Paused }, false, unsent, nil, core.Skipped, core.ReasonPaused},
		{"in a pause of its app that is over", nil, false, unsent, func(r *watchRig) {
			r.SaveApp(core.App{Name: "orders", Rev: 2, Pause: core.Pause{From: at.Time(), To: begin.Add(time.Second)}})
		}, core.Skipped, core.ReasonPaused},
		{"in a pause of everything", nil, false, unsent, func(r *watchRig) {
			r.Must(r.PutGlobal(r.t.Context(), 0, core.Global{Rev: 1, Pause: core.Pause{From: at.Time()}}))
		}, core.Skipped, core.ReasonPaused},
		{"deleted", nil, true, unsent, nil, core.Skipped, core.ReasonDeleted},
		{"younger messages on the ring", nil, false, unsent, young, core.Skipped, core.ReasonChanged},
		{"an older message on the ring", nil, false, unsent, old, core.Planned, ""},
		{"others are requeued for hours", nil, false, unsent, func(r *watchRig) { back(r, at-7200, at-1, at+1) }, core.Skipped,
			core.ReasonChanged},
		{"one with its due time is requeued", nil, false, unsent, func(r *watchRig) { back(r, at-7200, at) }, core.Planned, ""},
		{"one with a possible due time is requeued", jitter, false, unsent, func(r *watchRig) { back(r, at+60) }, core.Planned, ""},
		{"one with an impossible due time is requeued", jitter, false, unsent, func(r *watchRig) { back(r, at+61) }, core.Skipped,
			core.ReasonChanged},
		{"the job plans it again", func(j *core.Job) { j.Sched.Next = at }, false, unsent, nil, core.Planned, ""},
		{"the job is past it", func(j *core.Job) { j.Sched.Next = at + 1 }, false, unsent, nil, core.Skipped, core.ReasonChanged},
		{"given back after a send", nil, false, func(x *core.Run) { unsent(x); x.MaybeSent, x.Address = true, address },
			func(r *watchRig) { r.registered(0) }, core.Planned, ""},
		{"owned", nil, false, func(x *core.Run) { x.Until = begin.Add(time.Hour) }, nil, core.Running, ""},
		{"owned once, its executor gone", nil, false, nil, nil, core.Lost, core.ReasonGone},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newWatchRig(t)
			if !c.nojob {
				r.job(1, c.job)
			}
			r.run(id, func(x *core.Run) {
				x.SentAt, x.Retries = begin, 0
				if c.run != nil {
					c.run(x)
				}
			})
			r.journal(key, core.Left)
			r.now = begin.Add(12 * time.Minute)
			if c.set != nil {
				c.set(r)
			}
			r.Must(r.MoveCursor(t.Context(), 0, key.Minute-1))
			r.pass()
			if got := r.Run(id); got.State != c.state || got.Reason != c.reason {
				t.Errorf("it is %s: %s, want %s: %s", got.State, got.Reason, c.state, c.reason)
			}
		})
	}
}

// TestClockSetBack: runs that are claimed after the clock was set back lie behind the cursor, and
// are still scanned. After a small step no minute is scanned twice.
func TestClockSetBack(t *testing.T) {
	for back, want := range map[time.Duration]bool{4 * time.Minute: false, 15 * time.Minute: true, 3 * time.Hour: true} {
		r := newWatchRig(t)
		r.job(1, nil)
		ahead := key.Minute + int64(back/time.Minute) - 11
		r.Must(r.MoveCursor(t.Context(), 0, ahead))
		r.sent(nil)
		r.pass()
		if at, err := r.Cursor(t.Context()); err != nil || at < ahead != want {
			t.Errorf("clock set back by %s: the cursor went from %d to %d", back, ahead-key.Minute, at-key.Minute)
		}
		for range 15 {
			r.now = r.now.Add(time.Minute)
			r.pass()
		}
		if got := r.Run(id); got.State != core.Lost || got.Reason != core.ReasonGone {
			t.Errorf("clock set back by %s: it is %s", back, got.State)
		}
	}
}

// TestRevisitsOfAClockThatWasAhead: a watchdog with a fast clock scheduled revisits hours ahead.
// They are copied to the minutes of a right clock, even if the way back takes several passes. The
// originals stay, because the clock may be set right before the cursor is back.
func TestRevisitsOfAClockThatWasAhead(t *testing.T) {
	for ahead, long := range map[time.Duration]time.Duration{90 * time.Minute: time.Minute, 30 * time.Hour: time.Minute,
		31 * time.Hour: time.Nanosecond} {
		r := newWatchRig(t)
		r.w = finish.NewWatchdog(r.f, r.p, finish.WatchOptions{WalkFor: long, PageJournals: 1})
		r.job(1, nil)
		r.sent(nil)
		end := r.now.Add(-10*time.Minute).Unix()/60 - 1 // the right position of the cursor
		cursor := end + int64(ahead/time.Minute)
		r.Must(r.MoveCursor(t.Context(), 0, cursor))
		other := key
		other.Suffix++
		for _, k := range []core.JournalKey{key, other} { // two pages
			r.Must(r.PutRevisits(t.Context(), cursor+200, []core.JournalKey{k}))
		}
		passes := 0
		for at := cursor; at > end+5; passes++ {
			r.pass()
			var err error
			if at, err = r.Cursor(t.Context()); err != nil {
				t.Fatal(err)
			}
			if passes > 3000 {
				t.Fatalf("%s ahead: after %d passes the cursor is %d minutes from its place", ahead, passes, at-end)
			}
		}
		found := map[int64]int{}
		for m := end; m < cursor+300; m++ {
			keys, err := r.Revisits(t.Context(), m, core.JournalKey{}, 10)
			r.Must(err)
			if len(keys) > 0 {
				found[m-end] = len(keys)
			}
		}
		if len(found) != 2 || found[10] != 2 || found[cursor+200-end] != 2 {
			t.Errorf("%s ahead, in %d passes: minutes read again behind the cursor: %v", ahead, passes, found)
		}
	}
}

// TestCheckOfAClockThatWasAhead: the journal of a claimer with a fast clock is read again soon.
func TestCheckOfAClockThatWasAhead(t *testing.T) {
	r := newWatchRig(t)
	r.job(1, nil)
	r.sent(nil)
	now := r.now.Unix() / 60
	r.Must(r.MoveCursor(t.Context(), 0, now-11))
	ahead := core.JournalKey{Minute: now + 1800, Suffix: 3, Nonce: "nonce"}
	j := core.Journal{Key: ahead, V: 1, Entries: []core.Entry{{Run: id, Address: address, Outcome: core.Unconfirmed}}}
	r.Must(r.w.Check(t.Context(), &ring.Check{Runs: []core.RunID{id}, Journal: &j}))
	for m := now - 11; m < now+20; m++ {
		keys, err := r.Revisits(t.Context(), m, core.JournalKey{}, 10)
		r.Must(err)
		if len(keys) == 1 {
			return
		}
	}
	t.Error("it is not read again within 20 minutes")
}

// TestFirstPassReportsAStoreThatFails: only a cursor that another watchdog set ends the first
// pass without an error.
func TestFirstPassReportsAStoreThatFails(t *testing.T) {
	for _, err := range []error{core.ErrThrottled, core.ErrRefused} {
		r := newWatchRig(t)
		r.faults.faults["cursor"] = []fault{{err: err}}
		want := err
		if err == core.ErrRefused {
			want = nil
		}
		if _, got := r.w.Pass(t.Context()); !errors.Is(got, want) {
			t.Errorf("the store answered %v, and the pass ended with %v", err, got)
		}
	}
}

// TestPassAfterALongTime: passes of limited length catch up to now.
func TestPassAfterALongTime(t *testing.T) {
	r := newWatchRig(t)
	r.job(1, nil)
	r.sent(nil)
	r.Must(r.MoveCursor(t.Context(), 0, key.Minute-1))
	r.now = begin.Add(5 * time.Hour)
	total := 0
	for range 4 {
		n, err := r.w.Pass(t.Context())
		r.Must(err)
		total += n
	}
	cursor, err := r.Cursor(t.Context())
	r.Must(err)
	if want := r.now.Add(-10*time.Minute).Unix()/60 - 1; cursor != want || total == 0 {
		t.Errorf("the cursor is at %d, want %d; %d runs were checked", cursor, want, total)
	}
	if got := r.Run(id); got.State != core.Lost {
		t.Errorf("it is %s", got.State)
	}
}

// TestTwoWatchdogs: the cursor moves once, and the second watchdog stops.
func TestTwoWatchdogs(t *testing.T) {
	r := newWatchRig(t)
	r.Must(r.MoveCursor(t.Context(), 0, key.Minute-1))
	r.now = begin.Add(20 * time.Minute)
	r.faults.faults["cursor"] = []fault{{between: func() { r.Must(r.MoveCursor(t.Context(), key.Minute-1, key.Minute+3)) }}}
	if _, err := r.w.Pass(t.Context()); err != nil {
		t.Error(err)
	}
	if at, err := r.Cursor(t.Context()); err != nil || at != key.Minute+3 || r.calls["cursor"] != 1 {
		t.Errorf("after %d moves the cursor went back to %d", r.calls["cursor"], at-key.Minute)
	}
}

// TestCheckWhileTheWalkCatchesUp: if the scan passes the minute while a journal is put there, the
// journal is put further ahead.
func TestCheckWhileTheWalkCatchesUp(t *testing.T) {
	r := newWatchRig(t)
	r.job(1, nil)
	r.run(id, func(x *core.Run) { x.SentAt, x.Journal, x.Retries = begin, key, 0 })
	r.now = begin.Add(3 * time.Minute)
	r.registered(0)
	r.Must(r.MoveCursor(t.Context(), 0, key.Minute+5))
	r.faults.faults["revisits"] = []fault{{between: func() { r.Must(r.MoveCursor(t.Context(), key.Minute+5, key.Minute+8)) }}}
	j := core.Journal{Key: key, V: 4, Entries: []core.Entry{{Run: id, Address: address, Outcome: core.Unconfirmed}}}
	r.Must(r.w.Check(t.Context(), &ring.Check{Runs: []core.RunID{id}, Journal: &j}))
	r.now = begin.Add(30 * time.Minute) // its executor is gone
	for range 3 {
		r.pass()
	}
	if got := r.Run(id); got.State != core.Lost {
		t.Errorf("it is %s: the journal was stored in the wrong place", got.State)
	}
}

// TestLaterRuns: an executor that is busy with a job may be busy with another run of it. Only a
// run that came later and ended there proves that it has lost the earlier one.
func TestLaterRuns(t *testing.T) {
	at := func(d time.Duration) core.Instant { return core.InstantOf(begin.Add(d)) }
	planned := func(d time.Duration) core.RunID { return core.PlannedRun(1, at(d)) }
	next := planned(2 * time.Minute)
	const arrived = 30 * time.Second // the run may have been sent until then
	// later was sent to the address just late enough to prove that the first run came before it.
	// It ended 10 minutes before the scan.
	later := func(x *core.Run) {
		x.State, x.SentAt, x.EndedAt, x.Code = core.Succeeded, begin.Add(arrived+time.Minute+time.Millisecond), begin.Add(20*time.Minute), 200
	}
	is := func(s core.State, reason core.Reason, code int) func(*core.Run) {
		return func(x *core.Run) { x.State, x.Reason, x.Code = s, reason, code }
	}
	for _, c := range []struct {
		name   string
		id     core.RunID
		change func(*core.Run)
		set    func(*watchRig)
		want   core.State
	}{
		{"it ended", next, nil, nil, core.Lost},
		{"triggered by hand", core.NumberedRun(1, 7), nil, nil, core.Lost},
		{"its handler failed", next, is(core.Failed, core.ReasonHandler, 500), nil, core.Lost},
		{"it crashed with its executor", next, is(core.Failed, core.ReasonCrashed, 500), nil, core.Lost},
		{"its executor reports a timeout", next, is(core.TimedOut, core.ReasonTimeout, 502), nil, core.Lost},
		{"its executor reports that it was replaced", next, is(core.Killed, core.ReasonReplaced, 500), nil, core.Lost},
		{"we say that it timed out", next, is(core.TimedOut, core.ReasonTimeout, 0), nil, core.Running},
		{"it was lost", next, is(core.Lost, core.ReasonForgotten, 0), nil, core.Running},
		{"it was refused", next, is(core.Failed, core.ReasonNotAccepted, 500), nil, core.Running},
		{"it was skipped", next, is(core.Skipped, core.ReasonOverlap, 500), nil, core.Running},
		{"it runs", next, func(x *core.Run) { x.State, x.EndedAt, x.Code = core.Running, time.Time{}, 0 }, nil, core.Running},
		{"it ended only now", next, func(x *core.Run) { x.EndedAt = x.EndedAt.Add(time.Minute) }, nil, core.Running},
		{"elsewhere", next, func(x *core.Run) { x.Address = "http://10.0.0.2:9999/" }, nil, core.Running},
		{"it came with it", next, func(x *core.Run) { x.SentAt = x.SentAt.Add(-time.Millisecond) }, nil, core.Running},
		{"another job's", core.PlannedRun(2, at(2*time.Minute)), nil, nil, core.Running},
		{"they cannot be read", next, nil, func(r *watchRig) { r.faults.faults["span"] = []fault{{err: errUnknown}} },
			core.Running},
		{"at a fixed address", next, nil, func(r *watchRig) { r.fixed(address) }, core.Running},
		// Consumers differ in speed.
		{"at a queue", next, func(x *core.Run) { x.Address = "queue:q" }, func(r *watchRig) { r.fixed("queue:q") },
			core.Running},
		{"its status is unknown", next, nil, func(r *watchRig) { r.p.idleErr = errUnknown }, core.Running},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newWatchRig(t)
			r.job(1, nil)
			r.job(2, nil)
			r.sent(func(x *core.Run) {
				if x.Until = begin.Add(arrived); c.name == "at a queue" {
					x.Address = "queue:q"
				}
			})
			r.run(c.id, func(x *core.Run) {
				later(x)
				if c.change != nil {
					c.change(x)
				}
			})
			r.now = begin.Add(30 * time.Minute)
			r.registered(0)
			if c.set != nil {
				c.set(r)
			}
			r.Must(r.check(true))
			if got := r.Run(id); !got.State.Open() || r.calls["span"] > 0 {
				t.Errorf("a check, which may read no later runs: it is %s", got.State)
			}
			r.Must(r.MoveCursor(t.Context(), 0, key.Minute-1))
			r.pass()
			if got := r.Run(id); got.State != c.want || c.want == core.Lost && got.Reason != core.ReasonForgotten {
				t.Errorf("it is %s: %s, want %s", got.State, got.Reason, c.want)
			}
		})
	}
}

// TestUnreadableAppHoldsUpNoOther: runs of an unreadable app are decided later; other runs are
// decided in this pass.
func TestUnreadableAppHoldsUpNoOther(t *testing.T) {
	r := newWatchRig(t)
	r.App("ledger")
	r.job(1, nil)
	r.job(2, func(j *core.Job) { j.Def.App = "ledger" })
	other := core.PlannedRun(2, core.InstantOf(begin))
	left := func(x *core.Run) { x.Owner, x.Address, x.State, x.Until = "", "", core.Planned, time.Time{} }
	r.run(id, left)
	r.run(other, func(x *core.Run) { left(x); x.App = "ledger" })
	entries := []core.Entry{{Run: id, Outcome: core.Left}, {Run: other, Outcome: core.Left}}
	r.Must(r.PutJournal(t.Context(), core.Journal{Key: key, Entries: entries}))
	r.Must(r.MoveCursor(t.Context(), 0, key.Minute-1))
	memory.DamageApp(t, r.Records, "ledger")
	for range 30 {
		r.now = r.now.Add(time.Minute)
		r.pass()
	}
	if a, b := r.Run(id), r.Run(other); a.State.Open() || !b.State.Open() {
		t.Errorf("they are %s and %s", a.State, b.State)
	}
}

// TestUnreadIsNotGone: an item that a throttled table did not return is not taken for deleted,
// and is checked again soon.
func TestUnreadIsNotGone(t *testing.T) {
	for _, what := range []string{"jobs", "apps", "runs"} {
		r := newWatchRig(t)
		r.job(1, nil)
		r.run(id, func(x *core.Run) { x.Owner, x.Address, x.State, x.Until = "", "", core.Planned, time.Time{} })
		r.journal(key, core.Left)
		r.Must(r.MoveCursor(t.Context(), 0, key.Minute-1))
		r.now = begin.Add(11*time.Minute + time.Second)
		r.faults.faults[what] = []fault{{err: core.ErrThrottled, done: true}}
		if what == "runs" { // they are read a second time, strongly
			r.faults.faults[what] = append(r.faults.faults[what], r.faults.faults[what][0])
		}
		r.pass()
		if got := r.Run(id); !got.State.Open() || len(r.faults.faults[what]) > 0 {
			t.Errorf("%s were not read: it is %s: %s", what, got.State, got.Reason)
		}
		for range 25 {
			r.now = r.now.Add(time.Minute)
			r.pass()
		}
		if got := r.Run(id); got.State != core.Skipped || got.Reason != core.ReasonChanged {
			t.Errorf("%s were not read once: it is %s: %s", what, got.State, got.Reason)
		}
	}
}

// TestLostBeforeTheWalk: a job's lostAfter is shorter than the delay of the scan. Its run is
// checked until then, whether the executor is busy or silent, and ends soon after the executor is
// gone.
func TestLostBeforeTheWalk(t *testing.T) {
	r := newWatchRig(t)
	r.job(1, func(j *core.Job) { j.Def.LostAfter = time.Minute })
	r.sent(nil)
	again := func(want int) {
		t.Helper()
		r.Must(r.check(false))
		m := r.messages(ring.KindCheck)
		if len(m) != want || want == 1 && (len(m[0].Check.Runs) != 1 || m[0].Check.Runs[0] != id || m[0].Check.Idle) {
			t.Errorf("%s after the send %d looks are asked for: %+v", r.now.Sub(begin), len(m), m)
		}
	}
	r.now = begin.Add(65 * time.Second)
	r.registered(0)
	again(1)
	r.now, r.p.idleErr = begin.Add(2*time.Minute), errUnknown
	again(1)
	r.now, r.p.idleErr = begin.Add(10*time.Minute), nil
	r.registered(0)
	again(0)
	if got := r.Run(id); got.State != core.Running {
		t.Fatalf("%+v", got)
	}
	r.registered(91 * time.Second)
	r.now = begin.Add(4 * time.Minute)
	r.registered(91 * time.Second)
	again(0)
	if got := r.Run(id); got.State != core.Lost || got.Reason != core.ReasonGone {
		t.Errorf("its executor is gone: %+v", got)
	}
}

// TestBusyReadsTheNewestLaterRuns: the proof that a run is lost is looked for in the job's newest
// runs. If it is not among them, the run stays open.
func TestBusyReadsTheNewestLaterRuns(t *testing.T) {
	const most = budget.LaterRuns
	for newer, want := range map[int]core.State{most - 1: core.Lost, most: core.Running, 10 * most: core.Running} {
		r := newWatchRig(t)
		r.job(1, nil)
		r.sent(func(x *core.Run) { x.Until = begin.Add(time.Second) })
		for i := range newer + 1 {
			r.run(core.PlannedRun(1, core.InstantOf(begin)+core.Instant(120+i)), func(x *core.Run) {
				x.State, x.SentAt, x.EndedAt, x.Code = core.Succeeded, begin.Add(2*time.Minute), begin.Add(3*time.Minute), 200
				if i > 0 {
					x.Address = "http://10.0.0.2:9999/"
				}
			})
		}
		r.now = begin.Add(2 * time.Hour)
		r.registered(0)
		r.Must(r.MoveCursor(t.Context(), 0, key.Minute-1))
		r.pass()
		if got := r.Run(id); got.State != want {
			t.Errorf("%d runs are newer than the proof: %s, want %s", newer, got.State, want)
		}
	}
}
