package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/lambdatest"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
)

const run = core.RunID(30282209332) // of the documents

func open(t *testing.T) *store.Store {
	t.Helper()
	e := memory.Open(t, memory.Options{})
	check.OK(t, e.PutApp(t.Context(), 0, core.App{Name: "billing", Token: "executor-token", Rev: 1},
		core.Change{ID: 1, App: "billing"}))
	at, _ := run.Planned()
	check.OK(t, e.CreateRuns(t.Context(),
		[]core.Run{{ID: run, App: "billing", State: core.Running, Owner: "o", Address: "http://10.0.3.17:9999", Cause: core.CauseSchedule, At: at,
			Slot: at, Attempt: 1, First: run}})[0])
	return e
}

func keyOf(t *testing.T, c *lambdaboot.Config) []byte {
	t.Helper()
	key, err := c.ReportKey(t.Context())
	check.OK(t, err)
	return key
}

func state(t *testing.T, e *store.Store) core.State {
	t.Helper()
	return memory.Run(t, e, run).State
}

// ask sends a document, changed, and answers status and body.
func ask(t *testing.T, c *lambdaboot.Config, e *store.Store, name string, replace ...string) (int, string) {
	t.Helper()
	return lambdatest.Request(t, wire(c, e, nil, slog.New(slog.DiscardHandler)), name, replace...)
}

func TestCallbacks(t *testing.T) {
	for _, doc := range []string{"httpapi.json", "url.json"} {
		e := open(t)
		if _, body := ask(t, &lambdaboot.Config{}, e, doc, "executor-token", "wrong-token"); !strings.Contains(body, `"code":500`) ||
			state(t, e) != core.Running {
			t.Errorf("%s with another's token: %s, the run is %s", doc, body, state(t, e))
		}
		for range 2 { // a second report of a closed run is well
			if status, body := ask(t, &lambdaboot.Config{}, e, doc); status != 200 || !strings.Contains(body, `"code":200`) ||
				state(t, e) != core.Succeeded {
				t.Errorf("%s: %d %s, the run is %s", doc, status, body, state(t, e))
			}
		}
		if _, body := ask(t, &lambdaboot.Config{}, e, doc, "api/callback", "api/registry"); !strings.Contains(body, `"code":500`) {
			t.Errorf("a registration at this endpoint: %s", body)
		}
	}
}

func TestReports(t *testing.T) {
	var told bytes.Buffer
	c := &lambdaboot.Config{AdminToken: "function-admin-token", Metrics: lambdaboot.NewMetrics("Tickring-Scheduler", &told)}
	e := open(t)
	report := func(key, body string) (int, string) {
		return ask(t, c, e, "httpapi.json", "/prod/api/callback", fmt.Sprintf("/prod/v1/report/%d", run), `"rawQueryString": ""`,
			`"rawQueryString": "key=`+key+`"`,
			`"body": "[{`, `"body": "`+body+`", "was": "[{`)
	}
	if status, body := report("forged", ""); status != 401 || state(t, e) != core.Running {
		t.Errorf("a forged key: %d %s, the run is %s", status, body, state(t, e))
	}
	key := send.ReportSignature(keyOf(t, c), run)
	if status, body := report(key, `{\"state\":\"boredom\"}`); status != 400 || state(t, e) != core.Running {
		t.Errorf("no such state: %d %s, the run is %s", status, body, state(t, e))
	}
	if status, body := report(key, `{\"data\":\"`+strings.Repeat("d", core.DataMax+1)+`\"}`); status != 413 || state(t, e) != core.Running {
		t.Errorf("too much data: %d %s, the run is %s", status, body, state(t, e))
	}
	for range 2 {
		if status, body := report(key, `{\"state\":\"failed\",\"message\":\"no disk\",\"data\":\"sda1\"}`); status != 200 ||
			state(t, e) != core.Failed {
			t.Errorf("a report: %d %s, the run is %s", status, body, state(t, e))
		}
	}
	if strings.Count(told.String(), `"Failed":1`) != 1 || strings.Count(told.String(), `"Refused":1`) != 3 ||
		strings.Count(told.String(), "\n") != 4 {
		t.Errorf("of a forged key, two reports that cannot be used and a failure that came twice the metrics say %q", told.String())
	}
	check.Equal(t, memory.Run(t, e, run).Data, "sda1", "data")
	c = &lambdaboot.Config{}
	if status, body := report(key, ""); status != 404 {
		t.Errorf("without an admin token no report was asked for: %d %s", status, body)
	}
}
