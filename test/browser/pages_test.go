package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// view is a page of the console in a world.
type view struct {
	name, path string
	status     int  // 200 if 0
	out        bool // nobody is logged in
}

// views are all pages, those with something wrong on them too.
func (w *world) views() []view {
	run := func(what string) string { return "/console/runs/" + w.runs[what] }
	const columns = "/console/jobs?cols=number&cols=author&cols=handler&cols=schedule&cols=next&cols=runs&cols=last&cols=took"
	return []view{
		{name: "home", path: "/console/"},
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
		{name: "job-changes", path: "/console/jobs/pay/invoices/changes"},
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
		{name: "channel", path: "/console/notices/oncall"},
		{name: "lateness", path: "/console/lateness"},
		{name: "reports", path: "/console/reports"},
		{name: "changes", path: "/console/changes"},
		{name: "scripts", path: "/console/scripts"},
		{name: "script", path: "/console/jobs/reports/script/script"},
		{name: "notices", path: "/console/notices"},
		{name: "people", path: "/console/people"},
		{name: "operating", path: "/console/operating"},
		{name: "bulk", path: "/console/jobs?app=shop&panel=pause&pick=shop/prices&pick=shop/stock"},
		{name: "account", path: "/console/account"},
		{name: "login", path: "/console/login", out: true},
		{name: "job-gone", path: "/console/jobs/shop/never-was", status: 404},
	}
}

// TestPages looks at each page in two themes, two languages and two widths: what axe
// finds, what is cut or covered, what its console says; and takes its picture.
func TestPages(t *testing.T) {
	w := newWorld(t)
	w.look(t)
	if axeSource != "" {
		record(3, fmt.Sprintf("axe violations, %d pages, each in two themes and languages", len(w.views())), "11-68 a page", "0",
			"%d", axeFound.Load())
	}
	if *pictureFlag != "" {
		list, _ := os.ReadDir(pictures(t))
		t.Logf("%d pictures in %s", len(list), pictures(t))
	}
}

// look looks at each page.
func (w *world) look(t *testing.T) {
	for _, v := range w.views() {
		t.Run(v.name, func(t *testing.T) {
			p := newPage(t, w.URL, manner{})
			if v.status != 0 {
				p.may("status of " + itoa(v.status))
			}
			if !v.out {
				p.logIn()
			}
			for _, lang := range []string{"en", "zh"} {
				p.manner(manner{lang: lang})
				p.open(v.path)
				if want := max(v.status, 200); p.answered() != want {
					t.Fatalf("%s answered %d", v.path, p.answered())
				}
				for _, m := range []manner{{lang: lang}, {lang: lang, dark: true}, {lang: lang, narrow: true}} {
					p.manner(m)
					for _, bad := range p.layout(p.width) {
						t.Errorf("%s %s: %s", v.name, m, bad)
					}
					if *pictureFlag != "" {
						p.picture(filepath.Join(pictures(t), v.name+"-"+m.String()+".png"))
					}
					if m.narrow { // what axe finds does not hang on the width
						continue
					}
					for _, bad := range p.axe() {
						axeFound.Add(1)
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
