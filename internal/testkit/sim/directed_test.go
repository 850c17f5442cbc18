package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/wire"
)

// once is true the first time that a call is the one that is meant.
func once(match func(Call) bool, f Fate) func(Call) Fate {
	var done atomic.Bool
	return func(c Call) Fate {
		if match(c) && done.CompareAndSwap(false, true) {
			return f
		}
		return Fine
	}
}

func is(process, op string) func(Call) bool {
	return func(c Call) bool { return c.Process == process && c.Op == op }
}

// directed runs one world of given jobs for 30 s.
func directed(t *testing.T, c Config) Report {
	t.Helper()
	if c.Seed == 0 {
		c.Seed = 7
	}
	if c.For == 0 {
		c.For = 30 * time.Second
	}
	c.AWS = c.AWS || *flagEngine == "aws"
	r := runOne(t, c)
	if c.Script != nil && !c.Skew && r.Counts["scripted"] == 0 {
		t.Error("no call was the one that is meant to fail")
	}
	return r
}

type counts = map[string]int

// wants asserts some counts of a world, want one of them, and least that one is not lower.
func (r Report) wants(t *testing.T, all counts) {
	t.Helper()
	for what, n := range all {
		if r.Counts[what] != n {
			t.Errorf("%s: %d, want %d", what, r.Counts[what], n)
		}
	}
}

func (r Report) want(t *testing.T, what string, n int) {
	t.Helper()
	r.wants(t, counts{what: n})
}

func (r Report) least(t *testing.T, what string, n int) {
	t.Helper()
	if r.Counts[what] < n {
		t.Errorf("%s: %d, want at least %d", what, r.Counts[what], n)
	}
}

// during gives some calls of a span of time a fate.
func during(from, to time.Duration, match func(Call) bool, f Fate) func(Call) Fate {
	return func(c Call) Fate {
		if c.At > from && c.At < to && match(c) {
			return f
		}
		return Fine
	}
}

// trigger demands one run of each job, 10 s into the world.
func trigger(refs ...string) func(*World) {
	return func(w *World) {
		w.sleep(bg, 5*time.Second)
		when := time.Now().Add(5 * time.Second)
		for _, ref := range refs {
			w.triggers(ref, &when)
		}
	}
}

// endsAfter has an executor take a run, and report its end after a while.
func endsAfter(w *World, sh *dispatch.SendRequest, after time.Duration, end wire.CallbackItem) (dispatch.Answer, bool) {
	w.truth.arrives(sh)
	end.LogID = int64(sh.Run.ID)
	w.after(after, func() { w.report(end) })
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}, true
}

// behaves is an executor of a world.
type behaves = func(*World, *dispatch.SendRequest) (dispatch.Answer, bool)

// well is an executor that answers each call with a success.
func well(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
	w.truth.arrives(sh)
	return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}, true
}

// succeeds is an executor that accepts, and reports a success after a time.
func succeeds(after time.Duration) behaves {
	return func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
		return endsAfter(w, sh, after, wire.CallbackItem{Code: 200})
	}
}

// neverEnds is an executor that accepts and never reports.
func neverEnds(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
	w.truth.arrives(sh)
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}, true
}

