package console_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// TestActionsByRole: pages do not offer actions that the user may not do, and a post of such an action is rejected.
// Apps that the user may not see are not shown.
func TestActionsByRole(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/apps/pay", `{"allow": ["10.0.0.0/8"]}`)
	s.ask("PUT", "/v1/jobs/shop/report", `{"handler": "x"}`)
	s.ask("PUT", "/v1/jobs/pay/salaries", `{"handler": "x"}`)
	s.person("vic", access.Grant{App: "shop", Role: access.Viewer})
	s.person("opa", access.Grant{App: "shop", Role: access.Operator})
	s.person("edi", access.Grant{App: "shop", Role: access.Editor})
	for _, c := range []struct {
		name          string
		operate, edit bool
	}{{"vic", false, false}, {"opa", true, false}, {"edi", true, true}} {
		s.logInAs(c.name)
		body := s.says("/console/jobs", "shop/report") + s.says("/console/jobs/shop/report")
		for text, is := range map[string]bool{`panel=run"`: c.operate, `panel=pause"`: c.operate, `panel=delete"`: c.edit,
			`/console/jobs/new"`: c.edit, "view=edit": c.edit, "pay/salaries": false} {
			if strings.Contains(body, text) != is {
				t.Errorf("%s is shown %q: %t", c.name, text, !is)
			}
		}
		s.gets("/console/jobs/pay/salaries", http.StatusNotFound)
		for _, act := range []struct {
			path string
			is   bool
		}{{"/console/jobs/shop/report/pause", c.operate}, {"/console/jobs/pay/salaries/pause", false},
			{"/console/jobs/pay/salaries/delete", false}, {"/console/jobs/shop/report/delete", c.edit}} {
			job := strings.TrimPrefix(act.path[:strings.LastIndex(act.path, "/")], "/console/jobs/")
			w := s.post(act.path, url.Values{"reason": {"why"}, "name": {job}})
			if refused := w.Code == http.StatusForbidden || w.Code == http.StatusNotFound; refused == act.is {
				t.Errorf("%s posts %s: %d", c.name, act.path, w.Code)
			}
		}
		w := s.post("/console/jobs/bulk", url.Values{"verb": {"pause"}, "which": {"picked"}, "pick": {"pay/salaries"}, "reason": {"why"}})
		if w.Code != http.StatusForbidden && w.Code != http.StatusNotFound {
			t.Errorf("%s pauses a job of another app among many: %d", c.name, w.Code)
		}
	}
}

// TestTypedAddress: a user with the permission sends a run to any address, as a trigger or a rerun. Others have no
// field for it.
func TestTypedAddress(t *testing.T) {
	s := newConsole(t)
	job := s.Create(usecasetest.Spec("report", usecasetest.Every(time.Minute)))
	run := s.ended(&job, 1, func(r *core.Run) { r.State, r.Reason = core.Failed, core.ReasonHandler })
	s.person("opa", access.Grant{App: "shop", Role: access.Operator})
	s.person("adi", access.Grant{App: "shop", Role: access.Operator, Rights: []access.Right{access.Addresses}})
	for name, may := range map[string]bool{"opa": false, "adi": true} {
		s.logInAs(name)
		for panel, action := range map[string]string{"/console/jobs/shop/report?panel=run": "/console/jobs/shop/report/trigger",
			"/console/runs/" + run.ID.String() + "?panel=rerun": "/console/runs/" + run.ID.String() + "/rerun"} {
			if body := s.says(panel); strings.Contains(body, `name="other"`) != may {
				t.Errorf("%s: %s has a field for an address: %t", panel, name, !may)
			}
			w := s.post(action, url.Values{"key": {name + panel}, "other": {"http://10.0.0.9:9999"}})
			if w.Code == http.StatusSeeOther != may {
				t.Errorf("%s: %s sends it to an address: %d %s", action, name, w.Code, w.Body)
			}
			if to := w.Header().Get("Location"); may {
				var made struct{ Addresses []string }
				if s.answer("/v1/runs/"+to[strings.LastIndex(to, "/")+1:], &made); !slices.Equal(made.Addresses, []string{"http://10.0.0.9:9999"}) {
					t.Errorf("%s: it goes to %v", action, made.Addresses)
				}
			}
		}
	}
}

