package finish_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
)

// fragile stores a job that fires each minute and is paused after n failures in a row.
func (r *rig) fragile(n int, change func(*core.Job)) {
	r.job(7, func(j *core.Job) {
		j.Def.PauseAfter, j.Def.Retry.Max = n, 0
		j.Sched.Schedule = core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Minute, Aligned: true}}}
		j.Sched.Next = core.InstantOf(begin) + 60
		if change != nil {
			change(j)
		}
	})
}

// pauses returns the changes that paused job 7.
func (r *rig) pauses() (list []core.Change) {
	r.t.Helper()
	all, err := r.Changes(r.t.Context(), "", 7, math.MaxInt64, 100)
	r.Must(err)
	for _, c := range all {
		if c.Verb == core.VerbPaused {
			list = append(list, c)
		}
	}
	return list
}

// TestPauseAfter: which ends interrupt a row of failures.
func TestPauseAfter(t *testing.T) {
	for _, tt := range []struct {
		name   string
		n      int
		ends   string // of single runs, each a second after the previous one
		paused bool
	}{
		{"three of three", 3, "fff", true},
		{"two of three", 3, "ff", false},
		{"one of one", 1, "f", true},
		{"a success within", 3, "ffsf", false},
		{"three after a success", 3, "sfff", true},
		{"three before a success", 4, "fffs", false},
		{"lost and timed out are failures", 3, "flt", true},
		{"a kill is none", 3, "fkff", true},
		{"two and a kill", 3, "fkf", false},
		{"a skip is none", 3, "fxff", true},
		{"a skip counts for nothing", 3, "fxf", false},
		{"runs by hand count", 3, "fFf", true},
		{"a success by hand ends the row", 3, "fSff", false},
		{"of a chain its end counts", 2, "f4", true},
		{"a chain is one", 3, "f4", false},
		{"since a change", 3, "ff!f", false},
		{"three since a change", 3, "f!fff", true},
		{"not without the setting", 0, "ffffffff", false},
		{"a row longer than a page", 100, strings.Repeat("f", 100), true},
		{"broken far back", 100, "f" + "s" + strings.Repeat("f", 99), false},
		{"removed one by one", 3, "f-f-f-", true},
		{"removed, with a success within", 2, "f-s-f-", false},
		{"removed, two after a success", 2, "f-s-f-f", true},
		{"removed, since a change", 2, "f-!f", false},
		{"many of no account", 3, "ff" + strings.Repeat("x", 150) + "f", true},
		{"all runs that are read", 3, "ff" + strings.Repeat("x", budget.PauseRuns-3) + "f", true},
		{"one more", 3, "ff" + strings.Repeat("x", budget.PauseRuns-2) + "f", true},
		{"far more", 3, "ff" + strings.Repeat("x", 3*budget.PauseRuns) + "f", true},
		{"a success among far more", 3, "fsf" + strings.Repeat("x", 3*budget.PauseRuns) + "f", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.fragile(tt.n, nil)
			last := core.RunID(0)
			end := func(id core.RunID, letter rune, first core.RunID) {
				r.run(id, func(x *core.Run) {
					x.Retries, x.PauseAfter, x.First = 0, tt.n > 0, first
					if first != id {
						x.Attempt = 2
					}
				})
				res := finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500, Reported: true}
				switch letter {
				case 's', 'S':
					res = finish.Result{Run: id, State: core.Succeeded, Code: 200, Reported: true}
				case 'l':
					res = finish.Result{Run: id, State: core.Lost, Reason: core.ReasonGone}
				case 't':
					res = finish.Result{Run: id, State: core.TimedOut, Reason: core.ReasonTimeout}
				case 'k':
					res = finish.Result{Run: id, State: core.Killed, Reason: core.ReasonPerson}
				case 'x':
					res = finish.Result{Run: id, State: core.Skipped, Reason: core.ReasonOverlap}
				}
				r.Must(r.end(res))
				last = id
			}
			for i, letter := range tt.ends {
				r.now = r.now.Add(time.Second)
				planned, numbered := core.PlannedRun(7, core.InstantOf(begin)+core.Instant(i)), core.NumberedRun(7, uint32(1000+i))
				switch letter {
				case '-': // all ended runs are deleted
					low, high := planned-core.RunID(i), planned
					runs, err := r.Runs.Span(t.Context(), low, high, 1000)
					for i := range runs { // after their logs are kept
						err = errors.Join(err, errors.Join(r.ChangeRuns(t.Context(), []core.RunPut{runs[i].ClearPostRun(core.PostRun{})})...))
					}
					r.Must(err)
					r.Drop(runs...)
				case '!':
					s := r.sched(7)
					a := s.Stay()
					a.NewRev, a.NewRevAt = s.Rev+1, r.now
					r.Must(r.Advance(t.Context(), []core.Advance{a})[0])
				case 'F', 'S':
					end(numbered, letter, numbered)
				case '4': // a chain of four attempts, the first three of which are retried
					for k, id := range []core.RunID{planned, numbered, numbered + 100, numbered + 200} {
						if k == 3 {
							end(id, 'f', planned)
							break
						}
						run := r.run(id, func(x *core.Run) { x.Attempt, x.First, x.PauseAfter = k+1, planned, true })
						c := core.End(run.ID, core.Run{State: core.Failed, Reason: core.ReasonHandler, EndedAt: r.now, Then: id + 1})
						r.Must(r.Change(c))
					}
				default:
					end(planned, letter, planned)
				}
			}
			s, pauses := r.sched(7), r.pauses()
			if (s.State == core.Paused) != tt.paused || (len(pauses) == 1) != tt.paused || len(pauses) > 1 {
				t.Fatalf("%s, paused %d times: %+v", s.State, len(pauses), pauses)
			}
			if !strings.HasSuffix(tt.ends, "-") && len(r.Run(last).Owes) > 0 {
				t.Errorf("it still owes %v", r.Run(last).Owes)
			}
			if !tt.paused {
				return
			}
			if s.PauseBy != "tickring" || !strings.Contains(s.PauseWhy, last.String()) || s.PauseUntil != 0 || s.PlanAt != 0 || s.Next != 0 ||
				s.PauseWhy != pauses[0].Why || pauses[0].By != "tickring" || pauses[0].ID != s.Rev {
				t.Errorf("%+v\nrecord %+v", s, pauses[0])
			}
		})
	}
}

