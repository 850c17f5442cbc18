package cron

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func at(t testing.TB, s string) Wall {
	t.Helper()
	u, err := time.Parse("2006-01-02 15:04:05", s)
	check.OK(t, err)
	return Wall(u.Unix())
}

func text(w Wall) string { return time.Unix(int64(w), 0).UTC().Format("2006-01-02 15:04:05") }

func TestCrontab(t *testing.T) {
	for _, c := range []struct{ expr, after, next string }{
		{"*/5 * * * *", "2024-05-01 10:00:00", "2024-05-01 10:05:00"},
		{"* * * * *", "2024-05-01 10:00:01", "2024-05-01 10:01:00"},
		{"0 9 * * 1-5", "2024-05-03 09:00:00", "2024-05-06 09:00:00"},     // Friday, Monday
		{"0 9 * * MON-FRI", "2024-05-03 09:00:00", "2024-05-06 09:00:00"}, // the same with names
		{"0 9 * * 0", "2024-05-03 09:00:00", "2024-05-05 09:00:00"},
		{"0 9 * * 7", "2024-05-03 09:00:00", "2024-05-05 09:00:00"},
		{"0 9 * * sun", "2024-05-03 09:00:00", "2024-05-05 09:00:00"},
		{"0 9 * * 5-7", "2024-05-04 09:00:00", "2024-05-05 09:00:00"},
		{"0 9 * * SAT-SUN", "2024-05-04 09:00:00", "2024-05-05 09:00:00"},
		{"0 9 * * mon-5", "2024-05-03 09:00:00", "2024-05-06 09:00:00"},
		{"0 9 * * MON-FRI/2", "2024-05-06 09:00:00", "2024-05-08 09:00:00"},
		{"0 0 1,15 * 3", "2024-05-01 00:00:00", "2024-05-08 00:00:00"}, // OR: a Wednesday
		{"0 0 1,15 * 3", "2024-05-29 00:00:00", "2024-06-01 00:00:00"}, // OR: the 1st
		{"0 0 13 * 5", "2024-05-03 00:00:00", "2024-05-10 00:00:00"},   // OR: a Friday
		{"0 0 */2 * 1", "2024-05-06 00:00:00", "2024-05-13 00:00:00"},  // AND: an odd Monday
		{"0 0 13 * */5", "2024-05-01 00:00:00", "2024-09-13 00:00:00"}, // AND: a Friday (or Sunday) the 13th
		{"0 0 *,13 * 5", "2024-05-03 00:00:00", "2024-05-10 00:00:00"}, // begins with *: AND
		{"0 0 1-31 * 5", "2024-05-03 00:00:00", "2024-05-04 00:00:00"}, // restricted though it has all days: OR
		{"0 0 29 2 *", "2024-03-01 00:00:00", "2028-02-29 00:00:00"},
		{"0 0 * FEB-mar *", "2024-03-31 00:00:00", "2025-02-01 00:00:00"},
		{" 10-40/15\t1 * * * \n", "2024-03-31 00:00:00", "2024-03-31 01:10:00"},
		{"@yearly", "2024-05-01 10:00:00", "2025-01-01 00:00:00"},
		{"@annually", "2024-05-01 10:00:00", "2025-01-01 00:00:00"},
		{"@monthly", "2024-05-01 00:00:00", "2024-06-01 00:00:00"},
		{"@weekly", "2024-05-01 10:00:00", "2024-05-05 00:00:00"},
		{"@daily", "2024-05-01 10:00:00", "2024-05-02 00:00:00"},
		{"@midnight", "2024-05-01 10:00:00", "2024-05-02 00:00:00"},
		{" @Hourly ", "2024-05-01 10:00:00", "2024-05-01 11:00:00"},
		{"* * * * *", "1969-01-01 00:00:00", "1970-01-01 00:00:00"},
		{"59 23 31 12 *", "2299-12-31 23:58:59", "2299-12-31 23:59:00"},
		{"59 23 31 12 *", "2299-12-31 23:59:00", ""},
		{"* * * * *", "2299-12-31 23:59:59", ""},
		{"* * * * *", "2400-01-01 00:00:00", ""},
		{"0 0 31 4 *", "2024-01-01 00:00:00", ""},
	} {
		e := mustCrontab(t, c.expr)
		w, ok := e.Next(at(t, c.after))
		got := ""
		if ok {
			got = text(w)
		}
		check.Equal(t, got, c.next, "%q after %s", c.expr, c.after)
	}
}

func TestHorizon(t *testing.T) {
	check.Equal(t, text(lastWall), fmt.Sprintf("%d-12-31 23:59:59", LastYear), "lastWall")
	e := mustQuartz(t, "* * * * * ?")
	for w, want := range map[Wall]bool{-1: false, 0: true, lastWall: true, lastWall + 1: false} {
		if e.Matches(w) != want {
			t.Errorf("Matches(%d) = %v", w, !want)
		}
	}
	for after, want := range map[Wall]Wall{-1 << 63: 0, -1: 0, 0: 1, lastWall - 1: lastWall} {
		if got, ok := e.Next(after); !ok || got != want {
			t.Errorf("Next(%d) = %d, %v", after, got, ok)
		}
	}
	for _, after := range []Wall{lastWall, 1<<63 - 1} {
		if got, ok := e.Next(after); ok {
			t.Errorf("Next(%d) = %d, want none", after, got)
		}
	}
}

