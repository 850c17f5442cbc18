package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/notify"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// Limits of the console's cost with 300 jobs, in read units.
const (
	pageUnits = 60
	pollUnits = 1
	month     = 30 * 24 * time.Hour
)

// browser is an open tab of the console over the fakes.
type browser struct {
	t      *testing.T
	db     *fakeaws.DynamoDB
	queues *fakeaws.SQS
	h      http.Handler
	cookie *http.Cookie
}

// ask makes one request and returns the response and its cost.
func (b *browser) ask(method, path, since string) (w *httptest.ResponseRecorder, used fakeaws.Units, requests int) {
	b.t.Helper()
	b.db.Units()
	b.queues.Units()
	r := httptest.NewRequest(method, "http://x"+path, nil)
	r.AddCookie(b.cookie)
	r.Header.Set("X-Since", since)
	w = httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	if w.Code >= 400 {
		b.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	for _, n := range b.queues.Units().Requests {
		requests += n
	}
	return w, b.db.Units(), requests
}

// newBrowser logs in where 300 jobs of 5 apps fire each minute, each at a second of its own, and had ten runs each:
// of the first three jobs the last ones failed.
func newBrowser(t *testing.T) *browser {
	db, queues := fakeaws.New(t.Errorf)
	data, err := dynamo.New(db, queues, dynamo.Options{Names: fakeaws.Names})
	check.OK(t, err)
	ok := func(errs ...error) { t.Helper(); check.OK(t, errs...) }
	ctx, now := t.Context(), time.Now().Truncate(time.Minute)
	ok(data.PutGlobal(ctx, 0, core.Global{Partitions: 1, Readable: 1, Rev: 1}))
	var jobs []core.Job
	var puts []store.JobPut
	for i := range 300 {
		app := fmt.Sprintf("app-%d", i%5)
		if i < 5 {
			ok(data.PutApp(ctx, 0, core.App{Name: app, Rev: 1}, core.Change{ID: 1, App: app}))
		}
		j := core.Job{Def: core.Def{ID: core.JobID(i + 1), App: app, Name: fmt.Sprintf("nightly-report-%d", i), Title: "Sums up what was sold",
			Handler: "report", Author: "ann@example.com", Labels: map[string]string{"team": "sales"}, Created: now}}
		j.Sched = core.Sched{ID: j.Def.ID, App: app, State: core.Started, Rev: 1_760_000_000_000, RevAt: now, Next: core.InstantOf(now) + 600,
			PlanAt:   core.InstantOf(now) + 300,
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindCron, Expr: fmt.Sprintf("%d * * * * ?", i%60)}}, Timezone: "Europe/Berlin"}}
		j.Normalize()
		jobs = append(jobs, j)
		puts = append(puts, store.JobPut{Create: &j})
	}
	ok(data.Jobs.Put(ctx, puts)...)
	var runs []core.Run
	var ends []core.RunPut
	for i := range jobs {
		for k := range 10 {
			at := core.InstantOf(now) - core.Instant(60*k+300)
			id := core.PlannedRun(jobs[i].Def.ID, at)
			runs = append(runs, core.Run{ID: id, App: jobs[i].Def.App, State: core.Running, Cause: core.CauseSchedule, Rev: 1_760_000_000_000,
				At: at, Slot: at, Owner: "nonce-1234567890", Address: "https://example.com/", SentAt: at.Time(), Attempt: 1,
				Journal: core.JournalKey{Minute: int64(at) / 60, Nonce: "nonce-1234567890"}})
		}
	}
	ok(data.CreateRuns(ctx, runs)...)
	for i := range runs {
		end := core.Run{State: core.Succeeded, Code: 200, Message: "done", EndedAt: runs[i].SentAt.Add(time.Second)}
		if runs[i].ID.Job() <= 3 {
			end.State, end.Reason = core.Failed, core.ReasonHandler
		}
		put := core.End(runs[i].ID, end)
		put.Seen = &runs[i]
		ends = append(ends, put)
	}
	ok(data.ChangeRuns(ctx, ends)...)
	ok(data.PutJournal(ctx, core.Journal{Key: core.JournalKey{Minute: now.Unix()/60 - 5, Nonce: "n"}, V: 1}))
	c := &lambdaboot.Config{AdminToken: "function-admin-token", Deployment: "eu-west-1/nightly", Plan: plan.AWS()}
	log := slog.New(slog.DiscardHandler)
	e := data.Store
	b := &browser{t: t, db: db, queues: queues, h: wire(c, e, doorOf(c, e, log), notify.Options{})}
	form := strings.NewReader(url.Values{"token": {c.AdminToken}}.Encode())
	r := httptest.NewRequest(http.MethodPost, "http://x/console/login", form)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	in := httptest.NewRecorder()
	b.h.ServeHTTP(in, r)
	for _, k := range in.Result().Cookies() {
		if strings.Contains(k.Name, "session") {
			b.cookie = k
		}
	}
	return b
}

