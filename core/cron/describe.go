package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Describe says in English when the schedule runs. It is made from the parsed
// schedule, not from the text, so it cannot repeat a misunderstanding of the
// text. Long lists of values are shortened and say how many they are, so that its
// length is bounded.
func (e *Expr) Describe() string {
	text := e.describeTime() + e.describeDays() + e.describeYears()
	if _, ok := e.Next(-1); !ok && e.year != (schedule{}).year {
		text += " (there is no such day)"
	}
	return text
}

// describeTime says when during a day.
func (e *Expr) describeTime() string {
	secs, mins, hrs := values(e.sec), values(e.min), values(uint64(e.hour))
	allHours := len(hrs) == 24

	if len(hrs)*len(mins)*len(secs) <= 4 {
		return "at " + and(e.times(hrs, mins, secs))
	}
	ofHours := " of every hour"
	if !allHours {
		ofHours = " of hour" + plural(hrs) + list(hrs)
	}
	ofMinutes := " of every minute"
	if len(mins) < 60 {
		ofMinutes = " of minute" + plural(mins) + list(mins)
	}

	// Several times a minute.
	if len(secs) > 1 {
		what, ok := rhythm(secs, 60, "second")
		if !ok {
			what = "at second" + plural(secs) + list(secs)
			if allHours && len(mins) == 60 {
				return what + " of every minute"
			}
			return what + ofMinutes + ofHours
		}
		if len(mins) < 60 {
			return what + ofMinutes + ofHours
		}
		return what + e.span(hrs, mins, secs, ofHours)
	}

	second := ""
	if secs[0] != 0 {
		second = fmt.Sprintf(" at second %d", secs[0])
	}
	// Several times an hour.
	if len(mins) > 1 {
		what, ok := rhythm(mins, 60, "minute")
		if !ok {
			return "at minute" + plural(mins) + list(mins) + ofHours + second
		}
		if allHours {
			return what + second
		}
		return what + e.span(hrs, mins, secs, ofHours+second)
	}

	// At most once an hour.
	if what, ok := rhythm(hrs, 24, "hour"); ok {
		switch {
		case mins[0] == 0 && secs[0] == 0:
			return what
		case allHours:
			return fmt.Sprintf("at minute %d of every hour%s", mins[0], second)
		}
	}
	if first, last, step, ok := progression(hrs); ok {
		what := "every hour"
		if step > 1 {
			what = fmt.Sprintf("every %d hours", step)
		}
		return fmt.Sprintf("%s from %s to %s", what, e.clock(first, mins[0], secs[0]), e.clock(last, mins[0], secs[0]))
	}
	if len(hrs) > 8 {
		return fmt.Sprintf("at minute %d%s%s", mins[0], ofHours, second)
	}
	return "at " + and(e.times(hrs, mins, secs))
}

// span says from when to when a rhythm within the hour lasts: of each run of
// hours the first and the last instant. With many runs it names the hours.
func (e *Expr) span(hrs, mins, secs []int, ofHours string) string {
	if len(hrs) == 24 {
		return ""
	}
	var spans []string
	for _, r := range runs(hrs) {
		spans = append(spans, fmt.Sprintf("from %s to %s",
			e.clock(r[0], mins[0], secs[0]),
			e.clock(r[1], mins[len(mins)-1], secs[len(secs)-1])))
	}
	if len(spans) > 2 {
		return ofHours
	}
	return " " + and(spans)
}

func (e *Expr) times(hrs, mins, secs []int) []string {
	var times []string
	for _, h := range hrs {
		for _, m := range mins {
			for _, s := range secs {
				times = append(times, e.clock(h, m, s))
			}
		}
	}
	return times
}

// clock writes a time of day, with seconds if any matter in the schedule.
func (e *Expr) clock(h, m, s int) string {
	if e.sec == 1 {
		return fmt.Sprintf("%02d:%02d", h, m)
	}
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}

// rhythm names a set that is evenly spaced through its whole period.
func rhythm(set []int, period int, unit string) (string, bool) {
	n := period / len(set)
	if n*len(set) != period || set[0] != 0 {
		return "", false
	}
	for i, v := range set {
		if v != i*n {
			return "", false
		}
	}
	if n == 1 {
		return "every " + unit, true
	}
	return fmt.Sprintf("every %d %ss", n, unit), true
}

// describeDays says on which days of which months.
func (e *Expr) describeDays() string {
	everyDate := e.dom == allDays
	everyWeekday := e.dow == allWeek && e.nth == 0
	dates, weekdays := e.describeDates(), e.describeWeekdays()
	inMonths := ""
	if e.month != allMonths {
		inMonths = " in " + list(values(uint64(e.month)), monthName)
	}
	ofMonth := " of the month"
	if e.month != allMonths {
		ofMonth = " of " + list(values(uint64(e.month)), monthName)
	}

	switch {
	case everyDate && everyWeekday, e.either && (everyDate || everyWeekday):
		return inMonths
	case everyDate && e.nth > 0:
		return " on " + weekdays + ofMonth
	case everyDate:
		return e.onWeekdays(weekdays) + inMonths
	case everyWeekday:
		return " on " + dates + ofMonth
	case e.either:
		return " on " + dates + ofMonth + " or on every " + weekdays + inMonths
	default:
		return e.onWeekdays(weekdays) + ", but only on " + dates + ofMonth
	}
}

