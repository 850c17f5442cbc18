package schedule

import (
	"regexp"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/cron"
)

// maxTraps limits the warnings for a schedule of many rules.
const maxTraps = 20

// zoneless matches the cron descriptions of rhythms that are the same in every zone.
var zoneless = regexp.MustCompile(`^every( \d+)? (second|minute)s?$`)

// Describe returns a description of when the schedule fires, such as "every 30 s" or "at 02:30, Europe/Berlin". Describe names
// the time zone only if the zone affects the times. Describe uses the compiled rules.
func (s *Schedule) Describe() core.Text {
	if len(s.rules) == 0 {
		return core.Say("manual triggers only")
	}
	var text core.Text
	zoned := false
	for i := range s.rules {
		part, inZone := s.describeRule(i)
		zoned = zoned || inZone
		if i > 0 {
			part = core.Say("%s, and %s", text, part)
		}
		text = part
	}
	if zoned {
		text = core.Say("%[1]s, %[2]s", text, s.zone.name) // numbered: no list, which has a code of its own
	}
	if s.source.From != "" {
		text = core.Say("%s, from %s", text, s.source.From)
	}
	if s.source.Until != "" {
		text = core.Say("%s, until %s", text, s.source.Until)
	}
	if j := int64(s.source.Jitter / time.Second); j > 0 {
		text = core.Say("%s, up to %s later at random", text, span(j))
	}
	return text
}

// describeRule describes when one rule fires, and reports whether the zone matters to it.
func (s *Schedule) describeRule(i int) (text core.Text, zoned bool) {
	switch r := &s.rules[i]; r.kind {
	case core.KindEvery:
		switch r.period {
		case 1:
			text = core.Say("every second")
		case 60:
			text = core.Say("every minute")
		case 3600:
			text = core.Say("every hour")
		case day:
			text = core.Say("every day")
		default:
			text = core.Say("every %s", span(r.period))
		}
		if w := s.source.Any[i]; w.Offset > 0 {
			text = core.Say("%s, offset %s", text, span(r.offset))
		}
		return text, false
	case core.KindFixedDelay:
		return core.Say("%s after the end of the last run", span(r.period)), false
	case core.KindAt:
		return core.Say("once at %s", s.zone.wallTime(int64(r.at)).Format("2006-01-02 15:04:05")), true
	default:
		text = r.expr.Describe()
		return text, !zoneless.MatchString(text.String())
	}
}

// maxAfter limits the jobs that the description of a following job names.
const maxAfter = 3

// DescribeJob returns a description of when a job runs: its schedule, and the jobs after which it runs.
func (s *Schedule) DescribeJob(d *core.Def) core.Text {
	if len(d.After) == 0 {
		return s.Describe()
	}
	var names []core.Text
	for _, p := range d.After[:min(len(d.After), maxAfter)] {
		name := core.Say("%s", p.Job)
		switch p.When {
		case core.UponFailure:
			name = core.Say("%s (failed)", p.Job)
		case core.UponClose:
			name = core.Say("%s (finished)", p.Job)
		}
		names = append(names, name)
	}
	text := core.Listed(names)
	if more := len(d.After) - len(names); more > 0 {
		text = core.Say("%s and %d more", text, more)
	}
	switch {
	case d.Within > 0:
		text = core.Say("all of %s within %s", text, span(int64(d.Within/time.Second)))
	case len(d.After) > 1:
		text = core.Say("any of %s", text)
	}
	if len(s.rules) > 0 {
		return core.Say("%s, and after %s", s.Describe(), text)
	}
	return core.Say("after %s", text)
}

// span writes seconds with units: "30 s", "1 h 30 min", "2 d".
func span(seconds int64) core.Text {
	var text core.Text
	add := func(part core.Text) {
		if text.String() != "" {
			part = core.Say("%s %s", text, part)
		}
		text = part
	}
	if n := seconds / day; n > 0 {
		add(core.Say("%d d", n))
	}
	if n := seconds % day / 3600; n > 0 {
		add(core.Say("%d h", n))
	}
	if n := seconds % 3600 / 60; n > 0 {
		add(core.Say("%d min", n))
	}
	if n := seconds % 60; n > 0 {
		add(core.Say("%d s", n))
	}
	return text
}