// TestPauseIsOwed: a report that is repeated until it gets nil pauses the job once, after any
// fault. Earlier due runs are recorded.
func TestPauseIsOwed(t *testing.T) {
	for _, op := range []string{"close", "jobs", "span", "skips", "advance", "clear owed"} {
		for _, f := range []fault{{err: core.ErrThrottled}, {err: errUnknown}, {err: errUnknown, done: true}} {
			t.Run(fmt.Sprint(op, f.err, f.done), func(t *testing.T) {
				r := newRig(t)
				r.fragile(1, func(j *core.Job) { j.Sched.Next = core.InstantOf(begin) - 60 })
				id := core.PlannedRun(7, core.InstantOf(begin)-1)
				r.run(id, func(x *core.Run) { x.Retries, x.PauseAfter = 0, true })
				r.faults.faults[op] = []fault{f}
				fail := finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500, Reported: true}
				told := r.end(fail)
				if r.calls[op] == 0 {
					t.Fatal("it was not called")
				}
				if told == nil && r.sched(7).State != core.Paused {
					t.Errorf("notified of %v, and the job is %s", told, r.sched(7).State)
				}
				for try := 0; told != nil; try++ {
					if try == 3 {
						t.Fatal(told)
					}
					told = r.end(fail)
				}
				skips, err := r.Skips(t.Context(), 7, core.InstantOf(begin)-100, core.InstantOf(begin)+100)
				r.Must(err)
				if s := r.sched(7); s.State != core.Paused || len(r.pauses()) != 1 || len(r.Run(id).Owes) > 0 || len(skips) != 1 ||
					skips[0].First != core.InstantOf(begin)-60 || skips[0].Reason != core.ReasonPaused {
					t.Errorf("%+v\nchanges %+v\nskips %+v", s, r.pauses(), skips)
				}
			})
		}
	}
}

