package dispatch_test

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
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// spreading is a dispatcher over a store with a broadcast job, whose executors accept all.
type spreading struct {
	t    *testing.T
	s    *failing
	d    *dispatch.Dispatcher
	f    *finish.Finish
	w    *finish.Watchdog
	at   core.Instant
	mu   sync.Mutex
	sent []string // address index/total
	down string   // the address that refuses connections
	runs []core.RunID
}

// failing rejects writes and messages as the test sets it.
type failing struct {
	*memory.Store
	mu   sync.Mutex
	puts func(p *core.RunPut) error
	out  error
}

func (s *failing) PutRuns(ctx context.Context, puts []core.RunPut) []error {
	errs := make([]error, len(puts))
	for i := range puts {
		s.mu.Lock()
		f := s.puts
		s.mu.Unlock()
		if f != nil {
			errs[i] = f(&puts[i])
		}
		if errs[i] == nil {
			errs[i] = s.Store.PutRuns(ctx, puts[i:i+1])[0]
		}
	}
	return errs
}

func (s *failing) Enqueue(ctx context.Context, out []ring.Out) []error {
	if s.out != nil {
		errs := make([]error, len(out))
		for i := range errs {
			errs[i] = s.out
		}
		return errs
	}
	return s.Store.Enqueue(ctx, out)
}

func (b *spreading) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = append(b.sent, fmt.Sprintf("%s %d/%d", s.Address[len(s.Address)-1:], s.Run.Shard.Index, s.Run.Shard.Total))
	if b.down == s.Address[len(s.Address)-1:] {
		return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: "connection refused"}
	}
	b.runs = append(b.runs, s.Run.ID)
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

func (*spreading) Beat(context.Context, *core.App, string) error             { return nil }
func (*spreading) Limit(context.Context, string) (time.Duration, error)      { return time.Minute, nil }
func (*spreading) Kill(context.Context, *core.App, string, core.JobID) error { return nil }
func (*spreading) Idle(context.Context, *core.App, string, core.JobID) (bool, error) {
	return false, nil
}

func newSpreading(t *testing.T, executors int, def func(d *core.Def)) *spreading {
	b := &spreading{t: t, s: &failing{Store: memory.New(t, memory.Options{})}, at: core.InstantOf(time.Now())}
	log := slog.New(slog.DiscardHandler)
	b.f = finish.New(b.s, b.s, finish.Options{Plan: plan.AWS(), Log: log})
	b.d = dispatch.New(b.s, b.s, b, b.f, dispatch.Options{Log: log, SendsMin: 1, SendsMax: 1})
	b.w = finish.NewWatchdog(b.f, b.s, b, finish.WatchOptions{})
	b.app(executors)
	j := core.Job{Def: core.Def{ID: 1, App: "a", Name: "j", Handler: "h", Route: core.RouteBroadcast}}
	if def != nil {
		def(&j.Def)
	}
	j.Normalize()
	j.Sched.Rev, j.Sched.RevAt = 1, time.Now().Add(-time.Hour)
	must(t, b.s.CreateJobs(t.Context(), []core.Job{j}, []core.Change{{ID: 1, App: "a", Job: 1}})[0])
	time.Sleep(30 * time.Second)
	return b
}

// app sets the number of executors, whose addresses end in a, b, and so on.
func (b *spreading) app(executors int) {
	apps, _, err := b.s.Apps(b.t.Context(), []string{"a"})
	must(b.t, err)
	app := core.App{Name: "a", Rev: apps["a"].Rev + 1}
	for i := range executors {
		app.Executors = append(app.Executors, fmt.Sprintf("http://10.0.0.1:1/%c", 'a'+i))
	}
	must(b.t, b.s.PutApp(b.t.Context(), apps["a"].Rev, app, core.Change{ID: app.Rev, App: "a"}))
}

// fire returns a message with one fire.
func (b *spreading) fire() (core.RunID, ring.Message) {
	b.at++
	id := core.PlannedRun(1, b.at)
	return id, ring.Message{Kind: ring.KindFires, Slot: b.at, Fires: []core.Fire{{
		Run: id, Rev: 1, At: b.at, Slot: b.at, Cause: core.CauseSchedule}}}
}

func (b *spreading) handle(m ring.Message) bool {
	return b.d.Handle(b.t.Context(), []ring.Message{m})[0].Ack
}