// TestOneRun: the effects of one fault on the only run of a world.
func TestOneRun(t *testing.T) {
	journal := is("dispatcher", "write journal")
	for name, c := range map[string]struct {
		script func(Call) Fate
		behave behaves
		want   counts
	}{
		"killed between claim and send": {once(is("dispatcher", "Send"), Kill), nil, // it never arrived before
			counts{"take-over": 1, "re-send": 0, "state succeeded": 1}},
		"killed between send and journal": {once(journal, Kill), neverEnds, counts{"take-over": 1, "re-send": 1, "state lost": 1}},
		"killed between journal and ack":  {once(is("dispatcher", "Ack"), Kill), neverEnds, counts{"take-over": 0, "re-send": 0}},
		// The check that carries the journal ends the run.
		"journal refused for a whole invocation": {during(0, 25*time.Second, journal, Throttled), neverEnds,
			counts{"re-send": 0, "state lost": 1}},
		// The message is not acked, and its run is sent again.
		"neither journal nor check stored": {during(0, 28*time.Second, func(c Call) bool {
			return journal(c) || is("dispatcher", "Enqueue")(c)
		}, Throttled), neverEnds, counts{"take-over": 1, "re-send": 1, "state lost": 1}},
		"callback before the answer": {nil, func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
			w.truth.arrives(sh)
			w.report(wire.CallbackItem{LogID: int64(sh.Run.ID), Code: 200})
			w.sleep(bg, 2*time.Second)
			return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed}, true
		}, counts{"re-send": 0, "state succeeded": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := directed(t, Config{For: time.Minute, Jobs: []manage.JobSpec{byHand("alpha", "one")}, Act: trigger("alpha/one"),
				Script: c.script, Behave: c.behave})
			r.wants(t, c.want)
		})
	}
}

// failing executors fail the first attempt and end the second.
func failing(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
	code := 200
	if sh.Run.Attempt == 1 {
		code = 500
	}
	return endsAfter(w, sh, time.Second, wire.CallbackItem{Code: code})
}

// snoozing executors put off the first two attempts and end the third.
func snoozing(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
	it := wire.CallbackItem{Code: 200}
	if sh.Run.Attempt < 3 {
		it.Code, it.RetryAfter = 500, 2
		w.truth.says(sh.Run.ID, it.RetryAfter)
	}
	return endsAfter(w, sh, time.Second, it)
}

// TestKilledOnTheWayToLogAndNotice: a failed run owes its log and a notification.
func TestKilledOnTheWayToLogAndNotice(t *testing.T) {
	for _, op := range []string{"write log", "write notice", "ClearPostRun", "Ack"} { // A2, A3
		for _, f := range []Fate{Kill, KillAfter, After, Before, Late} {
			t.Run(fmt.Sprint(op, " ", f), func(t *testing.T) {
				r := directed(t, Config{Jobs: []manage.JobSpec{byHand("alpha", "one")}, Act: trigger("alpha/one"), Behave: failing,
					Script: once(is("postrun", op), f)})
				r.wants(t, counts{"log kept": 1, "notice owed no more": 1})
				r.least(t, "told: failed", 1)
			})
		}
	}
}

// TestKilledAfterTheEndOfARun: the callback that closes a run is killed, or gets no answer, at each of the steps to its snooze, its retry
// or its children.
func TestKilledAfterTheEndOfARun(t *testing.T) {
	again, first, second, third := byHand("alpha", "one"), byHand("alpha", "one"), byHand("alpha", "two"), byHand("alpha", "three")
	again.Def.Retry = core.Retry{Max: 1, Delay: 2 * time.Second}
	second.Def.After = []core.Parent{{Job: "alpha/one", When: core.UponClose}}
	third.Def.After = []core.Parent{{Job: "alpha/one", When: core.UponFailure}, {Job: "alpha/two", When: core.UponClose}}
	steps := []string{"CloseRuns", "Create", "Enqueue", "ClearOwed"} // F1 to F4
	for name, c := range map[string]struct {
		jobs   []manage.JobSpec
		behave behaves
		steps  []string
		want   counts
	}{
		"snooze":   {[]manage.JobSpec{first}, snoozing, steps, counts{"snoozed": 2, "state failed": 2, "state succeeded": 1}},
		"retry":    {[]manage.JobSpec{again}, failing, steps, counts{"retries": 1, "state failed": 1, "state succeeded": 1}},
		"children": {[]manage.JobSpec{first, second, third}, failing, append(steps, "Draw"), counts{"child": 3}}, // and C1
	} {
		for _, op := range c.steps {
			for _, f := range []Fate{Kill, KillAfter, After, Before, Late} {
				t.Run(fmt.Sprint(name, " ", op, " ", f), func(t *testing.T) {
					r := directed(t, Config{Jobs: c.jobs, Act: trigger("alpha/one"), Behave: c.behave, Script: once(is("callback", op), f)})
					r.wants(t, c.want)
				})
			}
		}
	}
}

