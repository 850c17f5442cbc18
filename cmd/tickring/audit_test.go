package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/server"
)

// TestAuditSaysWhatIsNotWell: what is overdue is named and is no success, also
// where nothing is unaccounted for; what is out of reach is only said.
func TestAuditSaysWhatIsNotWell(t *testing.T) {
	at := time.Date(2026, 11, 20, 12, 10, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		a    api.Audit
		code int
		says []string
	}{
		"well": {api.Audit{Demanded: 3, OnTime: 3, Jobs: 1}, exitDone, []string{"0 pending, 0 unaccounted for\n"}},
		"overdue": {api.Audit{Demanded: 3, OnTime: 2, Overdue: 1, Jobs: 1, Missing: []api.JobAudit{{Job: "shop/sweep", Overdue: 1, Waiting: []time.Time{at}}}},
			exitFailed, []string{"0 pending, 1 overdue, 0 unaccounted for\n", "overdue: shop/sweep", "tickring run shop/sweep@2026-11-20T12:10:00Z"}},
		"behind a message": {api.Audit{Demanded: 3, OnTime: 2, Unaccounted: 1, Jobs: 1, Behind: at, Missing: []api.JobAudit{{Job: "shop/sweep", Unaccounted: 1, Missing: []time.Time{at}}}},
			exitFailed, []string{"1 unaccounted for\n", "unaccounted for: shop/sweep", "12:10:00", "a message that is still on its way"}},
		"out of reach": {api.Audit{Demanded: 3, OnTime: 2, OutOfReach: 1, Jobs: 1}, exitDone, []string{"0 pending, 1 out of reach, 0 unaccounted for\n", "kept no more"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(server.HeaderVersion, "test")
				w.Header().Set("Content-Type", "application/json")
				answer(w, c.a)
			}))
			defer s.Close()
			var out, errs bytes.Buffer
			env := map[string]string{"TICKRING_ENDPOINT": s.URL, "TICKRING_TOKEN": "sesame"}
			code := Main(t.Context(), []string{"audit"}, strings.NewReader(""), &out, &errs, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, errs.String())
			}
			for _, says := range c.says {
				if !strings.Contains(out.String(), says) {
					t.Errorf("it does not say %q:\n%s", says, out.String())
				}
			}
		})
	}
}
