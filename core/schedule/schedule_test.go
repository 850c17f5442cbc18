package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// at parses a time.
func at(t testing.TB, text string) core.Instant {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	check.OK(t, err)
	return core.Instant(v.Unix())
}

func mustCompile(t testing.TB, s core.Schedule) *Schedule {
	t.Helper()
	c, err := Compile(s, 42)
	check.OK(t, err)
	return c
}

func cronIn(zone, expr string) core.Schedule {
	return core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: expr}}, Timezone: zone}
}

func every(d time.Duration) core.When {
	return core.When{Kind: core.KindEvery, Every: d, Aligned: true}
}

func TestCompileRefuses(t *testing.T) {
	one := func(w core.When) core.Schedule { return core.Schedule{Any: []core.When{w}} }
	hourly := one(every(time.Hour))
	with := func(change func(*core.Schedule)) core.Schedule {
		s := hourly
		change(&s)
		return s
	}
	texts := golden.New(t)
	for _, c := range []struct {
		name  string
		s     core.Schedule
		field string
	}{
		{"fields of crontab", one(core.When{Kind: core.KindCron, Expr: "* * * * *"}), "schedule.cron"},
		{"hour 25", one(core.When{Kind: core.KindCron, Expr: "0 0 25 * * ?"}), "schedule.cron"},
		{"not crontab", one(core.When{Kind: core.KindCrontab, Expr: "nonsense"}), "schedule.crontab"},
		{"second schedule", core.Schedule{Any: []core.When{every(time.Hour), {Kind: core.KindCron, Expr: "x"}}}, "schedule[1].cron"},
		{"half a second", one(every(500 * time.Millisecond)), "schedule.every"},
		{"one and a half seconds", one(every(1500 * time.Millisecond)), "schedule.every"},
		{"more than a year", one(every(367 * 24 * time.Hour)), "schedule.every"},
		{"no delay", one(core.When{Kind: core.KindFixedDelay}), "schedule.fixedDelay"},
		{"offset of a period", one(core.When{Kind: core.KindEvery, Every: time.Minute, Offset: time.Minute}), "schedule.offset"},
		{"negative offset", one(core.When{Kind: core.KindEvery, Every: time.Minute, Offset: -time.Second}), "schedule.offset"},
		{"offset of at", one(core.When{Kind: core.KindAt, At: 5, Offset: time.Second}), "schedule.offset"},
		{"no time", one(core.When{Kind: core.KindAt}), "schedule.at"},
		{"after the horizon", one(core.When{Kind: core.KindAt, At: core.Horizon + 1}), "schedule.at"},
		{"unknown kind", one(core.When{Kind: "hourly"}), "schedule.kind"},
		{"fixed delay in a list", core.Schedule{Any: []core.When{every(time.Hour), {Kind: core.KindFixedDelay, Every: time.Hour}}},
			"schedule[1].fixedDelay"},
		{"17 schedules", core.Schedule{Any: slices.Repeat([]core.When{every(time.Hour)}, 17)}, "schedule"},
		{"unknown zone", with(func(s *core.Schedule) { s.Timezone = "Europe/Atlantis" }), "schedule.timezone"},
		{"local zone", with(func(s *core.Schedule) { s.Timezone = "Local" }), "schedule.timezone"},
		{"zone with leap seconds", with(func(s *core.Schedule) { s.Timezone = "right/Europe/Berlin" }), "schedule.timezone"},
		{"path as zone", with(func(s *core.Schedule) { s.Timezone = "../etc/passwd" }), "schedule.timezone"},
		{"negative jitter", with(func(s *core.Schedule) { s.Jitter = -1 }), "schedule.jitter"},
		{"long jitter", with(func(s *core.Schedule) { s.Jitter = 25 * time.Hour }), "schedule.jitter"},
		{"from without a date", with(func(s *core.Schedule) { s.From = "tomorrow" }), "schedule.from"},
		{"until without a date", with(func(s *core.Schedule) { s.Until = "2026-02-30" }), "schedule.until"},
		{"from 1970", with(func(s *core.Schedule) { s.From = "1970-01-01" }), "schedule.from"},
		{"until 1969", with(func(s *core.Schedule) { s.Until = "1969-12-31" }), "schedule.until"},
		{"from after until", with(func(s *core.Schedule) { s.From, s.Until = "2026-12-02", "2026-12-01" }), "schedule.from"},
	} {
		_, err := Compile(c.s, 1)
		var e *core.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v is no *core.Error", c.name, err)
			continue
		}
		if e.Code != core.CodeInvalid || e.Field != c.field {
			t.Errorf("%s: %s %q, want %s", c.name, e.Code, e, c.field)
		}
		texts.Equal(t, c.name, e.Error())
	}
}

