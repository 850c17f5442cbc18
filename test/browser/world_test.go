package browser

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/waiting"
	"github.com/tickring/tickring/test/harness"
)

// A world is a server with jobs and runs of every kind, and executors that tests control.
type world struct {
	*harness.Server
	runs map[string]string // run IDs by the state that they show

	mu       sync.Mutex
	held     map[string]hold // what jobs wait for, by their params
	all      context.Context // the parent of these
	letAllGo context.CancelFunc
}

// hold ends when the runs that wait for it may go on.
type hold struct {
	context.Context
	end context.CancelFunc
}

// token of the app that has an executor.
const shopToken = "token-of-the-shop"

// nasty is the value of every text field: if a page renders it as anything but text, it changes the page's title.
const nasty = `<img src=x onerror="document.title='broken'"><script>document.title='broken'</script>'"&lt;`

const worldJobs = `
version: 1
set: finance-prod
channels:
  - {name: oncall, webhook: {url: "http://127.0.0.1:9/t"}}
apps:
  - {name: shop, title: The shop, token: ` + shopToken + `, waitForExecutor: 1s}
  - {name: pay, executors: ["call:PAY"], limits: {inFlight: 50}}
  - {name: reports, title: 报表, token: another-token, allow: [127.0.0.0/8]}
  - {name: legacy, executors: ["http://127.0.0.1:9"]}
jobs:
  - {app: shop, name: prices, title: Price list, handler: fine, schedule: {every: 1h}, labels: {team: shop}, author: lina}
  - {app: shop, name: stock, title: Stock levels, handler: fine, schedule: {every: 10m, offset: 0s}, params: "warehouse=7"}
  - {app: shop, name: import, title: Import of what the suppliers send, handler: held, labels: {team: shop}}
  - {app: shop, name: rebuild, title: Search index, handler: held}
  - {app: shop, name: lines, title: Writes a long log, handler: lines}
  - {app: shop, name: strange, title: "Writes colors, and what is no text", handler: strange}
  - {app: shop, name: thumbnails, title: Thumbnails, handler: fine, after: [{job: shop/prices, when: succeeded}]}
  - {app: shop, name: cleanup, title: Old carts, handler: fine, schedule: {crontab: "0 4 * * 0", timezone: Europe/Berlin}, paused: true}
  - {app: shop, name: once, title: Once, handler: fine, schedule: {at: 2037-01-01T01:00:00+01:00}}
  - {app: shop, name: burst-a, handler: fine, schedule: {crontab: "30 2 * * *", timezone: Asia/Shanghai}}
  - {app: shop, name: burst-b, handler: fine, schedule: {crontab: "30 2 * * *", timezone: Asia/Shanghai}}
  - {app: shop, name: nasty, title: 'NASTY', handler: 'fine', author: 'NASTY', params: 'NASTY', labels: {note: 'x'}}
  - {app: pay, name: ledger-sync, title: Ledger to bank, handler: POST /fails, schedule: {every: 1h},
     retry: {max: 1, delay: 1s}, notify: {to: [oncall], on: [failed]}}
  - {app: pay, name: invoices, title: Invoices, handler: POST /fine, schedule: {crontab: "0 9 * * 1-5", timezone: Europe/Berlin}}
  - {app: pay, name: salaries, title: Salaries, handler: POST /fine, schedule: {crontab: "30 2 28 * *", timezone: Europe/Berlin}}
  - {app: reports, name: nightly, title: 每日报表, handler: nightlyReport, author: 张伟,
     schedule: {cron: "0 30 2 * * ?", timezone: Asia/Shanghai}}
  - {app: reports, name: script, title: A script, script: {kind: shell, source: "echo '<b>bold</b>'\nexit 0\n", note: first}}
  - {app: legacy, name: old, title: Nobody is there, handler: old, schedule: {crontab: "15 3 * * *", timezone: UTC}}
`

