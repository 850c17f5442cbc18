package console_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// offers compares the offers of a page to the logged-in user, which are its texts that match, with the golden file.
func (s *site) offers(who, path string, of *regexp.Regexp) {
	s.t.Helper()
	list := of.FindAllString(s.says(path), -1)
	slices.Sort(list)
	s.equal(who+" "+path, strings.Join(slices.Compact(list), "\n"))
}

// TestActionsByRole: pages do not offer actions that the user may not do, and a post of such an action is rejected.
// Apps that the user may not see are not shown.
func TestActionsByRole(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/pay", `{"allow": ["10.0.0.0/8"]}`)
	s.ask("PUT", "/v1/jobs/shop/report", `{"handler": "x"}`)
	s.ask("PUT", "/v1/jobs/pay/salaries", `{"handler": "x"}`)
	offered := regexp.MustCompile(`panel=(?:run|pause|delete)|/console/jobs/new|view=edit|shop/report|pay/salaries`)
	for _, role := range []access.Role{access.Viewer, access.Operator, access.Editor} {
		name := string(role)
		s.person(name, access.Grant{App: "shop", Role: role})
		s.logInAs(name)
		s.offers(name, "/console/jobs", offered)
		s.offers(name, "/console/jobs/shop/report", offered)
		s.gets("/console/jobs/pay/salaries", http.StatusNotFound)
		answers := ""
		for _, act := range []string{"shop/report/pause", "pay/salaries/pause", "pay/salaries/delete", "shop/report/delete"} {
			w := s.post("/console/jobs/"+act, url.Values{"reason": {"why"}, "name": {path.Dir(act)}})
			answers += fmt.Sprintln(act, w.Code)
		}
		many := url.Values{"verb": {"pause"}, "which": {"picked"}, "pick": {"pay/salaries"}, "reason": {"why"}}
		s.equal(name+" posts", answers+fmt.Sprintln("bulk", s.post("/console/jobs/bulk", many).Code))
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
	s := goldenConsole(t)
	s.ask("PUT", "/v1/apps/shop", `{"executors": ["http://10.0.0.7:9999"]}`)
	s.ask("PUT", "/v1/channels/team", `{"webhook": {"url": "https://hooks.example/x"}}`)
	s.ask("PUT", "/v1/jobs/shop/report", `{"handler": "x"}`)
	s.person("vic", access.Grant{App: "shop", Role: access.Viewer})
	s.person("opa", access.Grant{App: "shop", Role: access.Operator})
	s.person("edi", access.Grant{Role: access.Editor})
	s.person("sam", access.Grant{Role: access.Editor, Rights: []access.Right{access.Secrets}})
	offered := regexp.MustCompile(`/console/[a-z/]*\?panel=[a-z]+|value="test"|runs/clean|system#letters|id="letters"|console/users`)
	for _, name := range []string{"vic", "opa", "edi", "sam"} {
		s.logInAs(name)
		for _, page := range []string{"executors/shop", "executors", "notifications", "notifications/team", "system", "find",
			"find?text=pause+report"} {
			s.offers(name, "/console/"+page, offered)
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
		for _, path := range []string{"/console/executors?panel=new", "/console/executors/shop?panel=edit"} {
			form := fields(cutOut(s.says(path), "<dialog", "</dialog>"))
			s.equal(name+" "+path, strings.Join(slices.Sorted(maps.Keys(form)), " "))
		}
		rev := cutOut(s.page, `name="rev" value="`, `"`)
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
