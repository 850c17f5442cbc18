package schedule

import (
	"errors"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/cron"
)

const (
	MaxRules  = 16
	MinPeriod = time.Second          // for rules of the kinds "every" and "fixedDelay"
	MaxPeriod = 366 * 24 * time.Hour // for rules of the kinds "every" and "fixedDelay"
	MaxJitter = 24 * time.Hour
	// FrequentJitter is the maximum jitter of a job that fires more than once in a planning window. On AWS, a planning window
	// has 11 minutes.
	FrequentJitter = 60 * time.Second
)

// A Schedule is a compiled core.Schedule. A Schedule is immutable and safe for concurrent use.
type Schedule struct {
	rules  []rule
	zone   *zone
	from   core.Instant // first valid time
	until  core.Instant // last valid time, at most core.Horizon
	source core.Schedule
	delay  time.Duration // of a fixed delay, else 0
}

// rule is one compiled core.When.
type rule struct {
	kind     core.Kind
	expr     *cron.Expr
	realTime bool
	period   int64 // every: seconds
	offset   int64 // every: seconds, 0 … period-1
	at       core.Instant
}

// Compile checks and compiles the schedule of a job. An "every" rule without an offset gets an offset that is a hash of the
// job ID. Every error is a *core.Error with the field name, such as "schedule.cron" or, in a list, "schedule[1].cron". Compile
// accepts a schedule that never fires; see Never.
func Compile(s core.Schedule, job core.JobID) (*Schedule, error) {
	if len(s.Any) > MaxRules {
		return nil, core.Invalid("schedule", fmt.Sprint(len(s.Any)), "at most %d rules are allowed", MaxRules)
	}
	c := &Schedule{source: s, rules: make([]rule, 0, len(s.Any))}
	var err error
	if c.zone, err = loadZone(s.Timezone); err != nil {
		return nil, CheckZone("schedule.timezone", s.Timezone)
	}
	for i, w := range s.Any {
		path := "schedule"
		if len(s.Any) > 1 {
			path = fmt.Sprintf("schedule[%d]", i)
			if w.Kind == core.KindFixedDelay {
				return nil, core.Invalid(path+".fixedDelay", core.FormatDuration(w.Every), "a fixed delay cannot be part of a list")
			}
		}
		r, err := compileRule(w, job, path)
		if err != nil {
			return nil, err
		}
		c.rules = append(c.rules, r)
	}
	c.delay, _ = s.FixedDelay()
	if s.Jitter < 0 || s.Jitter > MaxJitter || s.Jitter%time.Second != 0 {
		return nil, core.Invalid("schedule.jitter", core.FormatDuration(s.Jitter), "allowed values: whole seconds from 0s to 24h")
	}
	if c.from, _, err = c.bound("schedule.from", s.From); err != nil {
		return nil, err
	}
	c.until = core.Horizon
	if s.Until != "" {
		if _, c.until, err = c.bound("schedule.until", s.Until); err != nil {
			return nil, err
		}
		if c.from > c.until {
			return nil, core.Invalid("schedule.from", s.From, "the start is after the end (%s)", s.Until)
		}
		c.until = min(c.until, core.Horizon)
	}
	return c, nil
}

func compileRule(w core.When, job core.JobID, path string) (rule, error) {
	r := rule{kind: w.Kind}
	if w.Kind != core.KindEvery && (w.Offset != 0 || w.Aligned) {
		return r, core.Invalid(path+".offset", core.FormatDuration(w.Offset), "allowed only with the key `every`")
	}
	switch w.Kind {
	case core.KindCron, core.KindCrontab:
		parse := cron.ParseQuartz
		if w.Kind == core.KindCrontab {
			parse = cron.ParseCrontab
		}
		expr, err := parse(w.Expr)
		if err != nil {
			return r, invalidText(path+"."+string(w.Kind), w.Expr, err)
		}
		r.expr, r.realTime = expr, expr.RealTime()
	case core.KindEvery, core.KindFixedDelay:
		if w.Every < MinPeriod || w.Every > MaxPeriod || w.Every%time.Second != 0 {
			return r, core.Invalid(path+"."+string(w.Kind), core.FormatDuration(w.Every), "allowed values: whole seconds from 1s to 366d")
		}
		r.period = int64(w.Every / time.Second)
		if w.Kind == core.KindFixedDelay {
			break
		}
		if w.Offset < 0 || w.Offset >= w.Every || w.Offset%time.Second != 0 {
			return r, core.Invalid(path+".offset", core.FormatDuration(w.Offset),
				"an offset must be at least 0s, shorter than the period (%s), and in whole seconds", core.FormatDuration(w.Every))
		}
		r.offset = int64(w.Offset / time.Second)
		if !w.Aligned && w.Offset == 0 {
			r.offset = int64(hash(uint64(job)) % uint64(r.period))
		}
	case core.KindAt:
		if w.At <= 0 || w.At > core.Horizon {
			return r, core.Invalid(path+".at", time.Unix(int64(w.At), 0).UTC().Format(time.RFC3339),
				"expected a time after 1970-01-01T00:00:00Z, up to %s", core.Horizon)
		}
		r.at = w.At
	default:
		return r, core.Invalid(path+".kind", string(w.Kind), "allowed values: %s", core.JoinAllowed(core.Kinds))
	}
	return r, nil
}

