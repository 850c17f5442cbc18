package postrun_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/poller"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
)

// executors answers with logs, by address.
type executors struct {
	mu    sync.Mutex
	asked map[string]int // by address
	most  map[string]int // the highest concurrency
	at    map[string]int
	log   func(ctx context.Context, address string, run *core.Run) (string, error)
}

func (x *executors) Log(ctx context.Context, _ *core.App, run *core.Run, from int) (string, int, bool, error) {
	x.mu.Lock()
	x.asked[run.Address]++
	x.at[run.Address]++
	x.most[run.Address] = max(x.most[run.Address], x.at[run.Address])
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.at[run.Address]--
		x.mu.Unlock()
	}()
	if from > 1 {
		return "", from, false, nil
	}
	text, err := x.log(ctx, run.Address, run)
	return text, 2, false, err
}

// rig runs a lane on SQLite in memory, as a server does.
type rig struct {
	t     *testing.T
	s     *fixture.Store
	with  *store.Store // the one of the lane
	x     *executors
	lasts time.Duration // longest work of a message
	heard heard
	mu    sync.Mutex
	made  map[core.RunID]postrun.Outcome
	when  map[core.RunID]time.Time
}

const good, hung, gone = "http://10.0.0.1:9999", "http://10.0.0.2:9999", "http://10.0.0.3:9999"

func newRig(t *testing.T) *rig {
	s := fixture.New(t, memory.Options{})
	r := &rig{t: t, s: s, with: s.Store, lasts: 3 * time.Second,
		heard: heard{when: map[core.RunID]time.Time{}, fail: func(ring.Note) error { return nil }},
		made:  map[core.RunID]postrun.Outcome{}, when: map[core.RunID]time.Time{}}
	r.x = &executors{asked: map[string]int{}, most: map[string]int{}, at: map[string]int{},
		log: func(ctx context.Context, address string, run *core.Run) (string, error) {
			switch address {
			case hung:
				<-ctx.Done()
				return "", core.Errorf(core.CodeUnavailable, "no answer within its time")
			case gone:
				return "", core.Errorf(core.CodeUnavailable, "connection refused")
			}
			return fmt.Sprintf("the log of run %d\n", run.ID), nil
		}}
	for _, app := range []string{"a", "b"} {
		s.App(app)
	}
	return r
}

func (r *rig) drive() {
	log := slog.New(slog.DiscardHandler)
	lane := postrun.New(r.with, r.x, postrun.Options{Log: log, Timeout: r.lasts, Notices: &r.heard,
		Made: func(run *core.Run, o postrun.Outcome) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.made[run.ID], r.when[run.ID] = o, time.Now()
		}})
	in := &poller.Poller{Queue: r.s.Queue, Kind: ring.KindPostRun, Messages: 50, Places: 32, Log: log,
		Handle: func(ctx context.Context, got []store.Delivery, _ func()) []dispatch.Verdict {
			v := make([]dispatch.Verdict, len(got))
			for i, err := range lane.Handle(ctx, poller.Messages(got)) {
				v[i] = dispatch.Verdict{Ack: err == nil, Err: err, RetryAt: time.Now().Add(10 * time.Second)}
			}
			return v
		}}
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { in.Run(ctx, ctx); close(done) }()
	r.t.Cleanup(func() { cancel(); <-done })
}

func (r *rig) run(n uint32, app, address string, change func(*core.Run)) core.Run {
	r.t.Helper()
	run := core.Run{ID: core.NumberedRun(1, n), App: app, State: core.Failed, Cause: core.CauseAPI, Reason: core.ReasonHandler,
		Address: address, SentAt: time.Now(), EndedAt: time.Now(), Attempt: 1, First: core.NumberedRun(1, n), PostRun: core.PostRun{Log: true}}
	if change != nil {
		change(&run)
	}
	r.s.Create(run)
	r.asked(run.ID)
	return run
}

// asked enqueues a message that asks for the pending work of a run.
func (r *rig) asked(id core.RunID) {
	r.t.Helper()
	r.s.Enqueue(time.Now(), ring.Message{Kind: ring.KindPostRun, Slot: core.InstantOf(time.Now()), PostRun: &ring.PostRun{Run: id}})
}

