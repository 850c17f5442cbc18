package cron

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
)

// golden has the descriptions. A text with five fields or one is a crontab.
var golden = []struct {
	text, words string
	traps       []string
}{
	{"* * * * * ?", "every second", nil},
	{"*/20 * * * * ?", "every 20 seconds", nil},
	{"0 * * * * ?", "every minute", nil},
	{"30 * * * * ?", "every minute at second 30", nil},
	{"0 */5 * * * ?", "every 5 minutes", nil},
	{"15 0/5 * * * ?", "every 5 minutes at second 15", nil},
	{"0 0 * * * ?", "every hour", nil},
	{"0 15 * * * ?", "at minute 15 of every hour", nil},
	{"20 15 * * * ?", "at minute 15 of every hour at second 20", nil},
	{"0 0/40 * * * ?", "at minutes 0 and 40 of every hour", []string{"0/40 in minutes restarts each hour at 0: gap 40, but 20 at the end"}},
	{"0 30/10 * * * ?", "at minutes 30, 40 and 50 of every hour",
		[]string{"30/10 in minutes restarts each hour at 30: gap 10, but 40 at the end"}},
	{"0 0 */2 * * ?", "every 2 hours", nil},
	{"0 10 */2 * * ?", "every 2 hours from 00:10 to 22:10", nil},
	{"0 0 1/2 * * ?", "every 2 hours from 01:00 to 23:00", nil},
	{"0 0 */5 * * ?", "every 5 hours from 00:00 to 20:00", []string{"*/5 in hours restarts each day at 0: gap 5, but 4 at the end"}},
	{"0 0 9-17 * * ?", "every hour from 09:00 to 17:00", nil},
	{"0 0 8-18/2 * * ?", "every 2 hours from 08:00 to 18:00", nil},
	{"0 30 2 * * ?", "at 02:30", nil},
	{"5 30 2 * * ?", "at 02:30:05", nil},
	{"0 0 8,12,18 * * ?", "at 08:00, 12:00 and 18:00", nil},
	{"0 0,30 8,18 * * ?", "at 08:00, 08:30, 18:00 and 18:30", nil},
	{"0 0 0-23 * * ?", "every hour", nil},
	{"0 30 2 ? * 2-6", "at 02:30, Monday to Friday", []string{"2-6 in day-of-week is MON-FRI in Quartz: 1 is Sunday"}},
	{"0 30 2 ? * MON-FRI", "at 02:30, Monday to Friday", nil},
	{"0 */5 8-18 ? * MON-FRI", "every 5 minutes from 08:00 to 18:55, Monday to Friday", nil},
	{"0 0 9 ? * 1-5", "at 09:00, Sunday to Thursday", []string{"1-5 in day-of-week is SUN-THU in Quartz: 1 is Sunday; MON-FRI is 2-6"}},
	{"0 0 9 ? * 1,3,MON", "at 09:00, Sunday to Tuesday", []string{"1,3 in day-of-week is SUN,TUE in Quartz: 1 is Sunday"}},
	{"0 0 9 ? * SAT,SUN", "at 09:00 on Saturday and Sunday", nil},
	{"0 0 9 ? * FRI-MON", "at 09:00, Friday to Monday", nil},
	{"0 0 9 ? * L", "at 09:00 on Saturday", []string{"L in day-of-week is every Saturday; the last Saturday of the month is 7L"}},
	{"0 0 9 ? * 6L", "at 09:00 on the last Friday of the month", []string{"6L in day-of-week is FRIL in Quartz: 1 is Sunday"}},
	{"0 0 9 ? * 3#2", "at 09:00 on the 2nd Tuesday of the month", []string{"3#2 in day-of-week is TUE#2 in Quartz: 1 is Sunday"}},
	{"0 0 9 ? * THU#5", "at 09:00 on the 5th Thursday of the month",
		[]string{"#5 in day-of-week: most months have only four such days and are skipped"}},
	{"0 0 0 L * ?", "at 00:00 on the last day of the month", nil},
	{"0 0 0 L-3 * ?", "at 00:00 on the day 3 days before the last of the month", nil},
	{"0 0 0 15W * ?", "at 00:00 on the weekday nearest the 15th of the month", nil},
	{"0 0 0 LW * ?", "at 00:00 on the last weekday (MON-FRI) of the month", nil},
	{"0 0 0 L-2W 6 ?", "at 00:00 on the weekday nearest the day 2 days before the last of June", nil},
	{"0 0 0 1,15 * ?", "at 00:00 on the 1st and 15th of the month", nil},
	{"0 0 0 1,15,L * ?", "at 00:00 on the 1st and 15th and the last day of the month", nil},
	{"0 0 0 1-7 * ?", "at 00:00 on the 1st to 7th of the month", nil},
	{"0 0 0 */5 * ?", "at 00:00 on every 5th day from the 1st to the 31st of the month",
		[]string{"*/5 in day-of-month restarts each month at 1: the gap around the end of the month is not always 5 days"}},
	{"0 0 0 31 * ?", "at 00:00 on the 31st of the month", []string{"31 in day-of-month: no such day in FEB, APR, JUN, SEP and NOV"}},
	{"0 0 0 30 * ?", "at 00:00 on the 30th of the month", []string{"30 in day-of-month: no such day in FEB"}},
	{"0 0 0 29 2 ?", "at 00:00 on the 29th of February", []string{"29 in day-of-month: no such day in FEB (except in leap years)"}},
	{"0 0 0 31 2 ?", "at 00:00 on the 31st of February (there is no such day)", []string{"never runs: no time from 1970 to 2299 matches",
		"31 in day-of-month: no such day in FEB"}},
	{"0 0 0 31W * ?", "at 00:00 on the weekday nearest the 31st of the month",
		[]string{"31W in day-of-month: no such day in FEB, APR, JUN, SEP and NOV"}},
	{"0 0 0 L-30 * ?", "at 00:00 on the day 30 days before the last of the month",
		[]string{"L-30 in day-of-month: no such day in FEB, APR, JUN, SEP and NOV"}},
	{"0 0 0 1 1,4,7,10 ?", "at 00:00 on the 1st of January, April, July and October", nil},
	{"0 0 0 1 */3 ?", "at 00:00 on the 1st of January, April, July and October", nil},
	{"0 0 0 * 11-2 ?", "at 00:00 in January, February, November and December", nil},
	{"0 0 12 1 1 ? 2030", "at 12:00 on the 1st of January, in 2030", nil},
	{"0 0 12 1 1 ? 2025-2030", "at 12:00 on the 1st of January, in 2025 to 2030", nil},
	{"0 0 12 1 1 ? 2025/1", "at 12:00 on the 1st of January, from 2025 on", nil},
	{"0 0 12 1 1 ? 2024/4", "at 12:00 on the 1st of January, every 4 years from 2024 on", nil},
	{"0 0 12 1 1 ? 3000", "at 12:00 on the 1st of January, in no year up to 2299",
		[]string{"never runs: no time from 1970 to 2299 matches"}},
	{"0 0 0 29 2 ? 2096", "at 00:00 on the 29th of February, in 2096",
		[]string{"29 in day-of-month: no such day in FEB (except in leap years)"}},
	{"0 0 0 29 2 ? 2025", "at 00:00 on the 29th of February, in 2025 (there is no such day)",
		[]string{"never runs: no time from 1970 to 2299 matches", "29 in day-of-month: no such day in FEB (except in leap years)"}},
	{"* 0 2 * * ?", "every second of minute 0 of hour 2", []string{"* in seconds runs 60 times in each matching minute; 0 runs once"}},
	{"* * 2 * * ?", "every second from 02:00:00 to 02:59:59", []string{"* in seconds runs 60 times in each matching minute; 0 runs once"}},
	{"0 * 2 * * ?", "every minute from 02:00 to 02:59", []string{"* in minutes runs in each of the 60 minutes of the hour; 0 runs once"}},
	{"*/10 * 9-17 * * ?", "every 10 seconds from 09:00:00 to 17:59:50", nil},
	{"0 */5 22-3 * * ?", "every 5 minutes from 00:00 to 03:55 and from 22:00 to 23:55", nil},
	{"0 0 22-3 ? * FRI", "at 00:00, 01:00, 02:00, 03:00, 22:00 and 23:00 on Friday",
		[]string{"22-3 in hours wraps around: the hours after midnight belong to the same date, not to the night before"}},
	{"1,5,9 * * * * ?", "at seconds 1, 5 and 9 of every minute", nil},
	{"* 0-10 8-18 * * ?", "every second of minutes 0 to 10 of hours 8 to 18",
		[]string{"* in seconds runs 60 times in each matching minute; 0 runs once"}},
	{"1,4,6 3,5,8 1,2,20 * * ?", "at seconds 1, 4 and 6 of minutes 3, 5 and 8 of hours 1, 2 and 20", nil},
	{"0 1,2,4,7,11,13,17,19,23,29,31,37,41,43 * * * ?",
		"at minutes 1, 2, 4, 7, 11, 13, 17, 19, 23, 29 and others (14 in all) of every hour", nil},
	{"0 0 2/23 * * ?", "at 02:00", []string{"2/23 in hours matches only 2: the step goes past the end of the day"}},
	{"0 0 20/5 * * ?", "at 20:00", []string{"20/5 in hours matches only 20: the step goes past the end of the day"}},
	{"0 0 0 ? * 5/2", "at 00:00 on Thursday and Saturday", []string{"5/2 in day-of-week is THU-SAT/2 in Quartz: 1 is Sunday"}},
	{"0 9 * * 1-5", "at 09:00, Monday to Friday", nil},
	{"0 0 13 * 5", "at 00:00 on the 13th of the month or on every Friday", []string{"both day fields are set in crontab: a match of either " +
		"one is enough (OR)"}},
	{"0 0 */2 * 1", "at 00:00 on Monday, but only on every 2nd day from the 1st to the 31st of the month",
		[]string{"*/2 in day-of-month restarts each month at 1: the gap around the end of the month is not always 2 days",
			"a day field starts with * in crontab: both day fields must match (AND)"}},
	{"0 0 * 1 MON", "at 00:00 on Monday in January", nil},
	{"*/15 * * * *", "every 15 minutes", nil},
	{"* 3 * * *", "every minute from 03:00 to 03:59", []string{"* in minutes runs in each of the 60 minutes of the hour; 0 runs once"}},
	{"*/40 * * * *", "at minutes 0 and 40 of every hour", []string{"*/40 in minutes restarts each hour at 0: gap 40, but 20 at the end"}},
	{"@weekly", "at 00:00 on Sunday", nil},
	{"@hourly", "every hour", nil},
	{"0 0 1-31 * 5", "at 00:00", []string{"both day fields are set in crontab: a match of either one is enough (OR)"}},
	{"0 0 31 4 *", "at 00:00 on the 31st of April (there is no such day)", []string{"never runs: no time from 1970 to 2299 matches",
		"31 in day-of-month: no such day in APR"}},
	{"0 0 31 * *", "at 00:00 on the 31st of the month", []string{"31 in day-of-month: no such day in FEB, APR, JUN, SEP and NOV"}},
	{"0 0 1 1,6 1,3", "at 00:00 on the 1st of January and June or on every Monday and Wednesday in January and June",
		[]string{"both day fields are set in crontab: a match of either one is enough (OR)"}},
}

