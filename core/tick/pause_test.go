package tick_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/testkit/check"
)

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
		end := finish.New(w.eng.Store, finish.Options{Plan: o})
		m := people.New(w.eng.Store, end, nil, people.Options{Plan: o})
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