func TestNext(t *testing.T) {
	windowed := cronIn("Asia/Shanghai", "0 0 12 * * ?")
	windowed.From, windowed.Until = "2026-12-01", "2026-12-02"
	exact := core.Schedule{Any: []core.When{every(time.Hour)}, From: "2026-12-01T10:00:00Z", Until: "2026-12-01T12:00:00Z"}
	list := core.Schedule{Any: []core.When{
		{Kind: core.KindCrontab, Expr: "30 10 * * *"}, {Kind: core.KindAt, At: at(t, "2026-12-01T10:15:00Z")},
		{Kind: core.KindEvery, Every: time.Hour, Offset: 30 * time.Minute}}}
	for _, c := range []struct {
		name  string
		s     core.Schedule
		after string
		want  string // all of them
	}{
		{"cron", cronIn("", "0 30 2 * * ?"), "2026-12-01T02:30:00Z", "2026-12-02T02:30:00Z"},
		{"zone", cronIn("Asia/Kolkata", "0 0 0 * * ?"), "2026-12-01T00:00:00Z", "2026-12-01T18:30:00Z"},
		{"whole hours", core.Schedule{Any: []core.When{every(time.Hour)}}, "2026-12-01T10:00:00Z", "2026-12-01T11:00:00Z"},
		{"window of dates", windowed, "2026-01-01T00:00:00Z", "2026-12-01T04:00:00Z 2026-12-02T04:00:00Z none"},
		{"window of times", exact, "2026-01-01T00:00:00Z", "2026-12-01T10:00:00Z 2026-12-01T11:00:00Z 2026-12-01T12:00:00Z none"},
		{"list: equal instants are one", list, "2026-12-01T10:00:00Z", "2026-12-01T10:15:00Z 2026-12-01T10:30:00Z 2026-12-01T11:30:00Z"},
		{"at the horizon", core.Schedule{Any: []core.When{every(time.Second)}}, "2088-01-19T03:14:05Z",
			"2088-01-19T03:14:06Z 2088-01-19T03:14:07Z none"},
		{"fixed delay", core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: time.Second}}}, "2026-12-01T10:00:00Z", "none"},
		{"by hand", core.Schedule{}, "2026-12-01T10:00:00Z", "none"},
		{"gap", cronIn("Europe/Berlin", "0 30 2 * * ?"), "2027-03-27T12:00:00Z", "2027-03-28T01:00:00Z 2027-03-29T00:30:00Z"},
		{"many in the gap are one", cronIn("Europe/Berlin", "0 0/10 2,3 28 3 ?"), "2027-03-27T12:00:00Z",
			"2027-03-28T01:00:00Z 2027-03-28T01:10:00Z"},
		{"twice", cronIn("Europe/Berlin", "0 30 2 * * ?"), "2027-10-30T12:00:00Z", "2027-10-31T00:30:00Z 2027-11-01T01:30:00Z"},
		{"from inside the second pass", cronIn("Europe/Berlin", "0 0,30,59 2,3 * * ?"), "2027-10-31T01:10:00Z", "2027-10-31T02:00:00Z"},
		{"rhythm through the gap", cronIn("Europe/Berlin", "0 30 * * * ?"), "2027-03-28T00:00:00Z", "2027-03-28T00:30:00Z 2027-03-28T01:30:00Z"},
		{"rhythm through both passes", cronIn("Europe/Berlin", "0 30 * * * ?"), "2027-10-31T00:00:00Z",
			"2027-10-31T00:30:00Z 2027-10-31T01:30:00Z 2027-10-31T02:30:00Z"},
		{"rhythm of two hours", cronIn("Europe/Berlin", "0 0 */2 * * ?"), "2027-03-27T23:00:00Z", "2027-03-28T02:00:00Z 2027-03-28T04:00:00Z"},
		{"half an hour", cronIn("Australia/Lord_Howe", "0 15 2 * * ?"), "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z 2026-10-04T15:15:00Z"},
		{"gap at midnight", cronIn("America/Sao_Paulo", "0 0 0 * * ?"), "2018-11-03T12:00:00Z", "2018-11-04T03:00:00Z 2018-11-05T02:00:00Z"},
		{"the day that was not", cronIn("Pacific/Apia", "0 0 9,12 * * ?"), "2011-12-29T20:00:00Z",
			"2011-12-29T22:00:00Z 2011-12-30T10:00:00Z 2011-12-30T19:00:00Z"},
		{"leap day far away", cronIn("Europe/Berlin", "0 0 * 29 2 ?"), "2028-03-01T00:00:00Z", "2032-02-28T23:00:00Z"},
		{"a year far away", cronIn("Europe/Berlin", "0 0 * 1 1 ? 2080"), "2028-03-01T00:00:00Z", "2079-12-31T23:00:00Z"},
		{"never", cronIn("Europe/Berlin", "0 0 * 30 2 ?"), "2028-03-01T00:00:00Z", "none"},
		{"never by the clock", cronIn("Europe/Berlin", "0 0 9 30 2 ?"), "2028-03-01T00:00:00Z", "none"},
	} {
		s := mustCompile(t, c.s)
		var got []string
		next := at(t, c.after)
		for range strings.Fields(c.want) {
			var ok bool
			if next, ok = s.Next(next); !ok {
				next = 0
			}
			got = append(got, next.String())
		}
		check.Equal(t, strings.Join(got, " "), c.want, "%s", c.name)
		never := c.want == "none" && c.name != "by hand" && c.name != "fixed delay"
		check.Equal(t, s.Never(at(t, c.after)), never, "%s: never", c.name)
	}
}