func TestDescribe(t *testing.T) {
	for _, c := range golden {
		e := parseEither(t, c.text)
		if got := e.Describe().String(); got != c.words {
			t.Errorf("%q:\n got %s\nwant %s", c.text, got, c.words)
		}
		if diff := cmp.Diff(c.traps, english(e.Traps())); diff != "" {
			t.Errorf("%q: traps (-want +got):\n%s", c.text, diff)
		}
	}
}

func parseEither(t testing.TB, text string) *Expr {
	t.Helper()
	if n := len(strings.Fields(text)); n == 5 || n == 1 {
		return mustCrontab(t, text)
	}
	return mustQuartz(t, text)
}

// TestDescribeTellsApart checks that equal descriptions mean equal schedules. Shortened lists are
// exempt.
func TestDescribeTellsApart(t *testing.T) {
	seen := make(map[string]*Expr)
	check := func(t rapid.TB, e *Expr) {
		words := e.Describe().String()
		checkWords(t, e)
		if strings.Contains(words, "in all)") {
			return
		}
		other, ok := seen[words]
		if !ok {
			seen[words] = e
			return
		}
		a, b := e.schedule, other.schedule
		a.realTime, b.realTime = false, false // 0,12 and */12 differ in nothing else
		if a != b {
			t.Errorf("%q and %q are both %q", e, other, words)
		}
	}
	valid, _ := vectors(t)
	for _, v := range valid {
		check(t, mustQuartz(t, v.Expr))
	}
	rapid.Check(t, func(t *rapid.T) {
		e, err := ParseQuartz(drawQuartz(t))
		if err != nil {
			t.Fatal(err)
		}
		check(t, e)
	})
}

// checkWords checks rules that all descriptions keep.
func checkWords(t rapid.TB, e *Expr) {
	words := append([]string{e.Describe().String()}, english(e.Traps())...)
	for i, w := range words {
		// A warning may repeat an item of the text, the description never does.
		if w == "" || len(w) > 1000 && i == 0 || strings.ContainsAny(w, "\n\r%") {
			t.Errorf("%q: words %q", e, w)
		}
	}
	if len(words) > 1+maxTraps {
		t.Errorf("%q: %d traps", e, len(words)-1)
	}
}

// english returns each of the texts in English.
func english(texts []core.Text) (list []string) {
	for _, t := range texts {
		list = append(list, t.String())
	}
	return list
}
