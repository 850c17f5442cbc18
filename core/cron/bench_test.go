package cron

import "testing"

var benchmarks = []struct{ name, text string }{
	{"EverySecond", "* * * * * ?"},
	{"Every5Minutes", "0 */5 * * * ?"},
	{"Daily", "0 30 2 * * ?"},
	{"Weekdays", "0 */5 8-18 ? * MON-FRI"},
	{"LastDay", "0 0 0 L * ?"},
	{"LastWeekday", "0 0 0 LW * ?"},
	{"NearestWeekday", "0 0 0 15W * ?"},
	{"SecondTuesday", "0 0 0 ? * 3#2"},
	{"FifthMonday", "0 0 0 ? * 2#5"},
	{"Yearly", "0 0 0 1 1 ?"},
	{"Feb29_2096", "0 0 0 29 2 ? 2096"},
	{"Feb31_none", "0 0 0 31 2 ?"},
	{"FifthMondayFeb", "0 0 0 ? 2 2#5"},
	{"FifthMondayFeb_none", "0 0 0 ? 2 2#5 2025-2043"},
	{"LastWeekdayOfYears", "0 0 0 LW,L-3W,15W 12 ? 2090,2190,2290"},
	{"AllW_none", "0 0 0 31W,L-30W 2,4,6,9,11 ?"},
}

func BenchmarkNext(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			e := mustQuartz(b, c.text)
			b.ReportAllocs()
			for b.Loop() {
				e.Next(1_750_000_000)
			}
		})
	}
	b.Run("Crontab", func(b *testing.B) {
		e := mustCrontab(b, "0 9 1,15 * MON")
		b.ReportAllocs()
		for b.Loop() {
			e.Next(1_750_000_000)
		}
	})
}

func BenchmarkParseQuartz(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseQuartz("0 */5 8-18 ? * MON-FRI"); err != nil {
			b.Fatal(err)
		}
	}
}