func TestRealTime(t *testing.T) {
	for hour, want := range map[string]bool{
		"*": true, "*/1": true, "*/2": true, "/2": true, "0/2": true, "0-23/3": true, "0-23": true,
		"*/12": true, "*/5": true, "0-22/2": true, "12-11": true, "0-11,12-23": true, "*/23": true,
		"0": false, "12": false, "0,12": false, "0,2,4,6,8,10,12,14,16,18,20,22": false, "1/2": false,
		"8-18": false, "8-18/2": false, "0-12": false, "0-0": false, "22-3": false,
	} {
		check.Equal(t, mustQuartz(t, "0 30 "+hour+" * * ?").RealTime(), want, "cron hours %s", hour)
	}
	for hour, want := range map[string]bool{"*": true, "*/2": true, "0-23/2": true, "2": false, "0,12": false} {
		check.Equal(t, mustCrontab(t, "30 "+hour+" * * *").RealTime(), want, "crontab hours %s", hour)
	}
}

func TestErrors(t *testing.T) {
	for line, want := range map[string][2]string{
		"30 2 * * * /bin/x a b": {"30 2 * * *", "/bin/x a b"}, "*/5 * * * MON php artisan": {"*/5 * * * MON", "php artisan"},
		"@daily ./x": {"@daily", "./x"}, "0 5 * * 1 2>&1 x": {}, "0 0 12 * * ?": {}, "0 0 12 ? * MON-FRI 2027": {}, "30 2 * * *": {}, "": {},
		"99 2 * * * /bin/x": {"99 2 * * *", "/bin/x"}, "0 15 10 ? * 6L": {}, "0 0 0 LW * ?": {},
	} {
		expr, command, ok := Line(line)
		if _, err := ParseCrontab(want[0]); expr != want[0] || command != want[1] || ok != (err == nil) {
			t.Errorf("%q: %q %q %v", line, expr, command, ok)
		}
	}
	texts := golden.New(t)
	for _, c := range []badText{
		{"", "", 0},
		{"0 9 * * 1-5", "", 0},
		{"@daily", "", 0},
		{"* * *", "", 5},
		{"hello", "", 5},
		{"0 0 12 * * ? * x", "", 15},
		{"0 60 * * * ?", "minutes", 2},
		{"0 1,2,99999999999999999999 * * * ?", "minutes", 6},
		{"0 0/60 * * * ?", "minutes", 4},
		{"0 */0 * * * ?", "minutes", 4},
		{"0 */ * * * ?", "minutes", 4},
		{"0 1-x * * * ?", "minutes", 4},
		{"0 5; * * * ?", "minutes", 3},
		{"0 1,,2 * * * ?", "minutes", 4},
		{"0 ? * * * ?", "minutes", 2},
		{"0 0 0 ? * ?", "day-of-week", 10},
		{"0 0 0 * * *", "day-of-week", 10},
		{"0 0 0 L-31 * ?", "day-of-month", 8},
		{"0 0 0 ? * 6#6", "day-of-week", 12},
		{"0 0 0 ? * 0", "day-of-week", 10},
		{"0 0 0 ? * MON,6L", "day-of-week", 14},
		{"0 0 0 ? * MON-6", "day-of-week", 14},
		{"0 0 0 ? * MON-FRI/2", "day-of-week", 17},
		{"0 0 0 1 JA ?", "month", 8},
		{"0 0 0 1 1 ? 2030-2020", "year", 17},
		{"0 0 0 1 1 ? 1969", "year", 12},
		{"0 0 0\n0 * * ?", "hours", 5},
		{"0 0 ０ * * ?", "hours", 4},
	} {
		_, err := ParseQuartz(c.text)
		c.check(t, err)
		texts.Equal(t, fmt.Sprintf("cron %q", c.text), fmt.Sprint(err))
	}
	for _, c := range []badText{
		{"0 0 9 ? * 2-6", "", 0},
		{"* * *", "", 5},
		{"1 2 3 4 5 6 7 8", "", 10},
		{"@reboot", "", 0},
		{"0 0 ? * *", "day-of-month", 4},
		{"0 0 L * *", "day-of-month", 4},
		{"0 0 15W * *", "day-of-month", 6},
		{"0 0 * * 6#3", "day-of-week", 9},
		{"0 0 * * FRIL", "day-of-week", 11},
		{"0 0 * * L", "day-of-week", 8},
		{"0 22-3 * * *", "hours", 5},
		{"5/15 * * * *", "minutes", 1},
		{"/15 * * * *", "minutes", 0},
		{"*/60 * * * *", "minutes", 2},
		{"0 0 0 * *", "day-of-month", 4},
		{"0 0 * * 8", "day-of-week", 8},
		{"~ * * * *", "", 0},
	} {
		_, err := ParseCrontab(c.text)
		c.check(t, err)
		texts.Equal(t, fmt.Sprintf("crontab %q", c.text), fmt.Sprint(err))
	}
}

