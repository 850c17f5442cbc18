package schedule

import (
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/cron"
	"github.com/tickring/tickring/internal/testkit/check"
)

// Zones with all kinds of clock changes: half-hour and whole-day changes, gaps and repeats at midnight,
// changes of the standard, negative summer time, none.
var bruteZones = []string{
	"Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe",
	"Pacific/Apia", "Pacific/Kwajalein", "Asia/Pyongyang", "Africa/Casablanca", "Africa/Cairo", "Asia/Tehran", "Asia/Beirut",
	"America/Havana", "America/Caracas", "Antarctica/Troll", "Asia/Kathmandu", "Europe/Istanbul", "Asia/Amman",
	"America/Santiago", "Pacific/Chatham", "Asia/Kolkata", "America/Nuuk",
}

// brute finds the scheduled times in from < t <= to step by step, as designed: an existing time fires
// the first time it occurs, and a missing one at the first instant after the gap. A rhythm fires
// whenever it matches. It starts two days earlier, so that it knows which times occurred before. step
// is 1 or 60 seconds; with 60, expr must match at second 0 only.
func brute(expr *cron.Expr, loc *time.Location, from, to, step int64) []int64 {
	var fires []int64
	if expr.RealTime() {
		for t := from - from%step; t <= to; t += step {
			if t > from && expr.Matches(wallIn(loc, t)) {
				fires = append(fires, t)
			}
		}
		return fires
	}
	start := from - from%step - 2*day
	exists := map[cron.Wall]int64{} // the first second at which the clock shows it
	lowest, highest := wallIn(loc, start), wallIn(loc, start)
	type jump struct {
		to cron.Wall
		at int64
	}
	var jumps []jump
	for t := start; t <= to; t += step {
		w := wallIn(loc, t)
		if _, ok := exists[w]; !ok {
			exists[w] = t
		}
		if t > start && w > wallIn(loc, t-step)+cron.Wall(step) {
			jumps = append(jumps, jump{w, t})
		}
		lowest, highest = min(lowest, w), max(highest, w)
	}
	for w := lowest; w <= highest; w += cron.Wall(step) {
		if !expr.Matches(w) {
			continue
		}
		at, ok := exists[w]
		if !ok {
			i := slices.IndexFunc(jumps, func(j jump) bool { return j.to > w })
			at = jumps[i].at
		}
		if at > from && at <= to {
			fires = append(fires, at)
		}
	}
	slices.Sort(fires)
	return slices.Compact(fires)
}

// transitions returns the clock changes of a zone from 1975 on.
func transitions(t testing.TB, name string) []int64 {
	z, err := loadZone(name)
	check.OK(t, err)
	var starts []int64
	for _, p := range z.periods[1:] {
		if p.start > 5*365*day && p.start < int64(core.Horizon)-7*day {
			starts = append(starts, p.start)
		}
	}
	if len(starts) == 0 {
		starts = []int64{1700000000}
	}
	return starts
}

// someCron draws an expression that matches often enough near a change.
func someCron(t *rapid.T, second string) string {
	num := func(name string, n int) string { return fmt.Sprint(rapid.IntRange(0, n-1).Draw(t, name)) }
	minute := rapid.SampledFrom([]string{"0", "30", "*", "*/15", "0/7", "59", "1,31", num("minute", 60), num("minute", 60) + "," +
		num("other", 60)}).Draw(t, "minutes")
	hour := rapid.SampledFrom([]string{"*", "*/2", "0", "1", "2", "3", "23", "0-3", "22-2", "1,2", "1/2", "*/3", "0,12", num("hour", 24),
		"0-23"}).Draw(t, "hours")
	days := rapid.SampledFrom([]string{"* * ?", "* * ?", "* * ?", "? * SUN", "? * MON-FRI", "L * ?", "1 * ?", "1-15 * ?", "30 * ?"}).Draw(t,
		"days")
	return second + " " + minute + " " + hour + " " + days
}

// near returns a time close to a clock change of the zone.
func near(t *rapid.T, changes []int64, spread int64) int64 {
	return rapid.SampledFrom(changes).Draw(t, "change") + rapid.Int64Range(-spread, spread).Draw(t, "away")
}

func checkBrute(t *rapid.T, changes map[string][]int64, second string, step, spread, span int64) {
	name := rapid.SampledFrom(bruteZones).Draw(t, "zone")
	text := someCron(t, second)
	s, err := Compile(core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: text}}, Timezone: name}, 1)
	check.OK(t, err)
	loc, _ := time.LoadLocation(name)
	from := near(t, changes[name], spread)
	to := from + span
	want := brute(s.rules[0].expr, loc, from, to, step)
	var got []int64
	for at := core.Instant(from); ; {
		next, ok := s.Next(at)
		if ok && next <= at {
			t.Fatalf("%s in %s: after %s comes %s", text, name, at, next)
		}
		if !ok || int64(next) > to {
			break
		}
		got = append(got, int64(next))
		at = next
	}
	if !slices.Equal(got, want) {
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				show := func(a []int64) string {
					if i < len(a) {
						return time.Unix(a[i], 0).In(loc).String()
					}
					return "none"
				}
				t.Fatalf("%s in %s after %s: instant %d is %s, want %s", text, name, time.Unix(from, 0).In(loc), i, show(got), show(want))
			}
		}
	}
	// From any time between, the result is the rest.
	for range 5 {
		after := rapid.Int64Range(from, to).Draw(t, "after")
		i := sort.Search(len(want), func(i int) bool { return want[i] > after })
		next, ok := s.Next(core.Instant(after))
		if i < len(want) && (!ok || int64(next) != want[i]) || i == len(want) && ok && int64(next) <= to {
			t.Fatalf("%s in %s: after %s comes %s", text, name, time.Unix(after, 0).In(loc), next)
		}
	}
}

func allChanges(t *testing.T) map[string][]int64 {
	changes := map[string][]int64{}
	for _, z := range bruteZones {
		changes[z] = transitions(t, z)
	}
	return changes
}

func TestNextAgainstBruteForceByMinute(t *testing.T) {
	changes := allChanges(t)
	rapid.Check(t, func(t *rapid.T) { checkBrute(t, changes, "0", 60, 2*day, 3*day) })
}

func TestNextAgainstBruteForceBySecond(t *testing.T) {
	changes := allChanges(t)
	rapid.Check(t, func(t *rapid.T) {
		second := rapid.SampledFrom([]string{"*", "*/7", "59", "0,30", "1-3"}).Draw(t, "seconds")
		checkBrute(t, changes, second, 1, 2*60*60, 4*60*60)
	})
}

// TestZoneTable compares the zone tables with package time.
func TestZoneTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(bruteZones).Draw(t, "zone")
		z, err := loadZone(name)
		check.OK(t, err)
		loc, _ := time.LoadLocation(name)
		at := rapid.Int64Range(0, int64(core.Horizon)).Draw(t, "at")
		if got, want := at+z.periods[z.at(at)].offset, wallIn(loc, at); got != int64(want) {
			t.Fatalf("%s at %d: %d, want %d", name, at, got, want)
		}
		for _, start := range []int64{z.periods[z.at(at)].start, z.end(z.at(at))} {
			if start > 0 && start < int64(core.Horizon) {
				if wallIn(loc, start)-wallIn(loc, start-1) == 1 {
					t.Fatalf("%s: no change at %d", name, start)
				}
			}
		}
	})
}
