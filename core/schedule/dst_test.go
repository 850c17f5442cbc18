package schedule

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/cron"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestAgainstJava compares with what xxl-job's Java answers around clock
// changes (testdata/dst_vectors.json: from and next in milliseconds, up to five
// chained answers). Java leaves out a time in a gap, and takes the second of one
// that exists twice. Every instant that only one of the two has must be one of
// the three kinds of difference below; all others agree.
func TestAgainstJava(t *testing.T) {
	b, err := os.ReadFile("testdata/dst_vectors.json")
	check.OK(t, err)
	var vectors []struct {
		Expr, TZ string
		From     int64
		Next     []*int64
	}
	check.OK(t, json.Unmarshal(b, &vectors))
	const (
		gapEnd     = "a time of day in the gap: we fire at its end, Java not at all"
		firstTime  = "a time of day that exists twice: we fire the first time, Java the second"
		bothTimes  = "a rhythm through a repeated hour: we fire in both passes, Java goes through them once"
		sameAnswer = "agree"
	)
	kinds := map[string]int{}
	for _, v := range vectors {
		s, err := Compile(core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: v.Expr}}, Timezone: v.TZ}, 1)
		if err != nil {
			t.Errorf("%s: %v", v.Expr, err)
			continue
		}
		loc, err := time.LoadLocation(v.TZ)
		check.OK(t, err)
		var java []int64
		for _, n := range v.Next {
			if n != nil {
				java = append(java, *n/1000)
			}
		}
		var ours []int64
		last := int64(core.Horizon) // of a chain that ends
		if v.Next[len(v.Next)-1] != nil {
			last = java[len(java)-1]
		}
		for at := core.Instant(v.From / 1000); ; {
			var ok bool
			if at, ok = s.Next(at); !ok || int64(at) > last {
				break
			}
			ours = append(ours, int64(at))
		}
		expr, realTime := s.rules[0].expr, s.rules[0].realTime
		matches := func(at int64) bool { return expr.Matches(wallIn(loc, at)) }
		same := true
		for _, at := range ours {
			if slices.Contains(java, at) {
				continue
			}
			same = false
			first, twice := otherPass(loc, at)
			before, after := wallIn(loc, at-1), wallIn(loc, at)
			inGap, ok := expr.Next(before)
			switch {
			case !realTime && after > before+1 && ok && inGap < after:
				kinds[gapEnd]++
			case twice && first && !realTime && matches(at):
				kinds[firstTime]++
			case twice && realTime && matches(at):
				kinds[bothTimes]++
			default:
				t.Errorf("%s in %s: we fire at %s, Java does not, for no known reason", v.Expr, v.TZ, time.Unix(at, 0).In(loc))
			}
		}
		for _, at := range java {
			if slices.Contains(ours, at) {
				continue
			}
			same = false
			if first, twice := otherPass(loc, at); !twice || first || realTime {
				t.Errorf("%s in %s: Java fires at %s, we do not, for no known reason", v.Expr, v.TZ, time.Unix(at, 0).In(loc))
			}
		}
		if same {
			kinds[sameAnswer]++
		}
	}
	for _, k := range []string{gapEnd, firstTime, bothTimes, sameAnswer} {
		if kinds[k] == 0 {
			t.Errorf("no vector shows: %s", k)
		}
		t.Logf("%4d  %s", kinds[k], k)
	}
}

// wallIn returns the time that a clock in loc shows.
func wallIn(loc *time.Location, at int64) cron.Wall {
	_, offset := time.Unix(at, 0).In(loc).Zone()
	return cron.Wall(at + int64(offset))
}

// otherPass reports whether the wall-clock time of at exists twice, and whether
// at is the first.
func otherPass(loc *time.Location, at int64) (first, twice bool) {
	for d := int64(60); d <= reach; d += 60 {
		if wallIn(loc, at+d) == wallIn(loc, at) {
			return true, true
		}
		if wallIn(loc, at-d) == wallIn(loc, at) {
			return false, true
		}
	}
	return false, false
}
