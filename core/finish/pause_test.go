package finish_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/finish"
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
