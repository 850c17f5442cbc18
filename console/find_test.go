package console_test

import (
	"fmt"
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

// TestFindRun: a run is found by its ID.
func TestFindRun(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock"}`)
	s.ask("POST", "/v1/jobs/shop/stock/trigger", `{}`)
	id := cutOut(s.says("/console/jobs/shop/stock"), "/console/runs/", `"`)
	s.says("/console/find/list?text="+id, `href="/console/runs/`+id+`"`, "shop/stock")
	hit := cutOut(s.says("/console/find/list?text=shop/stock@06:09"), `href="`, `"`)
	s.shows("#live", hit)
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

// TestNamesOfFilters: filter fields for a job or an app suggest existing names, up to a limit.
func TestNamesOfFilters(t *testing.T) {
	s := newConsole(t)
	for i := range 30 {
		s.ask("PUT", fmt.Sprintf("/v1/jobs/shop/nightly-%02d", i), `{"handler": "x"}`)
	}
	s.ask("PUT", "/v1/jobs/shop/other", `{"handler": "x"}`)
	s.ask("PUT", "/v1/apps/pay", `{}`)
	for _, page := range []string{"runs", "reports", "runs/clean", "audit-log", "system"} {
		s.says("/console/"+page, `list="jobs-named"`, `<datalist id="jobs-named"`, "/console/find/names?of=job")
	}
	list := s.says("/console/find/names?of=job&job=nightly", `<option value="shop/nightly-00">`)
	check.Equal(t, strings.Count(list, "<option"), 12, "jobs are offered")
	s.never(list, "shop/other", "<html")
	s.says("/console/find/names?of=job&job=shop/oth", `<option value="shop/other">`)
	s.never(s.says("/console/find/names?of=app&app=pa", `<option value="pay">`), "shop")
	s.says("/console/find/names?of=app&app=", `<option value="pay">`, `<option value="shop">`)
	s.says("/console/find/names?of=job&job=" + strings.Repeat("x", 5000))
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
