package lossdetect_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/store"
)

// TestLossIsNotedUntilItIsStored: a loss is found once, since the runs are then sent again. It is recorded first, even
// if the first write fails or its finder dies. If a scan may have passed it, another scan follows.
func TestLossIsNotedUntilItIsStored(t *testing.T) {
	began := core.InstantOf(start)
	ago := func(m int) core.Instant { return began - core.Instant(m*60) }
	from := ago(7) - core.Instant(plan.AWS().MaxAhead/time.Second) // the first lost run was due seven minutes ago
	for name, c := range map[string]struct {
		was     core.Loss
		refused error // result of the first write
		want    core.Loss
		later   bool // a scan starts once HealEvery has passed
	}{
		"nothing is noted": {want: core.Loss{From: from}},
		"refused":          {refused: core.ErrRefused, want: core.Loss{From: from}},
		"throttled":        {refused: core.ErrThrottled, want: core.Loss{From: from}},
		"asked for":        {was: core.Loss{From: from, At: began.Time()}, want: core.Loss{From: from}},
		"asked for, but not from so early": {was: core.Loss{From: from + 1, At: began.Time()},
			want: core.Loss{From: from + 1, Again: from}},
		"asked for before it was lost": {was: core.Loss{From: ago(60), At: ago(20).Time()}, want: core.Loss{From: ago(60), Again: from}},
		"under way": {was: core.Loss{From: ago(60), Next: "7", At: began.Time()},
			want: core.Loss{From: ago(60), Next: "7", Again: from}},
		"under way, and refused": {was: core.Loss{From: ago(60), Next: "7", At: began.Time()}, refused: core.ErrRefused,
			want: core.Loss{From: ago(60), Next: "7", Again: from}},
		"lost again before": {was: core.Loss{From: ago(60), Next: "7", Again: ago(50), At: began.Time()},
			want: core.Loss{From: ago(60), Next: "7", Again: ago(50)}},
		"over":                 {was: core.Loss{At: ago(1).Time()}, want: core.Loss{Again: from}, later: true},
		"over for a long time": {was: core.Loss{At: ago(16).Time()}, want: core.Loss{From: from}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				eng := one(t, every(time.Minute), func(s *core.Sched) { s.RevAt, s.Next = ago(8).Time(), began+60 })
				g := core.Global{Partitions: 1, Readable: 1, Groups: 1, Busy: time.Now().UTC(), Loss: c.was, Rev: 1}
				must(t, eng.PutGlobal(t.Context(), 0, g))
				refuse, st := c.refused, *eng // the first write that changes the recorded losses
				st.Records = hook.Records{Records: st.Records, DoWrite: func(ctx context.Context, groups ...store.Group) []error {
					if w := &groups[0].Writes[0]; refuse != nil && w.Kind == "global" && strings.Contains(string(w.Body), `"loss"`) {
						err := refuse
						refuse = nil
						return []error{err}
					}
					return eng.Records.Write(ctx, groups...)
				}}
				tk := ticker(&st)
				found := func(want core.Loss) {
					t.Helper()
					for range 3 {
						res, err := tk.Pass(t.Context())
						if err != nil && c.refused == nil {
							t.Fatal(err)
						}
						if c.refused != nil { // it dies; the next invocation starts without its state
							tk = ticker(&st)
						}
						for range res.Recovered { // it is run
							eng.CreateRuns(t.Context(), []core.Run{{ID: core.PlannedRun(1, ago(7)), App: "shop", State: core.Succeeded}})
						}
						time.Sleep(time.Second)
					}
					g, err := eng.Global(t.Context())
					want.At = g.Loss.At
					if err != nil || g.Loss != want {
						t.Errorf("noted is %+v, want %+v: %v", g.Loss, want, err)
					}
				}
				found(c.want)
				if c.later {
					time.Sleep(15 * time.Minute)
					tk.Pass(t.Context())
					g, _ := eng.Global(t.Context())
					if g.Loss.From == 0 || g.Loss.From > c.want.Again || g.Loss.Again != 0 && g.Loss.Again < g.Loss.From {
						t.Errorf("no walk was asked for: %+v", g.Loss)
					}
				}
			})
		})
	}
}
