package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestWhereChangesComeFrom: each record has the address of the caller, and the kind of token or session unless its
// author implies it. Headers of the request cannot set them.
func TestWhereChangesComeFrom(t *testing.T) {
	f := newFixture(t)
	ask := func(who *access.Who, secret, method, path, body string) string {
		t.Helper()
		r := httptest.NewRequest(method, path, strings.NewReader(body)) // from 192.0.2.1
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("X-Forwarded-For", "203.0.113.200")
		if who != nil {
			r = r.WithContext(api.As(context.Background(), *who))
		}
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	must := func(method, path, body string) string { t.Helper(); return ask(nil, token, method, path, body) }
	must("PUT", "/v1/apps/shop", `{"token":"secret-token","executors":["http://10.0.0.1:9999"],"allow":["10.0.0.0/8"]}`)
	must("PUT", "/v1/apps/shop", `{"title":"Shop"}`)
	must("PUT", "/v1/jobs/shop/report", `{"handler":"report","schedule":{"cron":"0 30 2 * * ?"}}`)
	must("PUT", "/v1/jobs/shop/report", `{"handler":"report","schedule":{"cron":"0 30 3 * * ?"}}`)
	must("PUT", "/v1/jobs/shop/script", `{"script":{"kind":"shell","source":"id"}}`)
	must("PUT", "/v1/jobs/shop/script/script", `{"kind":"shell","source":"id -u"}`)
	ask(nil, "secret-token", "PUT", "/v1/jobs/shop/coded", `{"declared":true,"handler":"coded"}`)
	must("DELETE", "/v1/jobs/shop/coded", "")
	must("POST", "/v1/jobs/shop/coded/return-to-code", "")
	for _, what := range []string{"/v1/jobs/shop/report", "/v1/apps/shop", "/v1"} {
		must("POST", what+"/pause", `{"reason":"r"}`)
		must("POST", what+"/resume", `{}`)
	}
	must("POST", "/v1/bulk", `{"verb":"label","filter":{"app":"shop"},"labels":{"a":"b"}}`)
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	must("POST", "/v1/jobs/shop/report/trigger", fmt.Sprintf(`{"key":"k","at":%q,"cause":"manual"}`, at))
	must("PATCH", "/v1/jobs/shop/report/waiting/k", `{"params":"p"}`)
	must("DELETE", "/v1/jobs/shop/report/waiting/k", "")
	must("POST", "/v1/rerun", `{"job":"shop/report","key":"again"}`)
	must("POST", "/v1/jobs/shop/report/kill", "")
	must("POST", "/v1/apply", `{"notify":{"to":[]}}`)
	must("PUT", "/v1/users/otto", `{"grants":[{"role":"admin"}]}`)
	must("PUT", "/v1/users/otto", `{"disabled":true}`)
	must("DELETE", "/v1/users/otto", "")
	must("DELETE", "/v1/jobs/shop/script", "")
	must("DELETE", "/v1/jobs/shop/report", "")
	must("DELETE", "/v1/apps/shop", "")
	ask(nil, f.person("rita", access.Grant{Role: editor}), "PUT", "/v1/apps/by-token", "{}")
	ask(&access.Who{Kind: access.Person, Name: "sara", From: "2001:db8::7", Grants: []access.Grant{{Role: editor}}}, token,
		"PUT", "/v1/apps/by-session", "{}")

	list, err := f.c.ListChanges(t.Context(), client.ListChangesParams{Limit: 1000})
	check.OK(t, err)
	left := []string{core.VerbCreated, core.VerbUpdated, core.VerbPaused, core.VerbResumed, core.VerbDeleted, core.VerbTriggered,
		core.VerbChanged, core.VerbCancelled, core.VerbActed} // a kill is recorded as a cancel
	for _, c := range list.Changes {
		from, via := "192.0.2.1", ""
		switch {
		case c.User == "ann" || c.User == "rita": // made by the fixture, in this process
			continue
		case c.App == "by-token":
			via = "token:t"
		case c.App == "by-session":
			from, via = "2001:db8::7", "session"
		}
		if c.From != from || c.Via != via {
			t.Errorf("%s %s %s%s%s came from %q by %q", c.By, c.Verb, c.Job, c.Channel, c.User, c.From, c.Via)
		}
		left = slices.DeleteFunc(left, func(verb string) bool { return verb == c.Verb })
	}
	if len(left) > 0 {
		t.Errorf("nothing was %s", left)
	}
}

// TestChangesAreFound: pages have each change once, and a user of some apps gets only the changes in these apps.
// TestStories has the filters.
func TestChangesAreFound(t *testing.T) {
	f := newFixture(t)
	f.shop()
	f.must("PUT", "/v1/apps/pay", `{}`)
	f.must("POST", "/v1/jobs/shop/report/pause", `{"reason":"r"}`)
	list := func(secret, query string) (page client.ChangeList) {
		t.Helper()
		_, answer := f.as(secret, "GET", "/v1/changes?"+query, "")
		check.OK(t, json.Unmarshal([]byte(answer), &page))
		return page
	}
	all := list(token, "")
	var paged []client.Change
	for after := ""; ; {
		page := list(token, "limit=1&after="+after)
		paged = append(paged, page.Changes...)
		if after = page.Next; after == "" || len(paged) > len(all.Changes) {
			break
		}
	}
	if !reflect.DeepEqual(paged, all.Changes) {
		t.Errorf("one by one: %+v, all: %+v", paged, all.Changes)
	}
	secret := f.person("vera", access.Grant{App: "shop", Role: viewer}, access.Grant{App: "web", Role: viewer})
	if hers := list(secret, "limit=1000").Changes; len(hers) != 4 { // two apps, a job, its pause
		t.Errorf("of vera's apps: %+v", hers)
	}
	if others := list(secret, "user=ann").Changes; len(others) != 0 {
		t.Errorf("of a user whom vera cannot see: %+v", others)
	}
}
