package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestSpansOfRecords: all durations of a record are formatted, and nothing else in it changes.
func TestSpansOfRecords(t *testing.T) {
	r := core.JobRecord{Rev: 1795399384725, Grace: 10 * time.Minute, Deadline: 36 * time.Hour,
		Schedule: core.Schedule{Jitter: 5 * time.Second},
		Def: &core.Def{Name: "ab", Params: "600000000000", Timeout: 90 * time.Second, LostAfter: time.Hour,
			Retry: core.Retry{Max: 2, Delay: 1500 * time.Millisecond}}}
	got := string(spans(json.RawMessage(r.String()), reflect.TypeFor[core.JobRecord]()))
	for _, want := range []string{`"grace":"10m"`, `"deadline":"1d12h"`, `"timeout":"1m30s"`, `"lostAfter":"1h"`, `"delay":"1s500ms"`,
		`"jitter":"5s"`, `"rev":1795399384725`, `"params":"600000000000"`, `"name":"ab"`, `"max":2`} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %s in %s", want, got)
		}
	}
	app := core.AppRecord{Name: "a", WaitForExecutor: 10 * time.Minute}
	b, err := json.Marshal(app)
	check.OK(t, err)
	check.Contains(t, string(spans(b, reflect.TypeFor[core.AppRecord]())), `"waitForExecutor":"10m"`)
	for _, odd := range []string{"", "null", "7", `{"later":{"x":1}}`} {
		if got := strings.TrimSpace(string(spans(json.RawMessage(odd), reflect.TypeFor[core.JobRecord]()))); got != odd {
			t.Errorf("%s became %s", odd, got)
		}
	}
}

// TestExecutorsHaveALineEach: a rejected address has no second line beside its own.
func TestExecutorsHaveALineEach(t *testing.T) {
	now := time.Now()
	all := &client.ExecutorList{
		Executors: []client.Executor{{App: "a", Address: "http://live", Live: true, Used: true, BeatAt: now, ClockAheadMs: new(int64(-40_000))},
			{App: "a", Address: "http://doubtful", Live: true, Used: true, BeatAt: now.Add(-time.Minute)}},
		Refused: []client.RefusedExecutor{{App: "a", Address: "http://live", From: "10.0.0.1", At: now.Add(-time.Minute)},
			{App: "a", Address: "http://doubtful", From: "10.0.0.2", At: now}, {App: "a", Address: "http://other", From: "10.0.0.3", At: now},
			{App: "b", Address: "http://live", From: "10.0.0.4", At: now}}}
	rows := executorRows(&Env{}, all)
	if len(rows) != 5 {
		t.Fatalf("%q", rows)
	}
	if !strings.HasSuffix(rows[1][2], ", its clock 40 s behind") {
		t.Error(rows[1][2])
	}
	for i, want := range []string{"", "live, last heartbeat", "rejected", "rejected", "rejected"} {
		if state := rows[i][2]; i > 0 && (!strings.Contains(state, want) || i == 1 && strings.Contains(state, "rejected") ||
			i == 2 && !strings.Contains(state, "live")) {
			t.Errorf("%q", rows[i])
		}
	}
}
