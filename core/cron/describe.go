package cron

import (
	"math/bits"
	"slices"

	"github.com/tickring/tickring/core"
)

// Describe returns a description of when the schedule fires. Describe uses the parsed expression, not its text, so it cannot
// repeat a wrong reading of the text. Long lists of values are replaced by their number.
//
// Each part of the description is a Text, so that translations can change the order of the parts.
func (e *Expr) Describe() core.Text {
	text := core.Say("%s%s%s", e.describeTime(), e.describeDays(), e.describeYears())
	if _, ok := e.Next(-1); !ok && e.year != (schedule{}).year {
		return core.Say("%s (this date does not exist)", text)
	}
	return text
}

func (e *Expr) describeTime() core.Text {
	secs, mins, hrs := values(e.sec), values(e.min), values(uint64(e.hour))
	allHours := len(hrs) == 24

	if len(hrs)*len(mins)*len(secs) <= 4 {
		return e.at(hrs, mins, secs)
	}
	ofHours := core.Say(" of every hour")
	switch {
	case len(hrs) == 1:
		ofHours = core.Say(" of hour %s", list(hrs, number))
	case !allHours:
		ofHours = core.Say(" of hours %s", list(hrs, number))
	}

	// Several times a minute.
	if len(secs) > 1 {
		what, ok := rhythm(secs, 60, everySecond)
		if !ok {
			what = core.Say("at seconds %s", list(secs, number))
			if allHours && len(mins) == 60 {
				return core.Say("%s of every minute", what)
			}
		}
		switch {
		case len(mins) == 1:
			return core.Say("%s of minute %s%s", what, list(mins, number), ofHours)
		case len(mins) < 60:
			return core.Say("%s of minutes %s%s", what, list(mins, number), ofHours)
		case !ok:
			return core.Say("%s of every minute%s", what, ofHours)
		}
		if spans, ok := e.span(hrs, mins, secs); ok {
			return core.Say("%s%s", what, spans)
		}
		return core.Say("%s%s", what, ofHours)
	}

	atSecond := func(text core.Text) core.Text {
		if secs[0] == 0 {
			return text
		}
		return core.Say("%s at second %d", text, secs[0])
	}
	// Several times an hour.
	if len(mins) > 1 {
		what, ok := rhythm(mins, 60, everyMinute)
		if !ok {
			return atSecond(core.Say("at minutes %s%s", list(mins, number), ofHours))
		}
		if allHours {
			return atSecond(what)
		}
		if spans, ok := e.span(hrs, mins, secs); ok {
			return core.Say("%s%s", what, spans)
		}
		return atSecond(core.Say("%s%s", what, ofHours))
	}

	// At most once an hour.
	if what, ok := rhythm(hrs, 24, everyHour); ok {
		switch {
		case mins[0] == 0 && secs[0] == 0:
			return what
		case allHours:
			return atSecond(core.Say("at minute %d of every hour", mins[0]))
		}
	}
	if first, last, step, ok := progression(hrs); ok {
		return core.Say("%s from %s to %s", everyHour(step), e.clock(first, mins[0], secs[0]), e.clock(last, mins[0], secs[0]))
	}
	if len(hrs) > 8 {
		return atSecond(core.Say("at minute %d%s", mins[0], ofHours))
	}
	return e.at(hrs, mins, secs)
}

// at names each time of a day.
func (e *Expr) at(hrs, mins, secs []int) core.Text {
	times := and(e.times(hrs, mins, secs))
	if e.describeDays().String() == "" {
		return core.Say("at %[1]s", times) // each day, which English leaves out: the number makes it a code of its own
	}
	return core.Say("at %s", times)
}

// span describes the hours in which a rhythm within the hour runs: the first and last time of each
// range of hours. It returns false for many ranges, and nothing for all hours.
func (e *Expr) span(hrs, mins, secs []int) (core.Text, bool) {
	if len(hrs) == 24 {
		return core.Text{}, true
	}
	var spans []core.Text
	for _, r := range runs(hrs) {
		spans = append(spans, core.Say("from %s to %s",
			e.clock(r[0], mins[0], secs[0]),
			e.clock(r[1], mins[len(mins)-1], secs[len(secs)-1])))
	}
	if len(spans) > 2 {
		return core.Text{}, false
	}
	return core.Say(" %s", and(spans)), true
}

