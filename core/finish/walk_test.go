package finish_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// executors answer by the prefix of their address. A question takes at most 3 s, as in
// send.Sender, except at a hung address, which takes until the context ends.
type executors struct {
	mu        sync.Mutex
	asked     map[string]int
	now, most int           // questions in progress, and their maximum
	before    func()        // called before each question
	slow      time.Duration // delay of http://slow
	busy      map[core.JobID]bool
}

func (x *executors) ask(ctx context.Context, address string) error {
	x.mu.Lock()
	if x.asked == nil {
		x.asked = map[string]int{}
	}
	x.asked[address]++
	x.now++
	x.most = max(x.most, x.now)
	x.mu.Unlock()
	if x.before != nil {
		x.before()
	}
	defer func() {
		x.mu.Lock()
		x.now--
		x.mu.Unlock()
	}()
	takes, err := time.Millisecond, error(nil)
	switch {
	case strings.HasPrefix(address, "http://deaf"):
		takes, err = 3*time.Second, errors.New("no answer within 3 s")
	case strings.HasPrefix(address, "http://slow"):
		takes = x.slow
	case strings.HasPrefix(address, "http://hung"):
		takes = 100 * time.Hour
	}
	t := time.NewTimer(takes)
	defer t.Stop()
	select {
	case <-t.C:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *executors) Beat(ctx context.Context, _ *core.App, address string) error {
	return x.ask(ctx, address)
}

func (x *executors) Kill(context.Context, *core.App, string, core.JobID) error { return nil }

func (x *executors) Idle(ctx context.Context, _ *core.App, address string, job core.JobID) (bool, error) {
	return !x.busy[job] && !strings.HasPrefix(address, "http://slow"), x.ask(ctx, address)
}

func (x *executors) Limit(context.Context, string) (time.Duration, error) { return time.Minute, nil }

func (x *executors) questions(address string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.asked[address]
}

// walkRig is a Watchdog in a synctest bubble, woken as functions/tick wakes it.
type walkRig struct {
	*fixture.Store
	t      *testing.T
	rate   int // how many runs the watchdog reads a second; 0: all at once
	x      *executors
	w      *finish.Watchdog
	beats  []string // addresses that send heartbeats
	n      int
	claims map[core.RunID]time.Time
	closed map[core.RunID]time.Time
}

const walked = "orders" // the app

func newWalkRig(t *testing.T, o finish.WatchOptions) *walkRig {
	time.Sleep(time.Until(begin))
	r := &walkRig{t: t, Store: fixture.New(t, memory.Options{}), x: &executors{}, claims: map[core.RunID]time.Time{},
		closed: map[core.RunID]time.Time{}}
	slow := hook.Over(r.Store.Store, func(ctx context.Context, c *hook.Call, next func() []error) []error {
		if r.rate > 0 && c.Runs != nil {
			select {
			case <-time.After(time.Duration(len(c.Runs)) * time.Second / time.Duration(r.rate)):
			case <-ctx.Done():
				return []error{ctx.Err()}
			}
		}
		return next()
	})
	f := finish.New(slow, finish.Options{Plan: plan.AWS(), Log: slog.New(slog.DiscardHandler),
		Closed: func(run *core.Run) {
			r.x.mu.Lock()
			defer r.x.mu.Unlock()
			r.closed[run.ID] = time.Now()
		}})
	r.w = finish.NewWatchdog(f, r.x, o)
	r.App(walked)
	r.pass()
	return r
}

func (r *walkRig) job(id core.JobID) {
	r.t.Helper()
	j := core.Job{Def: core.Def{ID: id, App: walked, Name: "j" + id.String(), Handler: "h"}}
	j.Sched.Rev, j.Sched.RevAt = 1, begin
	r.Job(j)
}

// sent stores runs that were accepted at addresses now, in one journal.
func (r *walkRig) sent(runs map[core.JobID]string) (ids []core.RunID) {
	r.t.Helper()
	now := time.Now()
	r.n++
	key := core.JournalKey{Minute: now.Unix() / 60, Suffix: r.n % 16, Nonce: fmt.Sprintf("n%d", r.n)}
	j := core.Journal{Key: key, V: 1}
	var list []core.Run
	for job, address := range runs {
		at := core.InstantOf(now)
		id := core.PlannedRun(job, at)
		r.claims[id] = now
		list = append(list, core.Run{ID: id, App: walked, State: core.Running, Cause: core.CauseSchedule, Rev: 1, At: at, Slot: at,
			Owner: key.Nonce,
			Until: now.Add(30 * time.Second), Address: address, SentAt: now, Attempt: 1, First: id, Journal: key})
		j.Entries = append(j.Entries, core.Entry{Run: id, Address: address, Outcome: core.Accepted})
		ids = append(ids, id)
	}
	r.Create(list...)
	r.Must(r.PutJournal(r.t.Context(), j))
	return ids
}

// pass runs one invocation of functions/tick: 60 s, of which leases take 10 s.
func (r *walkRig) pass() {
	r.t.Helper()
	for _, address := range r.beats {
		r.Must(r.PutExecutor(r.t.Context(), core.Executor{App: walked, Address: address, Beat: time.Now(), Since: begin}))
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 50*time.Second)
	defer cancel()
	if _, err := r.w.Pass(ctx); err != nil {
		r.t.Fatalf("%s: %v", time.Since(begin), err)
	}
	if ctx.Err() != nil {
		r.t.Fatalf("%s: the pass took its 50 s", time.Since(begin))
	}
}

// checks delivers the due check messages to the watchdog, as functions/dispatch does.
func (r *walkRig) checks() {
	r.t.Helper()
	for got := r.Due(ring.KindCheck); got != nil; got = r.Due(ring.KindCheck) {
		r.Must(r.w.Check(r.t.Context(), got[0].Message.Check))
		r.Ack(got...)
	}
}

// behind returns the age of the oldest minute of claims that is not scanned.
func (r *walkRig) behind() time.Duration {
	r.t.Helper()
	at, err := r.Cursor(r.t.Context())
	r.Must(err)
	return time.Since(time.Unix((at+1)*60, 0))
}

// walkBound is the bound that claim protocol section 6 promises.
const walkBound = 14 * time.Minute

// TestSilence: executors that hang, are deaf or slow delay no other executor. Every minute
// of claims is scanned within the bound, and lost runs elsewhere are closed.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWalkRig(t, finish.WatchOptions{})
		r.rate, r.x.slow = 20_000, 2900*time.Millisecond
		const silent = 12
		r.beats = []string{"http://well"}
		for i := range silent {
			address := fmt.Sprintf("http://%s%d", []string{"deaf", "hung", "slow"}[i%3], i)
			r.beats = append(r.beats, address)
			r.job(core.JobID(1 + i))
		}
		r.job(100)
		r.job(101)
		var gone, forgotten []core.RunID
		for minute := 0; time.Since(begin) < 6*time.Hour; minute++ {
			woken := time.Now()
			bad := map[core.JobID]string{}
			for i := range silent { // one more long run at each silent executor, every five minutes
				if minute%5 == 0 {
					bad[core.JobID(1+i)] = r.beats[1+i]
				}
			}
			r.sent(bad)
			if minute%7 == 0 {
				gone = append(gone, r.sent(map[core.JobID]string{100: "http://gone"})...)
				forgotten = append(forgotten, r.sent(map[core.JobID]string{101: "http://well"})...)
			}
			r.pass()
			if d := r.behind(); d > walkBound {
				t.Fatalf("after %s the scan is %s behind", time.Since(begin), d)
			}
			for s := 0; s < 2; s++ { // checks run on the second
				time.Sleep(time.Until(woken.Add(time.Duration(25*(s+1)) * time.Second)))
				r.checks()
			}
			next := time.Minute // two passes can begin 119 s apart
			switch minute % 5 {
			case 3:
				next = 119 * time.Second
			case 4:
				next = 61 * time.Second
			}
			time.Sleep(time.Until(woken.Add(next)))
		}
		within := func(what string, ids []core.RunID, bound time.Duration) {
			n := 0
			for _, id := range ids {
				if time.Since(r.claims[id]) < bound {
					continue
				}
				n++
				if at, ok := r.closed[id]; !ok || at.Sub(r.claims[id]) > bound {
					t.Fatalf("%s: run sent at %s is %s after %s", what, r.claims[id], r.Run(id).State, at.Sub(r.claims[id]))
				}
			}
			t.Logf("%s: %d runs closed in time", what, n)
		}
		within("gone", gone, walkBound)
		within("forgotten", forgotten, walkBound+3*time.Minute) // the second check comes a minute later, after a delivery
		for i := range silent {
			if at := r.Run(core.PlannedRun(core.JobID(1+i), core.InstantOf(begin))); !at.State.Open() {
				t.Errorf("at %s: a long run without any known status is %s: %s", r.beats[1+i], at.State, at.Reason)
			}
		}
	})
}

