package main

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/lambdatest"
	"github.com/tickring/tickring/internal/testkit/memory"
)

func TestRegistrations(t *testing.T) {
	e := memory.Open(t, memory.Options{})
	check.OK(t, e.PutApp(t.Context(), 0, core.App{Name: "billing", Token: "executor-token", Rev: 1},
		core.Change{ID: 1, App: "billing"}))
	// A private address needs a network that is allowed: its environment names them.
	narrow, wide := safedial.Policy{}, safedial.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	// ask sends a modified document and returns the reply; code 200 means that it is stored.
	ask := func(p safedial.Policy, name string, replace ...string) string {
		t.Helper()
		log := slog.New(slog.DiscardHandler)
		status, body := lambdatest.Request(t, lambdaboot.HTTP(wire(&lambdaboot.Config{Policy: p}, e, log), log), name, replace...)
		check.Equal(t, status, 200, "%s", body)
		return body
	}
	there := func() int {
		t.Helper()
		list, err := e.Executors(t.Context(), []string{"billing"})
		check.OK(t, err)
		return len(list["billing"])
	}
	if got := ask(narrow, "httpapi.json"); !strings.Contains(got, `"code":500`) || there() != 0 {
		t.Errorf("in no network that is allowed: %s", got)
	}
	for _, c := range []struct {
		what, doc string
		replace   []string
		want      string
		after     int
	}{
		{"another's token", "httpapi.json", []string{"executor-token", "wrong-token"}, `"code":500`, 0},
		{"loopback, with the runtime API", "httpapi.json", []string{"10.0.3.17:9999", "127.0.0.1:9001"}, `"code":500`, 0},
		{"a callback at this endpoint", "httpapi.json", []string{"/prod/api/registry", "/prod/api/callback"}, `"code":500`, 0},
		{"an executor", "httpapi.json", nil, `"code":200`, 1},
		{"its next heartbeat", "httpapi.json", nil, `"code":200`, 1},
		{"its removal", "url.json", nil, `"code":200`, 0},
	} {
		if got := ask(wide, c.doc, c.replace...); !strings.Contains(got, c.want) || there() != c.after {
			t.Errorf("%s: %s, %d registered; want %s, %d", c.what, got, there(), c.want, c.after)
		}
	}
	got, err := e.Queue.Receive(t.Context(), ring.KindCheck, 10)
	if err != nil || len(got) != 1 || got[0].Message.Check.App != "billing" {
		t.Errorf("%d requests to wake the waiting runs, want one for billing: %v", len(got), err)
	}
}
