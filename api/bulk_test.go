package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
)

// TestBulk: many jobs are counted, then paused and resumed as one operation. A reader may only count.
func TestBulk(t *testing.T) {
	f := newFixture(t)
	f.shop()
	f.must("PUT", "/v1/jobs/shop/second", `{"handler":"x","schedule":{"every":"1h"},"labels":{"tier":"gold"}}`)
	c, ctx := f.c, t.Context()
	dry, err := c.Bulk(ctx, client.BulkRequest{Verb: "pause", Filter: &client.BulkFilter{App: "shop"}, DryRun: true})
	if err != nil || dry.Found != 2 || len(dry.Sample) != 2 || dry.Operation != "" {
		t.Errorf("%+v, %v", dry, err)
	}
	res, err := c.Bulk(ctx, client.BulkRequest{Verb: "pause", Filter: &client.BulkFilter{Label: []string{"tier=gold"}}, Reason: "moves"})
	if err != nil || res.Found != 1 || res.Done != 1 || res.Operation == "" || res.Next != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	changes, err := c.ListChanges(ctx, client.ListChangesParams{Job: "shop/second", Limit: 1})
	if err != nil || changes.Changes[0].Operation != res.Operation || changes.Changes[0].Reason != "moves" {
		t.Errorf("%+v, %v", changes, err)
	}
	undone, err := c.Bulk(ctx, client.BulkRequest{Verb: "resume", Undo: res.Operation})
	if err != nil || undone.Done != 1 {
		t.Errorf("%+v, %v", undone, err)
	}
	run, err := c.Bulk(ctx, client.BulkRequest{Verb: "trigger", Jobs: []string{"shop/second", "shop/report"}, Cause: "manual"})
	if err != nil || run.Done != 2 {
		t.Errorf("%+v, %v", run, err)
	}
	for body, field := range map[string]string{
		`{"verb":"odd","jobs":["shop/report"]}`:                        "verb",
		`{"verb":"pause"}`:                                             "jobs",
		`{"verb":"trigger","jobs":["shop/report"],"cause":"retry"}`:    "cause",
		`{"verb":"pause","filter":{"status":["odd"]}}`:                 "status",
		`{"verb":"pause","jobs":["shop/report"],"operation":"a b"}`:    "operation",
		`{"verb":"pause","jobs":["shop/report"],"undo":"act-1"}`:       "jobs",
		`{"verb":"label","jobs":["shop/report"],"labels":{"a b":"c"}}`: "",
	} {
		status, answer := f.ask("POST", "/v1/bulk", body)
		if field != "" && (status != 400 || !strings.Contains(answer, `"field":"`+field+`"`)) || field == "" && !strings.Contains(answer, `"fail":1`) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

// TestBulkCountsWhatItActsOn: the dry run of a user with the permission in some apps counts the jobs of these apps
// alone. For a user without the permission it counts all visible jobs, and the operation itself is rejected.
func TestBulkCountsWhatItActsOn(t *testing.T) {
	texts := golden.New(t)
	both := []string{"shop/report", "pay/bills"}
	for name, c := range map[string]struct {
		grants []access.Grant
		found  map[string]int // by verb; other verbs are rejected
		sees   []string
	}{
		"viewer of all, editor of shop": {[]access.Grant{{Role: viewer}, {App: "shop", Role: editor}},
			map[string]int{"pause": 1, "kill": 1, "label": 1, "delete": 1}, []string{"shop/report"}},
		"viewer of pay, editor of shop": {[]access.Grant{{App: "pay", Role: viewer}, {App: "shop", Role: editor}},
			map[string]int{"pause": 1, "kill": 1, "label": 1, "delete": 1}, []string{"shop/report"}},
		"operator of all": {[]access.Grant{{Role: operator}}, map[string]int{"pause": 2, "kill": 2}, both},
		"viewer of all":   {[]access.Grant{{Role: viewer}}, nil, both},
		"viewer of shop":  {[]access.Grant{{App: "shop", Role: viewer}}, nil, []string{"shop/report"}},
	} {
		f, _ := guardedFixture(t)
		lina := f.person("lina", c.grants...)
		for _, verb := range []string{"pause", "kill", "label", "delete"} {
			body := `{"verb":"` + verb + `","filter":{},"labels":{"a":"b"}`
			var dry, res client.BulkResult
			check.OK(t, json.Unmarshal([]byte(f.expect(t, lina, "POST", "/v1/bulk", body+`,"dryRun":true}`, 200)), &dry))
			want, may := c.found[verb]
			if !may {
				want = len(c.sees)
			}
			if text := strings.Join(dry.Sample, " "); dry.Found != want || want == 1 && text != c.sees[0] {
				t.Errorf("%s, %s: of a dry run %d, %s", name, verb, dry.Found, text)
			}
			if !may {
				text := f.expect(t, lina, "POST", "/v1/bulk", body+"}", 403)
				texts.Equal(t, name+", "+verb, errorOf(t, text).Message)
				continue
			}
			if err := json.Unmarshal([]byte(f.expect(t, lina, "POST", "/v1/bulk", body+"}", 200)), &res); err != nil ||
				res.Found != want || res.Done+res.Same != want {
				t.Errorf("%s, %s: %+v, %v", name, verb, res, err)
			}
		}
	}
}