func (r *rig) kept(id core.RunID) (core.KeptLog, string) {
	r.t.Helper()
	k, is, err := r.s.KeptLog(r.t.Context(), id)
	if err != nil || !is {
		r.t.Fatalf("run %d: kept %t, %v", id, is, err)
	}
	text, err := postrun.Text(&k)
	check.OK(r.t, err)
	return k, text
}

// nothing checks that no message is queued.
func (r *rig) nothing() {
	r.t.Helper()
	check.Equal(r.t, r.s.Messages(ring.KindPostRun), 0, "messages on the lane")
}

// TestKept checks that the end of a log is kept and the run owes nothing. Copies of a message, and messages
// of missing or finished runs, have no effect.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.drive()
		run := r.run(1, "a", good, nil)
		none := r.run(2, "a", good, func(run *core.Run) { run.PostRun = core.PostRun{} })
		always := r.run(3, "nobody's", good, func(run *core.Run) {
			run.State, run.Reason, run.PostRun, run.KeepLog = core.Succeeded, "", core.PostRun{}, core.KeepLogAlways
		})
		again := r.run(4, "a", good, func(run *core.Run) { run.KeepLog, run.Then = core.KeepLogAlways, core.NumberedRun(1, 5) })
		r.asked(99 << 32)
		time.Sleep(time.Second)
		r.nothing()
		for _, id := range []core.RunID{run.ID, always.ID, again.ID} {
			if k, text := r.kept(id); text != fmt.Sprintf("the log of run %d\n", id) || !k.Whole() || k.From != 1 {
				t.Errorf("kept %q, %+v", text, k)
			}
			if now := r.s.Run(id); now.Owing() {
				t.Errorf("run %d owes %+v", id, now.OwesPostRun())
			}
		}
		check.Equal(t, r.s.Run(again.ID).KeepLog, core.KeepLogAlways, "the log of the retry was removed with the log of an attempt")
		if _, is, _ := r.s.KeptLog(t.Context(), none.ID); is {
			t.Error("a log that no run owed is kept")
		}
		asked := r.x.asked[good]
		r.asked(run.ID)
		time.Sleep(time.Second)
		r.nothing()
		if r.x.asked[good] != asked || len(r.made) != 3 {
			t.Errorf("a copy asked once more; made %v", r.made)
		}
		tail, err := postrun.KeptLines(t.Context(), r.s.Store, run.ID, 3)
		if err != nil || !slices.Equal(tail, []string{fmt.Sprintf("the log of run %d", run.ID)}) {
			t.Errorf("its last lines: %q, %v", tail, err)
		}
	})
}

// TestHung checks that many hanging executors of one app do not delay other apps. Each of their logs is
// tried a limited number of times, and then the reason is kept.
func TestHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		for n := range uint32(500) {
			r.run(1+n, "a", hung, nil)
		}
		for n := range uint32(200) { // many hanging executors of one app
			r.run(1000+n, "a", fmt.Sprintf("http://10.1.0.%d:9999", n), nil)
		}
		var ofApp, mostOfApp atomic.Int64
		log := r.x.log
		r.x.log = func(ctx context.Context, address string, run *core.Run) (string, error) {
			if strings.HasPrefix(address, "http://10.1.") {
				address = hung
			}
			if run.App == "a" {
				n := ofApp.Add(1)
				defer ofApp.Add(-1)
				for was := mostOfApp.Load(); n > was && !mostOfApp.CompareAndSwap(was, n); was = mostOfApp.Load() {
				}
			}
			return log(ctx, address, run)
		}
		last := r.run(5000, "b", good, nil)
		begun := time.Now()
		r.drive()
		time.Sleep(time.Minute)
		r.mu.Lock()
		when, is := r.when[last.ID]
		r.mu.Unlock()
		if !is || when.Sub(begun) > 10*time.Second {
			t.Errorf("a log of another app is kept after %s behind 700 of executors that hang: %t", when.Sub(begun), is)
		}
		r.x.mu.Lock()
		n := r.x.most[hung]
		r.x.mu.Unlock()
		if n > 4 {
			t.Errorf("%d asked at a time at one address", n)
		}
		if n := mostOfApp.Load(); n > 8 {
			t.Errorf("%d asked at a time of one app", n)
		}
		time.Sleep(2*time.Hour + 15*time.Minute)
		r.nothing()
		check.Equal(t, len(r.made), 701, "are done with")
		for _, id := range []core.RunID{core.NumberedRun(1, 1), core.NumberedRun(1, 500), core.NumberedRun(1, 1000)} {
			if k, text := r.kept(id); text != "" || !strings.Contains(k.Why, "no answer") && !strings.Contains(k.Why, "all the time") ||
				r.made[id] != postrun.Failed {
				t.Errorf("kept %q, why %q, sent %q", text, k.Why, r.made[id])
			}
			if now := r.s.Run(id); now.Owing() {
				t.Errorf("run %d owes %+v", id, now.OwesPostRun())
			}
		}
		if n := r.x.asked[hung]; n > 500 {
			t.Errorf("an address that never answers is asked %d times for 500 logs", n)
		}
	})
}

