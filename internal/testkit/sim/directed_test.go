package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
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

// want asserts one count of a world, least that one is not lower.
func (r Report) want(t *testing.T, what string, n int) {
	t.Helper()
	if r.Counts[what] != n {
		t.Errorf("%s: %d, want %d", what, r.Counts[what], n)
	}
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

// ofApp has the executors of one app behave so.
func ofApp(app string, so behaves) behaves {
	return func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
		if sh.Run.App != app {
			return dispatch.Answer{}, false
		}
		return so(w, sh)
	}
}

// well is an executor that answers each call with a success, after a time.
func well(after time.Duration) behaves {
	return func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
		w.truth.arrives(sh)
		w.sleep(bg, after)
		return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}, true
	}
}

// succeeds is an executor that accepts, and reports a success after a time.
func succeeds(after time.Duration) behaves {
	return func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
		return endsAfter(w, sh, after, wire.CallbackItem{Code: 200})
	}
}

// keeps is an executor that accepts, is busy with the run, and never ends it.
func keeps(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
	w.execs.takes(sh)
	return neverEnds(w, sh)
}

// neverEnds is an executor that accepts and never reports.
func neverEnds(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
	w.truth.arrives(sh)
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}, true
}

// TestOneRun: the effects of one fault on the only run of a world.
func TestOneRun(t *testing.T) {
	type counts = map[string]int
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
			for what, n := range c.want {
				r.want(t, what, n)
			}
		})
	}
}

func TestTickerKilledBetweenEnqueueAndAdvance(t *testing.T) {
	var kills atomic.Int32
	r := directed(t, Config{Jobs: []manage.JobSpec{jobOf("alpha", "one", every(time.Second))}, Script: func(c Call) Fate {
		if c.Process == "ticker" && c.Op == "Advance" && c.At > 3*time.Second && kills.Add(1) <= 4 {
			return Kill
		}
		return Fine
	}})
	r.want(t, "re-send", 0)
	r.want(t, "kill ticker", 4)
	r.least(t, "sent", 25)
}

// The answer to a takeover is lost, and the callback of the first send closes the run: the new
// owner sees that and sends nothing.
func TestCallbackBeforeTheAnswerOfTheTakeOver(t *testing.T) {
	kill := once(is("dispatcher", "write journal"), Kill)
	lose := once(func(c Call) bool { return c.Op == "TakeOver" && c.At > 20*time.Second }, Lost)
	r := directed(t, Config{Jobs: []manage.JobSpec{byHand("alpha", "one")}, Act: trigger("alpha/one"), Behave: neverEnds,
		For: time.Minute,
		Script: func(c Call) Fate {
			f := max(kill(c), lose(c))
			if f == Lost {
				c.in.p.w.after(500*time.Millisecond, func() {
					c.in.p.w.report(wire.CallbackItem{LogID: int64(core.NumberedRun(1, 1)), Code: 200})
				})
			}
			return f
		}})
	r.want(t, "take-over", 1)
	r.want(t, "re-send", 0)
	r.want(t, "state succeeded", 1)
}

// failing executors fail the first attempt and end the second.
func failing(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
	code := 200
	if sh.Run.Attempt == 1 {
		code = 500
	}
	return endsAfter(w, sh, time.Second, wire.CallbackItem{Code: code})
}

// snoozing executors put off the first two attempts and end the
// third.
func snoozing(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
	it := wire.CallbackItem{Code: 200}
	if sh.Run.Attempt < 3 {
		it.Code, it.RetryAfter = 500, 2
		w.truth.says(sh.Run.ID, it.RetryAfter)
	}
	return endsAfter(w, sh, time.Second, it)
}

// atEachStep runs a world once for each fault of each of some calls of a process.
func atEachStep(t *testing.T, process string, c Config, check func(*testing.T, Report), ops ...string) {
	for _, op := range ops {
		for _, f := range []Fate{Kill, KillAfter, After, Before, Late} {
			t.Run(op+" "+f.String(), func(t *testing.T) {
				c := c
				c.Script = once(is(process, op), f)
				check(t, directed(t, c))
			})
		}
	}
}

