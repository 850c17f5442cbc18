package cron

import (
	"math/bits"
	"time"
)

// A Wall is a wall-clock time: the seconds since 1970-01-01T00:00:00, counted as if the wall clock showed UTC.
type Wall int64

// FirstYear and LastYear are the first and the last year in which a schedule can match. LastYear ends the search for the next
// time.
const (
	FirstYear = 1970
	LastYear  = 2299
)

// lastWall is LastYear-12-31T23:59:59.
const lastWall Wall = 10413791999

const (
	secondsPerDay = 24 * 60 * 60
	years         = LastYear - FirstYear + 1
)

// The fields as bitmaps that have every bit.
const (
	all60     = 1<<60 - 1
	all24     = 1<<24 - 1
	allDays   = 1<<32 - 1<<1
	allMonths = 1<<13 - 1<<1
	allWeek   = 1<<7 - 1
)

// lastOfMonth as the value of schedule.nth means the last such weekday.
const lastOfMonth = 6

// An Expr is a parsed cron expression. An Expr is immutable and safe for concurrent use.
type Expr struct {
	text string
	schedule
}

// schedule is the meaning of an expression. Two texts mean the same if their schedules are equal.
type schedule struct {
	sec, min uint64
	hour     uint32
	dom      uint32 // bit n: the nth
	last     uint32 // bit k: k days before the last day
	near     uint32 // bit n: the weekday nearest the nth
	lastNear uint32 // bit k: the weekday nearest the day k days before the last
	month    uint16 // bit 1: January
	dow      uint8  // bit 0: Sunday
	nth      uint8  // 0: each such weekday; 1-5: only that one of the month; lastOfMonth
	either   bool   // one of the day fields is enough (crontab, both restricted)
	crontab  bool
	realTime bool
	year     [(years + 63) / 64]uint64 // bit 0: FirstYear
}

func (e *Expr) String() string { return e.text }

// RealTime reports whether the schedule is a rhythm through the day, such as every two hours, and not a list of times of day.
// A rhythm keeps its spacing in real time when clocks change. RealTime is true if the hour field
//
//   - covers all 24 hours, however it is written (*, /1, 0-23, 12-11), or
//   - is a single item, neither a list nor a plain number, with the hours of
//     */n for some n: */2, /2, 0/2, 0-23/2, 0-22/2.
//
// 1/2 and 8-18/2 are times of day, because they name their first hour.
func (e *Expr) RealTime() bool { return e.realTime }

// Matches reports whether the schedule fires at w. The schedule never fires before FirstYear or after LastYear.
func (e *Expr) Matches(w Wall) bool {
	if w < 0 || w > lastWall {
		return false
	}
	year, month, day := date(w)
	s := int(w % secondsPerDay)
	return e.hour>>(s/3600)&1 != 0 && e.min>>(s/60%60)&1 != 0 && e.sec>>(s%60)&1 != 0 &&
		e.hasYear(year) && e.month>>month&1 != 0 && e.days(year, month)>>day&1 != 0
}

// Next returns the first time after the given time at which the schedule fires. If the schedule does not fire again by the end
// of LastYear, Next returns false.
func (e *Expr) Next(after Wall) (Wall, bool) {
	if after >= lastWall {
		return 0, false
	}
	start := max(after+1, 0)
	year, month, day := date(start)
	startDay := int(start / secondsPerDay)
	timeOfDay, ok := e.timeFrom(int(start % secondsPerDay))
	if !ok {
		day++ // may be the 32nd: then no bit is left and the month is over
	}
	for ; year <= LastYear; year, month, day = year+1, 1, 1 {
		if !e.hasYear(year) {
			continue
		}
		for ; month <= 12; month, day = month+1, 1 {
			if e.month>>month&1 == 0 {
				continue
			}
			left := e.days(year, month) >> day << day
			if left == 0 {
				continue
			}
			found := firstOf(year, month) + bits.TrailingZeros32(left) - 1
			if found != startDay {
				timeOfDay, _ = e.timeFrom(0)
			}
			return Wall(found*secondsPerDay + timeOfDay), true
		}
	}
	return 0, false
}

