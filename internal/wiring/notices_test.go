package wiring_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/poller"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/testkit/notificationtext"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
)

// told is a deployment with all parts that send notifications, run as by a server, with one job, one executor and one
// channel.
type told struct {
	t    *testing.T
	e    *store.Store
	a    *wiring.Assembly
	m    *people.People
	tick *tick.Ticker

	mu      sync.Mutex
	idle    bool // no process plans or sends
	answer  dispatch.Answer
	answers func(*core.Run) dispatch.Answer // replaces answer; nil: answer
	hangs   bool                            // the executor answers no log request until the client gives up
	slow    time.Duration                   // how long a channel takes to answer
	sent    []core.RunID
	lane    []core.RunID // runs whose post-run work was enqueued
	got     []core.Message
	when    []time.Time // of each of these
}

var teller = core.Actor{Name: "ann"}

// tells runs a test with a job from spec that notifies channel a.
func tells(t *testing.T, spec manage.JobSpec, f func(r *told)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)))
		log := slog.New(slog.DiscardHandler)
		r := &told{t: t, answer: succeeding}
		r.e = hook.Over(memory.Open(t, memory.Options{}), func(_ context.Context, c *hook.Call, next func() []error) []error {
			for _, out := range c.Out {
				if x := out.Message.PostRun; x != nil && x.Run != 0 {
					r.set(func() { r.lane = append(r.lane, x.Run) })
				}
			}
			return next()
		})
		r.a = wiring.New(r.e, wiring.Options{Plan: plan.Local(), Log: log})
		r.tick = r.a.Ticker(tick.Options{ID: "t"})
		r.m = r.a.People(r, people.Options{Manage: manage.Options{Notifier: r}})
		disp, watch, dead := r.a.Dispatcher(r, dispatch.Options{}), r.a.Watchdog(r, finish.WatchOptions{}), r.a.Dead()
		notices := r.a.Notices(ear{r}, notification.Options{})
		lane := r.a.Lane(r, postrun.Options{Notices: notices})

		ctx, stop := context.WithCancel(t.Context())
		var drivers sync.WaitGroup
		defer drivers.Wait()
		defer stop()
		each := func(d time.Duration, f func() error) {
			drivers.Go(func() {
				every := time.NewTicker(d)
				defer every.Stop()
				for {
					select {
					case <-every.C:
						_ = f() // the next time
					case <-ctx.Done():
						return
					}
				}
			})
		}
		each(time.Second, func() error {
			if r.isIdle() {
				return nil
			}
			_, err := r.tick.Pass(ctx)
			return err
		})
		each(15*time.Second, func() error { _, err := watch.Pass(ctx); return err })
		each(10*time.Second, func() error { _, err := dead.Pass(ctx); return err })
		each(time.Minute, func() error { _, err := notices.Pass(ctx); return err })
		take := func(kind ring.Kind, messages, places int, handle func(list []ring.Message, free func()) []dispatch.Verdict) {
			in := &poller.Poller{Queue: r.e.Queue, Kind: kind, Messages: messages, Places: places, Log: log,
				Ready: func(ctx context.Context) error {
					for kind == ring.KindFires && r.isIdle() && ctx.Err() == nil {
						time.Sleep(time.Second)
					}
					return ctx.Err()
				},
				Handle: func(_ context.Context, got []store.Delivery, free func()) []dispatch.Verdict {
					return handle(poller.Messages(got), free)
				}}
			drivers.Go(func() { in.Run(ctx, ctx) })
		}
		verdicts := func(errs []error) (list []dispatch.Verdict) {
			for _, err := range errs {
				list = append(list, dispatch.Verdict{Ack: err == nil, Err: err, RetryAt: time.Now().Add(10 * time.Second)})
			}
			return list
		}
		take(ring.KindFires, 20, 256, func(list []ring.Message, free func()) []dispatch.Verdict { return disp.HandleFreeing(ctx, list, free) })
		take(ring.KindPostRun, 50, 32, func(list []ring.Message, _ func()) []dispatch.Verdict { return verdicts(lane.Handle(ctx, list)) })
		take(ring.KindCheck, 20, 16, func(list []ring.Message, _ func()) []dispatch.Verdict {
			errs := make([]error, len(list))
			for i := range list {
				errs[i] = watch.Check(ctx, list[i].Check)
			}
			return verdicts(errs)
		})

		_, err := r.m.SaveChannel(ctx, teller, manage.ChannelSpec{
			Channel: core.Channel{Name: "a", Kind: core.ChannelWebhook, URL: "https://h.example/"}})
		r.must(err)
		_, err = r.m.SaveApp(ctx, teller, manage.AppSpec{Name: "shop", Executors: []string{"http://10.0.0.1:9999/"}})
		r.must(err)
		spec.Def.App, spec.Def.Name, spec.Def.Handler, spec.Def.Notify.To = "shop", "nightly", "h", []string{"a"}
		r.save(spec)
		f(r)
	})
}