// TestGone checks that a log is kept if its executor returns, or its app can be read again, and is recorded as missing if not. The
// notification of a run with and without a log waits a day for the app, with the same few messages.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		returns := r.run(1, "a", gone, nil)
		time.Sleep(3 * time.Hour) // the lane is down
		owes := func(run *core.Run) { run.PostRun.Notice = true }
		locked, closed := r.run(3, "b", good, nil), r.run(4, "c", good, owes)
		noted := r.run(5, "c", good, func(run *core.Run) { run.PostRun = core.PostRun{Notice: true} })
		r.heard.fail = func(n ring.Note) error {
			if time.Since(n.When) < budget.NoticeFor {
				return core.UnreadableApp("c", errors.New("damaged"))
			}
			return nil
		}
		r.s.App("c")
		open := time.Now().Add(5 * time.Hour)
		r.with = hook.Over(r.s.Store, func(_ context.Context, c *hook.Call, next func() []error) []error {
			errs := next()
			for key, rec := range c.GotRecords {
				if key.Kind == store.KindApp && (key.Name == "c" || key.Name == "b" && time.Now().Before(open)) {
					rec.Body = []byte("{")
					c.GotRecords[key] = rec
				}
			}
			return errs
		})
		back := time.Now().Add(5 * time.Minute)
		log := r.x.log
		r.x.log = func(ctx context.Context, address string, run *core.Run) (string, error) {
			if run.ID == core.NumberedRun(1, 1) && time.Now().After(back) {
				address = good
			}
			return log(ctx, address, run)
		}
		r.drive()
		time.Sleep(10 * time.Minute)
		stays := r.run(2, "a", gone, nil)
		time.Sleep(48 * time.Hour)
		r.nothing()
		if k, text := r.kept(locked.ID); text == "" || r.when[locked.ID].Before(open) || r.when[locked.ID].After(open.Add(15*time.Minute)) {
			t.Errorf("kept %q, why %q, %s after its app could be read", text, k.Why, r.when[locked.ID].Sub(open))
		}
		for _, id := range []core.RunID{closed.ID, noted.ID} {
			after, now := r.heard.when[id].Sub(noted.EndedAt), r.s.Run(id)
			if after < budget.NoticeFor || after > budget.NoticeFor+15*time.Minute || now.Owing() {
				t.Errorf("the notice of run %d is made after %s, owes %+v", id, after, now.OwesPostRun())
			}
		}
		if n := r.heard.told; n > 2*320 {
			t.Errorf("two notices were asked for %d times", n)
		}
		k, text := r.kept(closed.ID)
		after, now := r.when[closed.ID].Sub(closed.EndedAt), r.s.Run(closed.ID)
		if text != "" || !strings.Contains(k.Why, "app c cannot be read") || now.Owing() || after < 18*time.Hour || after > 30*time.Hour {
			t.Errorf("kept %q, why %q after %s, owes %+v", text, k.Why, after, now.OwesPostRun())
		}
		if k, text := r.kept(returns.ID); text == "" || r.made[returns.ID] != postrun.Kept {
			t.Errorf("kept %q, why %q, sent %s", text, k.Why, r.made[returns.ID])
		}
		if k, text := r.kept(stays.ID); text != "" || !strings.Contains(k.Why, "connection refused") || r.made[stays.ID] != postrun.Failed {
			t.Errorf("kept %q, why %q, sent %s", text, k.Why, r.made[stays.ID])
		}
		if n := r.x.asked[gone]; n > 20 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestKeptBesideNotice checks that a run owes nothing after another copy of its message clears its notification at the same
