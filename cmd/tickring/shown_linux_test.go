package main

import (
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/console"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
	"github.com/tickring/tickring/manifest"
)

var shownCommand = regexp.MustCompile(`(?s)<div class=cli tabindex=0>(.*?)</div>`)

// TestShownCommands: this program accepts each command that a page or a panel of the console shows, as a shell passes it, and each
// file given to one.
func TestShownCommands(t *testing.T) {
	f := usecasetest.New(t)
	log := slog.New(slog.DiscardHandler)
	people := access.New(f.E, access.Options{Admin: func(token string) bool { return token == "admin" }})
	handler := api.NewHandler(f.M, nil, api.Options{Token: "admin", Access: people, Log: log, Store: f.E})
	pages := console.New(console.Options{API: handler, Access: people, Log: log, Now: func() time.Time { return f.Clock }})
	ask := func(method, path, body string) {
		r := httptest.NewRequest(method, "http://console.test"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer admin")
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	ask("PUT", "/v1/jobs/shop/report", `{"handler": "x", "labels": {"team": "pay's"}}`)
	ask("PUT", "/v1/jobs/shop/sweep", `{"script": {"kind": "shell", "source": "echo one"}}`)
	ask("POST", "/v1/jobs/shop/report/trigger", `{"key": "one"}`)
	ask("PUT", "/v1/channels/team", `{"webhook": {"url": "https://hooks.example/x"}}`)
	ask("PUT", "/v1/users/lina", `{"grants": [{"app": "shop", "role": "editor", "rights": ["scripts"]}]}`)
	ask("PUT", "/v1/users/nobody", `{"disabled": true, "issuer": "https://id.example.com", "subject": "7"}`)
	var cookies []*http.Cookie
	get := func(path string) string {
		r := httptest.NewRequest(http.MethodGet, "http://console.test"+path, nil)
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		if pages.ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	r := httptest.NewRequest(http.MethodPost, "http://console.test/console/login", strings.NewReader(url.Values{"token": {"admin"}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	cookies = w.Result().Cookies()
	_, run, _ := strings.Cut(get("/console/runs?job=shop/report"), `<tr id="run-`)
	run, _, _ = strings.Cut(run, `"`)

	const job, some = "/console/jobs/shop/report", "/console/jobs?app=shop&label=team%3Dpay's&status=never-ran&text=a+b&panel="
	paths := []string{job, job + "?panel=run", job + "?panel=pause", job + "?panel=resume", job + "?panel=kill", job + "?panel=label",
		job + "?panel=return-to-code", job + "?panel=delete", job + "?view=manifest", job + "/audit-log", "/console/jobs/shop/sweep/script",
		"/console/jobs/new", "/console/runs/" + run, "/console/runs/" + run + "?panel=cancel", "/console/runs/" + run + "?panel=kill",
		"/console/runs/" + run + "?panel=rerun", "/console/runs/" + run + "/log",
		"/console/runs?job=shop/report&state=failed&state=lost&cause=manual&from=2026-11-20T00:00:00Z&panel=rerun",
		"/console/runs?app=shop&address=http://10.0.0.7/&longer=5m&shorter=10m&late=5s&text=disk+full&panel=rerun", "/console/runs?panel=view",
		"/console/runs/clean?job=shop/report&older=30d", "/console/upcoming", "/console/executors", "/console/executors?panel=new",
		"/console/executors/shop", "/console/executors/shop?panel=edit", "/console/executors/shop?panel=pause",
		"/console/executors/shop?panel=resume", "/console/executors/shop?panel=delete", "/console/scripts",
		"/console/notifications", "/console/notifications?panel=rest", "/console/notifications/team", "/console/notifications/team?panel=edit",
		"/console/notifications/team?panel=delete", "/console/audit-log", "/console/users", "/console/users?panel=new",
		"/console/users?panel=user&name=lina", "/console/users?panel=user&name=nobody", "/console/users?panel=delete&name=lina",
		"/console/account", "/console/"}
	for _, verb := range []string{"pause", "resume", "trigger", "kill", "label", "delete"} {
		paths = append(paths, some+verb, "/console/jobs?pick=shop/report&pick=shop/sweep&panel="+verb)
	}
	for _, kind := range core.ChannelKinds {
		paths = append(paths, "/console/notifications?panel=new&kind="+string(kind))
	}
	seen := map[string]bool{}
	for _, path := range paths {
		for _, m := range shownCommand.FindAllStringSubmatch(get(path), -1) {
			if line := html.UnescapeString(m[1]); !seen[line] {
				seen[line] = true
				shellRuns(t, path, line)
			}
		}
	}
	if len(seen) < 40 {
		t.Errorf("%d commands were seen", len(seen))
	}
}

// shellRuns runs a line in a shell in which tickring is a function that prints its arguments.
func shellRuns(t *testing.T, path, line string) {
	t.Helper()
	sh := exec.CommandContext(t.Context(), "sh", "-c", `tickring() { printf 'run\0' >&3; printf '%s\0' "$@" >&3; printf 'in\0' >&3
case "$*" in *"-f -"*) cat >&3 ;; esac; printf '\1' >&3; }
exec 3>&1 >/dev/null; EDITOR=true; cd "$(mktemp -d)" || exit
`+line)
	out, err := sh.CombinedOutput()
	calls := strings.Split(string(out), "\x01")
	if err != nil || len(calls) < 2 {
		if strings.Contains(line, "tickring") {
			t.Errorf("%s shows %q: %v %q", path, line, err, out)
		}
		return
	}
	for _, call := range calls[:len(calls)-1] {
		args, file, _ := strings.Cut(strings.TrimPrefix(call, "run\x00"), "\x00in\x00")
		if _, err := parse(strings.Split(args, "\x00")); err != nil {
			t.Errorf("%s shows %q: %v", path, line, err)
		}
		if file != "" {
			if _, err := manifest.Parse("shown", []byte(file), manifest.Options{}); err != nil {
				t.Errorf("%s shows %q: %v", path, line, err)
			}
		}
	}
}
