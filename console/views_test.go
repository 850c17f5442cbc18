package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestViews: a list with its filters is saved under a name, for oneself or for all users. It opens as saved, and its
// owner can delete it.
func TestViews(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "x", "labels": {"team": "a&b"}}`)
	s.never(s.says("/console/jobs"), `id="views"`)
	s.person("vera", access.Grant{Role: access.Viewer})
	s.person("anna", access.Grant{Role: access.Viewer})
	s.logInAs("vera")
	const query = "app=shop&label=team%3Da%26b"
	at := "/console/jobs?" + query
	s.shows("#views", at, "panel=view")
	_, form := hiddenOf(s.get(at + "&after=&panel=view").Body.String())
	if form.Get("query") != query || form.Get("page") != "jobs" {
		t.Fatalf("the panel has %v", form)
	}
	s.shows("dialog", at+"&panel=view")
	typed := func(pairs ...string) url.Values { return with(maps.Clone(form), pairs...) }
	s.done("/console/views", typed("name", "Mine & ours"), `aria-current="true">Mine & ours</a>`,
		"shop/stock")
	s.done("/console/views", typed("name", "Everybody's", "shared", "1"), "Everybody's")
	body := s.get("/console/jobs").Body.String()
	check.Contains(t, body, `href="/console/jobs?app=shop&amp;label=team%3Da%26b">Mine &amp; ours`, "it does not lead where it")
	s.done("/console/views", typed("page", "runs", "query", "failed=1", "name", "Red"), "Red")
	s.never(s.says("/console/jobs"), ">Red<")
	s.wrong("/console/views", typed("name", ""), http.StatusBadRequest, `name="shared"`)
	s.wrong("/console/views", typed("name", strings.Repeat("x", 65)), http.StatusBadRequest, strings.Repeat("x", 65))
	s.wrong("/console/views", typed("name", "x", "page", "//evil.test"), http.StatusBadRequest)

	s.logInAs("anna")
	s.never(s.says("/console/jobs", "Everybody's", "vera"), "Mine & ours")
	s.never(s.shows("dialog", "/console/jobs?panel=view"), `value="delete"`)
	gone := url.Values{"do": {"delete"}, "page": {"jobs"}, "query": {""}, "name": {"Everybody's"}, "shared": {"1"}}
	s.wrong("/console/views", gone, http.StatusForbidden)
	s.wrong("/console/views", typed("name", "Everybody's", "shared", "1", "query", "status=late"), http.StatusConflict)
	s.logInAs("vera")
	s.never(s.done("/console/views", gone), ">Everybody's")
}