// comes handles messages until none is left.
func (b *spreading) comes() {
	b.t.Helper()
	for range 50 {
		due, waiting, _, err := b.s.Depth(b.t.Context(), ring.KindFires)
		must(b.t, err)
		if due+waiting == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		got, err := b.s.Receive(ctx, ring.KindFires, 10)
		cancel()
		must(b.t, err)
		for _, g := range got {
			if b.handle(g.Message) {
				for _, err := range b.s.Ack(b.t.Context(), got) {
					must(b.t, err)
				}
			}
		}
	}
}

func (b *spreading) run(id core.RunID) core.Run {
	runs, _, err := b.s.Runs(b.t.Context(), []core.RunID{id})
	must(b.t, err)
	return runs[id]
}

// start dispatches the job and returns the runs of its shards in the order of their sends.
func (b *spreading) start() (core.RunID, []core.RunID) {
	b.t.Helper()
	id, m := b.fire()
	if !b.handle(m) {
		b.t.Fatal("not acked")
	}
	if r := b.run(id); r.IsBroadcast() {
		b.comes()
		slices.Sort(b.runs)
		slices.Sort(b.sent)
	}
	return id, b.runs
}

func (b *spreading) end(id core.RunID, state core.State) error {
	r := finish.Result{Run: id, State: state, Reported: true}
	if state == core.Failed {
		r.Reason = core.ReasonHandler
	}
	return b.f.End(b.t.Context(), []finish.Result{r})[0]
}

// is checks the state, the reason and the result of a broadcast, such as "2 of 3, 1 failed".
func (b *spreading) is(id core.RunID, want string) {
	b.t.Helper()
	r := b.run(id)
	message := strings.Replace(r.Message, " shards succeeded", "", 1)
	if got := strings.TrimSpace(fmt.Sprint(r.State, " ", r.Reason, " ", message)); got != want {
		b.t.Errorf("run %d: %s, want %s", id, got, want)
	}
}

