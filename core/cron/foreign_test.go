package cron

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

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
