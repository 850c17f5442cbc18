package console_test

import (
	"context"
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	nethtml "golang.org/x/net/html"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/probe"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
)

// hostile is the test input for text fields: an element, the end of an element and of an attribute, an event handler,
// and a character that reverses the text direction.
const hostile = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u202e{{.}}"

// printable is hostile for fields that accept only printable characters.
var printable = strings.ReplaceAll(hostile, "\u202e", "")

// hostileSite returns a site with hostile in every text field.
func hostileSite(t *testing.T) *site {
	s := newConsole(t)
	s.Commands = true
	put := func(method, path string, body any) {
		t.Helper()
		b, err := json.Marshal(body)
		check.OK(t, err)
		s.ask(method, path, string(b))
	}
	type m = map[string]any
	inURL := "https://x.example/?q=" + strings.ReplaceAll(printable, " ", "/")
	put("PUT", "/v1/apps/shop", m{"title": hostile, "set": "m", "token": printable, "executors": []string{"http://10.0.0.7:9999"}})
	put("PUT", "/v1/apps/web", m{"title": hostile, "executors": []string{"call:https://x.example"},
		"call": m{"headers": m{"X-Of-Them": printable}}})
	put("PUT", "/v1/channels/team", m{"webhook": m{"url": inURL, "secret": printable}})
	put("PUT", "/v1/channels/mail", m{"email": m{"to": []string{"a@x.example"}, "from": "b@x.example", "smtp": m{"host": "x.example",
		"user": printable, "password": printable}}})
	for _, kind := range []string{"slack", "wecom"} {
		put("PUT", "/v1/channels/"+kind, m{kind: m{"url": inURL}})
	}
	for _, kind := range []string{"feishu", "dingtalk"} {
		put("PUT", "/v1/channels/"+kind, m{kind: m{"url": inURL, "secret": printable}})
	}
	what := m{"title": hostile, "author": hostile, "handler": hostile, "params": hostile, "set": "m", "labels": m{"team": hostile},
		"schedule": m{"every": "1m"}, "notify": m{"to": []string{"team"}}, "overlap": m{"limit": 1, "key": "/" + hostile}}
	put("PUT", "/v1/jobs/shop/stock", what)
	what["params"] = hostile + hostile
	what["labels"] = m{"team": hostile + "2"}
	put("PUT", "/v1/jobs/shop/stock", what) // a change from markup to markup
	put("PUT", "/v1/jobs/shop/sweep", m{"title": hostile, "script": m{"kind": "shell", "source": hostile, "note": hostile}})
	put("PUT", "/v1/jobs/shop/sweep", m{"title": hostile, "script": m{"kind": "shell", "source": "x\n" + hostile, "note": hostile}})
	put("PUT", "/v1/jobs/shop/line", m{"title": hostile, "command": m{"line": hostile, "dir": "/" + hostile, "user": "nobody",
		"env": m{"OF_IT": hostile}}})
	put("POST", "/v1/jobs/shop/stock/pause", m{"reason": hostile})
	put("POST", "/v1/apps/shop/pause", m{"reason": hostile})
	put("POST", "/v1/pause", m{"reason": hostile})

	job, err := s.M.Job(t.Context(), "shop/stock")
	check.OK(t, err)
	params := hostile
	for i, change := range []func(*core.Run){
		func(r *core.Run) { r.State, r.Reason = core.Failed, core.ReasonHandler },
		func(r *core.Run) {
			r.Late = &core.LateResult{At: r.EndedAt, Code: 500, Message: hostile}
			r.State, r.Reason = core.Lost, core.ReasonGone
		},
		func(r *core.Run) { r.State, r.KillBy, r.KillAt = core.Killed, hostile, r.EndedAt },
		func(r *core.Run) { r.State, r.EndedAt = core.Running, time.Time{} },
		func(r *core.Run) {},
	} {
		s.ended(&job, i+1, func(r *core.Run) {
			r.Message, r.Data, r.By, r.Key, r.Params, r.Address = hostile, hostile, hostile, hostile, &params, "http://10.0.0.7/"+hostile
			r.Tries = []core.Try{{Address: "http://" + hostile, Message: hostile}}
			change(r)
		})
	}
	s.log = func(*core.Run, int) (string, int, bool, error) {
		return hostile + "\n\x1b[31m" + hostile + "\x1b]8;;javascript:alert(1)\x07\x00\xff\n", 3, true, nil
	}
	s.answers = map[string]probe.Answer{"http://10.0.0.7:9999": {At: s.Clock, Problem: hostile}}
	s.beat = func(string) error { return core.Errorf(core.CodeUnavailable, "%s", hostile) }
	at := core.InstantOf(s.Clock.Truncate(time.Minute))
	letter := ring.Message{Kind: ring.KindFires, Slot: at, Fires: []core.Fire{{Run: core.PlannedRun(job.Def.ID, at), Rev: 1, At: at, Slot: at,
		Cause: core.CauseSchedule}}}
	check.OK(t, s.E.Queue.Bury(t.Context(), letter, hostile))
	issuer, subject := inURL, hostile
	if _, _, err := s.access.Save(t.Context(), access.ByMachine(true), access.Spec{Name: "ann", Grants: &[]access.Grant{{App: "shop",
		Role: access.Viewer}}, Issuer: &issuer, Subject: &subject}); err != nil {
		t.Fatal(err)
	}
	check.Call(t)(s.access.LogInByToken(t.Context(), adminToken, access.Origin{Address: hostile, Agent: hostile}))
	s.viewsOf(t.Context(), hostile)
	s.cookies["tickring_tz"] = url.QueryEscape(hostile)
	return s
}