// TestConsoleUnits compares the costs of pages with 300 jobs with their bounds and with docs/reference/aws-cost.md. An open tab costs
// less than a dollar a month.
func TestConsoleUnits(t *testing.T) {
	synctest.Test(t, consoleUnits)
}

func consoleUnits(t *testing.T) {
	time.Sleep(30 * time.Minute) // into the hour of the newest journal
	doc, err := os.ReadFile("../../docs/reference/aws-cost.md")
	check.OK(t, err)
	says := func(row string, args ...any) {
		t.Helper()
		if row = fmt.Sprintf(row, args...); !strings.Contains(string(doc), row+"\n") {
			t.Errorf("docs/reference/aws-cost.md does not say\n%s", row)
		}
	}
	b := newBrowser(t)
	ms := func(w *httptest.ResponseRecorder) time.Duration {
		n, err := strconv.Atoi(w.Header().Get("X-Ask-Again"))
		check.NoError(t, err)
		return time.Duration(n) * time.Millisecond
	}
	run := core.PlannedRun(1, core.InstantOf(time.Now().Truncate(time.Minute))-300)
	for _, page := range []struct{ name, path string }{{"Overview", ""}, {"Jobs", "jobs"}, {"Upcoming", "upcoming"},
		{"Executors", "executors"}, {"", "jobs/app-0/nightly-report-0"}, {"", "jobs/app-0/nightly-report-0/audit-log"}, {"", "jobs?status=late"},
		{"", "jobs?sort=last"}, {"", "runs"}, {"", "runs?shape=1"}, {"", "runs/" + run.String()}, {"", "executors/app-0"}, {"", "lateness"},
		{"", "reports"}, {"", "notifications"}, {"", "scripts"}, {"", "audit-log"}, {"", "users"}, {"", "system"}, {"", "account"},
		{"", "keys"}} {
		w, u, requests := b.ask("GET", "/console/"+page.path, "")
		if page.name != "" && u.Read > pageUnits {
			t.Errorf("%s takes %v read units: %v", page.name, u.Read, u.Requests)
		}
		// Once a minute, a request for a page updates its session in a transaction.
		made := price{reads: u.Read, writes: u.Write + u.Index + 2, queues: float64(requests), calls: 1, seconds: pageSeconds}
		_, since, _ := strings.Cut(w.Body.String(), `data-since="`)
		_, newest, _ := strings.Cut(since[:strings.Index(since, `"`)], "@")
		var idle, busy price
		idle.add(made)
		age := ms(w)
		busy = made
		busy.add(price{reads: pollUnits, calls: 1, seconds: pollSeconds})
		busy = busy.times(int(month / age))
		for polled := http.StatusNoContent; polled == http.StatusNoContent; {
			p, u, _ := b.ask("HEAD", "/console/live", fmt.Sprintf("%d@%s", time.Now().Add(-age).Unix(), newest))
			if u.Read > pollUnits || u.Write > 0 {
				t.Errorf("a poll takes %v read and %v write units", u.Read, u.Write)
			}
			idle.add(price{reads: u.Read, calls: 1, seconds: pollSeconds})
			if polled = p.Code; polled == http.StatusNoContent {
				age += ms(p)
			}
		}
		idle = idle.times(int(month / age))
		if idle.dollars() > 1 || busy.dollars() > 1 {
			t.Errorf("/console/%s left open costs $%.2f, or where jobs fire $%.2f a month", page.path, idle.dollars(), busy.dollars())
		}
		if page.name == "" {
			t.Logf("%s: %g units, $%.2f, $%.2f", page.path, u.Read, idle.dollars(), busy.dollars())
			continue
		}
		says("| %s | %g | $%.2f | $%.2f |", page.name, u.Read, idle.dollars(), busy.dollars())
	}
}

// How long a function of 256 MB is taken to be at a page, and at a poll.
const pageSeconds, pollSeconds = 0.3, 0.03

// price counts the units that AWS charges for.
type price struct{ reads, writes, queues, calls, seconds float64 }

func (p *price) add(o price) {
	*p = price{p.reads + o.reads, p.writes + o.writes, p.queues + o.queues, p.calls + o.calls, p.seconds + o.seconds}
}

func (p price) times(n int) price {
	f := float64(n)
	return price{f * p.reads, f * p.writes, f * p.queues, f * p.calls, f * p.seconds}
}

// dollars uses the prices of docs/reference/aws-cost.md.
func (p price) dollars() float64 {
	return (p.reads*0.125+p.writes*0.625+p.queues*0.40+p.calls*0.20)/1e6 + p.seconds/4*0.0000133334
}