// wallTime returns the time that the zone's clock shows at t, as if it were UTC.
func (z *zone) wallTime(t int64) time.Time { return time.Unix(t+z.periods[z.at(t)].offset, 0).UTC() }

// Traps returns at most 20 warnings about unexpected behavior. They are the warnings of package cron, rules that never fire
// after the given time, and clock changes within a year that affect the schedule.
func (s *Schedule) Traps(after core.Instant) []core.Text {
	var traps []core.Text
	if city, ok := fixedZones[s.zone.name]; ok {
		traps = append(traps, core.Say("%s has no daylight saving time, unlike %s", s.zone.name, city))
	}
	for i := range s.rules {
		r := &s.rules[i]
		switch r.kind {
		case core.KindCron, core.KindCrontab:
			traps = append(traps, r.expr.Traps()...)
			traps = append(traps, s.trapChanges(r, after)...)
		case core.KindAt:
			if r.at <= after {
				traps = append(traps, core.Say("%s is in the past and does not fire", r.at))
			}
		}
	}
	if s.until <= after {
		traps = append(traps, core.Say("`until` (%s) is in the past: the schedule does not fire", s.source.Until))
	}
	return traps[:min(len(traps), maxTraps)]
}

// trapChanges checks the clock changes of the following year.
func (s *Schedule) trapChanges(r *rule, after core.Instant) []core.Text {
	var traps []core.Text
	z := s.zone
	end := int64(after) + 366*day
	for i := z.at(int64(after)) + 1; i < len(z.periods) && z.periods[i].start <= end; i++ {
		at := z.periods[i].start
		if at < int64(s.from) || at > int64(s.until) {
			continue
		}
		before := cron.Wall(at + z.periods[i-1].offset) // the clock without the change
		now := cron.Wall(at + z.periods[i].offset)
		// The times between the two are missing, or occur twice.
		low, high := min(before, now), max(before, now)
		times, first, several, ok := timesIn(r.expr, low, high)
		if !ok || r.realTime && z.keepsRhythm(r.expr, i) {
			continue
		}
		day := first.time().Format(time.DateOnly)
		var text core.Text
		switch skipped := now > before; {
		case skipped && r.realTime && several:
			text = core.Say("%s: %s do not exist in %s, so the job does not fire at these times", day, times, z.name)
		case skipped && r.realTime:
			text = core.Say("%s: %s does not exist in %s, so the job does not fire at this time", day, times, z.name)
		case skipped && several:
			text = core.Say("%s: %s do not exist in %s; the job fires once at %s", day, times, z.name, wall(now).clock())
		case skipped:
			text = core.Say("%s: %s does not exist in %s; the job fires at %s", day, times, z.name, wall(now).clock())
		case r.realTime && several:
			text = core.Say("%s: %s exist twice in %s; the job fires both times", day, times, z.name)
		case r.realTime:
			text = core.Say("%s: %s exists twice in %s; the job fires both times", day, times, z.name)
		case several:
			text = core.Say("%s: %s exist twice in %s; the job fires the first time", day, times, z.name)
		default:
			text = core.Say("%s: %s exists twice in %s; the job fires the first time", day, times, z.name)
		}
		traps = append(traps, text)
	}
	return traps
}

// timesIn lists the matching times in low <= time < high, and returns the first; false if there are
// none.
func timesIn(expr *cron.Expr, low, high cron.Wall) (text core.Text, first wall, several, any bool) {
	const many = 5
	var found []core.Text
	for w := low - 1; len(found) < many; {
		var ok bool
		if w, ok = expr.Next(w); !ok || w >= high {
			break
		}
		if len(found) == 0 {
			first = wall(w)
		}
		found = append(found, core.Say("%s", wall(w).clock()))
	}
	switch n := len(found); n {
	case 0:
		return core.Text{}, 0, false, false
	case 1:
		return found[0], first, false, true
	case many:
		return core.Say("the times from %s to %s", found[0], wall(high).clock()), first, true, true
	default:
		return core.Say("%s and %s", core.Listed(found[:n-1]), found[n-1]), first, true, true
	}
}

// keepsRhythm reports whether the times around the start of period i are as far apart as the ones
// before.
func (z *zone) keepsRhythm(expr *cron.Expr, i int) bool {
	at := z.periods[i].start
	// The last two before: search further back until there are two.
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
