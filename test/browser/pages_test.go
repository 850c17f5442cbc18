package browser

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	cdpage "github.com/chromedp/cdproto/page"
	"github.com/tickring/tickring/test/harness"
)

// view is a page of the console in a world.
type view struct {
	name, path string
	status     int    // 200 if 0
	out        bool   // without a login
	to, form   string // form is posted to this path, and the answer is the page
	click      string // clicked on that page, before the check
	held       bool   // the page cannot submit forms by itself
}

// longName is a name without a place to break it, as long as may be.
var longName = strings.Repeat("n", 128)

// panels are views of the panels of a page, a verb each.
func panels(name, path string, panel ...string) (list []view) {
	for _, p := range panel {
		list = append(list, view{name: name + "-" + p, path: path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] +
			"panel=" + p})
	}
	return list
}

// views are all pages, those with something wrong on them too.
func (w *world) views() []view {
	run := func(what string) string { return "/console/runs/" + w.runs[what] }
	const columns = "/console/jobs?cols=number&cols=author&cols=handler&cols=schedule&cols=next&cols=runs&cols=last&cols=took"
	picked := "which=picked&pick=shop/prices&pick=shop/stock&app=shop"
	parts := "&done=1200&same=3&fail=1&found=2000&failed=shop/nasty+" + url.QueryEscape(nasty)
	return slices.Concat([]view{
		{name: "overview", path: "/console/"},
		{name: "jobs", path: "/console/jobs"},
		{name: "job", path: "/console/jobs/shop/prices"},
		{name: "job-failing", path: "/console/jobs/pay/ledger-sync"},
		{name: "job-paused", path: "/console/jobs/pay/invoices"},
		{name: "job-nasty", path: "/console/jobs/shop/nasty"},
		{name: "job-manifest", path: "/console/jobs/shop/stock?view=manifest"},
		{name: "job-edit", path: "/console/jobs/pay/ledger-sync?view=edit"},
		{name: "job-edit-nasty", path: "/console/jobs/shop/nasty?view=edit"},
		{name: "job-new", path: "/console/jobs/new"},
		{name: "job-new-manifest", path: "/console/jobs/new?view=manifest"},
		{name: "job-audit-log", path: "/console/jobs/pay/invoices/audit-log"},
		{name: "panel-run", path: "/console/jobs/shop/nasty?panel=run"},
		{name: "panel-pause", path: "/console/jobs/shop/prices?panel=pause"},
		{name: "panel-resume", path: "/console/jobs/pay/invoices?panel=resume"},
		{name: "panel-delete", path: "/console/jobs/shop/prices?panel=delete"},
		{name: "panel-kill", path: run("held") + "?panel=kill"},
		{name: "panel-rerun", path: run("nasty") + "?panel=rerun"},
		{name: "find", path: "/console/find"},
		{name: "keys", path: "/console/keys"},
		{name: "jobs-columns", path: columns + "&panel=columns"},
		{name: "jobs-wide", path: columns},
		{name: "runs", path: "/console/runs"},
		{name: "runs-failed", path: "/console/runs?state=failed&job=pay/ledger-sync"},
		{name: "runs-clean", path: "/console/runs/clean?job=shop/prices"},
		{name: "run", path: run("fine")},
		{name: "run-failed", path: run("failed")},
		{name: "run-running", path: run("held")},
		{name: "run-killed", path: run("killed")},
		{name: "run-nasty", path: run("nasty")},
		{name: "run-planned", path: run("later")},
		{name: "log", path: run("lines") + "/log"},
		{name: "log-strange", path: run("strange") + "/log"},
		{name: "upcoming", path: "/console/upcoming"},
		{name: "upcoming-week", path: "/console/upcoming?days=7"},
		{name: "executors", path: "/console/executors"},
		{name: "app", path: "/console/executors/shop"},
		{name: "app-dead", path: "/console/executors/legacy"},
		{name: "channel", path: "/console/notifications/oncall"},
		{name: "lateness", path: "/console/lateness"},
		{name: "reports", path: "/console/reports"},
		{name: "audit-log", path: "/console/audit-log"},
		{name: "scripts", path: "/console/scripts"},
		{name: "script", path: "/console/jobs/reports/script/script"},
		{name: "notifications", path: "/console/notifications"},
		{name: "users", path: "/console/users"},
		{name: "system", path: "/console/system"},
		{name: "bulk", path: "/console/jobs?app=shop&panel=pause&pick=shop/prices&pick=shop/stock"},
		{name: "account", path: "/console/account"},
		{name: "jobs-view", path: "/console/jobs?label=team%3Dshop"},
		{name: "job-difference", path: "/console/jobs/shop/stock/audit-log", click: "css:table a[href*='diff=']"},
		{name: "job-restore", path: "/console/jobs/shop/stock/audit-log", click: "css:table a[href*='panel=restore']"},
		{name: "user-audit-log", path: "/console/audit-log?user=lina"},
		{name: "script-difference", path: "/console/jobs/reports/script/script?diff=2"},
		{name: "script-old", path: "/console/jobs/reports/script/script?version=1"},
		{name: "script-fresh", path: "/console/jobs/shop/nasty/script"},
		{name: "system-audit", path: "/console/system?audit=24h&all=1&jobs=1"},
		{name: "clean-counted", path: "/console/runs/clean?job=shop/prices&keep=2"},
		{name: "user", path: "/console/users?panel=user&name=lina"},
		{name: "user-delete", path: "/console/users?panel=delete&name=lina"},
		{name: "bulk-stopped", path: "/console/keys", to: "/console/jobs/bulk", form: "stop=1&verb=pause&next=9&operation=x&" + picked + parts},
		{name: "bulk-progress", path: "/console/keys", to: "/console/jobs/bulk", form: "verb=pause&next=9&operation=x&" + picked + parts,
			status: 400, held: true},
		{name: "bulk-refused", path: "/console/keys", to: "/console/jobs/bulk", form: "verb=pause&" + picked, status: 400},
		{name: "job-refused", path: "/console/keys", to: "/console/jobs/new", status: 400,
			form: "app=shop&name=sums&what=handler&handler=fine&kind.0=cron&expr.0=" + strings.Repeat("seldom", 30)},
		{name: "job-long", path: "/console/jobs/legacy/" + longName},
		{name: "job-long-edit", path: "/console/jobs/legacy/" + longName + "?view=edit"},
		{name: "job-long-pause", path: "/console/jobs/legacy/" + longName + "?panel=pause"},
		{name: "job-edit-script", path: "/console/jobs/reports/script?view=edit"},
		{name: "app-clash", path: "/console/keys", to: "/console/executors/shop?panel=edit", status: 409,
			form: "do=edit&rev=0&title=" + strings.Repeat("long", 60)},
		{name: "instant", path: "/console/jobs/shop/burst-a/at/2026-01-05T18:30:00Z"},
		{name: "reruns", path: "/console/keys", to: "/console/runs/rerun", form: "job=shop/prices&next=x&done=9&left=2&key=k", status: 400,
			held: true},
		{name: "view-refused", path: "/console/keys", to: "/console/views", form: "page=jobs&query=label%3Da&name=", status: 400},
		{name: "typed-while-out", path: "/console/login", out: true, to: "/console/jobs/shop/stock/pause", form: "reason=x", status: 401},
		{name: "unsent", path: "/console/login", out: true, to: "/console/login",
			form: "unsent-at=/console/jobs/new&unsent=title%3Dx&token=" + harness.Token},
		{name: "once", path: "/console/once/of-somebody", out: true, held: true},
		{name: "login", path: "/console/login", out: true},
		{name: "job-gone", path: "/console/jobs/shop/never-was", status: 404},
	},
		panels("apps", "/console/executors", "new"), panels("app", "/console/executors/shop", "edit", "pause", "delete"),
		panels("app", "/console/executors/legacy", "resume"), panels("channels", "/console/notifications", "new", "rest"),
		panels("channels-mail", "/console/notifications?kind=email", "new"),
		panels("channels-robot", "/console/notifications?kind=dingtalk", "new"),
		panels("channel", "/console/notifications/oncall", "edit", "delete"), panels("users", "/console/users", "new"),
		panels("jobs", "/console/jobs?label=team%3Dshop", "view"), panels("runs", "/console/runs?app=shop", "view", "rerun"),
		panels("job", "/console/jobs/shop/import", "label", "return-to-code", "kill"), panels("run-planned", run("later"), "cancel"),
		panels("bulk", "/console/jobs?pick=shop/prices", "label", "delete", "trigger"),
		panels("system", "/console/system", "pause", "redrive", "drop", "replan"))
}