// TestEverySpreads checks that jobs of one period are spread over it, each at its own constant second.
func TestEverySpreads(t *testing.T) {
	s := core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: 10 * time.Minute}}}
	var tenths [10]int
	for job := core.JobID(1); job <= 1000; job++ {
		c, err := Compile(s, job)
		check.OK(t, err)
		first, _ := c.Next(1800000000)
		second, _ := c.Next(first)
		if second != first+600 {
			t.Fatalf("job %d: %s follows %s", job, second, first)
		}
		tenths[first%600/60]++
	}
	for i, n := range tenths {
		if n < 60 || n > 140 {
			t.Errorf("%d of 1000 jobs in tenth %d", n, i)
		}
	}
	// The hash is part of what users see: it must stay.
	check.Equal(t, hash(42)%600, 13, "the offset of job 42 in 10 minutes became")
}

func TestEveryStrictlyGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.Int64Range(1, 366*day).Draw(t, "period")
		s, err := Compile(core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Duration(period) * time.Second}}},
			core.JobID(rapid.Int32Min(1).Draw(t, "job")))
		check.OK(t, err)
		after := core.Instant(rapid.Int64Range(0, int64(core.Horizon)-2*period).Draw(t, "after"))
		first, ok := s.Next(after)
		if !ok || first <= after || first > after+2*core.Instant(period) || after > 366*day && first > after+core.Instant(period) {
			t.Fatalf("after %d comes %d", after, first)
		}
	})
}

func TestSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jitter := rapid.Int64Range(0, day).Draw(t, "jitter")
		s, err := Compile(core.Schedule{Any: []core.When{every(time.Hour)}, Jitter: time.Duration(jitter) * time.Second}, 1)
		check.OK(t, err)
		job := core.JobID(rapid.Int32Min(1).Draw(t, "job"))
		at := core.Instant(rapid.Int64Range(1600000000, 2000000000).Draw(t, "at"))
		next := core.Instant(0)
		if rapid.Bool().Draw(t, "last") {
			next = at + core.Instant(rapid.Int64Range(1, 2*day).Draw(t, "gap"))
		}
		frequent := rapid.Bool().Draw(t, "frequent")
		slot := s.Slot(job, at, next, frequent)
		if slot < at || slot > at+core.Instant(jitter) || next != 0 && slot >= next || frequent && slot > at+60 {
			t.Fatalf("slot %d of %d, next %d", slot, at, next)
		}
		if slot != s.Slot(job, at, next, frequent) {
			t.Fatal("differs when asked again")
		}
	})
	s := mustCompile(t, core.Schedule{Any: []core.When{every(time.Hour)}, Jitter: 9 * time.Second})
	var seen [10]int
	for i := core.Instant(0); i < 1000; i++ {
		seen[s.Slot(7, 1800000000+i*3600, 0, false)-(1800000000+i*3600)]++
	}
	for i, n := range seen {
		if n < 60 {
			t.Errorf("%d of 1000 fires %d s later", n, i)
		}
	}
}

func TestClamp(t *testing.T) {
	s := mustCompile(t, core.Schedule{Any: []core.When{{Kind: core.KindFixedDelay, Every: time.Hour}}, From: "2026-12-01",
		Until: "2026-12-01"})
	from, until := at(t, "2026-12-01T00:00:00Z"), at(t, "2026-12-01T23:59:59Z")
	for _, c := range []struct {
		at, want core.Instant
		ok       bool
	}{{from - 5, from, true}, {from + 5, from + 5, true}, {until, until, true}, {until + 1, until + 1, false}} {
		if got, ok := s.Clamp(c.at); got != c.want || ok != c.ok {
			t.Errorf("%s: %s %t", c.at, got, ok)
		}
	}
	if s.Never(until-1) || !s.Never(until) {
		t.Error("a fixed delay ends with its window")
	}
}

func TestDescribe(t *testing.T) {
	one := func(w core.When) core.Schedule { return core.Schedule{Any: []core.When{w}} }
	full := cronIn("Europe/Berlin", "0 30 2 * * ?")
	full.From, full.Until, full.Jitter = "2026-12-01", "2027-12-31", 2*time.Minute
	texts := golden.New(t)
	for name, s := range map[string]core.Schedule{
		"none": {}, "every 1s": one(every(time.Second)), "every 30s": one(every(30 * time.Second)),
		"every 90m": one(every(90 * time.Minute)), "every 1h": one(every(time.Hour)),
		"every 15m, offset 30s": one(core.When{Kind: core.KindEvery, Every: 15 * time.Minute, Offset: 30 * time.Second}),
		"fixedDelay 1m":         one(core.When{Kind: core.KindFixedDelay, Every: time.Minute}),
		"at in Europe/Berlin":   {Any: []core.When{{Kind: core.KindAt, At: 1796115600}}, Timezone: "Europe/Berlin"},
		"cron every second":     cronIn("", "* * * * * ?"), "cron": cronIn("", "0 30 2 * * ?"),
		"cron in Europe/Berlin": cronIn("Europe/Berlin", "0 30 2 * * ?"), "cron with all fields": full,
		"every 1m and cron": {Any: []core.When{every(time.Minute), {Kind: core.KindCron, Expr: "0 30 2 * * ?"}}},
	} {
		texts.Equal(t, name, mustCompile(t, s).Describe().String())
	}
}

