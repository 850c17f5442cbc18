package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/access"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/doctor"
	"github.com/tickring/tickring/internal/rejectlog"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/notify"
	"github.com/tickring/tickring/server"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/words"
)

func TestMain(m *testing.M) {
	testscript.Main(m, programs)
}

// programs maps the names under which tests run this binary to its functions.
var programs = map[string]func(){
	"tickring": func() {
		completeFor = time.Minute
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.LookupEnv))
	},
	"tickring-main": main, // with its signals
}

// lookup finds the variables of an environment.
func lookup(env map[string]string) func(name string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// runMain runs a command against the server at url, in this process.
func runMain(t *testing.T, url, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := lookup(map[string]string{"TICKRING_ENDPOINT": url, "TICKRING_TOKEN": "sesame", "HOME": t.TempDir()})
	code = Main(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr, env)
	return code, stdout.String(), stderr.String()
}

// TestScripts runs the scripts in testdata/script, each against its own server, which keeps its store in memory and ends runs as
// testServer describes.
//
// In addition to the usual commands a script has
//
//	dead-letter            creates two dead-letter messages: a scheduled run of the first
//	                       job, due ten seconds ago, and one without a scheduled run
//	work                   creates three runs of job 1 at one moment, as if sent to an executor
//	                       one after the other; the log of the third begins late
//	refuse                 makes the server reject an executor of app guarded for its token
//	exits CODE COMMAND…    runs the command, which must exit with the code
//	shows CODE COMMAND…    the same, and compares its whole output with testdata/TestScripts.txt
//	datadir DIR            makes DIR the data directory of the server
func TestScripts(t *testing.T) {
	texts := golden.New(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			s := testServer(t)
			env.Defer(s.Close)
			env.Setenv("TICKRING_ENDPOINT", s.URL)
			env.Setenv("TICKRING_TOKEN", "sesame")
			env.Setenv("URL", s.URL)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each command else
			env.Setenv("GOGC", "off")                 // collections take a fifth of the processor time
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Values["url"], env.Values["seen"] = s.URL, map[string]int{}
			cloud := testAWS(s)
			env.Defer(cloud.Close)
			env.Setenv("AWS_ENDPOINT_URL", cloud.URL)
			env.Values["cloud"] = cloud.URL
			env.Setenv("AWS_ACCESS_KEY_ID", "AKIDTEST")
			env.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
			env.Setenv("AWS_EC2_METADATA_DISABLED", "true")
			env.Setenv("AWS_REGION", "eu-central-1")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": func(ts *testscript.TestScript, neg bool, args []string) { mustExit(ts, neg, args) },
			"shows": func(ts *testscript.TestScript, neg bool, args []string) {
				mustExit(ts, neg, args)
				parts := localNames(ts)
				key := parts.Replace(ts.Name() + ": " + strings.Join(args[1:], " "))
				seen := ts.Value("seen").(map[string]int)
				if seen[key]++; seen[key] > 1 {
					key += fmt.Sprintf(" (%d)", seen[key])
				}
				text := parts.Replace(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
				for _, r := range variableParts {
					text = r.find.ReplaceAllString(text, r.by)
				}
				texts.Equal(t, key, text)
			},
			"dead-letter": has("dead-letter"), "called": has("called"), "work": has("work"), "refuse": has("refuse"),
			"mute": has("mute"), "old": has("old"),
			"datadir": func(ts *testscript.TestScript, neg bool, args []string) {
				dir := ts.MkAbs(args[0])
				ts.Check(os.MkdirAll(dir, 0o700))
				ts.Check(os.WriteFile(filepath.Join(dir, server.EndpointFile), []byte(ts.Getenv("URL")+"\n"), 0o600))
				ts.Check(os.WriteFile(filepath.Join(dir, server.TokenFile), []byte("sesame\n"), 0o600))
			},
		},
	})
}

