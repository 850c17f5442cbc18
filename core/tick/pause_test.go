package tick_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/store"
)

// TestEndOfAPauseIsRecordedWithIt: the record of a pause's end is stored if and only if the job was started, whatever
// happens to the write. Otherwise an audit would expect runs that never were due, and a replan would send them.
func TestEndOfAPauseIsRecordedWithIt(t *testing.T) {
	ann, target := core.Actor{Name: "ann"}, manage.Target{Job: "shop/j"}
	for name, c := range map[string]struct {
		meet   func(w *world, until time.Time, puts []store.JobPut) []error // the first advance
		paused bool                                                         // at the end
	}{
		"stored": {func(w *world, _ time.Time, puts []store.JobPut) []error {
			return w.eng.Jobs.Put(w.t.Context(), puts)
		}, false},
		"made longer by a person who was faster": {func(w *world, until time.Time, puts []store.JobPut) []error {
			end := finish.New(w.eng, finish.Options{Plan: plan.Local()})
			before := people.New(w.eng, end, nil,
				people.Options{Plan: plan.Local(), Ask: query.Options{Now: func() time.Time { return until.Add(-50 * time.Millisecond) }}})
			later := until.Add(24 * time.Hour)
			if r, err := before.Pause(w.t.Context(), ann, target, manage.PauseRequest{Until: &later}); err != nil || !r.Changed {
				w.t.Fatalf("%+v %v", r, err)
			}
			return w.eng.Jobs.Put(w.t.Context(), puts)
		}, true},
		"done, its answer lost": {func(w *world, _ time.Time, puts []store.JobPut) []error {
			w.eng.Jobs.Put(w.t.Context(), puts)
			return []error{errors.New("no answer")}
		}, false},
		"throttled, then done": {func(*world, time.Time, []store.JobPut) []error {
			return []error{core.ErrThrottled}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC))) // fake time
				w := newWorld(t, 1)
				end := finish.New(w.eng, finish.Options{Plan: plan.Local()})
				tk := tick.New(w.s, tick.Options{ID: "t", Plan: plan.Local()})
				m := people.New(w.eng, end, nil, people.Options{Plan: plan.Local()})
				check.Call(t)(m.SaveApp(t.Context(), ann, manage.AppSpec{Name: "shop"}))
				job := manage.JobSpec{Def: core.Def{App: "shop", Name: "j", Handler: "h"}, Misfire: core.MisfireAll,
					Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Minute, Aligned: true}}}}
				check.OK(t, m.Save(t.Context(), ann, []manage.JobSpec{job})[0].Err)
				until := time.Now().Add(10 * time.Minute)
				check.Call(t)(m.Pause(t.Context(), ann, target, manage.PauseRequest{Until: &until}))
				time.Sleep(time.Until(until) + 50*time.Millisecond)
				met := false
				w.s.Jobs = hook.Jobs{Jobs: w.s.Jobs, DoPut: func(ctx context.Context, puts []store.JobPut) []error {
					if met {
						return w.eng.Jobs.Put(ctx, puts)
					}
					met = true
					return c.meet(w, until, puts)
				}}
				for range 3 {
					_, _ = tk.Pass(t.Context()) // the next pass handles failures
					time.Sleep(time.Second)
				}
				j, err := m.Job(t.Context(), "shop/j")
				if err != nil || (j.Sched.State == core.Paused) != c.paused {
					t.Fatalf("%+v %v", j.Sched, err)
				}
				page, err := m.Changes(t.Context(), query.ChangeFilter{Job: "shop/j"})
				changes := page.Changes
				must(t, err)
				resumed := 0
				for _, ch := range changes {
					r, _ := core.ParseJobRecord(ch.New)
					if ch.Verb == core.VerbResumed && r.RevAt == until.UnixMilli() {
						resumed++
					}
				}
				if want := map[bool]int{false: 1, true: 0}[c.paused]; resumed != want {
					t.Errorf("%d records say that it was resumed at its end, want %d: %+v", resumed, want, changes)
				}
				time.Sleep(time.Hour)
				from, to := core.InstantOf(until.Add(-time.Minute)), core.InstantOf(time.Now())
				a, err := m.Audit(t.Context(), "shop/j", from, to)
				if err != nil || (a.Demanded != 0) == c.paused {
					t.Errorf("audit: %+v %v", a, err)
				}
				if r, err := m.Replan(t.Context(), ann, "shop/j", from, to); c.paused && (err != nil || r.Sent != 0) {
					t.Errorf("replan of a paused job: %+v %v", r, err)
				}
			})
		})
	}
}