func (e *Expr) times(hrs, mins, secs []int) []core.Text {
	var times []core.Text
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
func (e *Expr) clock(h, m, s int) core.Text {
	if e.sec == 1 {
		return core.Say("%02d:%02d", h, m)
	}
	return core.Say("%02d:%02d:%02d", h, m, s)
}

// rhythm names a set that is evenly spaced through its whole period.
func rhythm(set []int, period int, every func(int) core.Text) (core.Text, bool) {
	n := period / len(set)
	if n*len(set) != period || set[0] != 0 {
		return core.Text{}, false
	}
	for i, v := range set {
		if v != i*n {
			return core.Text{}, false
		}
	}
	return every(n), true
}

func everySecond(n int) core.Text {
	if n == 1 {
		return core.Say("every second")
	}
	return core.Say("every %d seconds", n)
}

func everyMinute(n int) core.Text {
	if n == 1 {
		return core.Say("every minute")
	}
	return core.Say("every %d minutes", n)
}

func everyHour(n int) core.Text {
	if n == 1 {
		return core.Say("every hour")
	}
	return core.Say("every %d hours", n)
}

func (e *Expr) describeDays() core.Text {
	everyDate := e.dom == allDays
	everyWeekday := e.dow == allWeek && e.nth == 0
	var inMonths core.Text
	ofMonth := core.Say(" of the month")
	if e.month != allMonths {
		months := list(values(uint64(e.month)), monthName)
		inMonths, ofMonth = core.Say(" in %s", months), core.Say(" of %s", months)
	}

	switch {
	case everyDate && everyWeekday, e.either && (everyDate || everyWeekday):
		return inMonths
	case everyDate && e.nth > 0:
		return core.Say(" on %s%s", e.describeWeekdays(), ofMonth)
	case everyDate:
		return core.Say("%s%s", e.onWeekdays(), inMonths)
	case everyWeekday:
		return core.Say(" on %s%s", e.describeDates(), ofMonth)
	case e.either:
		return core.Say(" on %s%s or on every %s%s", e.describeDates(), ofMonth, e.describeWeekdays(), inMonths)
	default:
		return core.Say("%s, but only on %s%s", e.onWeekdays(), e.describeDates(), ofMonth)
	}
}

func (e *Expr) onWeekdays() core.Text {
	if bits.OnesCount8(e.dow) > 2 {
		return core.Say(", %s", e.describeWeekdays())
	}
	return core.Say(" on %s", e.describeWeekdays())
}

func (e *Expr) describeWeekdays() core.Text {
	if e.nth > 0 {
		day := weekdayName(bits.TrailingZeros8(e.dow))
		switch e.nth {
		case 1:
			return core.Say("the 1st %s", day)
		case 2:
			return core.Say("the 2nd %s", day)
		case 3:
			return core.Say("the 3rd %s", day)
		case lastOfMonth:
			return core.Say("the last %s", day)
		}
		return core.Say("the %dth %s", e.nth, day)
	}
	// A range of days may continue over the end of the week: begin after a gap.
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
	return list(days, weekdayName)
}

func (e *Expr) describeDates() core.Text {
	var parts []core.Text
	dates := values(uint64(e.dom))
	if first, last, step, ok := progression(dates); ok && step > 1 {
		parts = append(parts, core.Say("every %s day from the %s to the %s", ordinal(step), ordinal(first), ordinal(last)))
	} else if len(dates) > 0 {
		parts = append(parts, core.Say("the %s", list(dates, ordinal)))
	}
	for _, n := range values(uint64(e.near)) {
		parts = append(parts, core.Say("the weekday nearest the %s", ordinal(n)))
	}
	for _, k := range values(uint64(e.lastNear)) {
		switch k {
		case 0:
			parts = append(parts, core.Say("the last weekday (MON-FRI)"))
		case 1:
			parts = append(parts, core.Say("the weekday nearest the day %d day before the last day", k))
		default:
			parts = append(parts, core.Say("the weekday nearest the day %d days before the last day", k))
		}
	}
	for _, k := range values(uint64(e.last)) {
		switch k {
		case 0:
			parts = append(parts, core.Say("the last day"))
		case 1:
			parts = append(parts, core.Say("the day %d day before the last day", k))
		default:
			parts = append(parts, core.Say("the day %d days before the last day", k))
		}
	}
	return and(shorten(parts, len(parts)))
}

func (e *Expr) describeYears() core.Text {
	var set []int
	for y := FirstYear; y <= LastYear; y++ {
		if e.hasYear(y) {
			set = append(set, y)
		}
	}
	if len(set) == years {
		return core.Text{}
	}
	if len(set) == 0 {
		return core.Say(", which matches no year up to %d", LastYear)
	}
	if first, last, step, ok := progression(set); ok && last+step > LastYear {
		if step == 1 {
			return core.Say(", from %d on", first)
		}
		return core.Say(", every %d years from %d on", step, first)
	}
	return core.Say(", in %s", list(set, number))
}

var monthNames = [...]core.Text{core.Say("January"), core.Say("February"), core.Say("March"), core.Say("April"), core.Say("May"),
	core.Say("June"), core.Say("July"), core.Say("August"), core.Say("September"), core.Say("October"), core.Say("November"),
	core.Say("December")}

func monthName(m int) core.Text { return monthNames[m-1] }

var weekdayNames = [...]core.Text{core.Say("Sunday"), core.Say("Monday"), core.Say("Tuesday"), core.Say("Wednesday"),
	core.Say("Thursday"), core.Say("Friday"), core.Say("Saturday")}

// weekdayName also accepts the days of the next week.
func weekdayName(d int) core.Text { return weekdayNames[d%7] }

func number(n int) core.Text { return core.Say("%d", n) }

func ordinal(n int) core.Text {
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			return core.Say("%dst", n)
		case 2:
			return core.Say("%dnd", n)
		case 3:
			return core.Say("%drd", n)
		}
	}
	return core.Say("%dth", n)
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

// runs returns the first and last value of each part without gaps.
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

// list writes values as text: "1, 5 and 9", "8 to 18", "0 to 57 in steps of 3".
func list(set []int, name func(int) core.Text) core.Text {
	if first, last, step, ok := progression(set); ok && step > 1 {
		return core.Say("%s to %s in steps of %d", name(first), name(last), step)
	}
	var parts []core.Text
	for _, r := range runs(set) {
		switch r[1] - r[0] {
		case 0:
			parts = append(parts, name(r[0]))
		case 1:
			parts = append(parts, name(r[0]), name(r[1]))
		default:
			parts = append(parts, core.Say("%s to %s", name(r[0]), name(r[1])))
		}
	}
	return and(shorten(parts, len(set)))
}

// shorten cuts a list that is too long to read.
func shorten(parts []core.Text, total int) []core.Text {
	if len(parts) <= 12 {
		return parts
	}
	return append(parts[:10:10], core.Say("others (%d in all)", total))
}

func and(parts []core.Text) core.Text {
	last := len(parts) - 1
	if last == 0 {
		return parts[0]
	}
	return core.Say("%s and %s", core.Listed(parts[:last]), parts[last])
}