// changed makes the changes that the views show.
func (w *world) changed(t *testing.T) {
	w.OK(t, given, "users", "set", "lina", "--role", "viewer", "--password", "-")
	w.OK(t, "", "users", "set", "lina", "--role", "shop:editor+scripts+secrets,pay:operator")
	w.OK(t, "", "pause", "legacy", "--reason", "nobody is there", "--until", "240h")
	w.OK(t, "echo '"+strings.Repeat("a long line ", 40)+"'\nexit 0\n", "script", "put", "reports/script", "-", "--note", "second")
	w.OK(t, "version: 1\nset: finance-prod\njobs: [{app: shop, name: stock, title: Stock, handler: fine, params: "+
		strings.Repeat("a-long-param=", 40)+"}, {app: legacy, name: "+longName+", title: "+longName+", handler: "+longName+
		", labels: {of: "+longName+"}, schedule: {every: 1h}}]", "apply", "-f", "-")
}

// TestPages checks each page in two themes, two languages and two widths for axe findings, cut or covered elements, and console
// errors; and saves a picture of it.
func TestPages(t *testing.T) {
	w := newWorld(t)
	w.changed(t)
	w.look(t)
	if *pictureFlag != "" {
		list, _ := os.ReadDir(pictures(t))
		t.Logf("%d pictures in %s", len(list), pictures(t))
	}
}

