package core

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

func TestTemplate(t *testing.T) {
	shanghai, err := time.LoadLocation("Asia/Shanghai")
	check.OK(t, err)
	berlin, err := time.LoadLocation("Europe/Berlin")
	check.OK(t, err)
	at := InstantOf(time.Date(2026, 3, 31, 18, 30, 0, 0, time.UTC)) // 1 April in Shanghai
	summer := InstantOf(time.Date(2026, 3, 29, 10, 0, 0, 0, time.UTC))
	for _, c := range []struct {
		text, want string
		f          Filling
	}{
		{"plain {\"a\": {}} }}", "plain {\"a\": {}} }}", Filling{}},
		{"day={{scheduledAt yyyy-MM-dd -1d}}", "day=2026-03-31", Filling{At: at, Zone: shanghai}},
		{"{{scheduledAt}}", "2026-04-01T02:30:00+08:00", Filling{At: at, Zone: shanghai}},
		{"{{scheduledAt}}", "2026-03-31T18:30:00Z", Filling{At: at}},
		{"{{ scheduledAt  \"yyyy-MM-dd HH:mm:ss\"  +90m }}", "2026-03-31 20:00:00", Filling{At: at}},
		{"{{scheduledAt -1h}}", "2026-03-31T17:30:00Z", Filling{At: at}},
		{"{{scheduledAt yyyyMM -1M}}", "202602", Filling{At: at}}, // the 31st becomes the 28th, not 3 March
		{"{{scheduledAt dd -1M}}", "28", Filling{At: at}},
		{"{{scheduledAt yy.M.d'T'EEE +1y}}", "27.3.31TWed", Filling{At: at}},
		{"{{scheduledAt yyyy''MM'MM'XXX}}", "2026'03MMZ", Filling{At: at}},
		{"{{scheduledAt -1d}}", "2026-03-28T12:00:00+01:00", Filling{At: summer, Zone: berlin}}, // a day of 23 hours between
		{"{{scheduledAt -24h}}", "2026-03-28T11:00:00+01:00", Filling{At: summer, Zone: berlin}},
		{"{{scheduledAt HH:mm:ss +10s}} {{scheduledAt dd -2w}}", "18:30:10 17", Filling{At: at}},
		{"from={{lastSuccessAt}}&to={{scheduledAt HH}}", "from=&to=18", Filling{At: at}},
		{"from={{lastSuccessAt MM/dd}}", "from=03/29", Filling{At: at, LastSuccess: summer}},
		{"{{attempt}} of {{runId}}", "2 of 17", Filling{Run: 17, Attempt: 2}},
		{"{{attempt}}{{attempt}}", "11", Filling{Attempt: 1}},
	} {
		tpl, err := ParseTemplate(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got, err := tpl.Fill(c.f); got != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", c.text, got, err, c.want)
		}
		check.Equal(t, tpl.NeedsLastSuccess(), strings.Contains(c.text, "lastSuccessAt"), "%s: needs the last success", c.text)
	}
}

func TestTemplateErrors(t *testing.T) {
	texts := golden.New(t)
	for _, text := range []string{"a\n {{shceduledAt}}", "日{{parent.dat}}", "{{scheduledAt", "{{}}", "{{ }}", "{{attempt -1d}}",
		"{{scheduledAt YYYY}}", "{{scheduledAt yyyy-MM-dd HH:mm}}", "{{scheduledAt -1d -1d}}", "{{scheduledAt -d}}", "{{scheduledAt -1q}}",
		"{{scheduledAt -99999d}}", "{{scheduledAt +}}", "{{scheduledAt 'a}}", "{{scheduledAt \"a}}", "{{scheduledAt \"\"}}",
		"{{scheduledAt -}}", "{{scheduledAt " + strings.Repeat("dd:", 30) + "}}", strings.Repeat("{{attempt}}", 101),
		"{{" + strings.Repeat("x", 100) + "}} and the rest"} {
		_, err := ParseTemplate(text)
		var e *Error
		if !errors.As(err, &e) || e.Field != "params" || len(e.Value) > 50 {
			t.Errorf("%.40s: %v", text, err)
		}
		texts.Equal(t, fmt.Sprintf("%.40q", text), fmt.Sprint(err))
	}
	tpl, err := ParseTemplate(strings.Repeat("x", MaxParams-19) + "{{scheduledAt}}")
	check.OK(t, err)
	if _, err := tpl.Fill(Filling{At: 1}); err == nil {
		t.Error("params of over 64 KB are allowed")
	}
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{{scheduledAt yyyy-MM-dd -1d}}", "{{attempt}}", "{{scheduledAt \"a b\" +1M}}", "{{", "}}{{''}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if tpl, err := ParseTemplate(s); err == nil {
			tpl.Fill(Filling{Run: 1, Attempt: 1, At: 1_800_000_000})
		}
	})
}

// TestParentData checks that placeholders for parent data are filled once for all attempts, and
// that the result is short enough for any data.
func TestParentData(t *testing.T) {
	tpl, err := ParseTemplate("{{parent.data}} of {{scheduledAt yyyy}}: {{ parent.data }}")
	if err != nil || !tpl.NeedsParent() {
		t.Fatal(tpl, err)
	}
	got, err := tpl.Fill(Filling{ParentData: "{{runId}}", At: 1_800_000_000})
	if want := "{{runId}} of 2027: {{runId}}"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := tpl.Fill(Filling{At: 1_800_000_000}); err != nil || got != " of 2027: " {
		t.Errorf("of no parent: %q, %v", got, err)
	}
	texts := golden.New(t)
	for params, valid := range map[string]bool{
		"{{parent.data}} {{runId}}": false, "{{attempt}}{{parent.data}}": false, "{{parent.data +1d}}": false,
		strings.Repeat("{{parent.data}}", 16): false, strings.Repeat("{{parent.data}}", 15): true,
		"{{parent.data}} {{scheduledAt HH:mm -1d}}": true,
	} {
		j := Job{Def: Def{App: "a", Name: "b", Handler: "h", Params: params, Template: true}}
		j.Normalize()
		err := j.Validate()
		if (err == nil) != valid {
			t.Errorf("%.40s: %v", params, err)
		}
		if err != nil {
			texts.Equal(t, fmt.Sprintf("%.40q", params), err.Error())
		}
	}
}
