package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestFind: a search finds jobs, apps, pages, actions and operations on a job. An empty result shows a message.
func TestFind(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/pay", `{"title": "<i>Payments</i>"}`)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"title": "<b>levels</b>", "handler": "stock", "schedule": {"every": "1m"}}`)
	for text, want := range map[string]string{
		"stock": `href="/console/jobs/shop/stock"`, "shop/sto": `href="/console/jobs/shop/stock"`, "LEVELS": `href="/console/jobs/shop/stock"`,
		"1": `href="/console/jobs/shop/stock"`, "pay": `href="/console/executors/pay"`, "Payments": `href="/console/executors/pay"`,
		"notif": `href="/console/notifications"`, "new app": `href="/console/executors?panel=new"`,
		"pause stock": `href="/console/jobs/shop/stock?panel=pause"`, "run shop/stock": `href="/console/jobs/shop/stock?panel=run"`,
		"audit": `href="/console/system?audit=24h#audit"`, "everything": `href="/console/system?panel=pause"`,
		"changes stock":               `href="/console/jobs/shop/stock/audit-log"`,
		"shop/stock@2026-11-20T02:30": `href="/console/jobs/shop/stock/at/2026-11-20T02:30"`,
		"":                            `href="/console/jobs"`, "no such thing": "", strings.Repeat("x", 100_000): "", "a/b/c\x00": "",
	} {
		for _, path := range []string{"/console/find/list", "/console/find"} {
			body := s.says(path+"?text="+url.QueryEscape(text), want)
			if want == "" {
				s.texts.Equal(t, "no matches", textOf(t, s.page, "p"))
			}
			if strings.Contains(path, "list") && strings.Contains(body, "<html") {
				t.Errorf("the list has the frame around it: %.200s", body)
			}
		}
	}
}

// TestActionsLeadSomewhere: the page of each listed page and action exists.
func TestActionsLeadSomewhere(t *testing.T) {
	s := newConsole(t)
	list := s.says("/console/find/list?text=")
	n := 0
	for _, part := range strings.Split(list, `href="`)[1:] {
		path, _, _ := strings.Cut(part, `"`)
		path, _, _ = strings.Cut(path, "#")
		s.says(path, "<h1>")
		n++
	}
	if n < 20 {
		t.Errorf("only %d pages and actions are offered:\n%s", n, list)
	}
}

// TestKeys: the list of shortcuts has the keys, and each page links to it.
func TestKeys(t *testing.T) {
	s := goldenConsole(t)
	s.shows("#live", "/console/keys", "<h1>")
	s.says("/console/jobs", "data-keys", "data-find", `href="/console/keys"`)
	sheet := s.says("/console/keys")
	if n := strings.Count(sheet, ">tickring "); n < 12 || strings.Contains(sheet, ">tickring <") {
		t.Errorf("%d pages have their command", n)
	}
	files, err := filepath.Glob("pages/*.html")
	if err != nil || len(files) < 20 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		page, err := os.ReadFile(file)
		check.OK(t, err)
		for _, m := range regexp.MustCompile(`data-key="([^"]+)"`).FindAllSubmatch(page, -1) {
			check.Contains(t, sheet, "<kbd>"+string(m[1])+"</kbd>", "a key of %s", file)
		}
	}
}

// TestWordsOfTheScript: the script formats times with the translated texts of the page.
func TestWordsOfTheScript(t *testing.T) {
	s := goldenConsole(t)
	for _, lang := range []string{"en", "zh"} {
		s.in(lang)
		s.texts.Equal(t, lang, cutOut(s.says("/console/jobs"), `data-far="`, `"`))
	}
	script, err := os.ReadFile("static/app.js")
	check.OK(t, err)
	check.Equal(t, string(regexp.MustCompile(`[\p{Han}]|\bago\b`).Find(script)), "", "a word in the script")
}

// TestClock: a page shows the server's time in the user's zone. A refresh has none, so that an unchanged page stays
// the same.
func TestClock(t *testing.T) {
	s := newConsole(t)
	s.cookies["tickring_tz"], s.cookies["tickring_zone"] = "America/New_York", "mine"
	s.says("/console/", `data-zone="America/New_York">`, "</span> <span class=zone>New York<")
	r := httptest.NewRequest(http.MethodGet, "http://console.test/console/", nil)
	r.Header.Set("HX-Request", "true")
	s.never(s.do(r).Body.String(), "data-clock")
}