// viewsOf gives the logged-in user a view, and shares another one.
func (s *site) viewsOf(ctx context.Context, name string) {
	s.t.Helper()
	who, err := s.access.Session(ctx, s.cookies["tickring_session"])
	for _, v := range []access.View{{Name: name, Page: "jobs", Query: "text=" + url.QueryEscape(name)},
		{Name: name, Page: "runs", Shared: true}} {
		if err == nil {
			err = s.access.SaveView(ctx, who, v)
		}
	}
	check.OK(s.t, err)
}

// markupIn returns the foreign markup in a page: the console's own pages have no inline scripts, styles or handlers,
// and no images.
func markupIn(body string) (wrong []string) {
	z := nethtml.NewTokenizer(strings.NewReader(body))
	for {
		switch z.Next() {
		case nethtml.ErrorToken:
			return wrong
		case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
			t := z.Token()
			var src bool
			for _, a := range t.Attr {
				src = src || a.Key == "src"
				at := strings.ToLower(strings.TrimSpace(a.Val))
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.ContainsAny(a.Key, `<>"'{}()`) ||
					slices.Contains([]string{"href", "src", "action", "formaction", "data-hx-get", "data-hx-post"}, a.Key) && at != "" &&
						!strings.HasPrefix(at, "/console/") && !strings.HasPrefix(at, "#") && !strings.HasPrefix(at, "?") {
					wrong = append(wrong, t.String())
				}
			}
			if t.Data == "img" || t.Data == "style" || t.Data == "script" && !src {
				wrong = append(wrong, t.String())
			}
		}
	}
}

// patternsOf returns the registered URL patterns of all pages, or of all forms.
func patternsOf(t *testing.T, method string) (list []string) {
	for _, file := range []string{"menu.go", "console.go"} {
		b, err := os.ReadFile(file)
		check.OK(t, err)
		for _, m := range regexp.MustCompile(`"`+method+` (/console/[^"]*)"`).FindAllSubmatch(b, -1) {
			list = append(list, strings.TrimSuffix(string(m[1]), "{$}"))
		}
	}
	return list
}

var (
	links    = regexp.MustCompile(`(?:href|data-hx-get)="(/console/[^"#]*)`)
	variable = regexp.MustCompile(`\{\w+\}`)
)

// kindsOf returns the features of a page: its path with numbers replaced and its panel, and each further name in its query. A page
// without a new feature is not checked.
func kindsOf(path string) []string {
	u, err := url.Parse(path)
	if err != nil {
		return []string{path}
	}
	q := u.Query()
	page := regexp.MustCompile(`\d+`).ReplaceAllString(u.Path, "0") + "?panel=" + q.Get("panel") + "&view=" + q.Get("view")
	kinds := []string{page}
	for name, values := range q {
		if name == "status" || name == "verb" {
			name += "=" + values[0]
		}
		kinds = append(kinds, page+"&"+name)
	}
	return kinds
}