// TestWideFanOut: a thousand jobs after one, and one after all of the first twenty.
func TestWideFanOut(t *testing.T) {
	check.Long(t)
	root, last := byHand("gamma", "root"), byHand("gamma", "last")
	jobs := []manage.JobSpec{root}
	for i := range core.MaxChildren {
		j := byHand("gamma", fmt.Sprintf("c-%d", i))
		j.Def.After = []core.Parent{{Job: "gamma/root", When: core.UponSuccess}}
		if jobs = append(jobs, j); i < core.MaxParents {
			last.Def.After = append(last.Def.After, core.Parent{Job: "gamma/" + j.Def.Name, When: core.UponClose})
		}
	}
	r := directed(t, Config{Jobs: append(jobs, last), Act: trigger("gamma/root"), Behave: well, For: time.Minute})
	r.wants(t, counts{"child": core.MaxChildren + core.MaxParents, "state succeeded": 1 + core.MaxChildren + core.MaxParents})
}

func TestClockSetBackAtTheHold(t *testing.T) {
	r := directed(t, Config{Jobs: []manage.JobSpec{jobOf("alpha", "one", every(time.Second))}, Skew: true, Script: func(c Call) Fate {
		// After the hold, before the send.
		if c.Process == "dispatcher" && c.Op == "Jobs" && c.N%5 == 1 {
			c.in.p.step(-2 * time.Second)
		} else if c.Process == "dispatcher" && c.Op == "Jobs" && c.N%5 == 4 {
			c.in.p.step(0)
		}
		return Fine
	}})
	r.least(t, "sent", 25)
}

// TestClocksTenSecondsApart: one half of the processes is 5 s ahead, the other 5 s behind. Each instant is sent, and once if no process
// dies.
func TestClocksTenSecondsApart(t *testing.T) {
	for name, c := range map[string]Config{"processes": {}, "functions": {Far: true}, "functions on AWS": {AWS: true, Far: true},
		"processes that die": {Rate: 1}, "functions on AWS that die": {AWS: true, Far: true, Rate: 1}} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			c.For, c.Skew = 10*time.Minute, true
			c.Jobs = []manage.JobSpec{jobOf("alpha", "one", every(10*time.Second)), jobOf("beta", "two", every(time.Minute))}
			c.Script = func(c Call) Fate {
				if c.in.p.stepped.Load() == 0 {
					c.in.p.step(time.Duration(1-n.Add(1)%2*2) * 5 * time.Second)
				}
				return Fine
			}
			r := directed(t, c)
			if c.Rate == 0 {
				r.want(t, "re-send", 0)
				paused := 0 // the world ends with a pause, which the skewed clocks can place before the last run
				for _, runs := range r.runs {
					for i := range runs {
						if runs[i].State == core.Skipped && runs[i].Reason == core.ReasonPaused {
							paused++
						}
					}
				}
				if r.want(t, "state succeeded", r.Counts["fires"]-paused); paused > 2 {
					t.Errorf("%d runs are skipped by a pause", paused)
				}
			}
			if r.least(t, "fires", 65); n.Load() < 6 {
				t.Errorf("%d clocks", n.Load())
			}
		})
	}
}

// The journal does not wait for the end of another run that the store is slow to accept.
func TestJournalDoesNotWaitForEnds(t *testing.T) {
	r := directed(t, Config{Jobs: []manage.JobSpec{byHand("alpha", "good"), byHand("alpha", "bad")}, Act: trigger("alpha/good", "alpha/bad"),
		Script: func(c Call) Fate {
			if c.Process == "dispatcher" && c.Op == "CloseRuns" && c.At < 20*time.Second {
				if c.At > 12*time.Second && c.in.n == 1 {
					return Kill
				}
				return Before
			}
			return Fine
		},
		Behave: func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
			if sh.Job.Def.Name == "bad" {
				return dispatch.Answer{Kind: dispatch.AnswerRefused}, true
			}
			return neverEnds(w, sh)
		}})
	r.want(t, "re-send", 0)
	r.want(t, "state lost", 2) // for the new owner a rejection proves nothing about the first send
}