// time and then waits for the log.
func TestKeptBesideNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := core.NumberedRun(1, 1)
		var once sync.Once
		r.with = hook.Over(r.s.Store, func(_ context.Context, c *hook.Call, next func() []error) []error {
			if c.PutRun != nil {
				once.Do(func() {
					run := r.s.Run(id)
					check.NoError(t, r.s.Change(run.ClearPostRun(core.PostRun{Log: true})))
					r.asked(id)
				})
			}
			return next()
		})
		r.drive()
		r.run(1, "a", good, func(run *core.Run) { run.PostRun.Notice = true })
		time.Sleep(time.Minute)
		r.nothing()
		r.kept(id)
		if run := r.s.Run(id); run.Owing() {
			t.Fatalf("the run owes %+v yet", run.OwesPostRun())
		}
	})
}

// heard records when the notification of a run was first requested, and counts.
type heard struct {
	mu   sync.Mutex
	when map[core.RunID]time.Time
	told int // requests of notifications
	hops int // enqueued messages
	fail func(ring.Note) error
}

func (h *heard) Handle(_ context.Context, list []ring.PostRun) []error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told += len(list)
	errs := make([]error, len(list))
	for i := range list {
		note := list[i].Notes[0]
		if errs[i] = h.fail(note); errs[i] == nil && h.when[note.Run].IsZero() {
			h.when[note.Run] = time.Now()
		}
	}
	return errs
}

// TestNoticeBeforeLog checks that notifications wait at most half a minute for logs without a place. Messages
// are not requeued too often, and each log is kept.
func TestNoticeBeforeLog(t *testing.T) {
	for _, c := range []struct {
		apps int // 1: limited by the places of an app; 10: by all places
		down time.Duration
	}{{1, 0}, {10, 0}, {1, 3 * time.Hour}} {
		fixture.Bubble(t, fmt.Sprintf("%d apps after %s", c.apps, c.down), func(t *testing.T) {
			const n = 500
			r := newRig(t)
			h := &r.heard
			r.with = hook.Over(r.s.Store, func(_ context.Context, c *hook.Call, next func() []error) []error {
				h.mu.Lock()
				h.hops += len(c.Out)
				h.mu.Unlock()
				return next()
			})
			r.lasts = 20 * time.Second
			r.x.log = func(context.Context, string, *core.Run) (string, error) {
				time.Sleep(5 * time.Second)
				return "boom\n", nil
			}
			for i := range n {
				r.run(uint32(1+i), fmt.Sprint("app-", i%c.apps), fmt.Sprintf("http://10.0.0.%d:9999", i%20), func(run *core.Run) {
					run.PostRun.Notice = true
				})
			}
			time.Sleep(c.down)
			began := time.Now()
			r.drive()
			time.Sleep(time.Minute)
			h.mu.Lock()
			got, latest := len(h.when), time.Duration(0)
			for _, at := range h.when {
				latest = max(latest, at.Sub(began))
			}
			h.mu.Unlock()
			if got != n || latest > 45*time.Second {
				t.Errorf("%d of %d notices asked for within a minute, the last after %s", got, n, latest)
			}
			time.Sleep(90 * time.Minute)
			h.mu.Lock()
			defer h.mu.Unlock()
			maps.DeleteFunc(r.made, func(_ core.RunID, o postrun.Outcome) bool { return o != postrun.Kept })
			if kept := len(r.made); kept != n || h.hops > 60*n {
				t.Errorf("%d of %d logs kept, with %d messages", kept, n, h.hops)
			}
			if h.told != n {
				t.Errorf("%d notices were asked for %d times", n, h.told)
			}
		})
	}
}