// refusedIsText posts forms with markup that are rejected: the page must show the input as text.
func (s *site) refusedIsText(run string) {
	s.t.Helper()
	all := func(form url.Values, but ...string) url.Values { // markup in every text input
		for name := range form {
			if !slices.Contains([]string{"do", "rev", "key", "kind", "what", "kind.0", "which", "verb", "zone", "operation", "copyof"}, name) {
				form.Set(name, hostile)
			}
		}
		return with(form, but...)
	}
	forms := []struct {
		path string
		form url.Values
	}{
		{"jobs/new", all(s.form("/console/jobs/new?app=shop"))},
		{"jobs/new", all(s.form("/console/jobs/new?app=shop"), "what", "command")},
		{"jobs/new", all(s.form("/console/jobs/new?app=shop"), "what", "script")},
		{"jobs/new", all(s.form("/console/jobs/new?app=shop"), "app", "shop", "name", "fine", "expr.0", "", "kind.0", "", "overlap.limit", "1")},
		{"jobs/new?view=manifest", url.Values{"text": {"job: " + hostile}, "rev": {"0"}}},
		{"jobs/shop/stock/edit", all(s.form("/console/jobs/shop/stock?view=edit"))},
		{"jobs/shop/line/edit", all(s.form("/console/jobs/shop/line?view=edit"))},
		{"jobs/shop/stock/manifest", url.Values{"text": {hostile}, "rev": {"1"}}},
		{"jobs/shop/stock/trigger", url.Values{"key": {"k"}, "at": {hostile}, "params": {hostile}, "other": {hostile}, "retries": {hostile}}},
		{"jobs/shop/stock/pause", url.Values{"reason": {hostile}, "until": {hostile}}},
		{"jobs/shop/stock/label", url.Values{"labels": {"=" + hostile}}},
		{"jobs/shop/stock/delete", url.Values{"name": {hostile}}},
		{"jobs/shop/sweep/script", url.Values{"source": {hostile}, "kind": {"shell"}, "rev": {"1"}, "note": {hostile}}},
		{"jobs/bulk", url.Values{"verb": {"pause"}, "which": {"picked"}, "pick": {hostile}, "reason": {hostile}, "until": {hostile}}},
		{"jobs/bulk", url.Values{"verb": {"label"}, "which": {"all"}, "text": {hostile}, "labels": {"=" + hostile}}},
		{"jobs/bulk", url.Values{"verb": {"delete"}, "which": {"picked"}, "pick": {"shop/stock"}, "count": {hostile}}},
		{"jobs/bulk", url.Values{"verb": {"pause"}, "which": {"picked"}, "pick": {hostile}, "next": {"9"}, "failed": {"shop/x " + hostile}}},
		{"runs/rerun", url.Values{"job": {"shop/stock"}, "next": {hostile}, "params": {hostile}, "key": {"k"}}},
		{"runs/" + run + "/rerun", url.Values{"key": {"k"}, "with": {"other"}, "params": {hostile}, "other": {hostile}}},
		{"executors?panel=new", url.Values{"name": {hostile}, "title": {hostile}, "executors": {hostile}, "allow": {hostile}, "token": {"set"},
			"secret": {hostile}}},
		{"executors/shop?panel=edit", url.Values{"do": {"edit"}, "rev": {"1"}, "title": {hostile}, "wait": {hostile}, "to": {hostile},
			"quiet": {hostile}}},
		{"executors/shop?panel=pause", url.Values{"do": {"pause"}, "reason": {hostile}, "until": {hostile}}},
		{"notifications?panel=rest", url.Values{"do": {"rest"}, "to": {hostile}}},
		{"users?panel=new", url.Values{"do": {"save"}, "name": {hostile}, "roles": {hostile}, "issuer": {hostile}, "subject": {hostile}}},
		{"users?panel=user", url.Values{"do": {"save"}, "name": {"ann"}, "rev": {"1"}, "roles": {hostile}}},
		{"views", url.Values{"page": {"jobs"}, "query": {"text=" + url.QueryEscape(hostile)}, "name": {strings.Repeat(hostile, 9)}}},
		{"system?panel=pause", url.Values{"do": {"pause"}, "reason": {hostile}, "until": {hostile}}},
		{"system?panel=replan", url.Values{"do": {"replan"}, "job": {hostile}, "from": {hostile}, "to": {hostile}}},
	}
	channel := url.Values{"rev": {"1"}, "name": {hostile}, "language": {hostile}, "url": {hostile}, "secret": {hostile}, "to": {hostile},
		"from": {hostile}, "host": {hostile}, "port": {hostile}, "user": {hostile}, "pass": {hostile}, "tls": {hostile}, "arn": {hostile}}
	for _, kind := range core.ChannelKinds {
		for path, do := range map[string]string{"notifications?panel=new": "new", "notifications/team?panel=edit": "edit"} {
			form := with(maps.Clone(channel), "kind", string(kind), "do", do)
			forms = append(forms, struct {
				path string
				form url.Values
			}{path, form})
		}
	}
	for _, f := range forms {
		w := s.post("/console/"+f.path, f.form)
		body := w.Body.String()
		if wrong := markupIn(body); wrong != nil {
			s.t.Errorf("%s refused with %v: %q", f.path, f.form, wrong)
		}
		if w.Code < 400 || !strings.Contains(html.UnescapeString(body), hostile) {
			s.t.Errorf("%s with %v is shown again without the input: %d %s", f.path, f.form, w.Code, body)
		}
	}
}