// TestFixedDelays: each actor that ends a chain moves its job on, once, whatever fails beside it.
func TestFixedDelays(t *testing.T) {
	delay := func(d, grace time.Duration) manage.JobSpec {
		j := jobOf("alpha", "one", fixedDelay(d))
		if grace > 0 {
			j.Misfire, j.Grace = core.MisfireSkip, grace
		}
		return j
	}
	for name, c := range map[string]struct {
		job   manage.JobSpec
		world Config
		least int // runs that succeed
	}{
		// It continues after a fire that fell into a pause of its app.
		"a pause": {delay(3*time.Second, 0), Config{For: 3 * time.Minute, Act: func(w *World) {
			for _, all := range []manage.Target{{App: "alpha"}, {All: true}} {
				w.sleep(bg, 10*time.Second)
				w.pauses(all, nil)
				w.sleep(bg, 15*time.Second)
				w.resumes(all)
				w.sleep(bg, tailCheck)
			}
		}}, 20},
		// The advance is lost after its fire was sent: the tick takes its run as the chain, and begins no second one, however late
		// it is then.
		"its advance is lost": {delay(time.Second, 2*time.Second), Config{For: time.Minute, Behave: succeeds(12 * time.Second),
			Script: during(10*time.Second, 20*time.Second, func(c Call) bool { return c.Op == "Advance" }, Throttled)}, 4},
		// The dispatcher that skipped its fire, whose advance is lost, and the tick that repairs it later compute one and the same
		// next instant.
		"two end it": {delay(time.Second, 3*time.Second), Config{For: 3 * time.Minute, Behave: succeeds(50 * time.Second),
			Script: func(c Call) Fate {
				switch {
				case c.Process != "dispatcher":
				case c.Op == "Jobs" && c.At < 12*time.Second:
					return Throttled // until its first fire is late
				case c.Op == "Create" && c.At < 30*time.Second:
					return Slow
				case c.Op == "Advance" && c.At < 30*time.Second:
					return Throttled
				}
				return Fine
			}}, 3},
		// It is edited between the end of a chain and the advance that moves it on: the next instant is one of the new delay, and
		// the audit misses none of the old.
		"an edit before it moves on": {delay(2*time.Second, 0), Config{For: time.Minute,
			Script: during(10*time.Second, 25*time.Second, func(c Call) bool { return c.Op == "Advance" || c.Op == "Enqueue" }, Throttled),
			Act: func(w *World) {
				w.sleep(bg, 20*time.Second)
				w.saves(delay(5*time.Second, 0))
			}}, 8},
	} {
		t.Run(name, func(t *testing.T) {
			c.world.Jobs = []manage.JobSpec{c.job}
			r := directed(t, c.world)
			r.least(t, "state succeeded", c.least)
		})
	}
}

// A journal is read after until has passed, never before: entries that the owner stores in its last second count.
func TestJournalIsReadAfterUntil(t *testing.T) {
	r := directed(t, Config{For: 40 * time.Second, Jobs: []manage.JobSpec{byHand("alpha", "one")}, Behave: neverEnds,
		Script: func(c Call) Fate {
			switch {
			case c.Op == "write journal" && c.At < 23500*time.Millisecond:
				return Throttled // the owner's first send is at 10 s, its until nearly 27 s
			case c.Op == "get journal" && c.Process == "dispatcher" && c.At < 24200*time.Millisecond:
				return Slow // requested before the owner's journal, answered after its until
			}
			return Fine
		},
		Act: func(w *World) {
			trigger("alpha/one")(w)
			w.sleep(bg, time.Until(w.began.Add(24*time.Second)))
			w.truth.mu.Lock()
			for in, invs := range w.truth.held {
				for inv := range invs {
					for i, p := range w.workers {
						if p == in.p {
							w.duplicate(inv.got[0], 0, i+1)
						}
					}
				}
			}
			w.truth.mu.Unlock()
		}})
	r.want(t, "take-over", 0)
	r.want(t, "re-send", 0)
}