// TestPauseAfterMeets: the pause does not undo concurrent changes of the job.
func TestPauseAfterMeets(t *testing.T) {
	meet := func(t *testing.T, op string, between func(r *rig)) *rig {
		r := newRig(t)
		r.fragile(1, nil)
		id := core.PlannedRun(7, core.InstantOf(begin)-1)
		r.run(id, func(x *core.Run) { x.Retries, x.PauseAfter = 0, true })
		r.faults.faults[op] = []fault{{between: func() { between(r) }}}
		check.OK(t, r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler, Code: 500}))
		if owes := r.Run(id).Owes; len(owes) > 0 {
			t.Errorf("it still owes %v", owes)
		}
		return r
	}
	edit := func(change func(*core.Sched, *core.Advance)) func(r *rig) {
		return func(r *rig) {
			s := r.sched(7)
			a := s.Stay()
			change(&s, &a)
			r.Must(r.Advance(r.t.Context(), []core.Advance{a})[0])
		}
	}
	t.Run("a tick moves it on", func(t *testing.T) {
		r := meet(t, "advance", edit(func(_ *core.Sched, a *core.Advance) { a.NewNext += 60 }))
		if s := r.sched(7); s.State != core.Paused || len(r.pauses()) != 1 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a user pauses it", func(t *testing.T) {
		r := meet(t, "advance", edit(func(s *core.Sched, a *core.Advance) {
			a.NewState, a.NewRev, a.NewRevAt, a.NewPauseBy, a.NewPauseWhy = core.Paused, s.Rev+1, begin, "ann", "lunch"
		}))
		if s := r.sched(7); s.PauseBy != "ann" || s.PauseWhy != "lunch" || len(r.pauses()) != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("the job is created again", func(t *testing.T) {
		r := meet(t, "advance", edit(func(s *core.Sched, a *core.Advance) {
			a.NewRev, a.NewRevAt = s.Rev+1, begin.Add(time.Second)
		}))
		if s := r.sched(7); s.State != core.Started || len(r.pauses()) != 0 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("it is deleted", func(t *testing.T) {
		r := meet(t, "close", func(r *rig) {
			r.Delete(7, begin)
		})
		if len(r.pauses()) != 0 {
			t.Errorf("%+v", r.pauses())
		}
	})
}

// TestPauseOfAFixedDelay: its chain ends, and no fire is sent until a user resumes the job.
func TestPauseOfAFixedDelay(t *testing.T) {
	r := newRig(t)
	j, _ := r.delayed(7, 10*time.Second, func(j *core.Job) { j.Def.PauseAfter, j.Def.Retry.Max = 1, 0 })
	second := core.PlannedRun(7, core.InstantOf(begin)-2)
	r.run(second, func(x *core.Run) { x.FixedDelay, x.PauseAfter, x.Retries = true, true, 0 })
	r.Must(r.end(finish.Result{Run: second, State: core.Failed, Reason: core.ReasonHandler, Code: 500}))
	if s := r.sched(7); s.State != core.Paused || s.Tail != j.Sched.Tail || len(r.pauses()) != 1 {
		t.Fatalf("%+v", s)
	}
	r.Must(r.end(finish.Result{Run: j.Sched.Tail, State: core.Succeeded}))
	if s := r.sched(7); s.State != core.Paused || s.Tail != 0 || s.PlanAt != 0 || s.Next <= core.InstantOf(begin) {
		t.Errorf("%+v", s)
	}
	if m := r.messages(ring.KindFires); m != nil {
		t.Errorf("sent %+v", m)
	}
}

// TestPauseUntold: if the notification of a pause cannot be enqueued, the pause stays pending and
// the next call enqueues it. A run without notifications causes none.
func TestPauseUntold(t *testing.T) {
	for _, tells := range []bool{true, false} {
		t.Run(fmt.Sprintf("tells %t", tells), func(t *testing.T) {
			r := newRig(t)
			r.fragile(1, nil)
			id := core.NumberedRun(7, 1)
			r.run(id, func(x *core.Run) {
				x.Retries, x.PauseAfter, x.First, x.Notice, x.KeepLog = 0, true, id, tells, core.KeepLogNever
			})
			if tells { // the notification, and the run's other follow-ups
				r.faults.faults["enqueue"] = []fault{{err: core.ErrThrottled}, {err: core.ErrThrottled}}
			}
			err := r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler})
			if run := r.Run(id); (err != nil) != tells || (len(run.Owes) > 0) != tells || len(r.pauses()) != 1 {
				t.Fatalf("%v; it owes %+v, with %d pauses", err, run.Owes, len(r.pauses()))
			}
			run := r.Run(id)
			r.Must(r.f.Mend(t.Context(), &run))
			var notes []ring.Note
			for _, m := range r.messages(ring.KindPostRun) {
				notes = append(notes, m.PostRun.Notes...)
			}
			if tells && (len(notes) != 1 || notes[0].Event != core.EventPaused || notes[0].Run != id || notes[0].Times != 1) ||
				!tells && len(notes) > 0 {
				t.Errorf("told of %+v", notes)
			}
			if run := r.Run(id); len(run.Owes) > 0 || len(r.pauses()) != 1 {
				t.Errorf("it owes %+v, with %d pauses", run.Owes, len(r.pauses()))
			}
		})
	}
}

// TestRowEndsWithASuccessNobodyRepeats: the process that closed a success died before it forgot
// the earlier failures. The scan forgets them, so they do not count once the success is deleted.
func TestRowEndsWithASuccessNobodyRepeats(t *testing.T) {
	r := newWatchRig(t)
	r.fragile(2, nil)
	ran := func(n int, res finish.Result) (core.RunID, error) {
		r.now = r.now.Add(time.Minute)
		id := core.NumberedRun(7, uint32(n))
		r.run(id, func(x *core.Run) { x.Retries, x.PauseAfter, x.SentAt = 0, true, r.now })
		res.Run, res.At = id, r.now
		return id, r.end(res)
	}
	failed, succeeded := finish.Result{State: core.Failed, Reason: core.ReasonHandler}, finish.Result{State: core.Succeeded}
	failure, err := ran(1, failed)
	r.Must(err)
	r.faults.faults["permits"] = []fault{{err: core.ErrThrottled}}
	success, err := ran(2, succeeded)
	if err == nil || r.Run(success).State != core.Succeeded {
		t.Fatalf("%v; %+v", err, r.Run(success))
	}
	r.Must(r.w.Check(t.Context(), &ring.Check{Runs: []core.RunID{success}}))
	kept := r.Run(failure)
	r.Must(r.Change(kept.ClearPostRun(core.PostRun{})))
	r.Drop(r.Run(failure), r.Run(success))
	_, err = ran(3, failed)
	r.Must(err)
	if s := r.sched(7); s.State != core.Started {
		t.Errorf("%s: %s", s.State, s.PauseWhy)
	}
}

// TestRowOfADeletedJobIsForgotten: after a run of a deleted job fails, no failures of it are
// stored.
func TestRowOfADeletedJobIsForgotten(t *testing.T) {
	r := newRig(t)
	r.fragile(3, nil)
	for n := range uint32(2) {
		id := core.NumberedRun(7, n+1)
		r.run(id, func(x *core.Run) { x.Retries, x.PauseAfter = 0, true })
		if n == 1 {
			r.Delete(7, begin)
		}
		r.Must(r.end(finish.Result{Run: id, State: core.Failed, Reason: core.ReasonHandler}))
		if p := r.PermitsOf("row/7"); len(p.Holders) != 1-int(n) {
			t.Errorf("after %d failures: %+v", n+1, p)
		}
	}
}
