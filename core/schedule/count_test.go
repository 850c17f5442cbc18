package schedule

import (
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestCount compares Count with an iteration, over and soon after clock changes, and checks that Count
// reports an estimate.
func TestCount(t *testing.T) {
	one := func(kind core.Kind, expr string) core.When { return core.When{Kind: kind, Expr: expr} }
	for _, zone := range []string{"", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"} {
		for _, any := range [][]core.When{
			{one(core.KindCron, "0 */10 * * * ?")}, {one(core.KindCron, "0 15,45 1,2,3 * * ?")}, {one(core.KindCrontab, "30 2 * * 0")},
			{{Kind: core.KindEvery, Every: 7 * time.Minute}}, {{Kind: core.KindAt, At: 1792886400}}, {},
			{one(core.KindCron, "0 0 2 * * ?"), one(core.KindCron, "0 0 */2 * * ?")},
		} {
			s, err := Compile(core.Schedule{Any: any, Timezone: zone, From: "2026-01-03", Until: "2026-12-30T00:00:00Z"}, 7)
			check.OK(t, err)
			first := core.InstantOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			for after := first; after < first+370*day; {
				step := core.Instant(day/4 + 911)
				if i := s.zone.at(int64(after) + int64(step)); s.zone.periods[i].start > int64(after)-day/4 { // a change is near
					step = 1000
				}
				after += step
				for _, end := range []core.Instant{after, after + 3600, after + 2*day} {
					want := 0
					for at, ok := s.Next(after); ok && at <= end; at, ok = s.Next(at) {
						want++
					}
					if got, all := s.Count(after, end, 1000); got != want || !all {
						t.Fatalf("%v in %s, after %s up to %s: %d (all: %t), not %d", any, zone, after, end, got, all, want)
					}
				}
			}
			if len(any) == 2 {
				if n, all := s.Count(first, first+30*day, 10); all || n < 250 || n > 420 {
					t.Errorf("given up: %d, all: %t", n, all)
				}
			}
		}
	}
}