// TestThrottledTables: while all requests to a table, or to all tables, are throttled for many minutes, no other part loses or doubles a
// fire, and no message is dead-lettered. Fires that come due in that time are sent after it.
func TestThrottledTables(t *testing.T) {
	const from, all = 2 * time.Minute, "all"
	for table, lasts := range map[string]time.Duration{fakeaws.Names.Jobs: 10 * time.Minute, fakeaws.Names.Runs: 10 * time.Minute,
		fakeaws.Names.State: 10 * time.Minute, all: 15 * time.Minute} {
		t.Run(table, func(t *testing.T) {
			var refused atomic.Int32
			j := jobOf("alpha", "all", every(10*time.Second))
			j.Misfire, j.Grace = core.MisfireAll, 20*time.Second
			r := directed(t, Config{AWS: true, SDK: true, Far: true, For: lasts + 5*time.Minute, Jobs: []manage.JobSpec{j},
				Request: func(at time.Duration, c fakeaws.Call) (f fakeaws.Fault) {
					if at > from && at < from+lasts && (c.On == table || table == all && !strings.HasPrefix(c.On, "https://")) {
						refused.Add(1)
						f.Before = fakeaws.Throttled()
					}
					return f
				}})
			fires := r.Counts["fires"]
			if r.least(t, "fires", 85); table == all { // an instant each ten seconds
				r.least(t, "state succeeded", fires-5)
			} else if r.wants(t, counts{"re-send": 0, "state succeeded": fires, "skipped": 0}); refused.Load() < 500 {
				t.Errorf("%d requests throttled", refused.Load())
			}
		})
	}
}

// A receipt whose answer is lost hides its messages from all clients: they are late by their visibility, the others not at all.
func TestReceiptWithoutAnAnswer(t *testing.T) {
	var n atomic.Int32 // requests are made side by side
	r := directed(t, Config{AWS: true, SDK: true, Far: true, For: 5 * time.Minute,
		Jobs: []manage.JobSpec{jobOf("alpha", "one", every(5*time.Second))},
		Request: func(at time.Duration, c fakeaws.Call) (f fakeaws.Fault) {
			if c.Op == "ReceiveMessage" && c.On == fakeaws.Names.Fires && at > 2*time.Minute && at < 4*time.Minute {
				if n.Add(1)%4 == 0 {
					f.After = errUnknown
				}
			}
			return f
		}})
	r.least(t, "receipt without an answer", 3)
	visibility := r.w.deployed.visibility
	for _, run := range r.runs[1] {
		if late := run.SentAt.Sub(run.Slot.Time()); late > moment && (late < visibility-moment || late > 2*(visibility+moment)) {
			t.Errorf("run %d was sent %s after its slot", run.ID, late)
		}
	}
}

// A purge of the queue heals by itself, within two minutes: the tick finds that messages were lost, and then all former messages
// are on the ring again, due or to come, even if their own job would compare them only hours later.
func TestPurgeHeals(t *testing.T) {
	var jobs []manage.JobSpec
	for i := range 6 {
		jobs = append(jobs, jobOf("alpha", fmt.Sprint("often-", i), every(20*time.Second)))
	}
	seldom := core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: "0 15 * * * ?"}}}
	for i := range 10 {
		jobs = append(jobs, jobOf("beta", fmt.Sprint("seldom-", i), seldom))
	}
	r := directed(t, Config{Far: true, For: 30 * time.Minute, Jobs: jobs, Act: func(w *World) {
		slot := w.began.Truncate(time.Hour).Add(75 * time.Minute)
		w.sleep(bg, time.Until(slot.Add(-30*time.Second)))
		w.truth.purge(2 * time.Minute)
	}})
	for n := range core.JobID(10) {
		runs := r.runs[7+n]
		if len(runs) != 1 || runs[0].SentAt.Sub(runs[0].Slot.Time()) > 2*time.Minute {
			t.Errorf("job %d has the runs %v", 7+n, runs)
		}
	}
	r.least(t, "purged", 15)
	r.least(t, "sent again after a loss", 10)
}