// TestBroadcast: each executor has one shard, and the broadcast ends once with the last.
func TestBroadcast(t *testing.T) {
	texts := golden.New(t)
	in := func(name string, test func(t *testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	fails := func(f core.BroadcastFail) func(d *core.Def) { return func(d *core.Def) { d.BroadcastFail = f } }
	in("an executor refuses the connection", func(t *testing.T) {
		b := newSpreading(t, 3, nil)
		b.down = "b"
		id, runs := b.start()
		if got := fmt.Sprint(b.sent); got != "[a 0/3 b 1/3 c 1/3 c 2/3]" {
			t.Error(got)
		}
		if r := b.run(runs[1]); len(r.Tries) != 1 || r.Tries[0].Message != "connection refused" || r.State != core.Running {
			t.Errorf("%+v", r)
		}
		for _, shard := range runs {
			must(t, b.end(shard, core.Succeeded))
		}
		b.is(id, "succeeded  3 of 3")
	})
	for _, block := range []core.Block{core.BlockDiscardLater, core.BlockCoverEarly} {
		in("a refused shard and "+string(block), func(t *testing.T) {
			b := newSpreading(t, 3, func(d *core.Def) { d.Block = block })
			b.down = "b"
			id, runs := b.start()
			if got := fmt.Sprint(b.sent); got != "[a 0/3 b 1/3 c 2/3]" {
				t.Error(got)
			}
			for _, shard := range runs {
				must(t, b.end(shard, core.Succeeded))
			}
			b.is(id, "failed shards 2 of 3, 1 failed")
		})
	}
	in("each executor once", func(t *testing.T) {
		b := newSpreading(t, 3, nil)
		id, runs := b.start()
		if got := fmt.Sprint(b.sent); got != "[a 0/3 b 1/3 c 2/3]" {
			t.Error(got)
		}
		if r := b.run(id); r.State != core.Running || r.Address != "" || r.Shard.First != runs[0] {
			t.Errorf("%+v", r)
		}
		for _, shard := range runs {
			b.is(id, "running")
			must(t, b.end(shard, core.Succeeded))
		}
		b.is(id, "succeeded  3 of 3")
		if r := b.run(runs[1]); r.Shard != (core.Shard{Of: id, Index: 1, Total: 3}) || r.Retries != 0 || r.First != r.ID {
			t.Errorf("%+v", r)
		}
	})
	in("fail all", func(t *testing.T) {
		b := newSpreading(t, 2, fails(core.BroadcastFailAll))
		id, runs := b.start()
		must(t, b.end(runs[0], core.Succeeded))
		must(t, b.end(runs[1], core.Failed))
		b.is(id, "succeeded  1 of 2, 1 failed")
	})
	in("a failed shard is tried again alone", func(t *testing.T) {
		b := newSpreading(t, 2, func(d *core.Def) { d.Retry.Max, d.Retry.Delay = 1, time.Second })
		id, runs := b.start()
		must(t, b.end(runs[0], core.Succeeded))
		must(t, b.end(runs[1], core.Failed))
		b.is(id, "running")
		b.comes()
		if got := fmt.Sprint(b.sent); got != "[a 0/2 b 1/2 b 1/2]" {
			t.Error(got)
		}
		must(t, b.end(b.runs[2], core.Succeeded))
		b.is(id, "succeeded  2 of 2")
	})
	in("its executor is gone", func(t *testing.T) {
		b := newSpreading(t, 3, func(d *core.Def) { d.Retry.Max, d.Retry.Delay = 2, time.Second })
		id, runs := b.start()
		b.app(2)
		for _, shard := range runs[:2] {
			must(t, b.end(shard, core.Succeeded))
		}
		must(t, b.end(runs[2], core.Failed))
		b.comes()
		must(t, b.end(b.runs[3], core.Failed))
		b.comes()
		must(t, b.end(b.runs[4], core.Succeeded))
		if got := fmt.Sprint(b.sent[3:]); got != "[a 2/3 a 2/3]" {
			t.Error(got)
		}
		b.is(id, "succeeded  3 of 3")
	})
	in("nobody there", func(t *testing.T) {
		b := newSpreading(t, 0, func(d *core.Def) { d.Retry.Max, d.Retry.Delay = 1, time.Second })
		id, _ := b.start()
		if r := b.run(id); r.State != core.Failed || r.Reason != core.ReasonNoExecutor {
			t.Errorf("%s %s", r.State, r.Reason)
		}
		texts.Equal(t, "no executor", b.run(id).Message)
		b.app(2)
		b.comes()
		slices.Sort(b.sent)
		if got := fmt.Sprint(b.sent); got != "[a 0/2 b 1/2]" {
			t.Error(got)
		}
	})
	in("a thousand", func(t *testing.T) {
		b := newSpreading(t, core.MaxShards, nil)
		id, runs := b.start()
		if len(runs) != core.MaxShards {
			t.Fatal(len(runs))
		}
		for _, shard := range runs {
			must(t, b.end(shard, core.Succeeded))
		}
		b.is(id, "succeeded  1000 of 1000")
	})
	in("its messages are not taken", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, m := b.fire()
		b.s.out = core.ErrThrottled
		if b.handle(m) {
			t.Error("acked")
		}
		b.s.out = nil
		b.handle(m)
		b.comes()
		if b.is(id, "running"); len(b.sent) != 2 {
			t.Error(b.sent)
		}
	})
	for _, first := range []bool{true, false} {
		in(fmt.Sprintf("a shard is a dead letter, before the others end: %t", first), func(t *testing.T) {
			wait(time.Until(time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)))
			b := newSpreading(t, 3, nil)
			id, m := b.fire()
			b.handle(m)
			whole := b.run(id)
			fires := whole.ShardFires()
			letter := core.Letter{ID: "1", Reason: "received too often",
				Body: string(ring.Encode(ring.Message{Kind: ring.KindFires, Slot: m.Slot, Fires: fires[1:2]}))}
			dead := dispatch.NewDead(b.s, b.s, b.s, b.s, b.f, nil, false, slog.New(slog.DiscardHandler))
			record := func() {
				_, err := dead.Record(t.Context(), &letter)
				must(t, err)
			}
			if first {
				record()
			}
			for _, f := range []core.Fire{fires[0], fires[2]} {
				b.handle(ring.Message{Kind: ring.KindFires, Slot: m.Slot, Fires: []core.Fire{f}})
				must(t, b.end(f.Run, core.Succeeded))
			}
			record()
			b.is(id, "failed shards 2 of 3, 1 skipped")
		})
	}
	in("the process that closes the last shard dies", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, runs := b.start()
		b.s.puts = func(p *core.RunPut) error {
			if p.ID == id {
				return errors.New("cut")
			}
			return nil
		}
		must(t, b.end(runs[0], core.Succeeded))
		if b.end(runs[1], core.Succeeded) == nil {
			t.Error("reported as done")
		}
		b.s.puts = nil
		b.is(id, "running")
		for range 16 {
			time.Sleep(time.Minute)
			_, err := b.w.Pass(t.Context())
			must(t, err)
		}
		b.is(id, "succeeded  2 of 2")
	})
	in("the process that closes it dies before its follow-ups", func(t *testing.T) {
		b := newSpreading(t, 2, func(d *core.Def) { d.PauseAfter = 1 })
		id, runs := b.start()
		must(t, b.end(runs[0], core.Succeeded))
		b.s.puts = func(p *core.RunPut) error {
			if p.ID == id && !p.Ends() {
				return errors.New("cut")
			}
			return nil
		}
		if b.end(runs[1], core.Failed) == nil {
			t.Error("reported as done")
		}
		whole := b.run(id)
		message := ring.Message{Kind: ring.KindFires, Slot: whole.Slot, Fires: whole.ShardFires()[:1]}
		if !whole.Owing() {
			t.Errorf("it owes %v", whole.Owes)
		}
		b.s.puts = nil
		if acked := b.handle(message); !acked || len(b.run(id).Owes) > 0 {
			t.Errorf("acked: %t, and it owes %v", acked, b.run(id).Owes)
		}
		b.is(id, "failed shards 1 of 2, 1 failed")
	})
	in("skipped in one second and killed in the next", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, m := b.fire()
		b.handle(m)
		whole := b.run(id)
		b.s.puts = func(p *core.RunPut) error {
			if p.ID == id && p.Ends() { // the process that closes it reads it before that
				b.s.puts = nil
				return b.s.Store.PutRuns(t.Context(), []core.RunPut{whole.Kill("me", time.Now())})[0]
			}
			return nil
		}
		must(t, b.f.SkipShards(t.Context(), &whole, []core.RunID{whole.Shard.IDOf(0), whole.Shard.IDOf(1)}, "cancelled"))
		b.is(id, "killed person 0 of 2, 2 skipped")
	})
	in("skipped shards are listed", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, m := b.fire()
		b.handle(m)
		whole := b.run(id)
		ids := []core.RunID{whole.Shard.IDOf(0), whole.Shard.IDOf(1)}
		f := finish.New(b.s, b.s, finish.Options{Plan: plan.AWS(), Lists: true, Log: slog.New(slog.DiscardHandler)})
		must(t, f.SkipShards(t.Context(), &whole, ids, "cancelled"))
		for _, id := range ids {
			key := b.run(id).Journal
			found, err := b.s.Journals(t.Context(), []core.JournalKey{key})
			must(t, err)
			j := found[key]
			if e, is := j.Find(id); !is || e.Outcome != core.Recorded {
				t.Errorf("shard %s names journal %s, which has %+v", id, key, j)
			}
		}
	})
	in("open for longer than a day", func(t *testing.T) {
		b := newSpreading(t, 3, nil)
		id, runs := b.start()
		must(t, b.end(runs[0], core.Succeeded))
		must(t, b.end(runs[2], core.Succeeded))
		time.Sleep(25 * time.Hour)
		whole := b.run(id)
		must(t, b.f.Mend(t.Context(), &whole)) // the watchdog sees that it is open
		b.comes()
		if b.is(id, "running"); len(b.sent) != 3 {
			t.Error(b.sent)
		}
		must(t, b.end(runs[1], core.Succeeded))
		b.is(id, "succeeded  3 of 3")
	})
	in("changed before its shards are sent", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, m := b.fire()
		b.handle(m)
		jobs, _, err := b.s.Jobs(t.Context(), []core.JobID{1})
		must(t, err)
		s := jobs[1].Sched
		must(t, b.s.Advance(t.Context(), []core.Advance{plan.PauseNow(s, "why", time.Now(), plan.AWS())})[0])
		b.comes()
		if b.is(id, "skipped paused 0 of 2, 2 skipped"); len(b.sent) != 0 {
			t.Error(b.sent)
		}
	})
	in("killed before its shards are sent", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, m := b.fire()
		b.handle(m)
		r := b.run(id)
		must(t, b.s.PutRuns(t.Context(), []core.RunPut{r.Kill("me", time.Now())})[0])
		b.comes()
		if b.is(id, "killed person 0 of 2, 2 skipped"); len(b.sent) != 0 {
			t.Error(b.sent)
		}
	})
	in("no cancellation and no report", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, _ := b.start()
		if err := b.end(id, core.Succeeded); core.CodeOf(err) != core.CodeNotFound {
			t.Error(err)
		}
		err := b.f.End(t.Context(), []finish.Result{{Run: id, State: core.Skipped, Reason: core.ReasonCancelled, Unowned: true}})[0]
		if !errors.Is(err, core.ErrRefused) {
			t.Error(err)
		}
		b.is(id, "running")
	})
}
