package cron

import "math/bits"

func compileQuartz(fields [][]item) schedule {
	s := schedule{
		sec:   set(fields[seconds], 60),
		min:   set(fields[minutes], 60),
		month: uint16(set(fields[months], 12)),
	}
	s.setHours(fields[hours])
	s.setDaysOfMonth(fields[daysOfMonth])
	s.setDaysOfWeek(fields[daysOfWeek])
	if len(fields) > int(yearField) {
		s.setYears(fields[yearField])
	} else {
		s.setYears([]item{{form: formStar, lo: FirstYear, hi: LastYear, step: 1}})
	}
	return s
}

func compileCrontab(fields [][]item) schedule {
	dom, dow := fields[2], fields[4]
	s := schedule{
		sec:     1,
		min:     set(fields[0], 60),
		dom:     uint32(set(dom, 31)),
		month:   uint16(set(fields[3], 12)),
		either:  dom[0].form != formStar && dow[0].form != formStar,
		crontab: true,
	}
	s.setHours(fields[1])
	week := set(dow, 8)
	s.dow = uint8(week&allWeek | week>>7&1) // 7 is Sunday too
	s.setYears([]item{{form: formStar, lo: FirstYear, hi: LastYear, step: 1}})
	return s
}

func (s *schedule) setHours(list []item) {
	s.hour = uint32(set(list, 24))
	s.realTime = s.hour == all24
	if len(list) == 1 && list[0].form != formValue {
		for n := 2; n < 24; n++ {
			s.realTime = s.realTime || s.hour == uint32(steps(0, 23, n))
		}
	}
}

func (s *schedule) setDaysOfMonth(list []item) {
	for _, it := range list {
		switch it.form {
		case formAny:
			s.dom = allDays
		case formLast:
			s.last |= 1 << it.lo
		case formNear:
			s.near |= 1 << it.lo
		case formLastNear:
			s.lastNear |= 1 << it.lo
		default:
			s.dom |= uint32(set([]item{it}, 31))
		}
	}
}

// setDaysOfWeek sets the days from Quartz numbers, where 1 is Sunday.
func (s *schedule) setDaysOfWeek(list []item) {
	switch it := list[0]; it.form {
	case formAny:
		s.dow = allWeek
	case formNth, formLastDow:
		s.dow = 1 << (it.lo - 1)
		s.nth = lastOfMonth
		if it.form == formNth {
			s.nth = uint8(it.step)
		}
	default:
		s.dow = uint8(set(list, 7) >> 1)
	}
}

func (s *schedule) setYears(list []item) {
	for _, it := range list {
		for y := it.lo; y <= min(it.hi, LastYear); y += it.step {
			i := y - FirstYear
			s.year[i/64] |= 1 << (i % 64)
		}
	}
}

// set returns the values of a list. Values beyond the end of a range that wraps
// around have the period subtracted, so 22-3/2 in hours is 22, 0, 2.
func set(list []item, period int) uint64 {
	var result uint64
	for _, it := range list {
		if it.hi >= it.lo {
			result |= steps(it.lo, it.hi, it.step)
			continue
		}
		long := steps(0, it.hi+period-it.lo, it.step)
		for ; long != 0; long &= long - 1 {
			v := it.lo + bits.TrailingZeros64(long)
			// Fields that count from 1 contain their period: the 31st, December.
			if v > period || v == period && (period == 60 || period == 24) {
				v -= period
			}
			result |= 1 << v
		}
	}
	return result
}

// steps returns lo, lo+step, ... up to hi.
func steps(lo, hi, step int) uint64 {
	var result uint64
	for v := lo; v <= hi; v += step {
		result |= 1 << v
	}
	return result
}