// A pause with an end is over at that moment, even if the clock wakes the tick a minute later:
// fires that are due after it are sent in time.
func TestPauseEndsInTime(t *testing.T) {
	r := directed(t, Config{Far: true, Deployed: true, For: 20 * time.Minute,
		Jobs: []manage.JobSpec{jobOf("alpha", "one", every(10*time.Second))}, Act: func(w *World) {
			w.sleep(bg, time.Minute)
			until := w.began.Add(10*time.Minute + 7*time.Second) // just after a wake-up
			w.pauses(manage.Target{Job: "alpha/one"}, &until)
		}})
	r.least(t, "state succeeded", 60)
}

// A fire's processes die twice, once at any step and once before its claim. This costs the fire
// only the time until its message comes again: a minutely one is sent within its grace.
func TestTwoDeathsAreNoMisfire(t *testing.T) {
	for _, op := range []string{"Jobs", "Create", "Send", "write journal", "Ack"} {
		for _, fate := range []Fate{Kill, KillAfter} {
			for _, ops := range [][2]string{{"Jobs", op}, {op, "Jobs"}} {
				if ops[0] == "Ack" && fate == KillAfter {
					continue // that was all
				}
				t.Run(fmt.Sprint(ops, " ", fate), func(t *testing.T) {
					var mu sync.Mutex
					kills, last := 0, time.Duration(0)
					r := directed(t, Config{Far: true, Deployed: true, For: 6 * time.Minute,
						Jobs: []manage.JobSpec{jobOf("alpha", "one", every(time.Minute)), jobOf("alpha", "two", every(time.Minute))},
						Script: func(c Call) Fate {
							mu.Lock()
							defer mu.Unlock()
							// The second is of the same fires: the next are due a minute later.
							since := c.At - last
							if c.Process != "dispatcher" || c.At < 2*time.Minute || kills == 2 || c.Op != ops[kills] || kills == 1 &&
								(since < 10*time.Second || since > 50*time.Second) {
								return Fine
							}
							kills, last = kills+1, c.At
							if c.Op != op {
								return Kill
							}
							return fate
						}})
					if kills != 2 {
						t.Errorf("%d deaths", kills)
					}
					r.want(t, "state skipped", 0)
					r.least(t, "state succeeded", 2*5-1)
				})
			}
		}
	}
}

// Work that a function does after its answer happens when it is thawed, seconds later.
func TestFrozenBehindItsAnswer(t *testing.T) {
	var took time.Duration
	r := directed(t, Config{Far: true, For: time.Minute, Jobs: []manage.JobSpec{byHand("alpha", "one")}, Act: func(w *World) {
		over := new(atomic.Bool)
		ctx := context.WithValue(bg, answeredKey{}, over)
		look := func() time.Duration {
			began := time.Now()
			if _, err := w.fronts[0].living().store.Global(ctx); err != nil {
				w.fail(0, "look: %v", err)
			}
			return time.Since(began)
		}
		if during := look(); during > 100*time.Millisecond {
			w.fail(0, "a call of an invocation took %s", during)
		}
		over.Store(true)
		took = look()
	}})
	if took < time.Second || r.Counts["call behind an answer"] != 1 {
		t.Errorf("a call behind an answer took %s; %d of them", took, r.Counts["call behind an answer"])
	}
}

