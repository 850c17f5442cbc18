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

// TestOperating: the page shows doctor's findings and the state of the scheduler. It has actions, among them to pause
// and resume everything.
func TestOperating(t *testing.T) {
	s := goldenConsole(t)
	s.shows("h2,p,dl,.cli", "/console/system")
	s.shows("h2,.s", "/console/system?all=1&jobs=1")
	s.shows("dialog", "/console/system?panel=pause")
	s.wrong("/console/system?panel=pause", url.Values{"do": {"pause"}, "reason": {"kept as typed"}, "until": {"whenever"}},
		http.StatusBadRequest, "whenever", `value="kept as typed"`)
	s.done("/console/system?panel=pause", url.Values{"do": {"pause"}, "reason": {"a move <b>of</b> house"}, "until": {"2h"}},
		"a move <b>of</b> house", "panel=resume")
	s.done("/console/system?panel=resume", url.Values{"do": {"resume"}})
	s.Clock = s.Clock.Add(time.Minute)
	s.never(s.says("/console/system", "panel=pause"), `class="warn"`, "panel=resume")
	s.wrong("/console/system", url.Values{"do": {"explode"}}, http.StatusBadRequest)
}

// TestAuditIsShown: an audit has counts for all jobs and for one job. An invalid request shows an error.
func TestAuditIsShown(t *testing.T) {
	s := goldenConsole(t)
	s.ask("PUT", "/v1/jobs/shop/stock", `{"handler": "stock", "schedule": {"every": "1m"}}`)
	s.Clock = s.Clock.Add(time.Hour)
	s.shows("tr", "/console/system?audit=24h", "panel=replan", "shop/stock",
		`<span class="s fail">overdue</span></td><td class="num">45</td>`)
	s.shows(".hint", "/console/system?audit=24h&job=shop/stock")
	s.shows("[role=alert]", "/console/system?audit=24h&job=shop/none")
	for _, span := range []string{"soon", "-3h", "400d", "99999999999999999d"} {
		s.shows("[role=alert]", "/console/system?audit="+span)
	}
	s.done("/console/system?panel=replan", url.Values{"do": {"replan"}, "from": {"24h"}})
	s.shows("tr", "/console/system?audit=24h")
	s.wrong("/console/system?panel=replan", url.Values{"do": {"replan"}, "from": {"long ago"}, "job": {"shop/stock"}},
		http.StatusBadRequest, "long ago", `value="shop/stock"`)
}

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