func TestCallbackKilledOnTheWayOfASnooze(t *testing.T) {
	atEachStep(t, "callback", Config{Jobs: []manage.JobSpec{byHand("alpha", "one")}, Act: trigger("alpha/one"), Behave: snoozing},
		func(t *testing.T, r Report) {
			r.want(t, "snoozed", 2)
			r.want(t, "state failed", 2)
			r.want(t, "state succeeded", 1)
		}, "CloseRuns", "Create", "Enqueue", "ClearOwed") // F1 to F4
}

func TestCallbackKilledOnTheWayToTheRetry(t *testing.T) {
	job := byHand("alpha", "one")
	job.Def.Retry = core.Retry{Max: 1, Delay: 2 * time.Second}
	atEachStep(t, "callback", Config{Jobs: []manage.JobSpec{job}, Act: trigger("alpha/one"), Behave: failing}, func(t *testing.T, r Report) {
		r.want(t, "retries", 1)
		r.want(t, "state failed", 1)
		r.want(t, "state succeeded", 1)
	}, "CloseRuns", "Create", "Enqueue", "ClearOwed") // F1 to F4
}

// TestKilledOnTheWayToLogAndNotice: a failed run owes its log and a notification.
func TestKilledOnTheWayToLogAndNotice(t *testing.T) {
	atEachStep(t, "postrun", Config{Jobs: []manage.JobSpec{byHand("alpha", "one")}, Act: trigger("alpha/one"), Behave: failing},
		func(t *testing.T, r Report) {
			r.want(t, "log kept", 1)
			r.want(t, "notice owed no more", 1)
			r.least(t, "told: failed", 1)
		}, "write log", "write notice", "ClearPostRun", "Ack") // A2, A3
}

func TestDeleteUnderABacklog(t *testing.T) {
	r := directed(t, Config{Jobs: []manage.JobSpec{jobOf("alpha", "one", every(time.Second))},
		Script: during(5*time.Second, 20*time.Second, is("dispatcher", "Jobs"), Throttled), // nothing is dispatched
		Act: func(w *World) {
			w.sleep(bg, 15*time.Second)
			res, err := w.people.Delete(bg, god, "alpha/one", nil)
			if err != nil {
				w.fail(0, "delete: %v", err)
			}
			w.truth.acknowledged(res.ID, res.Rev)
		}})
	r.least(t, "state skipped", 5)
	if n := r.Counts["sent"]; n > 7 {
		t.Errorf("%d sent", n)
	}
}

func TestEditBetweenPlanAndDispatch(t *testing.T) {
	r := directed(t, Config{Far: true, For: 90 * time.Second, Jobs: []manage.JobSpec{jobOf("alpha", "one", every(3*time.Second))},
		Act: func(w *World) {
			w.sleep(bg, 20*time.Second) // the ring holds a minute of fires
			w.saves(jobOf("alpha", "one", every(2*time.Second)))
		}})
	for _, run := range r.runs[1] {
		if run.State != core.Succeeded && run.Reason != core.ReasonPaused {
			t.Errorf("run at %s is %s: %s", run.At, run.State, run.Reason)
		}
	}
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

// A run that its answer ended is closed while another send of the batch still hangs: a crash
// then sends again only the run without an answer.
func TestEndedCallIsClosedWhileOthersHang(t *testing.T) {
	r := directed(t, Config{Jobs: []manage.JobSpec{byHand("gamma", "quick"), byHand("gamma", "slow")},
		Act: trigger("gamma/quick", "gamma/slow"),
		Behave: func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
			inv := w.truth.nonce(sh.Run.Owner)
			w.truth.arrived(inv, sh)
			if sh.Job.Def.Name == "slow" {
				w.sleep(bg, 2*time.Second)
				if !sh.Run.MaybeSent {
					inv.in.kill("dispatcher")
				}
			}
			return dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200}, true
		}})
	r.want(t, "state succeeded", 2)
	r.want(t, "re-send", 1) // slow
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

// A dispatcher claims a run and never sends it, and an edit of the job meantime makes the next
// dispatcher leave the run. The watchdog must close it. It stayed open forever, because the
// second check of the executor did not know the reason of the first.
func TestLeftByAnotherEnds(t *testing.T) {
	r := directed(t, Config{Jobs: []manage.JobSpec{jobOf("alpha", "one", every(10*time.Second))}, Script: once(func(c Call) bool {
		return c.Process == "dispatcher" && c.Op == "Send" && c.At > 5*time.Second
	}, Kill), Act: func(w *World) {
		w.sleep(bg, 22*time.Second) // the run of the first is claimed, its message invisible
		w.saves(jobOf("alpha", "one", every(20*time.Second)))
	}})
	r.want(t, "state lost", 1)
}

