package api_test

import (
	"strings"
	"testing"

	"github.com/tickring/tickring/api/client"
)

// TestBulk: many jobs are counted, paused as one act and resumed by it; a reader may only count.
func TestBulk(t *testing.T) {
	f := newFixture(t)
	f.shop()
	f.must("PUT", "/v1/jobs/shop/second", `{"handler":"x","schedule":{"every":"1h"},"labels":{"tier":"gold"}}`)
	c, ctx := f.c, t.Context()
	dry, err := c.Bulk(ctx, client.BulkRequest{Verb: "pause", Filter: &client.BulkFilter{App: "shop"}, DryRun: true})
	if err != nil || dry.Found != 2 || len(dry.Sample) != 2 || dry.Act != "" {
		t.Errorf("%+v, %v", dry, err)
	}
	res, err := c.Bulk(ctx, client.BulkRequest{Verb: "pause", Filter: &client.BulkFilter{Label: []string{"tier=gold"}}, Reason: "moves"})
	if err != nil || res.Found != 1 || res.Done != 1 || res.Act == "" || res.Next != 0 {
		t.Errorf("%+v, %v", res, err)
	}
	changes, err := c.ListChanges(ctx, client.ListChangesParams{Job: "shop/second", Limit: 1})
	if err != nil || changes.Changes[0].Act != res.Act || changes.Changes[0].Reason != "moves" {
		t.Errorf("%+v, %v", changes, err)
	}
	undone, err := c.Bulk(ctx, client.BulkRequest{Verb: "resume", Undo: res.Act})
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
		`{"verb":"pause","filter":{"is":["odd"]}}`:                     "is",
		`{"verb":"pause","jobs":["shop/report"],"act":"a b"}`:          "act",
		`{"verb":"pause","jobs":["shop/report"],"undo":"act-1"}`:       "jobs",
		`{"verb":"label","jobs":["shop/report"],"labels":{"a b":"c"}}`: "",
	} {
		status, answer := f.ask("POST", "/v1/bulk", body)
		if field != "" && (status != 400 || !strings.Contains(answer, `"field":"`+field+`"`)) || field == "" && !strings.Contains(answer, `"fail":1`) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}
