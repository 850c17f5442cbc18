package dispatch_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/tickring/tickring/store"
)

// spreading is a dispatcher over a store with a broadcast job, whose executors accept all.
type spreading struct {
	willing
	t    *testing.T
	s    *data
	d    *dispatch.Dispatcher
	at   core.Instant
	mu   sync.Mutex
	sent []string // address index/total
	down string   // the address that refuses connections
	runs []core.RunID
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

func newSpreading(t *testing.T, executors int, def func(d *core.Def)) *spreading {
	b := &spreading{t: t, s: newData(t, plan.AWS(), memory.Options{}), at: core.InstantOf(time.Now())}
	b.d = b.s.dispatcher(b, dispatch.Options{SendsMin: 1, SendsMax: 1})
	b.app(executors)
	j := core.Job{Def: core.Def{ID: 1, App: "a", Name: "j", Handler: "h", Route: core.RouteBroadcast}}
	if def != nil {
		def(&j.Def)
	}
	b.s.Job(j)
	time.Sleep(30 * time.Second)
	return b
}

// app sets the number of executors, whose addresses end in a, b, and so on.
func (b *spreading) app(executors int) {
	apps, err := b.s.Apps(b.t.Context(), "a")
	must(b.t, err)
	app := core.App{Name: "a", Rev: apps["a"].Is.Rev + 1}
	for i := range executors {
		app.Executors = append(app.Executors, fmt.Sprintf("http://10.0.0.1:1/%c", 'a'+i))
	}
	b.s.SaveApp(app)
}

// fire returns a message with one fire.
func (b *spreading) fire() (core.RunID, ring.Message) {
	b.at++
	f := planned(1, b.at)
	return f.Run, messageOf(f)
}

func (b *spreading) handle(m ring.Message) bool {
	return b.d.Handle(b.t.Context(), []ring.Message{m})[0].Ack
}

// comes handles messages until none is left.
func (b *spreading) comes() {
	b.t.Helper()
	for range 50 {
		due, waiting := b.s.Depth(ring.KindFires)
		if due+waiting == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(b.t.Context(), time.Minute)
		got, err := b.s.Queue.Receive(ctx, ring.KindFires, 10)
		cancel()
		must(b.t, err)
		for _, g := range got {
			if b.handle(g.Message) {
				b.s.Ack(got...)
			}
		}
	}
}

// start dispatches the job and returns the runs of its shards in the order of their sends.
func (b *spreading) start() (core.RunID, []core.RunID) {
	b.t.Helper()
	id, m := b.fire()
	if !b.handle(m) {
		b.t.Fatal("not acked")
	}
	if r := b.s.Run(id); r.IsBroadcast() {
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
	return b.s.f.End(b.t.Context(), []finish.Result{r})[0]
}

// is checks the state, the reason and the result of a broadcast, such as "2 of 3, 1 failed".
func (b *spreading) is(id core.RunID, want string) {
	b.t.Helper()
	r := b.s.Run(id)
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
	in("an executor refuses the connection", func(t *testing.T) {
		b := newSpreading(t, 3, nil)
		b.down = "b"
		id, runs := b.start()
		if got := fmt.Sprint(b.sent); got != "[a 0/3 b 1/3 c 1/3 c 2/3]" {
			t.Error(got)
		}
		if r := b.s.Run(runs[1]); len(r.Tries) != 1 || r.Tries[0].Message != "connection refused" || r.State != core.Running {
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
	in("nobody there", func(t *testing.T) {
		b := newSpreading(t, 0, func(d *core.Def) { d.Retry.Max, d.Retry.Delay = 1, time.Second })
		id, _ := b.start()
		if r := b.s.Run(id); r.State != core.Failed || r.Reason != core.ReasonNoExecutor {
			t.Errorf("%s %s", r.State, r.Reason)
		}
		texts.Equal(t, "no executor", b.s.Run(id).Message)
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
	for _, first := range []bool{true, false} {
		in(fmt.Sprintf("a shard is a dead letter, before the others end: %t", first), func(t *testing.T) {
			b := newSpreading(t, 3, nil)
			id, m := b.fire()
			b.handle(m)
			whole := b.s.Run(id)
			fires := whole.ShardFires()
			letter := core.Letter{ID: "1", Reason: "received too often",
				Body: string(ring.Encode(messageOf(fires[1])))}
			dead := b.s.dead()
			record := func() {
				_, err := dead.Record(t.Context(), &letter)
				must(t, err)
			}
			if first {
				record()
			}
			for _, f := range []core.Fire{fires[0], fires[2]} {
				b.handle(messageOf(f))
				must(t, b.end(f.Run, core.Succeeded))
			}
			record()
			b.is(id, "failed shards 2 of 3, 1 skipped")
		})
	}
	in("the process that closes it dies before its follow-ups", func(t *testing.T) {
		b := newSpreading(t, 2, func(d *core.Def) { d.PauseAfter = 1 })
		id, runs := b.start()
		must(t, b.end(runs[0], core.Succeeded))
		b.s.put = func(p *core.RunPut) error {
			if p.ID == id && !p.Ends() {
				return errors.New("cut")
			}
			return nil
		}
		if b.end(runs[1], core.Failed) == nil {
			t.Error("reported as done")
		}
		whole := b.s.Run(id)
		message := messageOf(whole.ShardFires()[0])
		if !whole.Owing() {
			t.Errorf("it owes %v", whole.Owes)
		}
		b.s.put = nil
		if acked := b.handle(message); !acked || len(b.s.Run(id).Owes) > 0 {
			t.Errorf("acked: %t, and it owes %v", acked, b.s.Run(id).Owes)
		}
		b.is(id, "failed shards 1 of 2, 1 failed")
	})
	in("skipped in one second and killed in the next", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, m := b.fire()
		b.handle(m)
		whole := b.s.Run(id)
		b.s.put = func(p *core.RunPut) error {
			if p.ID == id && p.Ends() { // the process that closes it reads it before that
				b.s.put = nil
				return b.s.Change(whole.Kill("me", time.Now()))
			}
			return nil
		}
		must(t, b.s.f.SkipShards(t.Context(), &whole, []core.RunID{whole.Shard.IDOf(0), whole.Shard.IDOf(1)}, "cancelled"))
		b.is(id, "killed person 0 of 2, 2 skipped")
	})
	in("skipped shards are listed", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, m := b.fire()
		b.handle(m)
		whole := b.s.Run(id)
		ids := []core.RunID{whole.Shard.IDOf(0), whole.Shard.IDOf(1)}
		b.s.byJournal()
		must(t, b.s.f.SkipShards(t.Context(), &whole, ids, "cancelled"))
		for _, id := range ids {
			j := b.s.JournalOf(b.s.Run(id))
			if e, is := j.Find(id); !is || e.Outcome != core.Recorded {
				t.Errorf("shard %s names a journal that has %+v", id, j)
			}
		}
	})
	in("open for longer than a day", func(t *testing.T) {
		b := newSpreading(t, 3, nil)
		id, runs := b.start()
		must(t, b.end(runs[0], core.Succeeded))
		must(t, b.end(runs[2], core.Succeeded))
		time.Sleep(25 * time.Hour)
		whole := b.s.Run(id)
		must(t, b.s.f.Mend(t.Context(), &whole)) // the watchdog sees that it is open
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
		pause, change := plan.PauseNow(b.s.JobOf(1).Sched, "why", time.Now(), plan.AWS())
		must(t, b.s.Jobs.Put(t.Context(), []store.JobPut{{Advance: &pause, Changes: []core.Change{change}}})...)
		b.comes()
		if b.is(id, "skipped paused 0 of 2, 2 skipped"); len(b.sent) != 0 {
			t.Error(b.sent)
		}
	})
	in("killed before its shards are sent", func(t *testing.T) {
		b := newSpreading(t, 2, nil)
		id, m := b.fire()
		b.handle(m)
		r := b.s.Run(id)
		must(t, b.s.Change(r.Kill("me", time.Now())))
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
		err := b.s.f.End(t.Context(), []finish.Result{{Run: id, State: core.Skipped, Reason: core.ReasonCancelled, Unowned: true}})[0]
		if !errors.Is(err, core.ErrRefused) {
			t.Error(err)
		}
		b.is(id, "running")
	})
}