// A fixed delay continues after a fire that fell into a pause of its app.
func TestFixedDelayGoesOnAfterAPause(t *testing.T) {
	jobs := []manage.JobSpec{jobOf("alpha", "one", fixedDelay(3*time.Second))}
	r := directed(t, Config{For: 3 * time.Minute, Jobs: jobs, Act: func(w *World) {
		for _, all := range []manage.Target{{App: "alpha"}, {All: true}} {
			w.sleep(bg, 10*time.Second)
			w.pauses(all, nil)
			w.sleep(bg, 15*time.Second)
			w.resumes(all)
			w.sleep(bg, tailCheck)
		}
	}})
	r.least(t, "state succeeded", 20)
}

// The advance of a fixed delay is lost after its fire was sent: the tick takes its run as the
// chain, and begins no second one, however late it is then.
func TestFixedDelayWhoseAdvanceIsLost(t *testing.T) {
	job := jobOf("alpha", "one", fixedDelay(time.Second))
	job.Misfire, job.Grace = core.MisfireSkip, 2*time.Second
	r := directed(t, Config{For: time.Minute, Jobs: []manage.JobSpec{job},
		Script: during(10*time.Second, 20*time.Second, func(c Call) bool { return c.Op == "Advance" }, Throttled),
		Behave: succeeds(12 * time.Second)})
	r.least(t, "state succeeded", 4)
}

// Each actor that ends a chain computes one and the same next instant: the dispatcher that
// skipped its fire, whose advance is lost, and the tick that repairs it later.
func TestFixedDelayEndsAtOneInstant(t *testing.T) {
	job := jobOf("alpha", "one", fixedDelay(time.Second))
	job.Misfire, job.Grace = core.MisfireSkip, 3*time.Second
	r := directed(t, Config{For: 3 * time.Minute, Jobs: []manage.JobSpec{job},
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
		},
		Behave: succeeds(50 * time.Second)})
	r.least(t, "state succeeded", 3)
}

// A journal is read after until has passed, never before: entries that the owner stores in its
// last second count.
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

// A new owner that cannot send releases the run with its address: the next owner sends to that
// address.
func TestGivenBackWithItsAddress(t *testing.T) {
	kill := once(is("dispatcher", "write journal"), Kill)
	r := directed(t, Config{For: time.Minute, Jobs: []manage.JobSpec{func() manage.JobSpec {
		job := byHand("alpha", "one")
		job.Def.Route = core.RouteRandom
		return job
	}()}, Act: trigger("alpha/one"), Behave: neverEnds,
		Script: func(c Call) Fate {
			if c.Process == "dispatcher" && c.At > 35*time.Second && c.At < 52*time.Second &&
				(c.Op == "Jobs" || c.Op == "get app" || c.Op == "get global" || c.Op == "list executors") {
				return Slow // 13.2 s of 15: no send is begun after 13
			}
			return kill(c)
		}})
	r.want(t, "re-send", 1)
	r.want(t, "take-over", 1)
}

// The close of a dispatcher that died arrives when another owns the run and an executor has it:
// it finds another owner and does nothing.
func TestLateCloseOfALostOwner(t *testing.T) {
	var closed atomic.Pointer[incarnation]
	r := directed(t, Config{For: time.Minute, Jobs: []manage.JobSpec{byHand("alpha", "one")}, Act: trigger("alpha/one"),
		Script: func(c Call) Fate {
			if c.Process != "dispatcher" {
				return Fine
			}
			if c.Op == "CloseRuns" && closed.CompareAndSwap(nil, c.in) {
				return Later // at 45 s; the takeover is at 40 s
			}
			if closed.Load() == c.in {
				return Kill
			}
			return Fine
		},
		Behave: func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
			if !sh.Run.MaybeSent {
				return dispatch.Answer{Kind: dispatch.AnswerRefused}, true
			}
			return endsAfter(w, sh, 20*time.Second, wire.CallbackItem{Code: 200})
		}})
	r.want(t, "take-over", 1)
	r.want(t, "state succeeded", 1)
}