// TestOneSilenceIsEnough: a silent address gets one question in a pass, for all its runs. Other
// addresses are asked in parallel, up to the limit.
func TestOneSilenceIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWalkRig(t, finish.WatchOptions{Asked: 7})
		runs := map[core.JobID]string{}
		for i := range 70 {
			r.job(core.JobID(1 + i))
			address := fmt.Sprintf("http://deaf%d", i%14)
			runs[core.JobID(1+i)] = address
			r.beats = append(r.beats, address)
		}
		r.sent(runs)
		time.Sleep(11*time.Minute + time.Second)
		began := time.Now()
		r.pass()
		if took := time.Since(began); took != 6*time.Second || r.x.most != 7 {
			t.Errorf("14 addresses, 7 at a time: it took %s, %d were asked at a time", took, r.x.most)
		}
		for _, address := range r.beats {
			if n := r.x.questions(address); n != 1 {
				t.Errorf("%s was asked %d questions", address, n)
			}
		}
	})
}

// TestStoredBeforeItAsks: a watchdog that dies while it asks has stored its earlier results.
func TestStoredBeforeItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWalkRig(t, finish.WatchOptions{})
		r.job(1)
		r.beats = []string{"http://well"}
		minute := time.Now().Unix() / 60
		id := r.sent(map[core.JobID]string{1: "http://well"})[0]
		time.Sleep(11*time.Minute + time.Second)
		ctx, die := context.WithCancel(t.Context())
		r.x.before = func() {
			at, err := r.Cursor(t.Context())
			r.Must(err)
			keys, err := r.Revisits(t.Context(), minute+10, core.JournalKey{}, 10)
			r.Must(err)
			if at != minute || len(keys) != 1 {
				t.Errorf("it asks: the cursor is at %d, want %d; %v are to be read again", at, minute, keys)
			}
			die()
		}
		r.Must(r.PutExecutor(t.Context(), core.Executor{App: walked, Address: "http://well", Beat: time.Now(), Since: begin}))
		_, _ = r.w.Pass(ctx)
		if n := r.x.questions("http://well"); n != 1 {
			t.Fatalf("%d questions", n)
		}
		r.x.before = nil
		for range 14 {
			time.Sleep(time.Minute)
			r.pass()
			r.checks()
		}
		if got := r.Run(id); got.State != core.Lost {
			t.Errorf("it is %s", got.State)
		}
	})
}