// TestFiresAfterAPauseAreOnTime: a tick may notice the end of a pause late. Runs due after the end are enqueued in
// their second with the revision that a dispatcher reads then. No earlier run is enqueued, even if the end was
// postponed.
func TestFiresAfterAPauseAreOnTime(t *testing.T) {
	const gap = 119 // seconds between two wake-ups, at most
	every := func(d time.Duration) core.When { return core.When{Kind: core.KindEvery, Every: d, Aligned: true} }
	for name, c := range map[string]struct {
		when    core.When
		pause   time.Duration
		putOff  time.Duration // how long before its end the pause gets another end
		another time.Duration // how much later the new end is
		edit    bool
	}{
		"of a minute, frequent":                    {when: every(5 * time.Second), pause: time.Minute},
		"of ten minutes":                           {when: every(time.Minute), pause: 10 * time.Minute},
		"that ends just before a window":           {when: every(7 * time.Second), pause: 19*time.Minute + 58*time.Second},
		"of hours, the next instant in its minute": {when: every(time.Hour), pause: 2*time.Hour + 59*time.Minute + 30*time.Second},
		"put off at the last moment": {when: every(5 * time.Second), pause: 15 * time.Minute, putOff: 2 * time.Second,
			another: 10 * time.Minute},
		"shortened": {when: every(5 * time.Second), pause: 40 * time.Minute, putOff: 30 * time.Minute,
			another: -25 * time.Minute},
		"edited meanwhile": {when: every(5 * time.Second), pause: 15 * time.Minute, putOff: 30 * time.Second, edit: true},
	} {
		for _, phase := range []int{0, 1, 60, 118} {
			t.Run(fmt.Sprint(name, ", tick at ", phase), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(time.Until(time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC))) // fake time
					ann, target, o := core.Actor{Name: "ann"}, manage.Target{Job: "shop/j"}, plan.AWS()
					w := newWorld(t, 1)
					type copied struct {
						run core.RunID
						rev int64
					}
					sent := map[copied]bool{}
					w.s.Queue = hook.Queue{Queue: w.s.Queue, DoEnqueue: func(ctx context.Context, out []ring.Out) []error {
						for _, o := range out {
							for _, f := range o.Message.Fires {
								sent[copied{f.Run, f.Rev}] = true
							}
						}
						return w.eng.Queue.Enqueue(ctx, out)
					}}
					end := finish.New(w.s, finish.Options{Plan: o})
					m := people.New(w.s, end, nil, people.Options{Plan: o})
					check.Call(t)(m.SaveApp(t.Context(), ann, manage.AppSpec{Name: "shop"}))
					job := manage.JobSpec{Def: core.Def{App: "shop", Name: "j", Handler: "h"}, Schedule: core.Schedule{Any: []core.When{c.when}}}
					check.OK(t, m.Save(t.Context(), ann, []manage.JobSpec{job})[0].Err)
					id := w.job(t, m).Def.ID
					until := time.Now().Add(c.pause)
					pause := func() {
						t.Helper()
						check.Call(t)(m.Pause(t.Context(), ann, target, manage.PauseRequest{Until: &until}))
					}
					pause()
					changeAt := time.Time{}
					if c.putOff > 0 {
						changeAt = until.Add(-c.putOff)
					}
					due, early := 0, 0
					for s := 0; time.Now().Before(until.Add(20 * time.Minute)); s++ {
						if !changeAt.IsZero() && !time.Now().Before(changeAt) {
							changeAt = time.Time{}
							if c.edit {
								job.Def.Params = "changed"
								check.OK(t, m.Save(t.Context(), ann, []manage.JobSpec{job})[0].Err)
							} else {
								until = until.Add(c.another)
								pause()
							}
						}
						if s%gap == phase {
							tk := tick.New(w.s, tick.Options{ID: fmt.Sprint(s), Plan: o})
							for again := true; again; {
								res, err := tk.Pass(t.Context())
								must(t, err)
								again = res.Due > 0
							}
							must(t, tk.Release(t.Context()))
						}
						now := core.InstantOf(time.Now())
						if int64(now)%int64(c.when.Every/time.Second) == 0 {
							there := sent[copied{core.PlannedRun(id, now), w.job(t, m).Sched.Rev}]
							switch demanded := now.Time().After(until); {
							case demanded && !there:
								t.Errorf("%s after the pause: no fire that may be sent is on the ring", now.Time().Sub(until))
							case demanded:
								due++
							case there:
								early++
							}
						}
						time.Sleep(time.Second)
					}
					if due == 0 || early > 0 {
						t.Errorf("%d were due after the pause; %d inside it would have been sent", due, early)
					}
				})
			})
		}
	}
}

func (w *world) job(t *testing.T, m *people.People) core.Job {
	t.Helper()
	j, err := m.Job(t.Context(), "shop/j")
	must(t, err)
	return j
}

// TestResumedIntoAPartitionThatIsRead: a paused job is in no partition of the due index, so the number of partitions
// may shrink below its own.
func TestResumedIntoAPartitionThatIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann, target, o := core.Actor{Name: "ann"}, manage.Target{Job: "shop/j"}, plan.Local()
		w := newWorld(t, 32)
		end := finish.New(w.eng, finish.Options{Plan: o})
		m := people.New(w.eng, end, nil, people.Options{Plan: o})
		check.Call(t)(m.SaveApp(t.Context(), ann, manage.AppSpec{Name: "shop"}))
		job := manage.JobSpec{Def: core.Def{App: "shop", Name: "j", Handler: "h"},
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Minute, Aligned: true}}}}
		check.OK(t, m.Save(t.Context(), ann, []manage.JobSpec{job})[0].Err)
		if w.job(t, m).Sched.Partition == 0 {
			t.Fatal("it is in the first partition anyway")
		}
		check.Call(t)(m.Pause(t.Context(), ann, target, manage.PauseRequest{}))
		g, err := w.eng.Global(t.Context())
		must(t, err)
		seen := g.Rev
		g.Partitions, g.Readable, g.Rev = 1, 1, seen+1
		must(t, w.eng.PutGlobal(t.Context(), seen, g))
		check.Call(t)(m.Resume(t.Context(), ann, target, ""))
		w.join("t", tick.Options{})
		time.Sleep(2 * time.Minute) // fake time
		before := w.job(t, m).Sched.Next
		w.pass()
		if after := w.job(t, m).Sched.Next; after == before {
			t.Errorf("it stands still at %s in partition %d", after, w.job(t, m).Sched.Partition)
		}
	})
}