// A table that is throttled for a quarter of an hour loses nothing: fires that a policy drops
// are recorded, the others are sent, and no message is dead-lettered.
func TestThrottledForAQuarterOfAnHour(t *testing.T) {
	const from, to = 2 * time.Minute, 17 * time.Minute
	var jobs []manage.JobSpec
	for _, m := range []core.Misfire{core.MisfireAll, core.MisfireLatest, core.MisfireSkip} {
		j := jobOf("alpha", string(m), every(10*time.Second))
		j.Misfire, j.Grace = m, 20*time.Second
		jobs = append(jobs, j)
	}
	r := directed(t, Config{AWS: true, SDK: true, Far: true, For: 20 * time.Minute, Jobs: jobs,
		Request: func(at time.Duration, c fakeaws.Call) (f fakeaws.Fault) {
			if at > from && at < to && !strings.HasPrefix(c.On, "https://") {
				f.Before = fakeaws.Throttled()
			}
			return f
		}})
	for n, m := range []core.Misfire{core.MisfireAll, core.MisfireLatest, core.MisfireSkip} {
		states := map[core.State]int{}
		for _, run := range r.runs[core.JobID(n+1)] {
			states[run.State]++
		}
		// About 120 instants of 20 minutes, 90 of them while nothing was possible.
		if ok := states[core.Succeeded]; m == core.MisfireAll && ok < 115 || m != core.MisfireAll && (ok < 25 || ok > 50) {
			t.Errorf("policy %s: %v", m, states)
		}
	}
	r.least(t, "skipped", 150)
}

// TestOneTableThrottledForTenMinutes: while all requests to one table are throttled, no other part loses or doubles a fire. Fires that
// come due in these ten minutes are sent after them.
func TestOneTableThrottledForTenMinutes(t *testing.T) {
	const from, to = 2 * time.Minute, 12 * time.Minute
	for _, table := range []string{fakeaws.Names.Jobs, fakeaws.Names.Runs, fakeaws.Names.State} {
		t.Run(table, func(t *testing.T) {
			var refused atomic.Int32
			j := jobOf("alpha", "all", every(10*time.Second))
			j.Misfire, j.Grace = core.MisfireAll, 20*time.Second
			r := directed(t, Config{AWS: true, SDK: true, Far: true, For: 15 * time.Minute, Jobs: []manage.JobSpec{j},
				Request: func(at time.Duration, c fakeaws.Call) (f fakeaws.Fault) {
					if at > from && at < to && c.On == table {
						refused.Add(1)
						f.Before = fakeaws.Throttled()
					}
					return f
				}})
			r.want(t, "re-send", 0)
			r.want(t, "state succeeded", r.Counts["fires"])
			r.want(t, "skipped", 0)
			if r.least(t, "fires", 85); refused.Load() < 500 { // an instant each ten seconds
				t.Errorf("%d requests throttled", refused.Load())
			}
		})
	}
}

// A receipt whose answer is lost hides its messages from all clients: they are late by their
// visibility, the others not at all.
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

// A fixed delay is edited between the end of a chain and the advance that moves it
// on: the next instant is one of the new delay, and the audit misses none of the old.
func TestFixedDelayEditedBeforeItMovesOn(t *testing.T) {
	delay := func(d time.Duration) manage.JobSpec {
		return jobOf("alpha", "one", fixedDelay(d))
	}
	r := directed(t, Config{For: time.Minute, Jobs: []manage.JobSpec{delay(2 * time.Second)},
		Script: during(10*time.Second, 25*time.Second, func(c Call) bool { return c.Op == "Advance" || c.Op == "Enqueue" }, Throttled),
		Act: func(w *World) {
			w.sleep(bg, 20*time.Second)
			w.saves(delay(5 * time.Second))
		}})
	r.least(t, "state succeeded", 8)
}