// TestOurOwnTimeIsNoAnswer: a fixed executor that does not answer loses its runs, unless our own
// time was over.
func TestOurOwnTimeIsNoAnswer(t *testing.T) {
	for address, want := range map[string]core.State{"http://deaf": core.Lost, "http://hung": core.Running} {
		synctest.Test(t, func(t *testing.T) {
			r := newWalkRig(t, finish.WatchOptions{})
			r.SaveApp(core.App{Name: walked, Rev: 2, Executors: []string{address}})
			r.job(1)
			id := r.sent(map[core.JobID]string{1: address})[0]
			for range 60 {
				time.Sleep(time.Minute)
				r.pass()
			}
			if got := r.Run(id); got.State != want {
				t.Errorf("%s: it is %s, want %s", address, got.State, want)
			}
			if n := r.x.questions(address); want.Open() && n < 4 {
				t.Errorf("%s: asked %d times in an hour", address, n)
			}
		})
	}
}

// TestAllHaveTheirTurn: with more silent addresses than a pass can ask, each address is asked
// within a few passes, also the one that answers.
func TestAllHaveTheirTurn(t *testing.T) {
	check.Long(t)
	synctest.Test(t, func(t *testing.T) {
		r := newWalkRig(t, finish.WatchOptions{Asked: 5, ActFor: 10 * time.Second}) // 15 to 20 questions in a pass
		r.job(1)
		const silent = 50
		for i := range silent {
			r.job(core.JobID(2 + i))
			r.beats = append(r.beats, fmt.Sprintf("http://deaf%d", i))
		}
		r.beats = append(r.beats, "http://well")
		var lost []core.RunID
		for minute := range 3 * 60 {
			woken := time.Now()
			runs := map[core.JobID]string{}
			for i := range silent {
				runs[core.JobID(2+i)] = r.beats[i]
			}
			r.sent(runs)
			if minute%10 == 0 {
				lost = append(lost, r.sent(map[core.JobID]string{1: "http://well"})...)
			}
			r.pass()
			time.Sleep(time.Until(woken.Add(time.Minute)))
			r.checks()
		}
		for _, id := range lost {
			const bound = walkBound + 3*time.Minute + 2*20*time.Minute // three times the addresses of a pass
			if at, ok := r.closed[id]; time.Since(r.claims[id]) > bound && (!ok || at.Sub(r.claims[id]) > bound) {
				t.Errorf("sent at %s it is %s after %s", r.claims[id].Sub(begin), r.Run(id).State, at.Sub(r.claims[id]))
			}
		}
		asked := make([]int, silent)
		for i := range asked {
			asked[i] = r.x.questions(r.beats[i])
		}
		slices.Sort(asked)
		if asked[0] < asked[silent-1]/4 {
			t.Errorf("one was asked %d times, another %d", asked[0], asked[silent-1])
		}
	})
}