func (r *told) isIdle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.idle
}

func (r *told) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

func (r *told) must(err error) {
	r.t.Helper()
	check.OK(r.t, err)
}

// Send implements dispatch.Sender.
func (r *told) Send(_ context.Context, s dispatch.SendRequest) dispatch.Answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, s.Run.ID)
	if r.answers != nil {
		return r.answers(s.Run)
	}
	return r.answer
}

func (r *told) Beat(context.Context, *core.App, string) error { return nil }

func (r *told) Idle(context.Context, *core.App, string, core.JobID) (bool, error) { return false, nil }

func (r *told) Kill(context.Context, *core.App, string, core.JobID) error { return nil }

func (r *told) Limit(context.Context, string) (time.Duration, error) { return time.Minute, nil }

func (r *told) Log(ctx context.Context, _ *core.App, _ *core.Run, _ int) (text string, next int, end bool, err error) {
	r.mu.Lock()
	hangs := r.hangs
	r.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return "", 0, false, ctx.Err()
	}
	return "", 1, true, core.Errorf(core.CodeNotFound, "there is no log")
}

func (r *told) Takes(context.Context, core.Channel) error { return nil }

func (r *told) Test(context.Context, core.Channel) error { return nil }

// ear receives the notifications.
type ear struct{ r *told }

// Send implements notification.Sender.
func (e ear) Send(ctx context.Context, _ core.Channel, m core.Message) error {
	e.r.mu.Lock()
	slow := e.r.slow
	e.r.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	e.r.set(func() { e.r.got, e.r.when = append(e.r.got, m), append(e.r.when, time.Now()) })
	return nil
}

// heard checks that exactly these notifications arrive within a time, in short form.
func (r *told) heard(within time.Duration, want ...string) []core.Message {
	r.t.Helper()
	time.Sleep(within)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, m := range r.got {
		got = append(got, fmt.Sprintf("%s %d", m.Event, max(m.Count, 1)))
	}
	if !slices.Equal(got, want) {
		r.t.Fatalf("people heard %q, want %q", got, want)
	}
	return r.got
}

// trigger has the job run once.
func (r *told) trigger() core.RunID {
	r.t.Helper()
	return r.triggers(operate.TriggerRequest{Job: "shop/nightly"})
}

func (r *told) run(id core.RunID) core.Run {
	r.t.Helper()
	return memory.Run(r.t, r.e, id)
}

// job returns a job that notifies about some events.
func job(on ...core.Event) (s manage.JobSpec) {
	s.Def.Notify.On = on
	return s
}

var minutely = core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Minute, Aligned: true}}}

// bothLanguages returns a notification as its readers get it, in English and in Chinese.
func bothLanguages(t *testing.T, m core.Message) string {
	t.Helper()
	return notificationtext.Text(t, core.English, m) + "\n\n" + notificationtext.Text(t, core.Chinese, m)
}

// TestTellsSkippedRange: runs due while no process planned are skipped by the planner, which creates no runs for them. One
// notification gives their number.
func TestTellsSkippedRange(t *testing.T) {
	texts := golden.New(t)
	spec := job(core.EventSkipped)
	spec.Schedule, spec.Misfire, spec.Grace = minutely, core.MisfireSkip, 10*time.Second
	tells(t, spec, func(r *told) {
		r.heard(10 * time.Minute)
		r.set(func() { r.idle = true })
		r.heard(61*time.Minute + 30*time.Second)
		r.set(func() { r.idle = false })
		list := r.heard(30*time.Second, "skipped 1")
		if m := list[0]; m.Reason != core.ReasonMisfire || m.Times != 61 || m.Run != 0 {
			t.Fatalf("the notice is %+v", m)
		}
		texts.Equal(t, "skipped", bothLanguages(t, list[0]))
		r.heard(3*time.Hour, "skipped 1")
	})
}

// TestTellsLate: a run is sent later than its late setting.
func TestTellsLate(t *testing.T) {
	spec := job(core.EventLate)
	spec.Schedule, spec.Misfire, spec.Def.Notify.Late = minutely, core.MisfireAll, 20*time.Second
	tells(t, spec, func(r *told) {
		r.heard(10*time.Minute + 45*time.Second)
		r.set(func() { r.idle = true })
		r.heard(50 * time.Second)
		r.set(func() { r.idle = false })
		list := r.heard(20*time.Second, "late 1")
		if m := list[0]; m.Took < 30*time.Second || m.Took > 50*time.Second || !m.Run.Valid() {
			t.Fatalf("the notice is %+v", m)
		}
		r.heard(30*time.Minute, "late 1")
	})
}

