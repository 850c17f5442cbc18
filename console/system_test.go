package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestAuditSaysNoMoreThanItKnows: the page reports that no run is missing only if everything was checked. Users who
// may not resend missing runs see only their number.
func TestAuditSaysNoMoreThanItKnows(t *testing.T) {
	s := goldenConsole(t)
	s.person("ann", access.Grant{Role: access.Viewer})
	answer := ""
	s.stub("/v1/audit", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) })
	for _, who := range []string{"admin", "viewer"} {
		if who == "viewer" {
			s.logInAs("ann")
		}
		for _, answer = range []string{`{"jobs": 3}`, `{"jobs": 3, "unaccounted": 7}`, `{"jobs": 3, "failed": ["shop/a: cannot be read"]}`,
			`{"jobs": 3, "partial": true}`} {
			s.says("/console/system?audit=24h")
			table := cutOut(s.page, `id="audit"`, "</table>")
			s.equal(who+" "+answer, textOf(t, "<table>"+table[strings.LastIndex(table, "<tr>"):], "td"))
		}
	}
}

// TestDeadLetters: each message is listed with its reason, can be resent or deleted, and its content is shown as
// text.
func TestDeadLetters(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "schedule": {"every": "1m"}}`)
	s.ask("PUT", "/v1/jobs/shop/gone", `{"handler": "gone", "schedule": {"every": "1m"}}`)
	at := core.InstantOf(s.Clock.Truncate(time.Minute))
	for _, name := range []string{"shop/stock", "shop/gone"} {
		job, err := s.M.Job(t.Context(), name)
		check.OK(t, err)
		f := core.Fire{Run: core.PlannedRun(job.Def.ID, at), Rev: job.Sched.Rev, At: at, Slot: at, Cause: core.CauseSchedule}
		m := ring.Message{Kind: ring.KindFires, Slot: at, Fires: []core.Fire{f}}
		check.OK(t, s.E.Queue.Bury(t.Context(), m, "received <b>too often</b>"))
	}
	s.ask("DELETE", "/v1/jobs/shop/gone", "")
	s.shows("#letters,.rows", "/console/system", "received <b>too often</b>", "panel=redrive", "panel=drop")
	s.done("/console/system?panel=redrive", url.Values{"do": {"redrive"}})
	s.done("/console/system?panel=drop", url.Values{"do": {"drop"}, "unread": {"1"}})
	s.compare("no letters are left", ".muted")
}