// newWorld starts a world. Its earlier runs exist when it returns.
func newWorld(tb testing.TB, args ...string) *world {
	tb.Helper()
	w := bare(tb, args...)
	pay := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/fails" {
			http.Error(rw, "upstream connect error "+nasty, http.StatusBadGateway)
			return
		}
		fmt.Fprint(rw, "done")
	}))
	tb.Cleanup(pay.Close)
	jobs := strings.NewReplacer("PAY", pay.URL, "NASTY", strings.ReplaceAll(nasty, "'", "''")).Replace(worldJobs)
	w.OK(tb, jobs, "apply", "-f", "-")
	w.executor(tb, "shop", shopToken)

	trigger := func(what, job string, args ...string) { w.runs[what] = w.Trigger(tb, job, args...) }
	for i := range 12 {
		trigger("fine", "shop/prices", "--params", fmt.Sprint("part=", i))
	}
	trigger("failed", "pay/ledger-sync")
	trigger("lines", "shop/lines")
	trigger("strange", "shop/strange")
	trigger("nasty", "shop/nasty")
	trigger("held", "shop/import", "--params", "held")
	trigger("nobody", "reports/nightly")
	for _, what := range []string{"fine", "lines", "strange", "nasty"} {
		w.WaitState(tb, w.runs[what], "succeeded", patience)
	}
	w.WaitState(tb, w.runs["failed"], "failed", patience)
	w.ended(tb, "pay/ledger-sync", "failed", 2)     // with its retry
	w.ended(tb, "shop/thumbnails", "succeeded", 12) // they follow the runs of prices
	w.WaitState(tb, w.runs["nobody"], "failed", patience)
	w.WaitState(tb, w.runs["held"], "running", patience)
	trigger("killed", "shop/rebuild", "--params", "killed")
	w.WaitState(tb, w.runs["killed"], "running", patience)
	w.OK(tb, "", "kill", w.runs["killed"])
	w.WaitState(tb, w.runs["killed"], "killed", patience)
	w.OK(tb, "", "pause", "pay/invoices", "--reason", "new bank interface", "--until", "240h")
	trigger("later", "shop/stock", "--at", time.Now().Add(90*time.Minute).UTC().Format(time.RFC3339))
	return w
}

// ended waits until at least want runs of a job are in a state: schedules may add some.
func (w *world) ended(tb testing.TB, job, state string, want int) {
	tb.Helper()
	check.OK(tb, waiting.For(patience, func() error {
		if n := strings.Count(w.OK(tb, "", "runs", job, "-o", "json"), quote(state)); n < want {
			return fmt.Errorf("%d of %d runs of %s are %s", n, want, job, state)
		}
		return nil
	}))
}

// bare is a world without anything in it.
func bare(tb testing.TB, args ...string) *world {
	tb.Helper()
	s := harness.Start(tb, binary, filepath.Join(tb.TempDir(), "data"), args...)
	w := &world{Server: s, runs: map[string]string{}, held: map[string]hold{}}
	w.all, w.letAllGo = context.WithCancel(context.Background())
	return w
}

// executor registers one of an app, and waits until the server knows it.
func (w *world) executor(tb testing.TB, app, token string) {
	tb.Helper()
	mux := executor.NewMux()
	mux.Register("fine", func(_ context.Context, r *executor.Run) error {
		r.Printf("%s with %s", r.Handler, r.Params)
		r.SetResult(executor.Success, r.Params)
		return nil
	})
	mux.Register("held", func(ctx context.Context, r *executor.Run) error {
		r.Printf("waits for %s", r.Params)
		select {
		case <-w.hold(r.Params).Done():
			r.Printf("goes on")
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	mux.Register("lines", func(_ context.Context, r *executor.Run) error {
		out := r.Output()
		for i := range 100_000 {
			level := "INFO"
			if i%997 == 0 {
				level = "ERROR"
			}
			fmt.Fprintf(out, "%s line %d of a long log\n", level, i+1)
		}
		return nil
	})
	mux.Register("strange", func(_ context.Context, r *executor.Run) error {
		_, err := io.WriteString(r.Output(), "\x1b[31mred\x1b[0m and \x1b[1mbold\x1b[0m\n"+nasty+
			"\nbinary \x00\x01\xff\xfe end\n\r\x1b[2K\ttabbed 每日报表\n"+
			strings.Repeat("wide ", 400)+"\n")
		return err
	})
	w.Execute(tb, mux, executor.Options{App: app, Token: token, NoSync: true, StopGrace: -1, CancelGrace: time.Second,
		Log: slog.New(slog.DiscardHandler)}, nil)
	tb.Cleanup(w.letAllGo)
}

func (w *world) hold(params string) hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	h, is := w.held[params]
	if !is {
		h.Context, h.end = context.WithCancel(w.all)
		w.held[params] = h
	}
	return h
}

// letGo has the runs with these params end.
func (w *world) letGo(params string) { w.hold(params).end() }