// look checks each page.
func (w *world) look(t *testing.T) {
	in := newPage(t, w.URL, manner{})
	in.logIn()
	in.send("/console/views", "page=jobs&query=label%3Dteam%253Dshop&shared=1&name=of+the+shop%27s+team")
	for _, v := range w.views() {
		t.Run(v.name, func(t *testing.T) {
			var p *page
			if v.out {
				p = newPage(t, w.URL, manner{})
			} else {
				p = tab(t, w.URL, manner{}, in.ctx)
			}
			if v.status != 0 {
				p.may("status of "+strconv.Itoa(v.status), "'beforeunload'") // the form stays, and is unchanged
			}
			if v.held {
				call(p, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{
					Source: "HTMLFormElement.prototype.requestSubmit = () => {}"})
			}
			for _, lang := range []string{"en", "zh"} {
				p.manner(manner{lang: lang})
				p.open(v.path)
				if v.to != "" {
					p.send(v.to, v.form)
				}
				if v.click != "" {
					p.click(v.click)
					p.wait("location.search !== '' || document.querySelector('dialog:modal')")
					p.at("/")
				}
				if want := max(v.status, 200); p.answered() != want {
					t.Fatalf("%s answered %d", v.path, p.answered())
				}
				for _, m := range []manner{{lang: lang}, {lang: lang, dark: true}, {lang: lang, narrow: true}} {
					p.manner(m)
					if !m.dark { // which is of other colors, and nothing else
						for _, bad := range p.layout(min(p.width, 1280)) { // the narrowest that has all columns
							t.Errorf("%s %s: %s", v.name, m, bad)
						}
					}
					if *pictureFlag != "" {
						p.picture(filepath.Join(pictures(t), v.name+"-"+m.String()+".png"))
					}
					if m.narrow || m.dark && lang != "en" { // the width changes no findings, the language no colors
						continue
					}
					for _, bad := range p.axe(m.dark) {
						t.Errorf("%s %s: axe: %s", v.name, m, bad)
					}
				}
			}
			if strings.Contains(eval[string](p, "document.title"), "broken") || eval[int](p, "document.querySelectorAll('img').length") != 0 {
				t.Error("markup of the data is markup of the page")
			}
		})
	}
}