// A job whose calls hang takes no place, and no gate, from the job of another app.
func TestHungCallsHoldUpNobody(t *testing.T) {
	jobs := []manage.JobSpec{jobOf("alpha", "well", every(time.Second))}
	for i := range 4 {
		hang := jobOf("gamma", fmt.Sprint("hangs-", i), every(time.Second))
		hang.Def.Timeout = 10 * time.Minute
		jobs = append(jobs, hang)
	}
	r := directed(t, Config{For: 90 * time.Second, Jobs: jobs,
		Behave: ofApp("gamma", func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
			w.truth.arrives(sh)
			w.sleep(bg, 10*time.Minute)
			return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed}, true
		})})
	sent := 0
	for _, run := range r.runs[1] {
		if late := run.SentAt.Sub(run.Slot.Time()); !run.SentAt.IsZero() && late < time.Second {
			sent++
		}
	}
	if sent < 85 {
		t.Errorf("%d runs of the other job were sent in time in 90 seconds", sent)
	}
}

// Unresponsive addresses are asked in parallel, after the fires that need no question were
// sent: a batch with many failover fires does not delay others.
func TestProbesHoldUpNobody(t *testing.T) {
	var jobs []manage.JobSpec
	for i := range 8 {
		j := jobOf("alpha", fmt.Sprint("asks-", i), every(5*time.Second))
		j.Def.Route = core.RouteFailover
		jobs = append(jobs, j)
	}
	jobs = append(jobs, jobOf("gamma", "well", every(time.Second)))
	r := directed(t, Config{Far: true, For: 2 * time.Minute, Jobs: jobs, Behave: ofApp("gamma", well(0)), Act: func(w *World) {
		w.execs.set(func(e *executor) { e.deaf = w.began.Add(time.Hour) }, apps[0].addresses...)
		w.troubleAt("alpha", w.began, w.began.Add(3*time.Minute)) // a fire of its own may have to ask twice, and fires go on after For
	}})
	late := time.Duration(0)
	for _, run := range r.runs[9] {
		if !run.SentAt.IsZero() {
			late = max(late, run.SentAt.Sub(run.Slot.Time()))
		}
	}
	if late > 2*time.Second {
		t.Errorf("a run without probes was sent %s late", late)
	}
}

// Messages that a queue lost by itself are found by the tick and sent again, while messages of
// others are due and in flight all the time.
func TestLostFromTheRing(t *testing.T) {
	busy := jobOf("gamma", "busy", every(time.Second))
	jobs := []manage.JobSpec{busy}
	for i := range 6 {
		jobs = append(jobs, jobOf("alpha", fmt.Sprint("lost-", i), every(20*time.Second)))
	}
	lost := 0
	slow := ofApp("gamma", well(2900*time.Millisecond))
	directed(t, Config{Far: true, For: 12 * time.Minute, Jobs: jobs, Behave: slow, Act: func(w *World) {
		w.sleep(bg, 2*time.Minute)
		for range 4 {
			lost += len(w.truth.lose(w.truth.healed(), "alpha", core.Planned, core.Queued))
			w.sleep(bg, 20*time.Second)
		}
	}})
	if lost < 3 {
		t.Errorf("only %d messages were lost", lost)
	}
}

// A purge of the queue heals by itself, within two minutes: the tick finds that messages were
// lost, and then all former messages are on the ring again, due or to come, even if their own
// job would compare them only hours later.
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

// Executors that died without a goodbye keep no living one out.
func TestDeadExecutorsKeepNobodyOut(t *testing.T) {
	r := directed(t, Config{For: 5 * time.Minute, Jobs: []manage.JobSpec{jobOf("beta", "one", every(10*time.Second))}, Act: func(w *World) {
		w.execs.set(func(e *executor) { e.down = w.began.Add(25 * time.Second) }, apps[1].addresses...)
		w.sleep(bg, 22*time.Second)
		for _, a := range apps[1].addresses {
			if err := w.store.RemoveExecutor(bg, "beta", a, time.Time{}); err != nil {
				w.fail(0, "remove: %v", err)
			}
		}
		for i := range 1000 {
			at := time.Now().Add(-time.Hour)
			if err := w.store.PutExecutor(bg, core.Executor{App: "beta", Address: fmt.Sprintf("http://10.9.%d.%d:9999", i/250, i%250), Beat: at,
				Since: at}); err != nil {
				w.fail(0, "register: %v", err)
			}
		}
	}})
	r.least(t, "state succeeded", 24)
}