// TestMarkupIsText: markup in any input is shown as text on every registered page, on every page that these link to,
// and in searches, in both languages.
func TestMarkupIsText(t *testing.T) {
	check.Long(t)
	s := hostileSite(t)
	said := map[string]bool{} // pages that show the text
	look := func(path string) (status int, body string) {
		if path == "/console/live" || strings.HasPrefix(path, "/console/static/") {
			return http.StatusOK, "" // endless, or own files
		}
		w := s.get(path)
		body = w.Body.String()
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			check.Equal(t, w.Header().Get("X-Content-Type-Options"), "nosniff", "%s: a browser may take it for a page", path)
			return w.Code, ""
		}
		if wrong := markupIn(body); wrong != nil {
			t.Errorf("%s: %q", path, wrong)
		}
		u, _ := url.Parse(path)
		said[u.Path] = said[u.Path] || strings.Contains(html.UnescapeString(body), hostile)
		return w.Code, body
	}
	id := regexp.MustCompile(`id="run-(\d+)"`).FindStringSubmatch(s.get("/console/runs?failed=1").Body.String())
	if id == nil {
		t.Fatal("no run is listed")
	}
	fill := strings.NewReplacer("{app}", "shop", "{name}", "stock", "{channel}", "team", "{run}", id[1], "{secret}", url.PathEscape(hostile),
		"{hash}", "0", "{instant}", s.Clock.Truncate(time.Minute).Format(time.RFC3339))
	patterns := patternsOf(t, "GET")
	if len(patterns) < 25 {
		t.Fatalf("%d pages are registered", len(patterns))
	}
	for _, lang := range []string{"en", "zh"} {
		s.in(lang)
		seen := map[string]bool{}
		var next []string
		add := func(path string) {
			before := len(seen)
			for _, kind := range kindsOf(path) {
				seen[kind] = true
			}
			if before < len(seen) && before < 2000 {
				next = append(next, path)
			}
		}
		for _, pattern := range patterns {
			path := fill.Replace(pattern)
			if variable.MatchString(path) {
				t.Fatalf("add values for the names in %s to this test", pattern)
			}
			add(path)
		}
		for _, path := range []string{"users?panel=user&name=ann", "jobs/shop/line", "jobs/shop/line?view=edit", "notifications/mail?panel=edit",
			"notifications/slack?panel=edit", "notifications/dingtalk?panel=edit"} {
			look("/console/" + path)
		}
		for len(next) > 0 {
			_, body := look(next[0])
			next = next[1:]
			for _, m := range links.FindAllStringSubmatch(body, -1) {
				add(html.UnescapeString(m[1]))
			}
		}
		if len(seen) < 2*len(patterns) {
			t.Errorf("%d pages were checked", len(seen))
		}
	}
	for _, path := range []string{"/console/jobs", "/console/runs", "/console/jobs/shop/stock", "/console/runs/" + id[1], "/console/audit-log",
		"/console/executors", "/console/executors/shop", "/console/users", "/console/account", "/console/system",
		"/console/scripts", "/console/jobs/shop/sweep/script", "/console/runs/" + id[1] + "/log"} {
		if !said[path] {
			t.Errorf("%s does not have the text that was written", path)
		}
	}

	for _, pattern := range patterns {
		path := fill.Replace(pattern)
		query := func(names ...string) (status int) {
			q := url.Values{}
			for _, name := range names {
				q.Set(name, hostile)
			}
			status, _ = look(path + "?" + q.Encode())
			return status
		}
		// A page that rejects a value shows that value alone, so each is sent to it alone. A job takes precedence over other names.
		names := []string{"after", "address", "app", "at", "audit", "cause", "diff", "from", "status", "kind", "label", "late", "longer",
			"name", "note", "panel", "q", "sort", "span", "state", "text", "to", "verb", "version", "view", "when"}
		if query("job"); query(names...) != http.StatusOK {
			for _, name := range names {
				query(name)
			}
		}
		look(strings.ReplaceAll(path, "stock", url.PathEscape(hostile)))
		look(strings.ReplaceAll(strings.ReplaceAll(path, "shop", url.PathEscape(hostile)), id[1], url.PathEscape(hostile)))
	}
	look("/console/" + url.PathEscape(hostile))
	s.refusedIsText(id[1])
	s.post("/console/logout", nil)
	look("/console/jobs?text=" + url.QueryEscape(hostile))
	for _, path := range []string{"/console/jobs/new", "/console/jobs/" + url.PathEscape(hostile) + "/x/pause"} {
		w := s.post(path, url.Values{hostile: {hostile}, "title": {hostile}})
		if wrong := markupIn(w.Body.String()); wrong != nil {
			t.Errorf("%s, logged out: %q", path, wrong)
		}
	}
	w := s.post("/console/login", url.Values{"token": {adminToken}, "unsent-at": {"/console/jobs/new"},
		"unsent": {url.Values{hostile: {hostile}}.Encode()}})
	if wrong := markupIn(w.Body.String()); w.Code != http.StatusOK || wrong != nil {
		t.Errorf("the typed text: %d %q", w.Code, wrong)
	}
}