// TestMoreThanCanBeRead: a minute of claims with more runs than a pass can read delays no other
// minute, and all its runs are decided finally.
func TestMoreThanCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWalkRig(t, finish.WatchOptions{PageJournals: 5})
		r.rate = 20
		var all []core.RunID
		for i := range 1000 { // 50 s of reading
			r.job(core.JobID(1 + i))
		}
		for i := range 100 {
			runs := map[core.JobID]string{}
			for k := range 10 {
				runs[core.JobID(1+10*i+k)] = "http://gone"
			}
			all = append(all, r.sent(runs)...)
		}
		r.job(5000)
		time.Sleep(time.Minute)
		after := r.sent(map[core.JobID]string{5000: "http://gone"})[0]
		for range 70 {
			woken := time.Now()
			r.pass()
			if d := r.behind(); d > walkBound {
				t.Fatalf("after %s the scan is %s behind", time.Since(begin), d)
			}
			time.Sleep(time.Until(woken.Add(time.Minute)))
		}
		if at := r.closed[after].Sub(r.claims[after]); r.closed[after].IsZero() || at > walkBound {
			t.Errorf("the run of the minute after it was closed after %s", at)
		}
		for _, id := range all {
			if got := r.Run(id); got.State != core.Lost {
				t.Fatalf("%d of %d are closed", len(r.closed), len(all)+1)
			}
		}
	})
}

// TestWatchdogPassesOverRunsThatJournalsOnlyList: no run of such an entry is read, and its
// journal gets no revisit.
func TestWatchdogPassesOverRunsThatJournalsOnlyList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newWalkRig(t, finish.WatchOptions{})
		r.rate = 1
		j := core.Journal{Key: core.JournalKey{Minute: time.Now().Unix() / 60, Nonce: "n"}, V: 1}
		for i, o := range []core.Outcome{core.Done, core.Recorded} {
			r.job(core.JobID(1 + i))
			j.Entries = append(j.Entries, core.Entry{Run: core.PlannedRun(core.JobID(1+i), core.InstantOf(begin)), Outcome: o})
		}
		r.Must(r.PutJournal(t.Context(), j))
		time.Sleep(12 * time.Minute)
		began := time.Now()
		looked, err := r.w.Pass(t.Context())
		r.Must(err)
		if took := time.Since(began); looked != 0 || took != 0 || r.behind() > walkBound {
			t.Errorf("it checked %d runs and read for %s, and is %s behind", looked, took, r.behind())
		}
		for minute := j.Key.Minute; minute < j.Key.Minute+60; minute++ {
			again, err := r.Revisits(t.Context(), minute, core.JournalKey{}, 10)
			r.Must(err)
			if len(again) > 0 {
				t.Errorf("%v are checked again", again)
			}
		}
	})
}