// A fire that arrives after its app was paused twice is not sent, because it lies in the first
// of the pauses.
func TestFireOfThePauseBeforeTheLast(t *testing.T) {
	pause := func(w *World, d time.Duration) {
		w.pauses(manage.Target{App: "alpha"}, nil)
		w.sleep(bg, d)
		w.resumes(manage.Target{App: "alpha"})
		w.sleep(bg, d)
	}
	r := directed(t, Config{For: 2 * time.Minute, Jobs: []manage.JobSpec{jobOf("alpha", "one", every(2*time.Second))},
		Script: during(10*time.Second, time.Minute, is("dispatcher", "Jobs"), Throttled), // nothing is dispatched
		Act: func(w *World) {
			w.sleep(bg, 12*time.Second)
			pause(w, 15*time.Second)
			pause(w, 4*time.Second)
		}})
	r.least(t, "sent", 20)
}

// The clock of a sender is set ahead while it waits for the answer: it still stores the answer,
// and no dispatcher sends again.
func TestClockSetAheadBeforeTheJournal(t *testing.T) {
	r := directed(t, Config{For: time.Minute, Jobs: []manage.JobSpec{byHand("alpha", "one")}, Act: trigger("alpha/one"), Skew: true,
		Behave: func(w *World, sh *dispatch.SendRequest) (dispatch.Answer, bool) {
			inv := w.truth.nonce(sh.Run.Owner)
			w.truth.arrived(inv, sh)
			if !sh.Run.MaybeSent {
				inv.in.p.step(10 * time.Minute)
				w.duplicate(inv.got[0], time.Until(inv.until)+time.Second, 1+slices.Index(w.workers, inv.in.p))
			}
			return dispatch.Answer{Kind: dispatch.AnswerAccepted}, true
		}})
	r.want(t, "re-send", 0)
	r.want(t, "state lost", 1)
}

// A pause is made longer just before its end, and the tick that ends it comes later than that:
// its write is rejected, and no record shows a resume.
func TestPauseMadeLongerAtItsEnd(t *testing.T) {
	until := func(w *World) time.Time { return w.began.Truncate(time.Second).Add(20 * time.Second) }
	r := directed(t, Config{For: 2 * time.Minute, Jobs: []manage.JobSpec{jobOf("alpha", "one", every(time.Second))},
		Script: func(c Call) Fate {
			end := until(c.in.p.w)
			switch now := time.Now(); {
			case c.Process == "user" && c.Op == "UpdateJobs" && now.After(end.Add(-time.Second)):
				return Late
			case c.Process == "ticker" && c.Op == "Advance" && now.After(end.Add(-time.Second)) && now.Before(end.Add(30*time.Second)):
				return Later
			}
			return Fine
		},
		Act: func(w *World) {
			pause := func(m *people.People, until time.Time) {
				_, _ = m.Pause(bg, god, manage.Target{Job: "alpha/one"}, manage.PauseRequest{Until: &until})
			}
			w.sleep(bg, 5*time.Second)
			pause(w.people, until(w))
			w.sleep(bg, time.Until(until(w).Add(-200*time.Millisecond)))
			for _, p := range w.processes() {
				if p.kind() == "user" {
					w.ask(p, func(_ context.Context, m *people.People) { pause(m, until(w).Add(time.Minute)) })
				}
			}
		}})
	r.least(t, "sent", 20)
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

// If a table has little capacity, the shortage is reported, and nothing is lost.
func TestScarceTables(t *testing.T) {
	var jobs []manage.JobSpec
	for i := range 20 {
		j := jobOf("alpha", fmt.Sprint("job-", i), every(10*time.Second))
		j.Misfire, j.Grace = core.MisfireAll, 5*time.Minute
		jobs = append(jobs, j)
	}
	r := directed(t, Config{AWS: true, SDK: true, Far: true, For: 5 * time.Minute, Jobs: jobs,
		Request: func(time.Duration, fakeaws.Call) fakeaws.Fault {
			return fakeaws.Fault{Capacity: 0.005} // 20 writes a second of a table, 5 of a partition
		}})
	r.least(t, "request: no room", 1)
	r.least(t, "state succeeded", 20*30)
	r.want(t, "skipped", 0)
}
