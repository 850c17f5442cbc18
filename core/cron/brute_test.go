package cron

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/internal/testkit/check"
)

// brute is a second, simple reading of both dialects: it checks each item of the text for one time. It
// shares nothing with the package but time.Time, and assumes that the text is valid.
type brute struct {
	fields  []string // seconds ... day-of-week [year]
	crontab bool
}

func bruteQuartz(text string) brute { return brute{fields: strings.Fields(text)} }
func bruteCrontab(text string) brute {
	return brute{fields: strings.Fields("0 " + text), crontab: true}
}

func (b brute) matches(t time.Time) bool {
	f := b.fields
	return bruteField(f[0], t.Second(), 0, 59, false) &&
		bruteField(f[1], t.Minute(), 0, 59, false) &&
		bruteField(f[2], t.Hour(), 0, 23, false) &&
		bruteField(f[4], int(t.Month()), 1, 12, false) &&
		(len(f) < 7 || bruteField(f[6], t.Year(), 1970, 9999, true)) &&
		b.day(t)
}

func (b brute) day(t time.Time) bool {
	dom := bruteDayOfMonth(b.fields[3], t)
	if !b.crontab {
		return dom && bruteDayOfWeek(b.fields[5], t)
	}
	day := int(t.Weekday())
	dow := bruteField(b.fields[5], day, 0, 7, true) || day == 0 && bruteField(b.fields[5], 7, 0, 7, true)
	if strings.HasPrefix(b.fields[3], "*") || strings.HasPrefix(b.fields[5], "*") {
		return dom && dow
	}
	return dom || dow
}

var bruteNames = strings.NewReplacer(
	"JAN", "1", "FEB", "2", "MAR", "3", "APR", "4", "MAY", "5", "JUN", "6",
	"JUL", "7", "AUG", "8", "SEP", "9", "OCT", "10", "NOV", "11", "DEC", "12",
	"SUN", "1", "MON", "2", "TUE", "3", "WED", "4", "THU", "5", "FRI", "6", "SAT", "7")