// A run waits for a permit, all its executors go, and then it gets the permit: other runs use
// its place until an executor is available. The checker finds late runs by itself.
func TestGivenAPermitWithNobodyThere(t *testing.T) {
	const work, away = 20 * time.Second, 80 * time.Second
	limited := func(app string) manage.JobSpec {
		j := byHand(app, "one")
		j.Def.Overlap = core.Overlap{Limit: 1, Group: group}
		return j
	}
	jobs := []manage.JobSpec{limited("alpha"), limited(come)}
	jobs[1].Def.WaitForExecutor = 5 * time.Minute
	for name, c := range map[string]Config{"one machine": {}, "functions": {Far: true}} {
		if !c.Far && *flagEngine == "aws" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			c.Waits, c.Jobs, c.For = true, jobs, 3*time.Minute
			c.Behave = func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
				return w.execs.works(sh, work)
			}
			c.Act = func(w *World) {
				trigger("alpha/one")(w) // runs from 10 s to 30 s
				trigger(come + "/one")(w)
				w.sleep(bg, 7*time.Second)
				w.allGo(away, false)
				trigger("alpha/one")(w)
			}
			r := directed(t, c)
			r.want(t, "state succeeded", 3)
			if r.Counts["permit handed back"] == 0 {
				t.Error("no permit was handed back")
			}
			runs := r.runs[1]
			if len(runs) != 2 || runs[1].SentAt.Sub(runs[0].EndedAt) > moment {
				t.Errorf("%+v", runs)
			}
		})
	}
}

// A trigger 70 days ahead is there when its time has come.
func TestTriggerFarAhead(t *testing.T) {
	for _, aws := range []bool{false, true} {
		r := directed(t, Config{AWS: aws, Far: true, Deployed: true, For: 71 * day, Jobs: []manage.JobSpec{byHand("alpha", "one")},
			Act: func(w *World) {
				at := time.Now().Add(70 * day)
				w.triggers("alpha/one", &at)
				w.stands(70*day - 20*time.Minute)
				w.sleep(bg, 30*time.Minute)
				w.stands(time.Until(w.began.Add(71 * day)))
			}})
		r.want(t, "state succeeded", 1)
		if runs := r.runs[1]; len(runs) == 1 && runs[0].SentAt.Sub(runs[0].Slot.Time()) > time.Second {
			t.Errorf("sent at %s, due at %s", runs[0].SentAt, runs[0].Slot)
		}
	}
}

// A run that is open for 30 days is watched all the time: the run that reports ends as
// reported, and the run that its executor forgot is lost soon after.
func TestRunOpenForAMonth(t *testing.T) {
	check.Long(t)
	for _, aws := range []bool{false, true} {
		var forgets time.Time
		r := directed(t, Config{AWS: aws, Far: true, Deployed: true, For: 31 * day, Jobs: []manage.JobSpec{byHand("alpha", "one"),
			byHand("alpha", "two")},
			Behave: func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
				w.truth.arrives(sh)
				forgets = time.Now().Add(30 * day)
				t := w.execs.takes(sh)
				w.after(30*day, func() {
					if w.execs.end(w.execs.at[sh.Address], t); sh.Job.Def.Name == "one" {
						w.report(wire.CallbackItem{LogID: int64(sh.Run.ID), Code: 200})
					}
				})
				return dispatch.Answer{Kind: dispatch.AnswerAccepted}, true
			},
			Act: func(w *World) {
				trigger("alpha/one", "alpha/two")(w)
				for w.busy.Load() { // little happens in between
					w.sleep(bg, 6*time.Minute)
					stands := 24 * time.Hour
					if time.Since(w.began) > 29*day { // it has to be seen soon after the end
						stands = 4 * time.Hour
					}
					if left := time.Until(w.began.Add(31 * day)); left > 0 {
						w.stands(min(stands, left))
					}
				}
			}})
		r.want(t, "state succeeded", 1)
		r.want(t, "state lost", 1)
		for n := range core.JobID(2) {
			for _, run := range r.runs[n+1] {
				if late := run.EndedAt.Sub(forgets); late < 0 || late > 5*time.Hour {
					t.Errorf("run %d ended as %s at %s, %s after its executor ended it", run.ID, run.State, run.EndedAt, late)
				}
			}
		}
	}
}
