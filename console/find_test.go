package console_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestFind: what is typed finds jobs, apps, pages and actions, and what can be done to a job;
// markup in a name is text, and what finds nothing says so.
func TestFind(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/apps/pay", `{"title": "<i>Payments</i>"}`)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"title": "<b>levels</b>", "handler": "stock", "schedule": {"every": "1m"}}`)
	for text, want := range map[string]string{
		"stock": `href="/console/jobs/shop/stock"`, "shop/sto": `href="/console/jobs/shop/stock"`, "LEVELS": `href="/console/jobs/shop/stock"`,
		"1": `href="/console/jobs/shop/stock"`, "pay": `href="/console/executors/pay"`, "Payments": `href="/console/executors/pay"`,
		"notic": `href="/console/notices"`, "new app": `href="/console/executors?panel=new"`,
		"pause stock": `href="/console/jobs/shop/stock?panel=pause"`, "run shop/stock": `href="/console/jobs/shop/stock?panel=run"`,
		"audit": `href="/console/operating?audit=24h#audit"`, "everything": `href="/console/operating?panel=pause"`,
		"changes stock":               `href="/console/jobs/shop/stock/changes"`,
		"shop/stock@2026-11-20T02:30": `href="/console/jobs/shop/stock/at/2026-11-20T02:30"`,
		"":                            `href="/console/jobs"`, "no such thing": "Nothing is called so",
		strings.Repeat("x", 100_000): "Nothing is called so", "a/b/c\x00": "Nothing is called so",
	} {
		for _, path := range []string{"/console/find/list", "/console/find"} {
			body := s.says(path+"?text="+url.QueryEscape(text), want)
			if strings.Contains(path, "list") && strings.Contains(body, "<html") {
				t.Errorf("the list has the frame around it: %.200s", body)
			}
		}
		raw := s.get("/console/find/list?text=" + url.QueryEscape(text)).Body.String()
		if strings.Contains(raw, "<b>") || strings.Contains(raw, "<i>") {
			t.Errorf("%q: markup of others: %s", text, raw)
		}
	}
}

// TestFindRun: a run is found by its number.
func TestFindRun(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock"}`)
	s.ask("POST", "/v1/jobs/shop/stock/trigger", `{}`)
	id := between(s.says("/console/jobs/shop/stock"), "/console/runs/", `"`)
	s.says("/console/find/list?text="+id, `href="/console/runs/`+id+`"`, "shop/stock")
}

// TestActionsLeadSomewhere: each page and action that is offered is there.
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

// TestNamesOfFilters: the fields of filters that take a job or an app offer those there are, as many
// as are read at once.
func TestNamesOfFilters(t *testing.T) {
	s := newConsole(t)
	for i := range 30 {
		s.ask("PUT", fmt.Sprintf("/v1/jobs/shop/nightly-%02d", i), `{"handler": "x"}`)
	}
	s.ask("PUT", "/v1/jobs/shop/other", `{"handler": "x"}`)
	s.ask("PUT", "/v1/apps/pay", `{}`)
	for _, page := range []string{"runs", "reports", "runs/clean", "changes", "operating"} {
		s.says("/console/"+page, `list="jobs-named"`, `<datalist id="jobs-named"`, "/console/find/names?of=job")
	}
	list := s.says("/console/find/names?of=job&job=nightly", `<option value="shop/nightly-00">`)
	if n := strings.Count(list, "<option"); n != 12 {
		t.Errorf("%d jobs are offered", n)
	}
	s.never(list, "shop/other", "<html")
	s.says("/console/find/names?of=job&job=shop/oth", `<option value="shop/other">`)
	s.never(s.says("/console/find/names?of=app&app=pa", `<option value="pay">`), "shop")
	s.says("/console/find/names?of=app&app=", `<option value="pay">`, `<option value="shop">`)
	s.says("/console/find/names?of=job&job=" + strings.Repeat("x", 5000))
}

// TestKeys: the sheet names the keys, and each page leads to it.
func TestKeys(t *testing.T) {
	s := newConsole(t)
	s.says("/console/keys", "Ctrl K", "find a job, a run, an app or an action", "<h1>")
	s.says("/console/jobs", "data-keys", "data-find")
}