func TestDescribeJob(t *testing.T) {
	a, b := core.Parent{Job: "x/p1", When: core.UponSuccess}, core.Parent{Job: "y/p2", When: core.UponFailure}
	texts := golden.New(t)
	for _, c := range []struct {
		name   string
		when   []core.When
		after  []core.Parent
		within time.Duration
	}{
		{"nothing", nil, nil, 0},
		{"one parent", nil, []core.Parent{a}, 0},
		{"any of two parents", nil, []core.Parent{a, b}, 0},
		{"one parent within 1h", nil, []core.Parent{b}, time.Hour},
		{"all of five parents", nil, []core.Parent{a, a, a, a, a}, 6 * time.Hour},
		{"a schedule and a parent", []core.When{every(time.Minute)}, []core.Parent{a}, 0},
	} {
		s := mustCompile(t, core.Schedule{Any: c.when})
		texts.Equal(t, c.name, s.DescribeJob(&core.Def{After: c.after, Within: c.within}).String())
	}
}

func TestTraps(t *testing.T) {
	texts := golden.New(t)
	for _, c := range []struct {
		zone, expr string
		traps      int
	}{
		{"Europe/Berlin", "0 30 2 * * ?", 2},
		{"Europe/Berlin", "0 0,30 2 * * ?", 2},
		{"Europe/Berlin", "0 0/5 2 * * ?", 2},
		{"Europe/Berlin", "0 0 */2 * * ?", 2},
		{"Europe/Berlin", "0 0 4 * * ?", 0},
		{"Europe/Berlin", "0 30 * * * ?", 0},
		{"Europe/Berlin", "* * * * * ?", 0},
		{"", "0 30 2 * * ?", 0},
		{"Asia/Kolkata", "0 30 2 * * ?", 0},
	} {
		got := mustCompile(t, cronIn(c.zone, c.expr)).Traps(at(t, "2026-12-01T00:00:00Z"))
		check.Equal(t, len(got), c.traps, "%s in %s: %q", c.expr, c.zone, got)
		for i, trap := range got {
			texts.Equal(t, fmt.Sprintf("%s in %s: %d", c.expr, c.zone, i+1), trap.String())
		}
	}
	past := core.Schedule{Any: []core.When{{Kind: core.KindAt, At: 5}}, Until: "2026-01-01"}
	if got := mustCompile(t, past).Traps(at(t, "2026-12-01T00:00:00Z")); len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	for _, s := range []core.Schedule{cronIn("", "0 30 2 * * ?"), cronIn("Europe/Berlin", "0 30 2 * * ?"),
		cronIn("Europe/Berlin", "0 30 * * * ?"), {Any: []core.When{every(time.Second)}}} {
		c := mustCompile(t, s)
		next := core.Instant(1800000000)
		if n := testing.AllocsPerRun(100, func() { next, _ = c.Next(next) }); n != 0 {
			t.Errorf("%s: %v allocations", c.Describe(), n)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct {
		name string
		s    core.Schedule
	}{
		{"every", core.Schedule{Any: []core.When{every(time.Second)}}},
		{"utc", cronIn("", "0 30 2 * * ?")},
		{"utc-secondly", cronIn("", "* * * * * ?")},
		{"utc-weekday", cronIn("", "0 30 2 LW * ?")},
		{"zone", cronIn("Europe/Berlin", "0 30 2 * * ?")},
		{"zone-rhythm", cronIn("Europe/Berlin", "0 30 * * * ?")},
		{"zone-yearly", cronIn("Europe/Berlin", "0 0 0 1 1 ?")},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := mustCompile(b, c.s)
			b.ReportAllocs()
			next := core.Instant(1800000000)
			for b.Loop() {
				var ok bool
				if next, ok = s.Next(next); !ok {
					next = 1800000000
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	s := cronIn("Europe/Berlin", "0 30 2 ? * MON-FRI")
	b.ReportAllocs()
	for b.Loop() {
		check.Call(b)(Compile(s, 1))
	}
}

// TestZoneNames checks that only IANA names are accepted, whatever files or path spellings the host
// has, and that errors name the allowed values.
func TestZoneNames(t *testing.T) {
	texts := golden.New(t)
	for _, name := range []string{"right/UTC", "posix/UTC", "./right/UTC", "./UTC", "././Europe/Berlin", "Europe//Berlin", "Europe/./Berlin",
		"Europe/Berlin/", "/usr/share/zoneinfo/UTC", "/etc/localtime", "localtime", "posixrules", "Factory", "Europe/../right/UTC", "..", ".",
		"Etc", "Europe/Berlin\x00", " UTC", "UTC\n", "tzdata.zi", "zone.tab", `Europe\Berlin`, "europe/berlin", "America/Indiana/Knox/Knox"} {
		_, err := Compile(core.Schedule{Timezone: name}, 1)
		var e *core.Error
		if !errors.As(err, &e) || e.Code != core.CodeInvalid || e.Field != "schedule.timezone" {
			t.Errorf("%q: %v", name, err)
		}
		texts.Equal(t, fmt.Sprintf("%q", name), fmt.Sprint(err))
	}
	for _, name := range []string{"", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "America/Port-au-Prince", "Etc/GMT+5", "GMT-0",
		"Etc/GMT0", "W-SU", "EST5EDT", "GB-Eire", "America/Indiana/Tell_City", "Antarctica/DumontDUrville", "Asia/Ho_Chi_Minh"} {
		if _, err := Compile(core.Schedule{Timezone: name}, 1); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestUnknownZonesSuggestName has a row for each kind of name that people type.
func TestUnknownZonesSuggestName(t *testing.T) {
	texts := golden.New(t)
	for _, name := range []string{"GMT+8", "UTC-5", "utc+08:00", "+8", "GMT+15", "UTC+5:30", "CST", "China Standard Time", "CEST",
		"asia/shanghai", "AMERICA/PORT-AU-PRINCE", "America/New York", "utc", "etc/gmt-8", "Asia/Calcuta", "Asia/Tokoy", "Europe/Berlim",
		"Asia/Shanghai ", "Mars", strings.Repeat("Asia/Shanghai", 9), "Local"} {
		if err := CheckZone("timezone", name); err == nil {
			t.Errorf("%q: accepted", name)
		} else {
			texts.Equal(t, fmt.Sprintf("%q", name), err.Error())
		}
	}
	for _, name := range []string{"EST", "MST"} {
		s := mustCompile(t, cronIn(name, "0 0 9 * * ?"))
		if got := s.Traps(0); len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		} else {
			texts.Equal(t, name, got[0].String())
		}
	}
}

// TestWallTimeIsFirstMomentAfterGap has rows with gaps and repeated hours.
func TestWallTimeIsFirstMomentAfterGap(t *testing.T) {
	for _, c := range []struct{ zone, wall, want string }{
		{"America/New_York", "2027-03-14 02:30", "2027-03-14T07:00:00Z"},    // skipped: 03:00
		{"America/New_York", "2027-03-14 03:00", "2027-03-14T07:00:00Z"},    // the first after the gap
		{"America/New_York", "2027-03-14 01:59", "2027-03-14T06:59:00Z"},    // the last before it
		{"America/New_York", "2026-11-01 01:30", "2026-11-01T05:30:00Z"},    // shown twice: the first
		{"America/Santiago", "2026-09-06 00:00", "2026-09-06T04:00:00Z"},    // a day without midnight
		{"Australia/Lord_Howe", "2026-10-04 02:15", "2026-10-03T15:30:00Z"}, // a gap of half an hour
		{"Europe/Berlin", "2026-07-01 12:00", "2026-07-01T10:00:00Z"},
		{"UTC", "2026-07-01 12:00", "2026-07-01T12:00:00Z"},
		{"Pacific/Kiritimati", "2026-07-01 12:00", "2026-06-30T22:00:00Z"},
	} {
		loc, err := time.LoadLocation(c.zone)
		check.OK(t, err)
		wall, err := time.Parse("2006-01-02 15:04", c.wall)
		check.OK(t, err)
		check.Equal(t, WallTime(wall, loc).UTC().Format(time.RFC3339), c.want, "%s in %s", c.wall, c.zone)
	}
}

// TestCount compares Count with an iteration, over and soon after clock changes, and checks that Count
// reports an estimate.
func TestCount(t *testing.T) {
	one := func(kind core.Kind, expr string) core.When { return core.When{Kind: kind, Expr: expr} }
	for _, zone := range []string{"", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia"} {
		for _, any := range [][]core.When{
			{one(core.KindCron, "0 */10 * * * ?")}, {one(core.KindCron, "0 15,45 1,2,3 * * ?")}, {one(core.KindCrontab, "30 2 * * 0")},
			{{Kind: core.KindEvery, Every: 7 * time.Minute}}, {{Kind: core.KindAt, At: 1792886400}}, {},
			{one(core.KindCron, "0 0 2 * * ?"), one(core.KindCron, "0 0 */2 * * ?")},
		} {
			s, err := Compile(core.Schedule{Any: any, Timezone: zone, From: "2026-01-03", Until: "2026-12-30T00:00:00Z"}, 7)
			check.OK(t, err)
			first := core.InstantOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			for after := first; after < first+370*day; {
				step := core.Instant(day/4 + 911)
				if i := s.zone.at(int64(after) + int64(step)); s.zone.periods[i].start > int64(after)-day/4 { // a change is near
					step = 1000
				}
				after += step
				for _, end := range []core.Instant{after, after + 3600, after + 2*day} {
					want := 0
					for at, ok := s.Next(after); ok && at <= end; at, ok = s.Next(at) {
						want++
					}
					if got, all := s.Count(after, end, 1000); got != want || !all {
						t.Fatalf("%v in %s, after %s up to %s: %d (all: %t), not %d", any, zone, after, end, got, all, want)
					}
				}
			}
			if len(any) == 2 {
				if n, all := s.Count(first, first+30*day, 10); all || n < 250 || n > 420 {
					t.Errorf("given up: %d, all: %t", n, all)
				}
			}
		}
	}
}

// TestEveryKindIsHandled checks that each kind compiles, fires, and has its own description.
func TestEveryKindIsHandled(t *testing.T) {
	const now = core.Instant(1_800_000_000)
	rules := map[core.Kind]core.When{
		core.KindCron:       {Expr: "0 0 3 * * ?"},
		core.KindCrontab:    {Expr: "0 4 * * *"},
		core.KindEvery:      {Every: time.Minute},
		core.KindFixedDelay: {Every: 10 * time.Second},
		core.KindAt:         {At: now + 3600},
	}
	words := map[string]core.Kind{"": "", (&Schedule{}).Describe().String(): "no kind"}
	for _, kind := range core.Kinds {
		rule, ok := rules[kind]
		if !ok {
			t.Errorf("no example of the kind %s in this test", kind)
			continue
		}
		rule.Kind = kind
		s, err := Compile(core.Schedule{Any: []core.When{rule}}, 7)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		at, fires := s.Next(now)
		if _, delay := s.FixedDelay(); fires == delay {
			t.Errorf("%s: next %s, %t; fixed delay %t: exactly one of them must set when it fires", kind, at, fires, delay)
		} else if fires && at <= now || s.Never(now) {
			t.Errorf("%s: next %s, never %t", kind, at, s.Never(now))
		}
		text := s.Describe().String()
		if other, taken := words[text]; taken {
			t.Errorf("%s is described by %q, as %s is", kind, text, other)
		}
		words[text] = kind
	}
}
