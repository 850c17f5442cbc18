package schedule

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/cron"
)

// maxTraps bounds what a schedule of many rules can give.
const maxTraps = 20

// zoneless is what cron says of rhythms that are the same in every zone.
var zoneless = regexp.MustCompile(`^every( \d+)? (second|minute)s?$`)

var singular = map[int64]string{1: "second", 60: "minute", 3600: "hour", day: "day"}

// Describe says in words when the schedule fires, with the zone where it
// matters: "every 30 s", "at 02:30, Europe/Berlin". It is made from the compiled
// rules.
func (s *Schedule) Describe() string {
	if len(s.rules) == 0 {
		return "by hand only"
	}
	var parts []string
	zoned := false
	for i := range s.rules {
		r := &s.rules[i]
		switch r.kind {
		case core.KindCron, core.KindCrontab:
			text := r.expr.Describe()
			zoned = zoned || !zoneless.MatchString(text)
			parts = append(parts, text)
		case core.KindEvery:
			text, ok := singular[r.period]
			if !ok {
				text = words(r.period)
			}
			text = "every " + text
			if w := s.source.Any[i]; w.Offset > 0 {
				text += ", " + words(r.offset) + " later"
			}
			parts = append(parts, text)
		case core.KindFixedDelay:
			parts = append(parts, words(r.period)+" after the end of the last run")
		case core.KindAt:
			zoned = true
			parts = append(parts, "once at "+s.zone.wallTime(int64(r.at)).Format("2006-01-02 15:04:05"))
		}
	}
	text := strings.Join(parts, ", and ")
	if zoned {
		text += ", " + s.zone.name
	}
	if s.source.From != "" {
		text += ", from " + s.source.From
	}
	if s.source.Until != "" {
		text += ", until " + s.source.Until
	}
	if j := int64(s.source.Jitter / time.Second); j > 0 {
		text += ", up to " + words(j) + " later at random"
	}
	return text
}

// maxAfter is how many jobs are named after which one comes.
const maxAfter = 3

// DescribeJob says when a job comes: what its schedule says, and after which jobs.
func (s *Schedule) DescribeJob(d *core.Def) string {
	if len(d.After) == 0 {
		return s.Describe()
	}
	var names []string
	for _, p := range d.After[:min(len(d.After), maxAfter)] {
		name := p.Job
		if p.When != core.UponSuccess {
			name += " (" + string(p.When) + ")"
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if more := len(d.After) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	switch {
	case d.Within > 0:
		text = "all of " + text + " within " + words(int64(d.Within/time.Second))
	case len(d.After) > 1:
		text = "any of " + text
	}
	if len(s.rules) > 0 {
		return s.Describe() + ", and after " + text
	}
	return "after " + text
}

// words writes seconds with units: "30 s", "1 h 30 min", "2 d".
func words(seconds int64) string {
	var parts []string
	for _, u := range []struct {
		name string
		n    int64
	}{{"d", day}, {"h", 3600}, {"min", 60}, {"s", 1}} {
		if n := seconds / u.n; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, u.name))
			seconds -= n * u.n
		}
	}
	return strings.Join(parts, " ")
}

// wallTime is what the zone's clock shows at t, as if it were UTC.
func (z *zone) wallTime(t int64) time.Time { return time.Unix(t+z.periods[z.at(t)].offset, 0).UTC() }

// Traps says what the schedule does that its owner may not expect, at most 20
// lines: what package cron knows of the text, rules with no instant left, and
// the clock changes within a year after the given instant that it meets.
func (s *Schedule) Traps(after core.Instant) []string {
	var traps []string
	for i := range s.rules {
		r := &s.rules[i]
		switch r.kind {
		case core.KindCron, core.KindCrontab:
			traps = append(traps, r.expr.Traps()...)
			traps = append(traps, s.trapChanges(r, after)...)
		case core.KindAt:
			if r.at <= after {
				traps = append(traps, r.at.String()+" is past: it does not fire")
			}
		}
	}
	if s.until <= after {
		traps = append(traps, "until "+s.source.Until+" is past: it does not fire")
	}
	return traps[:min(len(traps), maxTraps)]
}

// trapChanges looks at the clock changes of the year after.
func (s *Schedule) trapChanges(r *rule, after core.Instant) []string {
	var traps []string
	z := s.zone
	end := int64(after) + 366*day
	for i := z.at(int64(after)) + 1; i < len(z.periods) && z.periods[i].start <= end; i++ {
		at := z.periods[i].start
		if at < int64(s.from) || at > int64(s.until) {
			continue
		}
		before := cron.Wall(at + z.periods[i-1].offset) // what the clock would show without the change
		now := cron.Wall(at + z.periods[i].offset)
		// The times between the two are those that do not exist or exist twice.
		low, high := min(before, now), max(before, now)
		times, first, several := timesIn(r.expr, low, high)
		if times == "" || r.realTime && z.keepsRhythm(r.expr, i) {
			continue
		}
		verb := func(one, more string) string {
			if several {
				return more
			}
			return one
		}
		text := first.time().Format(time.DateOnly) + ": " + times
		switch {
		case now > before && r.realTime:
			text += fmt.Sprintf(" %s not exist in %s and %s left out", verb("does", "do"), z.name, verb("is", "are"))
		case now > before:
			text += fmt.Sprintf(" %s not exist in %s, %s at %s", verb("does", "do"), z.name, verb("fires", "fire once"), wall(now).clock())
		case r.realTime:
			text += fmt.Sprintf(" %s twice in %s, %s both times", verb("exists", "exist"), z.name, verb("fires", "fire"))
		default:
			text += fmt.Sprintf(" %s twice in %s, %s the first time", verb("exists", "exist"), z.name, verb("fires", "fire"))
		}
		traps = append(traps, text)
	}
	return traps
}

// timesIn names the matching times in low <= time < high; empty if there are none.
func timesIn(expr *cron.Expr, low, high cron.Wall) (text string, first wall, several bool) {
	const many = 5
	var found []string
	for w := low - 1; len(found) < many; {
		var ok bool
		if w, ok = expr.Next(w); !ok || w >= high {
			break
		}
		if len(found) == 0 {
			first = wall(w)
		}
		found = append(found, wall(w).clock())
	}
	switch n := len(found); n {
	case 0:
		return "", 0, false
	case 1:
		return found[0], first, false
	case many:
		return "the times from " + found[0] + " to " + wall(high).clock(), first, true
	default:
		return strings.Join(found[:n-1], ", ") + " and " + found[n-1], first, true
	}
}

// keepsRhythm reports whether the instants around the start of period i are as
// far apart as those before.
func (z *zone) keepsRhythm(expr *cron.Expr, i int) bool {
	at := z.periods[i].start
	// The last two before: look back further until there are two.
	for back := int64(2); back <= reach; back *= 2 {
		var last []int64
		for t := at - back - 1; ; {
			var ok bool
			if t, ok = z.nextMatch(expr, t); !ok {
				return true
			}
			last = append(last, t)
			if t >= at {
				break
			}
		}
		if n := len(last); n >= 3 {
			return last[n-1]-last[n-2] == last[n-2]-last[n-3]
		}
	}
	return true
}

// wall is a wall-clock time to be written.
type wall cron.Wall

func (w wall) time() time.Time { return time.Unix(int64(w), 0).UTC() }

func (w wall) clock() string {
	if w%60 != 0 {
		return w.time().Format(time.TimeOnly)
	}
	return w.time().Format("15:04")
}