// mustExit runs a command that must exit with a code.
func mustExit(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || neg {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// localNames returns a replacer for the directory and the addresses of a script.
func localNames(ts *testscript.TestScript) *strings.Replacer {
	url, cloud := ts.Value("url").(string), ts.Value("cloud").(string)
	return strings.NewReplacer(ts.Getenv("WORK"), "WORK", url, "URL", strings.TrimPrefix(url, "http://"), "HOST", cloud, "AWS",
		strings.TrimPrefix(cloud, "http://"), "AWS")
}

const weekdays = `(Mon|Tue|Wed|Thu|Fri|Sat|Sun) `

// variableParts are the parts of outputs that vary between runs: times, ages, widths of columns, numbers of changes.
var variableParts = []struct {
	find *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`(?m)(^|[ ("])(` + weekdays + `)?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?`), "${1}TIME"},
	{regexp.MustCompile(`(?m)(^|[ (])(` + weekdays + `\d+ [A-Z][a-z]{2} \d\d:\d\d(:\d\d)?|\d\d:\d\d:\d\d(\.\d+)?)\b`), "${1}TIME"},
	{regexp.MustCompile(`(?m)^next: .* …`), "next: TIMES …"},
	{regexp.MustCompile(` [+-]\d\d:\d\d\b`), " +ZONE"},
	{regexp.MustCompile(`\b\d+(\.\d+)? ?(ms|s|min|h) ago\b`), "AGE ago"},
	{regexp.MustCompile(`\bin \d+(\.\d+)? (ms|s|min|h|days)\b`), "in SPAN"},
	{regexp.MustCompile(`\(now\)`), "(in SPAN)"},
	{regexp.MustCompile(`\b\d{13}\b`), "CHANGE"},
	{regexp.MustCompile(`"slot":\d+`), `"slot":SECOND`},
	{regexp.MustCompile(`\bact-[a-z0-9]+`), "act-ID"},
	{regexp.MustCompile(` {2,}`), "  "},
}

// has has the server of a script do something.
func has(what string) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, _ []string) {
		resp, err := http.Post(ts.Getenv("URL")+"/test/"+what, "", nil)
		ts.Check(err)
		resp.Body.Close()
	}
}

// testLogs serves logs for the runs that the command work creates. At first it answers for queued as xxl-job's executors do for a
// run in their queue.
type testLogs struct{ queued atomic.Int32 }

func (l *testLogs) Log(_ context.Context, _ *core.App, run *core.Run, from int) (string, int, bool, error) {
	if run.Message == "queued" && l.queued.Add(1) <= 2 {
		return "readLog fail, logFile not exists", from, true, nil
	}
	if run.Message == "gone" {
		return "readLog fail, logFile not exists", from, true, nil
	}
	if from > 2 {
		return "", from, true, nil
	}
	return []string{"line one\n", ""}[from-1] + "line \x1b[31mtwo\n", 3, true, nil
}

type testKiller struct{}

func (testKiller) Kill(context.Context, *core.App, string, core.JobID) error { return nil }

