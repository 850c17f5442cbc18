package query_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestMissing checks that a run that waits for its other parents lists them.
func TestMissing(t *testing.T) {
	f := newFixture(t)
	a := f.Create(spec("a", every(time.Hour)))
	f.Create(spec("b", every(time.Hour)))
	s := spec("join", core.Schedule{})
	s.Def.Within = time.Hour
	s.Def.After = []core.Parent{{Job: "shop/a", When: core.UponClose}, {Job: "shop/b", When: core.UponClose}}
	job := f.Create(s)
	now, parent, id := core.InstantOf(f.Clock), planned(a.Def.ID, core.InstantOf(f.Clock)), core.NumberedRun(job.Def.ID, 1)
	j := core.Join{}
	j.Note(&job.Def, &core.Run{ID: parent}, id, now)
	run := newRun(id, core.Planned, j.End)
	run.Cause, run.At, run.Parent = core.CauseParent, j.Begun, parent
	f.Put(run)
	item := core.Permits{Name: job.Def.JoinName(), V: 1, Join: &j}
	missing := func() []string {
		t.Helper()
		check.OK(t, f.E.PutPermits(ctx, []core.Permits{item})[0])
		v, err := f.M.Run(ctx, id.String())
		check.OK(t, err)
		return v.Missing
	}
	if got := missing(); !slices.Equal(got, []string{"shop/b"}) {
		t.Errorf("it waits for %v", got)
	}
	j.Clear()
	if item.V = 2; missing() != nil {
		t.Error("its round is over, and it waits for more")
	}
}
