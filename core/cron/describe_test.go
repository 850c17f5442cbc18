package cron

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// described are texts of all forms. A text with five fields or one is a crontab.
var described = []string{
	"* * * * * ?", "*/20 * * * * ?", "0 * * * * ?", "30 * * * * ?", "0 */5 * * * ?", "15 0/5 * * * ?", "0 0 * * * ?",
	"0 15 * * * ?", "20 15 * * * ?", "0 0/40 * * * ?", "0 30/10 * * * ?", "0 0 */2 * * ?", "0 10 */2 * * ?", "0 0 1/2 * * ?",
	"0 0 */5 * * ?", "0 0 9-17 * * ?", "0 0 8-18/2 * * ?", "0 30 2 * * ?", "5 30 2 * * ?", "0 0 8,12,18 * * ?", "0 0,30 8,18 * * ?",
	"0 0 0-23 * * ?", "0 30 2 ? * 2-6", "0 30 2 ? * MON-FRI", "0 */5 8-18 ? * MON-FRI", "0 0 9 ? * 1-5", "0 0 9 ? * 1,3,MON",
	"0 0 9 ? * SAT,SUN", "0 0 9 ? * FRI-MON", "0 0 9 ? * L", "0 0 9 ? * 6L", "0 0 9 ? * 3#2", "0 0 9 ? * THU#5", "0 0 0 L * ?",
	"0 0 0 L-3 * ?", "0 0 0 15W * ?", "0 0 0 LW * ?", "0 0 0 L-2W 6 ?", "0 0 0 1,15 * ?", "0 0 0 1,15,L * ?", "0 0 0 1-7 * ?",
	"0 0 0 */5 * ?", "0 0 0 31 * ?", "0 0 0 30 * ?", "0 0 0 29 2 ?", "0 0 0 31 2 ?", "0 0 0 31W * ?", "0 0 0 L-30 * ?",
	"0 0 0 1 1,4,7,10 ?", "0 0 0 1 */3 ?", "0 0 0 * 11-2 ?", "0 0 12 1 1 ? 2030", "0 0 12 1 1 ? 2025-2030", "0 0 12 1 1 ? 2025/1",
	"0 0 12 1 1 ? 2024/4", "0 0 12 1 1 ? 3000", "0 0 0 29 2 ? 2096", "0 0 0 29 2 ? 2025", "* 0 2 * * ?", "* * 2 * * ?",
	"0 * 2 * * ?", "*/10 * 9-17 * * ?", "0 */5 22-3 * * ?", "0 0 22-3 ? * FRI", "1,5,9 * * * * ?", "* 0-10 8-18 * * ?",
	"1,4,6 3,5,8 1,2,20 * * ?", "0 1,2,4,7,11,13,17,19,23,29,31,37,41,43 * * * ?", "0 0 2/23 * * ?", "0 0 20/5 * * ?",
	"0 0 0 ? * 5/2", "0 9 * * 1-5", "0 0 13 * 5", "0 0 */2 * 1", "0 0 * 1 MON", "*/15 * * * *", "* 3 * * *", "*/40 * * * *",
	"@weekly", "@hourly", "0 0 1-31 * 5", "0 0 31 4 *", "0 0 31 * *", "0 0 1 1,6 1,3",
}

func TestDescribe(t *testing.T) {
	texts := golden.New(t)
	for _, text := range described {
		e := parseEither(t, text)
		words := e.Describe().String()
		for _, trap := range english(e.Traps()) {
			words += "\ntrap: " + trap
		}
		texts.Equal(t, text, words)
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
	spells := func(t rapid.TB, e *Expr) {
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
		check.Equal(t, a, b, "%q and %q are both %q", e, other, words)
	}
	valid, _ := vectors(t)
	for _, v := range valid {
		spells(t, mustQuartz(t, v.Expr))
	}
	rapid.Check(t, func(t *rapid.T) {
		e, err := ParseQuartz(drawQuartz(t))
		check.OK(t, err)
		spells(t, e)
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