// testServer serves the API over a store in memory. It sends nothing: a run ends when it is read, in the state that its params
// name: fine, fails or falls.
func testServer(t testing.TB) *httptest.Server {
	data := memory.Open(t, memory.Options{})
	a := wiring.New(data, wiring.Options{Plan: plan.Local(), Deployment: "eu-central-1/state"})
	channels := notify.New(notify.Options{Policy: safedial.Policy{AllowLoopback: true}})
	m := a.People(testKiller{}, people.Options{Manage: manage.Options{Notifier: channels}})
	refused := rejectlog.New(rejectlog.Options{})
	reports := a.Reports(report.Options{})
	if err := reports.Pass(context.Background()); err != nil {
		panic(err)
	}
	h := api.NewHandler(m, &testLogs{}, api.Options{Token: "sesame", Access: a.Access("sesame", access.Options{}), Refused: refused,
		ReadToken: "a-token-that-may-only-read",
		Log:       slog.New(slog.DiscardHandler),
		Status:    func() client.Status { return client.Status{Now: time.Now().UTC(), Version: "test"} },
		Store:     data, Facts: func(ctx context.Context, l words.Language) client.Facts {
			f := client.Facts{Version: "test", Deployment: "eu-central-1/state", LastTick: time.Now().Add(-time.Second),
				Refused: api.RefusedExecutors(refused, "")}
			doctor.Gather(ctx, data, time.Now(), l, &f, slog.New(slog.DiscardHandler), nil)
			return f
		}, Restore: a.Restorer(restore.Options{}), Reports: reports})
	hooks := testHooks(data, refused)
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ref, ok := strings.CutPrefix(r.URL.Path, "/v1/runs/")
		if v, err := m.Run(r.Context(), ref); ok && err == nil && v.Run.State.Open() && v.Run.Params != nil {
			res := finish.Result{Run: v.Run.ID, At: v.Run.Slot.Time().Add(84 * time.Millisecond)}
			switch *v.Run.Params {
			case "fine":
				res.State, res.Code, res.Message = core.Succeeded, 200, "all good\nsecond line"
			case "fails":
				res.State, res.Reason, res.Code, res.Message = core.Failed, core.ReasonHandler, 500, "no such table"
			case "falls":
				res.State, res.Reason = core.Skipped, core.ReasonDeadline
			}
			if res.State != "" {
				a.Finish.End(r.Context(), []finish.Result{res})
			}
		}
		if status, ok := strings.CutPrefix(r.URL.Path, "/test/hook/"); ok { // a webhook
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
			io.WriteString(w, "hooked")
			return
		}
		if hook := hooks[r.URL.Path]; hook != nil {
			hook(r.Context())
			return
		}
		if r.URL.Path == "/healthz" {
			w.Header().Set(server.HeaderVersion, "test")
		}
		h.ServeHTTP(w, r)
	}))
}

