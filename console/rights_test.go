package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tickring/tickring/core/access"
)

// TestActionsByRole: what somebody may not do is not offered, and refused where it is posted
// all the same; of an app that he may not see nothing is shown.
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
		if w := s.logInAs(c.name); w.Code != http.StatusSeeOther {
			t.Fatalf("%s: %d", c.name, w.Code)
		}
		body := s.says("/console/jobs", "shop/report") + s.says("/console/jobs/shop/report")
		for text, is := range map[string]bool{"Run now…": c.operate, "Pause…": c.operate, "Delete…": c.edit, "New job": c.edit,
			"view=edit": c.edit, "pay/salaries": false} {
			if strings.Contains(body, text) != is {
				t.Errorf("%s is shown %q: %t", c.name, text, !is)
			}
		}
		if w := s.get("/console/jobs/pay/salaries"); w.Code != http.StatusNotFound {
			t.Errorf("%s sees a job of another app: %d", c.name, w.Code)
		}
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
