package cron

import (
	"strings"
	"testing"
)

// TestForeignFormsNameTheFormHere has a row for each form of another scheduler: the error names the
// form or field to use here, the same in both dialects.
func TestForeignFormsNameTheFormHere(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"CRON_TZ=Asia/Tokyo 0 5 * * *", "set timezone to Asia/Tokyo"},
		{"TZ=Asia/Tokyo 0 0 5 * * ?", "set timezone to Asia/Tokyo"},
		{"@every 5m", "set every to 5m"},
		{"@EVERY 1h30m", "set every to 1h30m"},
		{"rate(5 minutes)", "set every to 5m"},
		{"rate(1 day)", "set every to 1d"},
		{"cron(0 12 * * ? *)", `set cron to "0 0 12 * * ? *"`},
		{"@reboot", "systemd"},
		{"0~30 * * * *", `random values such as "0~30"`},
		{"~ 3 * * *", "set jitter"},
		{"H H * * *", `"H" is a hashed value of Jenkins`},
		{"H/15 * * * *", `"H/15" is a hashed value of Jenkins`},
		{"H(0-29)/10 * * * *", `"H(0-29)/10" is a hashed value of Jenkins`},
		{"1, 15 * * * *", `write "1,15"`},
		{"0 5 ,6 * * *", `write "5,6"`},
		{"0 5 * * * # nightly", `remove "# nightly"`},
		{"0 0 5 * * ? # nightly", `remove "# nightly"`},
		{"0 5 * * * #", `remove "#"`},
	} {
		for name, parse := range map[string]func(string) (*Expr, error){"cron": ParseQuartz, "crontab": ParseCrontab} {
			_, err := parse(c.text)
			checkParseError(t, c.text, err)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %q: %v, want a text with %s", name, c.text, err, c.want)
			}
		}
	}
}

// TestBothDaysSetSuggestsText checks the Spring form, which sets both day fields.
func TestBothDaysSetSuggestsText(t *testing.T) {
	for text, want := range map[string]string{
		"0 0 9 * * 1-5":       `write "0 0 9 ? * MON-FRI" if`,
		"0 0 9 * * 1,3":       `write "0 0 9 ? * MON,WED" if`,
		"0 0 9 * * MON-FRI":   `write "0 0 9 ? * MON-FRI"`,
		"0 0 9 15 * *":        `write "0 0 9 15 * ?"`,
		"* */15 * * * *":      `write "* */15 * * * ?"`,
		"0 0 9 * * 6#3":       `write "0 0 9 ? * 6#3"`,
		"0 0 9 * * 2-6 2030":  `write "0 0 9 ? * TUE-SAT 2030" if`,
		"0 0 9 15 * 2":        "exactly one must be ?",
		"0 0 9 1,15 * 2,5":    "exactly one must be ?",
		"0 0 9 * * 1-5/2":     `write "0 0 9 ? * 1-5/2"`,
		"0 0 9 */2 * MON-FRI": "exactly one must be ?",
	} {
		_, err := ParseQuartz(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want a text with %s", text, err, want)
			continue
		}
		if _, after, ok := strings.Cut(err.Error(), `write "`); ok {
			fixed, _, _ := strings.Cut(after, `"`)
			if _, err := ParseQuartz(fixed); err != nil {
				t.Errorf("%q: the suggested text is wrong: %v", text, err)
			}
		}
	}
}
