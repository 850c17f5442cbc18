package sim

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
)

// No executor is available for a while. A returning executor gets the waiting runs once each:
// at once if one process dispatches and sees its registration, and within 15 s if many do. A
// run whose wait ends is decided within a second, the unit of a queue's delay.
func TestExecutorsComeBack(t *testing.T) {
	const goes, away = 20 * time.Second, 80 * time.Second
	waits := func(name string, s core.Schedule, change func(*manage.JobSpec)) manage.JobSpec {
		j := jobOf(come, name, s)
		j.Def.WaitForExecutor, j.Misfire, j.Grace = 5*time.Minute, core.MisfireSkip, 2*time.Second
		change(&j)
		return j
	}
	jobs := []manage.JobSpec{
		waits("waits", every(5*time.Second), func(*manage.JobSpec) {}),
		waits("asks", every(20*time.Second), func(j *manage.JobSpec) { j.Def.Route = core.RouteFailover }),
		waits("chain", fixedDelay(5*time.Second), func(*manage.JobSpec) {}),
		waits("gives-up", every(20*time.Second), func(j *manage.JobSpec) { j.Def.WaitForExecutor = 17 * time.Second }),
		waits("ends", every(20*time.Second), func(j *manage.JobSpec) { j.Deadline = 23 * time.Second }),
	}
	for name, c := range map[string]struct {
		world  Config
		within time.Duration
	}{
		"one machine":                 {Config{Wakes: true}, 500 * time.Millisecond},
		"functions, as they are":      {Config{Far: true, Deployed: true}, 15 * time.Second},
		"functions, as they are, AWS": {Config{Far: true, Deployed: true, AWS: true}, 15 * time.Second},
	} {
		if c.world.Wakes && *flagEngine == "aws" {
			continue
		}
		for _, silent := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				c.world.Waits, c.world.Jobs, c.world.For = true, jobs, 3*time.Minute
				c.world.Act = func(w *World) {
					w.sleep(bg, goes)
					w.allGo(away, silent)
				}
				r := directed(t, c.world)
				back := r.w.truth.nobody[0].until
				if n := len(r.w.truth.nobody); n != 1 {
					t.Fatalf("no executor was available %d times", n)
				}
				of := map[core.State]int{}
				for i := range jobs {
					for _, run := range r.runs[core.JobID(i+1)] {
						st := r.w.truth.stories[run.ID]
						if !st.queued {
							continue
						}
						until, _ := r.w.truth.waitsUntil(run.ID, run.Slot.Time())
						due, within := back, c.within
						if until.Before(back) {
							due, within = until, 1100*time.Millisecond
						}
						if late := st.decided.Sub(due); late < 0 || late > within+50*time.Millisecond {
							t.Errorf("run %d of %s, %s %s: decided %s after its time", run.ID, jobs[i].Def.Name, run.State, run.Reason, late)
						}
						// A run whose wait ends before the next check may be sent or not.
						if st.sends > 1 || st.sends > 0 && !until.After(back) || st.sends == 0 && until.After(back.Add(c.within)) {
							t.Errorf("run %d of %s was sent %d times", run.ID, jobs[i].Def.Name, st.sends)
						}
						of[run.State]++
					}
				}
				if of[core.Succeeded] < 18 || of[core.Failed] < 2 || of[core.Skipped] < 2 {
					t.Errorf("what waited: %v", of)
				}
			})
		}
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
	for name, c := range map[string]Config{"one machine": {Wakes: true}, "functions": {Far: true}} {
		if c.Wakes && *flagEngine == "aws" {
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
