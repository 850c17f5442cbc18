package notice_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// look asks for looks at the job of the rig, as a pass does.
func (r *rig) look(at ...core.Instant) ring.Message {
	var list []ring.Look
	for _, a := range at {
		list = append(list, ring.Look{At: a, Job: 7})
	}
	return ring.Looked(list, time.Now()).Message
}

// indexed are the looks of the index up to some time from now.
func (r *rig) indexed(within time.Duration) []ring.Look {
	r.t.Helper()
	list, err := r.e.Notices.DueLooks(r.t.Context(), core.InstantOf(time.Now().Add(within)), 100)
	r.must(err)
	return list
}

// TestLookAheadOfTheClock: a look that comes before its moment, asked for by a clock that is
// ahead, leaves another behind, and the job is told of as if it had come in time.
func TestLookAheadOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(j *core.Job) {
			j.Def.Notify = core.Notify{To: []string{"a"}, Overdue: core.Overdue{Within: time.Hour}}
		})
		r.must(r.e.Notices.PutLooks(t.Context(), []ring.Look{{At: core.InstantOf(time.Now()) + 120, Job: 7}}))
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
