package tick_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/tick"
)

// damaged is a store in which one job cannot be decoded.
type damaged struct {
	tick.Store
	job core.JobID
}

func (d damaged) Scheds(ctx context.Context, jobs []core.JobID) (map[core.JobID]core.Sched, []core.JobID, error) {
	found, unread, err := d.Store.Scheds(ctx, jobs)
	var bad core.Unreadable
	if _, is := found[d.job]; is && err == nil {
		delete(found, d.job)
		bad.Add(d.job, errors.New("no JSON"))
		err = bad.Err()
	}
	return found, unread, err
}

// TestUnreadableJobHoldsUpNoOther: the others are planned in each pass. The damaged job is reported once per
// PlanBackoff, and does not count as lag.
func TestUnreadableJobHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.seed(3, core.When{Kind: core.KindEvery, Every: 10 * time.Second, Aligned: true})
		var told bytes.Buffer
		tk := tick.New(damaged{w.eng.Tick, 2}, w.eng.Leases, w.eng.Ring,
			tick.Options{ID: "a", Plan: plan.Local(), Log: slog.New(slog.NewTextHandler(&told, nil))})
		fires := 0
		for range 150 {
			time.Sleep(time.Second) // fake time
			res, err := tk.Pass(t.Context())
			if err != nil || res.Lag > 5*time.Second {
				t.Fatalf("lag %s, %v", res.Lag, err)
			}
			fires += res.Fires
		}
		if fires < 2*14 {
			t.Errorf("%d fires of the two others", fires)
		}
		if n := strings.Count(told.String(), "job=2 "); n < 2 || n > 3 || strings.Contains(told.String(), "job=1 ") {
			t.Errorf("logged %d times in 150 s:\n%s", n, told.String())
		}
	})
}
