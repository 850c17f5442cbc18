package notification_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
)

// look requests checks of the rig's job, as a pass does.
func (r *rig) look(at ...core.Instant) ring.Message {
	var list []ring.CheckRequest
	for _, a := range at {
		list = append(list, ring.CheckRequest{At: a, Job: 7})
	}
	return ring.Checked(list, time.Now()).Message
}

// putLook puts a check of the rig's job into the index.
func (r *rig) putLook(in time.Duration) {
	r.t.Helper()
	r.must(r.e.PutLooks(r.t.Context(), []ring.CheckRequest{{At: core.InstantOf(time.Now().Add(in)), Job: 7}}))
}

// indexed returns the checks in the index up to some time from now.
func (r *rig) indexed(within time.Duration) []ring.CheckRequest {
	r.t.Helper()
	list, err := r.e.DueLooks(r.t.Context(), core.InstantOf(time.Now().Add(within)), 100)
	r.must(err)
	return list
}

// TestLookAheadOfTheClock checks that an early check, requested by a fast clock, leaves another one in the
// index.
func TestLookAheadOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"a"}, Overdue: core.Overdue{Within: time.Hour}}
		})
		r.putLook(2 * time.Minute)
		r.minutes(3)
		at := r.state().Look
		time.Sleep(time.Until(at.Time()) - 50*time.Millisecond)
		r.handle(r.look(at, at+1))
		if got, s := r.indexed(time.Hour), r.state(); len(got) != 1 || got[0].At != s.Look || got[0].At != at+2 {
			t.Fatalf("the index has %v, the state %v, want the look after %v", got, s.Look, at+1)
		}
		r.minutes(2)
		r.heard("a", "overdue 1")
	})
}

// TestLookFails checks that a failing check is requested once a pass, without piling up messages, and is done
// once it works. A failing note is redelivered.
func TestLookFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"a"}, Overdue: core.Overdue{Within: time.Hour}}
		})
		r.noChannel = errors.New("written by a newer version")
		r.putLook(0)
		r.minutes(90)
		check.Equal(t, r.e.Messages(ring.KindPostRun), 0, "messages on the lane")
		if got := r.indexed(0); len(got) != 1 {
			t.Fatalf("the index has %v, want the look that failed", got)
		}
		if err := r.n.Messages(t.Context(), []ring.Message{r.ends(core.Failed, core.ReasonHandler)})[0]; err == nil {
			t.Fatal("a note that was not counted may be acked")
		}
		r.noChannel = nil
		r.minutes(2)
		r.heard("a", "overdue 1")
	})
}

// TestOverdueToLater checks that a channel that is added later is notified of an overdue job.
func TestOverdueToLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(j *core.Job) { j.Def.Notify = core.Notify{Overdue: core.Overdue{Within: 3 * time.Hour}} })
		r.putLook(2 * time.Minute)
		r.minutes(10 * 60)
		if v := r.state().V; v > 11 {
			t.Fatalf("a job without notifications was checked %d times in ten hours", v)
		}
		r.e.SaveApp(core.App{Name: "shop", Rev: 2, Notify: core.Notify{To: []string{"a"}}})
		r.minutes(62)
		r.heard("a", "overdue 1")
	})
}

// TestFailingEnds checks that a failed job that is deleted or never runs again is not checked forever. A
// success a month later is notified.
func TestFailingEnds(t *testing.T) {
	const day = 24 * 60
	for name, c := range map[string]struct {
		then func(r *rig)
		days int
		want []string
	}{
		"deleted":     {func(r *rig) { r.e.Delete(7, time.Now()) }, 1, []string{"failed 1"}},
		"never again": {func(*rig) {}, 41, []string{"failed 1"}},
		"in the last hours": {func(r *rig) {
			r.minutes(int((budget.FailingFor - 2*time.Hour) / time.Minute))
			r.ends(core.Succeeded)
			r.minutes(62)
		}, 0, []string{"failed 1", "recovered 1"}},
		"too late": {func(r *rig) {
			r.minutes(int((budget.FailingFor + 2*time.Hour) / time.Minute))
			r.ends(core.Succeeded)
		}, 1, []string{"failed 1"}},
		"a month later": {func(r *rig) {
			r.minutes(31 * day)
			r.ends(core.Succeeded)
			r.minutes(62)
		}, 0, []string{"failed 1", "recovered 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				r.handle(r.ends(core.Failed, core.ReasonHandler))
				c.then(r)
				r.minutes(c.days * day)
				r.heard("a", c.want...)
				s := r.state()
				if got := r.indexed(2 * time.Hour); len(got) > 0 || s.Failing != nil || s.Keep().IsZero() {
					t.Fatalf("it is still checked: index %v, state %+v", got, s)
				}
				if s.V > 1500 {
					t.Fatalf("it was written %d times", s.V)
				}
			})
		})
	}
}

// TestSameCauseAgain checks that a cause that returns after a day is notified again, and that a late copy of
// its note is not.
func TestSameCauseAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		note := func(when time.Time) ring.Message {
			return ring.Noted([]ring.Note{{Job: 7, Event: core.EventUnplanned, Run: core.NumberedRun(7, 12345), Why: "no such zone", When: when}},
				time.Now())[0].Message
		}
		first := time.Now()
		r.handle(note(first))
		r.minutes(120)
		r.handle(note(time.Now())) // the same cause again
		r.minutes(120)
		r.heard("a", "unplanned 1")
		r.minutes(24 * 60)
		r.handle(note(first))
		r.minutes(120)
		r.heard("a", "unplanned 1")
		r.handle(note(time.Now()))
		r.heard("a", "unplanned 1", "unplanned 1")
	})
}