// TestOperatingByRole: pages and the search offer actions on apps, channels and everything only to users who may do
// them. A user who does not see all apps gets the page of operating without global data.
func TestOperatingByRole(t *testing.T) {
	s := newConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.ask("PUT", "/v1/channels/team", `{"webhook": {"url": "https://hooks.example/x"}}`)
	s.ask("PUT", "/v1/jobs/shop/report", `{"handler": "x"}`)
	s.person("vic", access.Grant{App: "shop", Role: access.Viewer})
	s.person("opa", access.Grant{App: "shop", Role: access.Operator})
	s.person("edi", access.Grant{Role: access.Editor})
	s.person("sam", access.Grant{Role: access.Editor, Rights: []access.Right{access.Secrets}})
	for _, c := range []struct{ name, shows, hides string }{
		{"vic", "", "app test,app pause,app delete,new app,new channel,test,edit channel,delete channel,pause all,replan,clean,letters,users"},
		{"opa", "app test,app pause,replan", "app delete,new app,new channel,test,edit channel,delete channel,pause all,clean,letters"},
		{"edi", "app test,app pause,app delete,new app,test,delete channel,pause all,replan,clean,letters", "new channel,edit channel,users"},
		{"sam", "new channel,edit channel", "users"},
	} {
		s.logInAs(c.name)
		app, apps := s.says("/console/executors/shop", "10.0.0.7"), s.says("/console/executors", "shop")
		list, channel, operating := s.says("/console/notifications"), s.says("/console/notifications/team"), s.says("/console/system")
		palette, pause := s.says("/console/find"), s.says("/console/find?text=pause+report")
		both := func(page, link, path string) bool { // on its page and in the search, or on neither
			t.Helper()
			here, there := strings.Contains(page, link), strings.Contains(palette+pause, path)
			if here != there {
				t.Errorf("%s: %s on its page: %t, %s in the palette: %t", c.name, link, here, path, there)
			}
			return here
		}
		is := map[string]bool{
			"app test":       strings.Contains(app, `value="test"`),
			"app pause":      both(app, `panel=pause"`, "/console/jobs/shop/report?panel=pause"),
			"app delete":     strings.Contains(app, `panel=delete"`),
			"new app":        both(apps, `panel=new"`, "executors?panel=new"),
			"new channel":    both(list, `panel=new"`, "notifications?panel=new"),
			"test":           strings.Contains(channel, `value="test"`),
			"edit channel":   strings.Contains(channel, `panel=edit"`),
			"delete channel": strings.Contains(channel, `panel=delete"`),
			"pause all":      both(operating, `panel=pause"`, "system?panel=pause"),
			"replan":         both(operating, `panel=replan"`, "system?panel=replan"),
			"clean":          both(operating, "runs/clean", "runs/clean"),
			"letters":        both(operating, `id="letters"`, "system#letters"),
			"users":          strings.Contains(palette, "console/users"),
		}
		for text, want := range map[string]bool{c.shows: true, c.hides: false} {
			for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
				if got, known := is[one]; got != want || !known {
					t.Errorf("%s is shown %q: %t", c.name, one, got)
				}
			}
		}
	}
}

// TestFieldsOfAnApp: users without the permission for tokens or addresses have no fields for them and can change the
// rest of an app. A post with these fields is rejected.
func TestFieldsOfAnApp(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"], "allow": ["10.0.0.0/8"], "token": "token-of-shop-token"}`)
	for name, rights := range map[string][]access.Right{"edi": nil, "sec": {access.Secrets}, "adi": {access.Addresses},
		"bo": {access.Secrets, access.Addresses}} {
		s.person(name, access.Grant{App: "shop", Role: access.Editor, Rights: rights}, access.Grant{App: "web", Role: access.Editor})
		s.logInAs(name)
		forms := map[string]string{"/console/executors?panel=new": "", "/console/executors/shop?panel=edit": ""}
		for path := range forms {
			body := s.says(path, `name="title"`)
			forms[path] = body
			for field, right := range map[string]access.Right{"token": access.Secrets, "secret": access.Secrets, "executors": access.Addresses,
				"allow": access.Addresses} {
				check.Equal(t, strings.Contains(body, `name="`+field+`"`), slices.Contains(rights, right), "%s: %s has %s", name, path, field)
			}
		}
		rev := cutOut(forms["/console/executors/shop?panel=edit"], `name="rev" value="`, `"`)
		edit := url.Values{"do": {"edit"}, "title": {"by " + name}, "rev": {rev}}
		if slices.Contains(rights, access.Addresses) {
			edit.Set("executors", "http://10.0.0.7:9999")
			edit.Set("allow", "10.0.0.0/8")
		}
		s.done("/console/executors/shop?panel=edit", edit, "by "+name, "http://10.0.0.7:9999", "10.0.0.0/8")
		if rights == nil {
			edit.Del("rev")
			edit.Set("executors", "http://10.6.6.6:9999/")
			s.wrong("/console/executors/shop?panel=edit", edit, http.StatusForbidden, `role="alert"`)
			edit.Del("executors")
			edit.Set("token", "set")
			edit.Set("secret", "another-token-of-shop")
			s.wrong("/console/executors/shop?panel=edit", edit, http.StatusForbidden, `role="alert"`)
		}
	}
}