// TestTellsSlow: a run that is running for longer than its slow setting notifies once.
func TestTellsSlow(t *testing.T) {
	spec := job(core.EventSlow)
	spec.Def.Notify.Slow = 5 * time.Minute
	tells(t, spec, func(r *told) {
		r.trigger() // this one is quick
		r.heard(10 * time.Minute)
		r.set(func() { r.answer = dispatch.Answer{Kind: dispatch.AnswerAccepted} })
		id := r.trigger()
		r.heard(5*time.Minute - time.Second)
		list := r.heard(2*time.Minute+time.Second, "slow 1")
		if list[0].Run != id || list[0].Took < 5*time.Minute {
			t.Fatalf("the notice is %+v", list[0])
		}
		r.heard(3*time.Hour, "slow 1")
	})
}

// TestTellsSlowShard: of a broadcast each shard is slow by itself.
func TestTellsSlowShard(t *testing.T) {
	spec := job(core.EventSlow)
	spec.Def.Notify.Slow, spec.Def.Route = 5*time.Minute, core.RouteBroadcast
	tells(t, spec, func(r *told) {
		r.set(func() { r.answer = dispatch.Answer{Kind: dispatch.AnswerAccepted} })
		id := r.trigger()
		r.heard(5*time.Minute - time.Second)
		list := r.heard(2*time.Minute+time.Second, "slow 1")
		if run := r.run(list[0].Run); run.Shard.Of != id {
			t.Fatalf("the notice is of %+v, want a shard of %d", run, id)
		}
	})
}

// TestTellsPaused: a job that pauses itself after failures, and how many.
func TestTellsPaused(t *testing.T) {
	texts := golden.New(t)
	spec := job(core.EventPaused)
	spec.Schedule, spec.Def.PauseAfter = minutely, 3
	tells(t, spec, func(r *told) {
		r.set(func() { r.answer = failing })
		list := r.heard(10*time.Minute, "paused 1")
		if len(r.sent) != 3 || list[0].Run != r.sent[2] || list[0].Text != "boom" {
			t.Fatalf("after %d runs the notice is %+v", len(r.sent), list[0])
		}
		texts.Equal(t, "paused", bothLanguages(t, list[0]))
	})
}

// TestTellsUnplanned: a stored schedule that cannot be planned, once for its reason.
func TestTellsUnplanned(t *testing.T) {
	spec := job(core.EventUnplanned)
	spec.Schedule = minutely
	tells(t, spec, func(r *told) {
		r.heard(5 * time.Minute)
		j, err := r.m.Job(r.t.Context(), "shop/nightly")
		r.must(err)
		seen := j.Sched.Rev
		j.Sched.Rev++
		j.Sched.Schedule.Timezone = "Atlantis/City"
		r.must(r.e.Jobs.Put(r.t.Context(), []store.JobPut{{Update: &store.JobUpdate{Seen: seen, Job: j}}})[0])
		list := r.heard(10*time.Minute, "unplanned 1")
		if list[0].Text == "" {
			t.Fatalf("the notice is %+v", list[0])
		}
		r.heard(70*time.Minute, "unplanned 1")
	})
}

// TestTellsDeadLetter: a message of the job that could not be handled.
func TestTellsDeadLetter(t *testing.T) {
	texts := golden.New(t)
	tells(t, job(core.EventDeadLetter), func(r *told) {
		id := r.trigger()
		r.heard(time.Minute)
		at := core.InstantOf(time.Now())
		var fires []core.Fire
		for i := range core.Instant(3) {
			fires = append(fires, core.Fire{Run: core.PlannedRun(id.Job(), at+i), Cause: core.CauseSchedule, At: at + i, Slot: at, Rev: 1})
		}
		r.must(r.e.Queue.Bury(r.t.Context(), ring.Message{Kind: ring.KindFires, Slot: at, Fires: fires}, "too many receives"))
		list := r.heard(time.Minute, "dead-letter 1")
		if list[0].Text != "too many receives" {
			t.Fatalf("the notice is %+v", list[0])
		}
		texts.Equal(t, "dead-letter", bothLanguages(t, list[0]))
		r.heard(3*time.Hour, "dead-letter 1")
	})
}

// TestTellsOverdue: a job that never starts is overdue from the time it was saved, although it causes no event.
func TestTellsOverdue(t *testing.T) {
	for name, c := range map[string]struct {
		overdue core.Overdue
		after   time.Duration
	}{
		"within": {core.Overdue{Within: 2 * time.Hour}, 2 * time.Hour},
		"by":     {core.Overdue{By: "11:00"}, time.Hour}, // the test starts at ten o'clock
	} {
		t.Run(name, func(t *testing.T) {
			spec := job(core.EventOverdue)
			spec.Def.Notify.Overdue = c.overdue
			tells(t, spec, func(r *told) {
				r.heard(c.after - time.Second)
				r.heard(2*time.Minute, "overdue 1")
			})
		})
	}
}