// timeFrom returns the first matching time of day, in seconds, at or after s.
func (e *Expr) timeFrom(s int) (int, bool) {
	h, m, sec := s/3600, s/60%60, s%60
	if e.hour>>h&1 != 0 {
		if e.min>>m&1 != 0 {
			if left := e.sec >> sec << sec; left != 0 {
				return h*3600 + m*60 + bits.TrailingZeros64(left), true
			}
		}
		if left := e.min >> (m + 1) << (m + 1); left != 0 {
			return h*3600 + bits.TrailingZeros64(left)*60 + bits.TrailingZeros64(e.sec), true
		}
	}
	left := e.hour >> (h + 1) << (h + 1)
	if left == 0 {
		return 0, false
	}
	return bits.TrailingZeros32(left)*3600 + bits.TrailingZeros64(e.min)*60 + bits.TrailingZeros64(e.sec), true
}

// Count returns how often the schedule fires later than the time `after` and not later than the time `upTo`. Its cost
// grows with the number of days, not with the number of times.
func (e *Expr) Count(after, upTo Wall) int {
	start, end := max(after+1, 0), min(upTo, lastWall)+1
	if start >= end {
		return 0
	}
	n := 0
	year, month, day := date(start)
	for at := int(start / secondsPerDay); at*secondsPerDay < int(end); year, month, day = next(year, month) {
		left := e.days(year, month)
		if !e.hasYear(year) || e.month>>month&1 == 0 {
			left = 0
		}
		for length := lengthOf(year, month); day <= length && at*secondsPerDay < int(end); at, day = at+1, day+1 {
			if left>>day&1 != 0 {
				n += e.before(int(end)-at*secondsPerDay) - e.before(int(start)-at*secondsPerDay)
			}
		}
	}
	return n
}

// next returns the first day of the month after the given one.
func next(year int, month time.Month) (int, time.Month, int) {
	if month == time.December {
		return year + 1, time.January, 1
	}
	return year, month + 1, 1
}

// before returns how many times of a day match before s, in seconds.
func (e *Expr) before(s int) int {
	s = min(max(s, 0), secondsPerDay)
	h, m, sec := s/3600, s/60%60, s%60
	perMinute := bits.OnesCount64(e.sec)
	n := bits.OnesCount32(e.hour&(1<<h-1)) * bits.OnesCount64(e.min) * perMinute
	if e.hour>>h&1 != 0 {
		n += bits.OnesCount64(e.min&(1<<m-1)) * perMinute
		if e.min>>m&1 != 0 {
			n += bits.OnesCount64(e.sec & (1<<sec - 1))
		}
	}
	return n
}

// days returns the matching days of a month: bit n is the nth.
func (e *Expr) days(year int, month time.Month) uint32 {
	n := lengthOf(year, month)
	first := weekday(firstOf(year, month))

	dom := e.dom
	for set := e.last; set != 0; set &= set - 1 {
		if d := n - bits.TrailingZeros32(set); d >= 1 {
			dom |= 1 << d
		}
	}
	for set := e.near; set != 0; set &= set - 1 {
		if d := bits.TrailingZeros32(set); d <= n {
			dom |= 1 << nearestWeekday(d, first, n)
		}
	}
	for set := e.lastNear; set != 0; set &= set - 1 {
		if d := n - bits.TrailingZeros32(set); d >= 1 {
			dom |= 1 << nearestWeekday(d, first, n)
		}
	}

	// Turn the week so that bit 0 is the weekday of the 1st, then lay five weeks.
	week := uint64(e.dow)>>first | uint64(e.dow)<<(7-first)&allWeek
	dow := uint32((week | week<<7 | week<<14 | week<<21 | week<<28) << 1)
	switch {
	case e.nth == lastOfMonth:
		dow = dow >> (n - 6) << (n - 6)
	case e.nth > 0:
		dow &= allWeek << 1 << (7 * (e.nth - 1))
	}

	set := dom & dow
	if e.either {
		set = dom | dow
	}
	return set & (1<<(n+1) - 1<<1)
}

// nearestWeekday returns the day from Monday to Friday that is nearest day d of
// a month with n days that begins on the given weekday.
func nearestWeekday(d, first, n int) int {
	switch (first + d - 1) % 7 {
	case int(time.Saturday):
		if d == 1 {
			return 3
		}
		return d - 1
	case int(time.Sunday):
		if d == n {
			return d - 2
		}
		return d + 1
	}
	return d
}

func (e *Expr) hasYear(year int) bool {
	i := year - FirstYear
	return e.year[i/64]>>(i%64)&1 != 0
}

// The calendar, with days counted from 1970-01-01.

func date(w Wall) (int, time.Month, int) { return time.Unix(int64(w), 0).UTC().Date() }

func firstOf(year int, month time.Month) int {
	return int(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix() / secondsPerDay)
}

func lengthOf(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

func weekday(day int) int { return (int(time.Thursday) + day) % 7 }
