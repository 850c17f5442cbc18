package manage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestPauseEndedThenChanged: a pause ends while no server runs, and a user changes the job before
// the first tick. The runs since that end stay expected, after a fault at any write.
func TestPauseEndedThenChanged(t *testing.T) {
	target := manage.Target{Job: "shop/sweep"}
	again := spec("sweep", every(time.Minute))
	started, changed, stays := again, again, again
	no := false
	started.Paused = &no
	changed.Schedule = every(time.Hour)
	changed.Paused = &no
	stays.Def.Params = "x"
	one := func(r []manage.SaveResult) error { return r[0].Err }
	for name, c := range map[string]struct {
		do     func(m *people.People) error
		reason core.Reason // in the record of earlier due runs; empty: they are still to be planned
	}{
		"resume":      {func(m *people.People) error { _, err := m.Resume(ctx, ann, target, ""); return err }, ""},
		"apply":       {func(m *people.People) error { return one(m.Save(ctx, ann, []manage.JobSpec{started})) }, ""},
		"edit":        {func(m *people.People) error { return one(m.Save(ctx, ann, []manage.JobSpec{changed})) }, core.ReasonChanged},
		"edit params": {func(m *people.People) error { return one(m.Save(ctx, ann, []manage.JobSpec{stays})) }, core.ReasonChanged},
		"pause anew": {func(m *people.People) error { _, err := m.Pause(ctx, ann, target, manage.PauseRequest{}); return err },
			core.ReasonPaused},
		"delete": {func(m *people.People) error { _, err := m.Delete(ctx, ann, "shop/sweep", nil); return err }, core.ReasonDeleted},
	} {
		for _, mode := range modes {
			for at, met := 0, true; met; at++ { // 0: no fault
				f := newFixture(t)
				f.Create(again)
				until := core.InstantOf(start) + 5*60
				end := until.Time()
				check.Call(t)(f.M.Pause(ctx, ann, target, manage.PauseRequest{Until: &end}))
				j := f.Job("shop/sweep")
				f.Fires()
				f.Clock = f.Clock.Add(15 * time.Minute) // no tick runs in between
				w := mode.fault
				w.At = at
				err := c.do(f.Fresh(&w))
				met = at == 0 || w.Last != ""
				f.M = f.Fresh(&faults{Quiet: true})
				what := fmt.Sprintf("%s, %s at %q", name, mode.name, w.Last)
				if err != nil && (at == 0 || w.Err == nil && !w.Kill) {
					t.Errorf("%s: %v", what, err)
				}
				if err != nil {
					if err := c.do(f.M); err != nil && code(err) != core.CodeNotFound {
						t.Errorf("%s, again: %v", what, err)
					}
				}
				changes, cerr := f.Changes("", j.Def.ID.String(), 100)
				ends := 0
				for _, ch := range changes {
					if ch.By == "tickring" {
						ends++
					}
					if ch.Name != "sweep" { // records of a deleted job have its name too
						t.Errorf("%s: a record without the job's name: %+v", what, ch)
					}
				}
				if cerr != nil || ends != 1 {
					t.Errorf("%s: %d records of the end of the pause, %v", what, ends, cerr)
				}
				skips := f.Skips(j.Def.ID)
				first, last := until+60, until+10*60 // 12:06 to 12:15
				if c.reason == "" {
					s := f.Job("shop/sweep").Sched
					planned := s.Next > last && len(f.Fires()) > 0
					if s.State != core.Started || s.Next != first && !planned || s.RevAt != until.Time() || len(skips) != 0 {
						t.Errorf("%s: %s, next %s, since %s, records %+v", what, s.State, s.Next, s.RevAt, skips)
					}
					continue
				}
				if len(skips) != 1 || skips[0].First != first || skips[0].Last != last || skips[0].Count != 10 || skips[0].Reason != c.reason {
					t.Errorf("%s: the record of due runs is %+v, want %s to %s", what, skips, first, last)
				}
				if name == "delete" {
					continue
				}
				a, err := f.Audit("shop/sweep", core.InstantOf(start), core.InstantOf(f.Clock))
				if err != nil || a.Demanded != 10 || a.Skipped[c.reason] != 10 || a.Unaccounted != 0 {
					t.Errorf("%s: audit %+v %v", what, a, err)
				}
			}
		}
	}
}
