package sim

import (
	"context"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
)

// A rerun waits for an executor while its job is edited: it is still sent with the params of
// the first run.
func TestEditedBeforeARunAgainIsSent(t *testing.T) {
	j := byHand(come, "one")
	j.Def.WaitForExecutor, j.Def.Params = 5*time.Minute, "of then"
	r := directed(t, Config{Waits: true, Jobs: []manage.JobSpec{j}, For: 2 * time.Minute, Act: func(w *World) {
		trigger(come + "/one")(w)
		w.sleep(bg, 20*time.Second)
		w.allGo(30*time.Second, false)
		first := core.NumberedRun(1, 1)
		c := &again{of: first, by: map[string]bool{god.Name: true}, given: 1, asks: operate.RerunRequest{Run: first.String()}}
		w.repeats = append(w.repeats, c)
		if _, err := w.people.Rerun(context.Background(), god, c.asks); err != nil {
			w.fail(0, "run again: %v", err)
		}
		w.sleep(bg, 5*time.Second)
		j := j
		j.Def.Params = "of now"
		w.saves(j)
	}})
	r.want(t, "run again with its params", 1)
	r.want(t, "state succeeded", 2)
}