// phone: on a screen of 390 px many jobs are picked and acted on, and anything is found, by taps alone.
func phone(t *testing.T, w *world) {
	p := w.enter(t, manner{narrow: true})
	p.open("/console/jobs")
	for _, job := range []string{"shop/prices", "shop/stock"} {
		p.click(`css:input[data-pick][value="` + job + `"]`)
	}
	p.wait("document.querySelector('[data-count]').textContent === '2'")
	for _, bad := range p.layout(p.width) {
		t.Error(bad)
	}
	p.click(pauseLink)
	p.wait("document.querySelectorAll('dialog input[name=pick]').length === 2")
	p.open("/console/jobs")
	p.click("css:nav [data-find]")
	p.fill("css:dialog.palette input", "ledger-sync")
	p.click("pay/ledger-sync")
	p.at("/console/jobs/pay/ledger-sync")
}

// frame: the server's clock advances by itself, and a field for a job suggests existing jobs.
func frame(t *testing.T, w *world) {
	p := w.enter(t, manner{lang: "zh"})
	p.open("/console/runs")
	was := eval[string](p, "document.querySelector('[data-clock]').textContent")
	p.wait("document.querySelector('[data-clock]').textContent !== '" + was + "'")
	p.fill("css:input[name=job]", "ledger")
	p.wait("!!document.querySelector('#jobs-named option[value=\"pay/ledger-sync\"]')")
	p.open("/console/") // scheduled times are in the page's language, even after the script updates them
	p.wait("[...document.querySelectorAll('[data-at]')].some((e) => /后$/.test(e.textContent))")
}

// TestJobIsMade: a job is created by its form, which shows errors at their fields and explains the schedule before saving. The job
// is edited, and deleted.
func TestJobIsMade(t *testing.T) {
	_, p := entered(t)
	p.open("/console/jobs")
	p.click(`css:a[href="/console/jobs/new"]`)
	p.at("/console/jobs/new")
	p.fill("css:[name=app]", "shop")
	p.fill("css:[name=name]", "sums")
	p.fill("css:[name=handler]", "fine")
	p.fill("css:[name='expr.0']", "61 2 * * 1-5")
	// The mark is below the wrong character.
	p.wait("/^61 2 \\* \\* 1-5\\s*\\n\\^/.test(document.querySelector('#check .caret')?.textContent || '')")
	p.fill("css:[name='expr.0']", "30 2 * * 1-5")
	p.fill("css:[name=timezone]", "Europe/Berlin")
	p.sees("at 02:30, Monday to Friday")
	p.wait("document.querySelector('#check th').innerText.includes('Berlin')")
	p.wait("document.querySelectorAll('#check tbody tr').length === 10")
	p.click("css:form#first .buttons button.first")
	p.at("/console/jobs/shop/sums")
	p.sees("at 02:30, Monday to Friday")

	p.click(`css:a[href$="view=edit"]`)
	p.at("/console/jobs/shop/sums?view=edit") // its script receives the input from here on
	p.fill("css:[name='expr.0']", "45 3 * * *")
	p.sees("at 03:45")
	p.click("css:form#first .buttons button.first")
	p.wait("location.pathname + location.search === '/console/jobs/shop/sums' && document.readyState === 'complete'")
	p.sees("at 03:45")
	p.click("css:#more-acts summary")
	p.click(`css:a[href*="panel=delete"]`)
	p.fill("css:dialog input[name=name]", "shop/sums")
	p.click("css:dialog button.danger")
	p.confirmed()
	p.open("/console/jobs?app=shop")
	p.sees("shop/prices")
	p.wait("!document.querySelector('main').innerText.includes('shop/sums')")
}