// minutely stores one run of a job, with its journal, in each of the minutes from begin on;
// change may edit each run.
func (r *watchRig) minutely(job core.JobID, minutes int, change func(minute int, x *core.Run)) (ids []core.RunID) {
	r.t.Helper()
	for m := range minutes {
		at := begin.Add(time.Duration(m) * time.Minute)
		k := core.JournalKey{Minute: at.Unix() / 60, Suffix: 3, Nonce: fmt.Sprint("nonce-", job, "-", m)}
		id := core.PlannedRun(job, core.InstantOf(at))
		r.run(id, func(x *core.Run) {
			x.SentAt, x.Journal, x.Retries = at, k, 0
			change(m, x)
		})
		r.Must(r.PutJournal(r.t.Context(),
			core.Journal{Key: k, V: 1, Entries: []core.Entry{{Run: id, Address: address, Outcome: core.Accepted}}}))
		ids = append(ids, id)
	}
	return ids
}

// walked runs one pass of the watchdog each minute from begin on.
func (r *watchRig) walked(minutes int) {
	r.t.Helper()
	r.Must(r.MoveCursor(r.t.Context(), 0, begin.Unix()/60-1))
	for m := range minutes {
		r.now = begin.Add(11*time.Minute + time.Duration(m)*time.Minute)
		r.pass()
	}
}

func succeeded(_ int, x *core.Run) {
	x.State, x.Owner, x.EndedAt, x.Code = core.Succeeded, "", x.SentAt.Add(time.Second), 200
}

// TestWindowsAreReadTogether: for a job that fires each minute, the scan reads the runs of a
// window together; the default window is 8 minutes.
func TestWindowsAreReadTogether(t *testing.T) {
	const minutes = 25
	for window, whole := range map[time.Duration]int{0: 3, 8 * time.Minute: 3, 4 * time.Minute: 6, time.Minute: 24} {
		t.Run(fmt.Sprint(window), func(t *testing.T) {
			r := newWatchRig(t)
			r.w = finish.NewWatchdog(r.f, r.p, finish.WatchOptions{Window: window})
			r.job(1, nil)
			r.minutely(1, minutes, succeeded)
			r.walked(minutes)
			// The first run is read alone, then the rest of its window, then whole windows.
			if runs, spans := r.calls["runs"], r.calls["span"]; runs != 1 || spans < whole || spans > whole+1 {
				t.Errorf("%d reads of runs and %d of windows", runs, spans)
			}
		})
	}
}

// TestAnOlderWindowEndsNothing: a window may be read as it was before its runs ended. Each run is read again before it is judged.
func TestAnOlderWindowEndsNothing(t *testing.T) {
	const minutes = 20
	r := newWatchRig(t)
	r.job(1, nil)
	r.fixed(address)
	ids := r.minutely(1, minutes, succeeded)
	r.older = func(x *core.Run) { x.State, x.EndedAt, x.Owner, x.Code = core.Running, time.Time{}, "nonce", 0 }
	r.walked(minutes)
	for _, id := range ids {
		if got := r.Run(id); got.State != core.Succeeded {
			t.Errorf("%s is %s", id, got.State)
		}
	}
	if n := r.p.beats + r.p.idles; n > 0 {
		t.Errorf("an executor was asked %d times for runs that have ended", n)
	}
}

// TestWindowThatCannotBeRead: its runs are read one by one.
func TestWindowThatCannotBeRead(t *testing.T) {
	const minutes = 3
	r := newWatchRig(t)
	r.job(1, nil)
	ids := r.minutely(1, minutes, func(m int, x *core.Run) {
		if succeeded(m, x); m == 2 {
			x.State, x.EndedAt, x.Owner = core.Running, time.Time{}, "nonce"
		}
	})
	r.faults.faults["span"] = []fault{{err: core.ErrThrottled}, {err: core.ErrThrottled}, {err: core.ErrThrottled}}
	r.walked(minutes)
	if got := r.Run(ids[2]); got.State != core.Lost {
		t.Errorf("the open run is %s", got.State)
	}
}