// invalidText returns the error of package cron with the field's path, without repeating the value.
func invalidText(field, text string, err error) error {
	reason := core.Say("%v", err)
	if p, ok := errors.AsType[*cron.ParseError](err); ok {
		reason = p.Reason
		if p.Field != "" {
			reason = core.Say("%s: at offset %d: %s", core.Phrase(p.Field), p.Pos, reason)
		} else if p.Pos > 0 { // position 0 can mean the whole text
			reason = core.Say("at offset %d: %s", p.Pos, reason)
		}
	}
	e := core.Invalid(field, text, "%s", reason)
	e.Err = err
	return e
}

// bound reads a from or until: the first and the last instant of a date in the schedule's zone, or a
// time, which is both. Empty is 0, 0.
func (s *Schedule) bound(field, text string) (first, last core.Instant, err error) {
	if text == "" {
		return 0, 0, nil
	}
	d, noDate := time.Parse(time.DateOnly, text)
	t, noTime := time.Parse(time.RFC3339, text)
	switch {
	case noDate != nil && noTime != nil:
		return 0, 0, core.Invalid(field, text,
			"expected a date such as 2026-12-01 (that day in the schedule's zone) or a time such as 2026-12-01T09:00:00+01:00")
	case max(d.Unix(), t.Unix()) <= 0:
		return 0, 0, core.Invalid(field, text, "too early: expected a date after 1970-01-01")
	case noTime == nil:
		return core.Ceil(t), core.InstantOf(t), nil
	}
	midnight := cron.Wall(d.Unix())
	return core.Instant(s.zone.first(midnight)), core.Instant(s.zone.first(midnight+day) - 1), nil
}

// Next returns the first scheduled time after the given time, over all rules. Next returns false if there is none before the
// end of the schedule and core.Horizon. For a fixed delay, it always returns false, because its times depend on the ends of
// runs.
func (s *Schedule) Next(after core.Instant) (core.Instant, bool) {
	after = max(after, s.from-1)
	var next core.Instant
	for i := range s.rules {
		if at, ok := s.nextOf(&s.rules[i], after); ok && (next == 0 || at < next) {
			next = at
		}
	}
	if next == 0 || next > s.until {
		return 0, false
	}
	return next, true
}

// Count returns the number of scheduled times that are later than the parameter after and not later than the parameter
// end. For several rules, or over a clock change, it iterates over the scheduled times. If their number exceeds the
// parameter most, it stops: the result all is then false, and the result n is an estimate.
func (s *Schedule) Count(after, end core.Instant, most int) (n int, all bool) {
	after, end = max(after, s.from-1, 0), min(end, s.until)
	if after >= end {
		return 0, true
	}
	if len(s.rules) == 1 {
		switch r := &s.rules[0]; r.kind {
		case core.KindEvery:
			return int(floorDiv(int64(end)-r.offset, r.period) - floorDiv(int64(after)-r.offset, r.period)), true
		case core.KindCron, core.KindCrontab:
			// The time that a clock showed before it was set back matters too.
			if i := s.zone.at(int64(after) - reach); int64(end) < s.zone.end(i) {
				offset := cron.Wall(s.zone.periods[i].offset)
				return r.expr.Count(cron.Wall(after)+offset, cron.Wall(end)+offset), true
			}
		}
	}
	at, ok := s.Next(after)
	for ; ok && at <= end; at, ok = s.Next(at) {
		if n++; n > most {
			return int(float64(n) * float64(end-after) / float64(at-after)), false
		}
	}
	return n, true
}