func (e *Expr) onWeekdays(weekdays string) string {
	if bits.OnesCount8(e.dow) > 2 {
		return ", " + weekdays
	}
	return " on " + weekdays
}

func (e *Expr) describeWeekdays() string {
	if e.nth > 0 {
		which := "the last "
		if e.nth != lastOfMonth {
			which = "the " + ordinal(int(e.nth)) + " "
		}
		return which + time.Weekday(bits.TrailingZeros8(e.dow)).String()
	}
	// A run of days may go over the end of the week: begin behind a gap.
	days := values(uint64(e.dow))
	if len(days) < 7 {
		for slices.Contains(days, (days[0]+6)%7) {
			days = append(days[1:], days[0])
		}
		for i := 1; i < len(days); i++ {
			if days[i] < days[i-1] {
				days[i] += 7
			}
		}
	}
	return list(days, func(d int) string { return time.Weekday(d % 7).String() })
}

func (e *Expr) describeDates() string {
	var parts []string
	dates := values(uint64(e.dom))
	if first, last, step, ok := progression(dates); ok && step > 1 {
		parts = append(parts, fmt.Sprintf("every %s day from the %s to the %s", ordinal(step), ordinal(first), ordinal(last)))
	} else if len(dates) > 0 {
		parts = append(parts, "the "+list(dates, ordinal))
	}
	for _, n := range values(uint64(e.near)) {
		parts = append(parts, "the weekday nearest the "+ordinal(n))
	}
	for _, k := range values(uint64(e.lastNear)) {
		if k == 0 {
			parts = append(parts, "the last weekday (MON-FRI)")
		} else {
			parts = append(parts, "the weekday nearest the day "+count(k, "day")+" before the last")
		}
	}
	for _, k := range values(uint64(e.last)) {
		if k == 0 {
			parts = append(parts, "the last day")
		} else {
			parts = append(parts, "the day "+count(k, "day")+" before the last")
		}
	}
	return and(shorten(parts, len(parts)))
}

func (e *Expr) describeYears() string {
	var set []int
	for y := FirstYear; y <= LastYear; y++ {
		if e.hasYear(y) {
			set = append(set, y)
		}
	}
	year := func(y int) string { return fmt.Sprint(y) }
	if len(set) == years {
		return ""
	}
	if len(set) == 0 {
		return fmt.Sprintf(", in no year up to %d", LastYear)
	}
	if first, last, step, ok := progression(set); ok && last+step > LastYear {
		if step == 1 {
			return fmt.Sprintf(", from %d on", first)
		}
		return fmt.Sprintf(", every %d years from %d on", step, first)
	}
	return ", in " + list(set, year)
}

func monthName(m int) string { return time.Month(m).String() }

func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// plural returns what goes between a unit and its values.
func plural(set []int) string {
	if len(set) == 1 {
		return " "
	}
	return "s "
}

// values returns the numbers of the bits.
func values(set uint64) []int {
	var result []int
	for ; set != 0; set &= set - 1 {
		result = append(result, bits.TrailingZeros64(set))
	}
	return result
}

// progression finds evenly spaced values, at least five.
func progression(set []int) (first, last, step int, ok bool) {
	if len(set) < 5 {
		return 0, 0, 0, false
	}
	step = set[1] - set[0]
	for i := 1; i < len(set); i++ {
		if set[i]-set[i-1] != step {
			return 0, 0, 0, false
		}
	}
	return set[0], set[len(set)-1], step, true
}

// runs returns the first and last values of the parts without gaps.
func runs(set []int) [][2]int {
	var result [][2]int
	for _, v := range set {
		if n := len(result); n > 0 && result[n-1][1] == v-1 {
			result[n-1][1] = v
		} else {
			result = append(result, [2]int{v, v})
		}
	}
	return result
}

// list writes values in words: "1, 5 and 9", "8 to 18", "0 to 57 in steps
// of 3". The name function defaults to the number.
func list(set []int, name ...func(int) string) string {
	word := func(n int) string { return fmt.Sprint(n) }
	if len(name) > 0 {
		word = name[0]
	}
	if first, last, step, ok := progression(set); ok && step > 1 {
		return fmt.Sprintf("%s to %s in steps of %d", word(first), word(last), step)
	}
	var parts []string
	for _, r := range runs(set) {
		switch r[1] - r[0] {
		case 0:
			parts = append(parts, word(r[0]))
		case 1:
			parts = append(parts, word(r[0]), word(r[1]))
		default:
			parts = append(parts, word(r[0])+" to "+word(r[1]))
		}
	}
	return and(shorten(parts, len(set)))
}

// shorten ends a list that nobody would read to its end.
func shorten(parts []string, total int) []string {
	if len(parts) <= 12 {
		return parts
	}
	return append(parts[:10:10], fmt.Sprintf("others (%d in all)", total))
}

func and(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}