// testHooks are the paths with which the commands of a script change the data of its server.
func testHooks(data *store.Store, refused *rejectlog.Trace) map[string]func(context.Context) {
	return map[string]func(context.Context){
		"/test/work": func(ctx context.Context) {
			runs := make([]core.Run, 3)
			for i := range runs {
				runs[i] = core.Run{ID: core.NumberedRun(1, uint32(100+i)), App: "shop", State: core.Running, Cause: core.CauseAPI,
					At: core.InstantOf(time.Now()), Slot: core.InstantOf(time.Now()), Address: "http://10.0.0.7:9999",
					Journal: core.JournalKey{Minute: time.Now().Unix() / 60, Nonce: "work"},
					Rev:     time.Now().UnixMilli(), SentAt: time.Now().Add(time.Duration(i) * time.Second)}
			}
			runs[2].Message = "queued"
			data.CreateRuns(ctx, runs)
		},
		"/test/called": func(ctx context.Context) { // the run of an endpoint, and one whose executor lost its log
			at := core.InstantOf(time.Now())
			data.CreateRuns(ctx, []core.Run{{ID: core.NumberedRun(1, 201), App: "shop", State: core.Succeeded, Cause: core.CauseAPI,
				At: at, Slot: at, Address: "http://10.0.0.7:9999", SentAt: at.Time(), EndedAt: at.Time(), Message: "gone"}})
			data.CreateRuns(ctx, []core.Run{{ID: core.NumberedRun(1, 200), App: "shop", State: core.Failed, Reason: core.ReasonHandler,
				Cause: core.CauseAPI, At: at, Slot: at, Address: "call:https://shop.internal", SentAt: at.Time(), EndedAt: at.Time(), Message: "no"}})
		},
		"/test/old": func(ctx context.Context) { // runs that ended days ago
			runs := make([]core.Run, 30)
			for i := range runs {
				at := core.InstantOf(time.Now()) - core.Instant(86400*(i+2))
				runs[i] = core.Run{ID: core.PlannedRun(1, at), App: "shop", State: core.Succeeded, Cause: core.CauseSchedule, At: at, Slot: at,
					SentAt: at.Time(), EndedAt: at.Time().Add(time.Second)}
				if i%10 == 0 {
					runs[i].State, runs[i].Reason = core.Failed, core.ReasonHandler
				}
			}
			data.CreateRuns(ctx, runs)
		},
		"/test/refuse": func(ctx context.Context) {
			refused.Note(ctx, rejectlog.Refusal{Door: rejectlog.Registry, Reason: rejectlog.Token, Remote: "10.0.3.17:40112", App: "guarded",
				Address: "http://10.0.3.17:9999/"})
		},
		"/test/mute": func(ctx context.Context) { // channel broken rejected notifications of job 1 for an hour, and one of two was given up
			at := time.Date(2026, 3, 1, 2, 30, 5, 0, time.UTC)
			last := notification.Occurrence{Run: core.NumberedRun(1, 1), When: at}
			since := notification.Occurrence{Run: core.NumberedRun(1, 2), When: at.Add(30 * time.Minute)}
			failed := func(n uint32, ended time.Time) core.Run {
				return core.Run{ID: core.NumberedRun(1, n), App: "shop", State: core.Failed, Reason: core.ReasonHandler, Cause: core.CauseAPI,
					At: core.InstantOf(at), Slot: core.InstantOf(at), Notice: true, EndedAt: ended}
			}
			data.CreateRuns(ctx, []core.Run{failed(1, at), failed(2, since.When), failed(3, at.Add(-time.Hour))})
			for _, s := range []notification.State{
				{Name: notification.ChannelName("broken"), V: 1, Trouble: &notification.Trouble{Since: time.Now().Add(time.Minute),
					Last: time.Now().Add(time.Hour), Error: "hooks.example.com: answered 500", GivenUp: 1}},
				{Name: notification.JobName(1), V: 1, Told: []notification.Told{
					{Event: core.EventLost, Sent: at, Through: at, Quiet: at.Add(time.Hour)},
					{Event: core.EventFailed, Sent: at.Add(time.Second), Since: at, Through: at, Quiet: at.Add(time.Hour), Count: 41, First: &since,
						Last: &since, GivenUp: []notification.Undelivered{{Channel: "oncall", First: last, Last: last, When: at.Add(2 * time.Second),
							Error: "answered 410"}}}},
					Pending: []notification.Pending{{Channel: "broken", Event: core.EventFailed, Count: 7, First: last, Last: last, Made: at, Tries: 3,
						Next: at.Add(time.Hour), Error: "hooks.example.com: answered 500"}}}} {
				notification.PutState(ctx, data, s)
			}
		},
		"/test/dead-letter": func(ctx context.Context) {
			at := core.InstantOf(time.Now()) - 10
			data.Queue.Bury(ctx,
				ring.Message{Kind: ring.KindFires, Slot: at,
					Fires: []core.Fire{{Run: core.PlannedRun(1, at), Rev: time.Now().UnixMilli(), At: at, Slot: at, Cause: core.CauseSchedule}}},
				"it was received too often")
			data.Queue.Bury(ctx, ring.Message{Kind: "boredom", Slot: at},
				"unreadable message: of no kind that there is")
			data.Queue.Bury(ctx, ring.Message{Kind: ring.KindPostRun, Slot: at,
				PostRun: &ring.PostRun{Run: core.NumberedRun(1, 7)}}, "it was received too often")
		},
	}
}

// answering is a server that knows the token, and answers other requests with JSON.
func answering(t *testing.T, of func(http.ResponseWriter, *http.Request) any) *httptest.Server {
	s := knowing(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, of(w, r))
	}))
	t.Cleanup(s.Close)
	return s
}

// knowing is a server that knows the token, and answers the rest as h does.
func knowing(h http.Handler) *httptest.Server {
	own := api.NewHandler(nil, nil, api.Options{Token: "sesame"})
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/proof" {
			own.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	}))
}