func (s *Schedule) nextOf(r *rule, after core.Instant) (core.Instant, bool) {
	switch r.kind {
	case core.KindCron, core.KindCrontab:
		var t int64
		var ok bool
		switch {
		case len(s.zone.periods) == 1:
			var w cron.Wall
			w, ok = r.expr.Next(cron.Wall(int64(after) + s.zone.periods[0].offset))
			t = int64(w) - s.zone.periods[0].offset
		case r.realTime:
			t, ok = s.zone.nextMatch(r.expr, int64(after))
		default:
			var w cron.Wall
			if w, ok = r.expr.Next(s.zone.reached(int64(after))); ok {
				t = s.zone.first(w)
			}
		}
		return core.Instant(t), ok && t > 0
	case core.KindEvery:
		// The first whole number of periods whose time is after.
		k := floorDiv(int64(after)-r.offset, r.period) + 1
		at := k*r.period + r.offset
		if at == 0 { // 0 means none
			at = r.period
		}
		return core.Instant(at), at > 0
	case core.KindAt:
		return r.at, r.at > after
	}
	return 0, false
}

// nextMatch returns the first second after the given one at which the zone's clock shows a matching
// time.
func (z *zone) nextMatch(expr *cron.Expr, after int64) (int64, bool) {
	for from, i := after, z.at(after+1); ; {
		offset := z.periods[i].offset
		w, ok := expr.Next(cron.Wall(from + offset))
		t := int64(w) - offset
		end := z.end(i)
		if ok && t < end {
			return t, true
		}
		if end > int64(core.Horizon) {
			return 0, false
		}
		// Nothing matches between the wall clock at from and w. Beyond the reach of a set-back clock
		// nothing can fire before the clock gets near w, so the years up to there need no check.
		skipped := end-1 >= from+reach
		from = end - 1
		i++
		if skipped {
			if !ok {
				return 0, false
			}
			if near := int64(w) - maxOffset - 1; near > from {
				from = near
				i = z.at(from + 1)
			}
		}
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Never reports whether a schedule has no scheduled time after the given time. For a schedule without rules, whose job runs
// only when triggered, the result is false. A fixed delay fires until the end of the schedule.
func (s *Schedule) Never(after core.Instant) bool {
	if len(s.rules) == 0 {
		return false
	}
	if s.delay > 0 {
		return after >= s.until
	}
	_, ok := s.Next(after)
	return !ok
}

func (s *Schedule) FixedDelay() (time.Duration, bool) { return s.delay, s.delay > 0 }

func (s *Schedule) Manual() bool { return len(s.rules) == 0 }

// Clamp returns the parameter at, or the start of the schedule if the start is later. Clamp returns false if the result
// is after the end of the schedule. Use it for a fixed delay.
func (s *Schedule) Clamp(at core.Instant) (core.Instant, bool) {
	at = max(at, s.from)
	return at, at <= s.until
}

// Slot returns the due time of a scheduled time, which is the parameter at. The due time is the scheduled time plus a
// jitter, which is a hash of the job ID and the scheduled time. The parameter next is the job's following scheduled time;
// 0: none. The due time is before the following scheduled time, so runs keep their order. The jitter is at most the
// jitter of the schedule. If the parameter frequent is true, the job fires more than once in a planning window, and the
// jitter is at most FrequentJitter.
func (s *Schedule) Slot(job core.JobID, at, next core.Instant, frequent bool) core.Instant {
	if s.source.Jitter == 0 {
		return at
	}
	limit := int64(s.source.Jitter / time.Second)
	if frequent {
		limit = min(limit, int64(FrequentJitter/time.Second))
	}
	if next != 0 {
		limit = min(limit, int64(next-at)-1)
	}
	if limit <= 0 {
		return at
	}
	return at + core.Instant(hash(hash(uint64(job))^uint64(at))%uint64(limit+1))
}

// hash spreads numbers evenly (the finalizer of SplitMix64). It must never change, because scheduled
// and due times depend on it.
func hash(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