// badText is a text that is rejected at byte pos, in the named field.
type badText struct {
	text, field string
	pos         int
}

func (b badText) check(t *testing.T, err error) {
	t.Helper()
	checkParseError(t, b.text, err)
	if e, is := errors.AsType[*ParseError](err); is && (e.Field != b.field || e.Pos != b.pos) {
		t.Errorf("%q: rejected in %q at %d, not in %q at %d", b.text, e.Field, e.Pos, b.field, b.pos)
	}
}

func TestMaxText(t *testing.T) {
	var all []string
	for i := range 60 {
		all = append(all, fmt.Sprint(i))
	}
	values := func(from, to int) string { return strings.Join(all[from:to+1], ",") }
	long := strings.Join([]string{values(0, 59), values(0, 59), values(0, 23), values(1, 31),
		"JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC", "?"}, " ")
	e := mustQuartz(t, long)
	check.Equal(t, e.schedule, mustQuartz(t, "* * * * * ?").schedule, "a text with every value is not every second")
	padded := long + strings.Repeat(" ", MaxText-len(long))
	mustQuartz(t, padded)
	if _, err := ParseQuartz(padded + " "); err == nil || len(err.Error()) > 300 || strings.Contains(err.Error(), "\n") {
		t.Errorf("a text longer than MaxText: %v", err)
	}
}

func TestNextDoesNotAllocate(t *testing.T) {
	e := mustQuartz(t, "0 0 9 LW * ?")
	if n := testing.AllocsPerRun(100, func() { e.Next(1_700_000_000); e.Matches(1_700_000_000) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestCount compares Count with an iteration.
func TestCount(t *testing.T) {
	const from, day = 1_790_000_000, 24 * 60 * 60
	for _, c := range benchmarks {
		e := mustQuartz(t, c.text)
		for _, span := range [][2]Wall{{from, from}, {from, from + 1}, {from, from + 91_234}, {from - 7, from + 40*day}, {-5, day - 1},
			{lastWall - 3*day, lastWall + 9}} {
			want := 0
			for at, ok := e.Next(span[0]); ok && at <= span[1]; at, ok = e.Next(at) {
				want++
			}
			if got := e.Count(span[0], span[1]); got != want {
				t.Errorf("%s after %d up to %d: %d, not %d", c.name, span[0], span[1], got, want)
			}
		}
	}
}

// TestForeignFormsNameTheFormHere has a row for each form of another scheduler: the error names the
// form or field to use here, the same in both dialects.
func TestForeignFormsNameTheFormHere(t *testing.T) {
	texts := golden.New(t)
	for _, text := range []string{"CRON_TZ=Asia/Tokyo 0 5 * * *", "TZ=Asia/Tokyo 0 0 5 * * ?", "@every 5m", "@EVERY 1h30m",
		"rate(5 minutes)", "rate(1 day)", "cron(0 12 * * ? *)", "@reboot", "0~30 * * * *", "~ 3 * * *", "H H * * *", "H/15 * * * *",
		"H(0-29)/10 * * * *", "1, 15 * * * *", "0 5 ,6 * * *", "0 5 * * * # nightly", "0 0 5 * * ? # nightly", "0 5 * * * #"} {
		for _, parse := range []func(string) (*Expr, error){ParseQuartz, ParseCrontab} {
			_, err := parse(text)
			checkParseError(t, text, err)
			texts.Equal(t, text, fmt.Sprint(err))
		}
	}
}

// TestBothDaysSetSuggestsText checks the Spring form, which sets both day fields: for some texts the error has a text to write
// instead, which is valid.
func TestBothDaysSetSuggestsText(t *testing.T) {
	texts := golden.New(t)
	for text, want := range map[string]string{
		"0 0 9 * * 1-5": "0 0 9 ? * MON-FRI", "0 0 9 * * 1,3": "0 0 9 ? * MON,WED", "0 0 9 * * MON-FRI": "0 0 9 ? * MON-FRI",
		"0 0 9 15 * *": "0 0 9 15 * ?", "* */15 * * * *": "* */15 * * * ?", "0 0 9 * * 6#3": "0 0 9 ? * 6#3",
		"0 0 9 * * 2-6 2030": "0 0 9 ? * TUE-SAT 2030", "0 0 9 15 * 2": "", "0 0 9 1,15 * 2,5": "", "0 0 9 * * 1-5/2": "0 0 9 ? * 1-5/2",
		"0 0 9 */2 * MON-FRI": "",
	} {
		_, err := ParseQuartz(text)
		checkParseError(t, text, err)
		texts.Equal(t, text, fmt.Sprint(err))
		_, after, _ := strings.Cut(fmt.Sprint(err), `write "`)
		fixed, _, _ := strings.Cut(after, `"`)
		check.Equal(t, fixed, want, "%q: the suggested text", text)
		if _, err := ParseQuartz(fixed); fixed != "" && err != nil {
			t.Errorf("%q: the suggested text is wrong: %v", text, err)
		}
	}
}
