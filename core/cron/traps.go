package cron

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// maxTraps limits the warnings for a text with long lists.
const maxTraps = 10

// Traps returns warnings about parts of the expression whose meaning may surprise its author. Traps returns at most ten
// warnings of one line each; most expressions have none.
func (e *Expr) Traps() []core.Text {
	read := readQuartz
	if e.crontab {
		read = readCrontab
	}
	fields, err := read(e.text)
	if err != nil {
		return nil // cannot be: the text has been parsed before
	}
	f := make(map[kind][]item)
	for i, list := range fields {
		if e.crontab {
			f[crontabFields[i].kind] = list
		} else {
			f[quartzFields[i].kind] = list
		}
	}

	var traps []core.Text
	traps = append(traps, e.trapNever()...)
	traps = append(traps, e.trapTooOften()...)
	for _, k := range []kind{seconds, minutes, hours, daysOfMonth} {
		for _, it := range f[k] {
			traps = append(traps, trapStep(k, it)...)
		}
	}
	traps = append(traps, e.trapAfterMidnight(f[hours])...)
	traps = append(traps, e.trapShortMonths(f[daysOfMonth])...)
	traps = append(traps, e.trapDaysOfWeek(f[daysOfWeek])...)
	if e.crontab {
		traps = append(traps, e.trapBothDays(f[daysOfMonth], f[daysOfWeek])...)
	}
	if len(traps) > maxTraps {
		traps = traps[:maxTraps]
	}
	return traps
}

func (e *Expr) trapNever() []core.Text {
	if _, ok := e.Next(-1); ok {
		return nil
	}
	return []core.Text{core.Say("never runs: no time in the years %d to %d matches", FirstYear, LastYear)}
}

// trapTooOften warns of * in a field if a larger unit is restricted, which is mostly a forgotten 0.
func (e *Expr) trapTooOften() []core.Text {
	switch {
	case e.sec == all60 && (e.min != all60 || e.hour != all24):
		return []core.Text{core.Say("* in seconds means 60 runs in each matching minute; 0 means one run")}
	case e.sec != all60 && e.min == all60 && bits.OnesCount32(e.hour) == 1:
		return []core.Text{core.Say("* in minutes means each of the 60 minutes of the hour; 0 means only minute 0")}
	}
	return nil
}

// trapStep warns that a step restarts with the next larger unit.
func trapStep(k kind, it item) []core.Text {
	if it.step < 2 || it.form != formStar && it.form != formFrom {
		return nil
	}
	if k == daysOfMonth {
		return []core.Text{core.Say("%s in day-of-month restarts each month at %d: the gap around the end of the month is not always %d days",
			it.text, it.lo, it.step)}
	}
	period, unit := 60, core.Say("hour")
	switch k {
	case seconds:
		unit = core.Say("minute")
	case hours:
		period, unit = 24, core.Say("day")
	}
	number := (period-1-it.lo)/it.step + 1
	gap := it.lo + period - (it.lo + (number-1)*it.step)
	switch {
	case number == 1:
		return []core.Text{core.Say("%s in %s matches only %d: the step goes past the end of the %s", it.text, kindNames[k], it.lo, unit)}
	case gap != it.step:
		return []core.Text{core.Say("%s in %s restarts each %s at %d: the gap is %d, but %d before each "+
			"restart", it.text, kindNames[k], unit, it.lo,
			it.step, gap)}
	}
	return nil
}

// trapAfterMidnight warns that "22-3 on Friday" is not the night that begins on Friday.
func (e *Expr) trapAfterMidnight(list []item) []core.Text {
	if e.dom == allDays && e.dow == allWeek && e.nth == 0 {
		return nil
	}
	for _, it := range list {
		if it.form == formRange && it.hi < it.lo && e.hour != all24 {
			return []core.Text{core.Say("%s in hours wraps around: the hours after midnight belong to the same date, not to the night before",
				it.text)}
		}
	}
	return nil
}

// trapShortMonths warns of a date that some of the months do not have.
func (e *Expr) trapShortMonths(list []item) []core.Text {
	if e.either {
		return nil
	}
	var traps []core.Text
	for _, it := range list {
		day := 0 // the length a month must have
		switch it.form {
		case formValue, formNear:
			day = it.lo
		case formLast, formLastNear:
			day = it.lo + 1
		}
		var short []core.Text
		for _, m := range values(uint64(e.month)) {
			if n := lengthOf(2023, time.Month(m)); day > n {
				name := core.Say("%s", strings.ToUpper(time.Month(m).String()[:3]))
				if day == 29 {
					name = core.Say("%s (except in leap years)", name)
				}
				short = append(short, name)
			}
		}
		if len(short) > 0 {
			traps = append(traps, core.Say("%s in day-of-month: no such day in %s", it.text, and(short)))
		}
	}
	return traps
}

func (e *Expr) trapDaysOfWeek(list []item) []core.Text {
	if e.crontab {
		return nil
	}
	var traps []core.Text
	// In crontab and most languages 1 is Monday.
	var written, days []string
	for _, it := range list {
		switch it.form {
		case formValue, formFrom, formRange, formNth, formLastDow:
			if !it.named {
				written = append(written, it.text)
				days = append(days, dayNames(it))
			}
		}
	}
	if len(written) > 0 && len(written) <= 7 {
		trap := core.Say("%s in day-of-week is %s in Quartz: 1 is Sunday", strings.Join(written, ","), strings.Join(days, ","))
		if slices.Contains(days, "SUN-THU") {
			trap = core.Say("%s; MON-FRI is 2-6", trap)
		}
		traps = append(traps, trap)
	}
	switch it := list[0]; {
	case it.form == formSaturday:
		traps = append(traps, core.Say("L in day-of-week is every Saturday; the last Saturday of the month is 7L"))
	case it.form == formNth && it.step == 5:
		traps = append(traps, core.Say("#5 in day-of-week: most months have only four such days and are skipped"))
	}
	return traps
}

// dayNames writes an item of Quartz day numbers with names.
func dayNames(it item) string {
	name := func(n int) string { return strings.ToUpper(time.Weekday(n - 1).String()[:3]) }
	days := name(it.lo)
	switch it.form {
	case formNth:
		return fmt.Sprintf("%s#%d", days, it.step)
	case formLastDow:
		return days + "L"
	case formRange, formFrom:
		days += "-" + name(it.hi)
	}
	if it.step > 1 {
		days += fmt.Sprintf("/%d", it.step)
	}
	return days
}

func (e *Expr) trapBothDays(dom, dow []item) []core.Text {
	restricted := func(list []item) bool {
		return !(list[0].form == formStar && list[0].step == 1)
	}
	switch {
	case e.either:
		return []core.Text{core.Say("both day fields are set in crontab: the job fires if either field matches (OR)")}
	case restricted(dom) && restricted(dow):
		return []core.Text{core.Say("a day field starts with * in crontab: both day fields must match (AND)")}
	}
	return nil
}