func bruteInt(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// bruteField advances each item like a hand on a dial.
func bruteField(field string, v, lo, hi int, noWrap bool) bool {
	for _, it := range strings.Split(bruteNames.Replace(strings.ToUpper(field)), ",") {
		body, stepText, hasStep := strings.Cut(it, "/")
		step := 1
		if hasStep {
			step = bruteInt(stepText)
		}
		from, to := lo, hi
		if body != "*" && body != "" {
			a, z, isRange := strings.Cut(body, "-")
			from = bruteInt(a)
			switch {
			case isRange:
				to = bruteInt(z)
			case !hasStep:
				to = from
			}
		}
		for at, n := from, 0; ; n++ {
			if n%step == 0 && at == v {
				return true
			}
			if at == to {
				break
			}
			at++
			if at > hi {
				if noWrap {
					break
				}
				at = lo
			}
		}
	}
	return false
}

func bruteDayOfMonth(field string, t time.Time) bool {
	last := time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	for _, it := range strings.Split(strings.ToUpper(field), ",") {
		if it == "?" {
			return true
		}
		nominal, weekday := strings.CutSuffix(it, "W")
		switch {
		case nominal == "L":
			nominal = strconv.Itoa(last)
		case strings.HasPrefix(nominal, "L-"):
			nominal = strconv.Itoa(last - bruteInt(nominal[2:]))
			if nominal[0] == '-' || nominal == "0" {
				continue
			}
		}
		if !weekday {
			if bruteField(nominal, t.Day(), 1, 31, false) {
				return true
			}
			continue
		}
		// The nearest day from Monday to Friday of the month.
		want, best := bruteInt(nominal), 0
		for d := 1; d <= last && want <= last; d++ {
			wd := time.Date(t.Year(), t.Month(), d, 0, 0, 0, 0, time.UTC).Weekday()
			if wd != time.Saturday && wd != time.Sunday && (best == 0 || abs(d-want) < abs(best-want)) {
				best = d
			}
		}
		if best == t.Day() {
			return true
		}
	}
	return false
}

func bruteDayOfWeek(field string, t time.Time) bool {
	field = bruteNames.Replace(strings.ToUpper(field))
	day := int(t.Weekday()) + 1
	switch {
	case field == "?":
		return true
	case field == "L":
		return day == 7
	case strings.HasSuffix(field, "L"):
		return day == bruteInt(field[:len(field)-1]) && t.AddDate(0, 0, 7).Month() != t.Month()
	case strings.Contains(field, "#"):
		d, k, _ := strings.Cut(field, "#")
		return day == bruteInt(d) && (t.Day()-1)/7+1 == bruteInt(k)
	}
	return bruteField(field, day, 1, 7, false)
}

func abs(n int) int { return max(n, -n) }

// next searches second by second, but leaves days, hours and minutes in which
// nothing can match.
func (b brute) next(after, until Wall) (Wall, bool) {
	for w := after + 1; w <= until; w++ {
		t := time.Unix(int64(w), 0).UTC()
		unit := Wall(1)
		switch {
		case !b.anyTime("*", "*", "*").matches(t):
			unit = secondsPerDay
		case !b.anyTime("*", "*", b.fields[2]).matches(t):
			unit = 3600
		case !b.anyTime("*", b.fields[1], b.fields[2]).matches(t):
			unit = 60
		case b.matches(t):
			return w, true
		}
		w += unit - 1 - w%unit
	}
	return 0, false
}

// anyTime is b with other fields for the time of day.
func (b brute) anyTime(sec, min, hour string) brute {
	return brute{fields: append([]string{sec, min, hour}, b.fields[3:]...), crontab: b.crontab}
}

// Generators of valid texts.

func drawItem(t *rapid.T, lo, hi int, wrap bool) string {
	num := rapid.IntRange(lo, hi)
	step := func() string { return "/" + strconv.Itoa(rapid.IntRange(1, hi).Draw(t, "step")) }
	switch rapid.IntRange(0, 5).Draw(t, "form") {
	case 0:
		return "*"
	case 1:
		return "*" + step()
	case 2, 3:
		return strconv.Itoa(num.Draw(t, "n"))
	case 4:
		if wrap {
			return strconv.Itoa(num.Draw(t, "n")) + step()
		}
		return "*" + step()
	default:
		a, b := num.Draw(t, "a"), num.Draw(t, "b")
		if !wrap {
			a, b = min(a, b), max(a, b)
		}
		text := strconv.Itoa(a) + "-" + strconv.Itoa(b)
		if rapid.Bool().Draw(t, "stepped") {
			text += step()
		}
		return text
	}
}

func drawList(t *rapid.T, lo, hi int, wrap bool) string {
	n := rapid.IntRange(1, 3).Draw(t, "items")
	items := make([]string, n)
	for i := range items {
		items[i] = drawItem(t, lo, hi, wrap)
	}
	return strings.Join(items, ",")
}

func drawQuartz(t *rapid.T) string {
	num := func(lo, hi int) string { return strconv.Itoa(rapid.IntRange(lo, hi).Draw(t, "n")) }
	dom, dow := "?", "?"
	if rapid.Bool().Draw(t, "by date") {
		dom = drawList(t, 1, 31, true)
		switch rapid.IntRange(0, 5).Draw(t, "dom") {
		case 0:
			dom = "L-" + num(0, 30)
		case 1:
			dom = num(1, 31) + "W," + num(1, 31) + "W"
		case 2:
			dom = "LW," + num(1, 31)
		case 3:
			dom = "l-" + num(0, 30) + "w,L"
		}
	} else {
		dow = drawList(t, 1, 7, true)
		switch rapid.IntRange(0, 5).Draw(t, "dow") {
		case 0:
			dow = num(1, 7) + "#" + num(1, 5)
		case 1:
			dow = num(1, 7) + "L"
		case 2:
			dow = rapid.SampledFrom([]string{"L", "fri-Mon", "SUN", "TUE#2", "wedl", "MON,WED,FRI"}).Draw(t, "names")
		}
	}
	fields := []string{
		drawList(t, 0, 59, true), drawList(t, 0, 59, true), drawList(t, 0, 23, true),
		dom, drawList(t, 1, 12, true), dow,
	}
	if rapid.IntRange(0, 3).Draw(t, "year") == 0 {
		fields = append(fields, rapid.SampledFrom([]string{"*", "2024-2030", "2025,2028", "2024/3"}).Draw(t, "years"))
	}
	return strings.Join(fields, " ")
}

func drawCrontab(t *rapid.T) string {
	return strings.Join([]string{
		drawList(t, 0, 59, false), drawList(t, 0, 23, false), drawList(t, 1, 31, false),
		drawList(t, 1, 12, false), drawList(t, 0, 7, false),
	}, " ")
}

func TestProperties(t *testing.T) {
	quartz := func(t *rapid.T) (*Expr, brute) {
		text := drawQuartz(t)
		e, err := ParseQuartz(text)
		check.OK(t, err)
		return e, bruteQuartz(text)
	}
	crontab := func(t *rapid.T) (*Expr, brute) {
		text := drawCrontab(t)
		e, err := ParseCrontab(text)
		check.OK(t, err)
		return e, bruteCrontab(text)
	}
	for name, draw := range map[string]func(*rapid.T) (*Expr, brute){"quartz": quartz, "crontab": crontab} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			e, b := draw(t)
			from := Wall(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Unix()) + Wall(rapid.IntRange(0, 5*365*secondsPerDay).Draw(t, "from"))
			for range 3 {
				checkNext(t, e, b, from)
				from, _ = e.Next(from)
			}
		}))
	}
}

// checkNext compares one result of Next with brute force in a limited span.
func checkNext(t rapid.TB, e *Expr, b brute, from Wall) {
	const bound = 40 * secondsPerDay
	got, ok := e.Next(from)
	if ok && got <= from {
		t.Fatalf("%q: Next(%d) = %d is not later", e, from, got)
	}
	if ok && !e.Matches(got) {
		t.Fatalf("%q: Next(%d) = %d does not match", e, from, got)
	}
	if ok && !b.matches(time.Unix(int64(got), 0).UTC()) {
		t.Fatalf("%q: Next(%d) = %d does not match by brute force", e, from, got)
	}
	until := from + bound
	if ok {
		until = min(until, got)
	}
	if want, found := b.next(from, until); found && want != got {
		t.Fatalf("%q: Next(%d) = %d skips %d", e, from, got, want)
	}
	// Monotone: from any time before got the result is got.
	if ok {
		between := from + Wall(pseudoRandom(from, int(got-from)))
		if again, _ := e.Next(between); again != got {
			t.Fatalf("%q: Next(%d) = %d but Next(%d) = %d", e, from, got, between, again)
		}
	}
	if e.Matches(from) != b.matches(time.Unix(int64(from), 0).UTC()) {
		t.Fatalf("%q: Matches(%d) = %v", e, from, e.Matches(from))
	}
}

// pseudoRandom picks a number below n that depends on w alone.
func pseudoRandom(w Wall, n int) int { return int(uint64(w) * 0x9e3779b97f4a7c15 >> 33 % uint64(n)) }
