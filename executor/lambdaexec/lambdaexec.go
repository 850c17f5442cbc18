// Package lambdaexec makes an AWS Lambda function an executor. The event of an invocation is one run. The function executes
// the run, and reports the result to a server before it returns.
//
//	func main() {
//		mux := executor.NewMux()
//		mux.Register("nightly", nightly)
//		lambda.Start(lambdaexec.Handler(mux))
//	}
//
// The event has the format of the body that a scheduler sends to /run. A tickring deployment adds the address for the result,
// so you must configure only TICKRING_APP. For xxl-job's admin, or to report results in batches, set [Options].Servers.
//
// # Guarantees
//
// The handler's context ends [Options].Margin before the function's deadline, to leave time for the report. The run is then
// reported as timed out. The function returns the result after a server accepted it. If no server accepts the result before
// the deadline, the function returns an error.
//
// Disable the retries of Lambda, because the scheduler has its own. If Lambda delivers an event twice to one instance, the run
// is executed once. If two instances receive the event, both execute the run.
//
// Nothing is stored on disk. If an instance dies during a run, the scheduler closes the run after the function's timeout.
//
// Logs go to standard output. Each line starts with the run's ID, and the first line also has the Lambda request ID. Init
// functions are called once for each job in each instance. Destroy functions are not called, because Lambda ends an instance
// without notice.
package lambdaexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/internal/request"
)

// Options of a function. An empty App, Servers or Token is read from the environment.
type Options struct {
	// App is the name of the function's app. Empty: the value of TICKRING_APP.
	App string
	// Servers are the base URLs of the servers. Empty: the value of TICKRING_SERVERS, separated by commas. Without servers,
	// the function posts the result to the URL in the event, and also returns it.
	Servers []string
	// Token is the access token of the app. Empty: the value of TICKRING_ACCESS_TOKEN.
	Token string
	// Margin is how long before the function's deadline the handler's context ends. 0: 2 s, or a fifth of the time from the
	// start of the invocation to its deadline if that is shorter.
	Margin time.Duration
	// Log receives the logs of runs. nil: standard output.
	Log io.Writer

	// Change may change the options of the underlying executor. nil: the options stay unchanged.
	Change func(*executor.Options)
}

// Handler returns a function for lambda.Start, with all options from the environment. If mux or the environment is invalid,
// each invocation returns an error.
func Handler(mux *executor.Mux) func(context.Context, json.RawMessage) (executor.Result, error) {
	return HandlerWith(mux, Options{})
}

// HandlerWith returns a function for lambda.Start with the given options.
func HandlerWith(mux *executor.Mux, o Options) func(context.Context, json.RawMessage) (executor.Result, error) {
	f := &function{mux: mux, o: o}
	return f.invoke
}

type function struct {
	mux *executor.Mux
	o   Options

	once sync.Once
	e    *executor.Executor
	http *http.Client
	err  error
}

func (f *function) start() {
	o := executor.Options{App: f.o.App, Servers: f.o.Servers, Token: f.o.Token,
		InMemory: true, Unregistered: true, LogWriter: f.o.Log, CancelGrace: 500 * time.Millisecond,
		// The instance is frozen between invocations, with its workers.
		Idle: 24 * time.Hour, CallbackRetry: 2 * time.Second}
	if o.App == "" {
		o.App = os.Getenv("TICKRING_APP")
	}
	if o.Token == "" {
		o.Token = os.Getenv("TICKRING_ACCESS_TOKEN")
	}
	if o.Servers == nil {
		for s := range strings.SplitSeq(os.Getenv("TICKRING_SERVERS"), ",") {
			if s = strings.TrimSpace(s); s != "" {
				o.Servers = append(o.Servers, s)
			}
		}
	}
	if o.LogWriter == nil {
		o.LogWriter = os.Stdout
	}
	if f.o.Change != nil {
		f.o.Change(&o)
	}
	o.LogWriter = &locked{w: o.LogWriter}
	f.o.Log, f.o.Servers = o.LogWriter, o.Servers
	if f.http = o.Client; f.http == nil {
		f.http = request.NewClient(&http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute})
	}
	if f.e, f.err = executor.New(f.mux, o); f.err == nil {
		f.err = f.e.Start()
	}
}

func (f *function) invoke(ctx context.Context, event json.RawMessage) (executor.Result, error) {
	f.once.Do(f.start)
	var none executor.Result
	if f.err != nil {
		return none, f.err
	}
	work := ctx
	if deadline, ok := ctx.Deadline(); ok {
		margin := f.o.Margin
		if margin <= 0 {
			margin = min(2*time.Second, time.Until(deadline)/5)
		}
		var cancel context.CancelFunc
		work, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	run, err := f.e.Submit(work, event)
	switch {
	case errors.Is(err, executor.ErrReported):
		// The platform delivered it twice; the server has the result.
		return none, nil
	case err != nil:
		return none, err
	}
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		fmt.Fprintf(f.o.Log, "run %d: request %s\n", run.RunID(), lc.AwsRequestID)
	}
	select {
	case <-run.Ended():
	case <-ctx.Done(): // the margin was too short
		return none, fmt.Errorf("run %d: %w", run.RunID(), context.Cause(ctx))
	}
	if len(f.o.Servers) == 0 {
		f.report(ctx, reportURL(event), run.Result())
		return run.Result(), nil
	}
	select {
	case <-run.Reported():
		return run.Result(), nil
	case <-ctx.Done():
		r := run.Result()
		return r, fmt.Errorf("run %d ended with code %d, but no server accepted the result", r.RunID, r.Outcome)
	}
}

// reportURL returns the URL in the event for the result; empty if it has none.
func reportURL(event json.RawMessage) string {
	var e struct {
		Tickring struct {
			ReportURL string `json:"reportUrl"`
		} `json:"tickring"`
	}
	if json.Unmarshal(event, &e) != nil {
		return ""
	}
	if u, err := url.Parse(e.Tickring.ReportURL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return e.Tickring.ReportURL
}

// report posts a result to a URL until it is taken or ctx ends. The function returns the result in any case.
func (f *function) report(ctx context.Context, to string, r executor.Result) {
	if to == "" {
		return
	}
	state := "failed"
	switch r.Outcome {
	case executor.Success:
		state = "succeeded"
	case executor.Timeout:
		state = "timed-out"
	}
	said := map[string]any{"state": state, "message": r.Message, "data": r.Data}
	if r.RetryAfter != 0 {
		said["retryAfter"] = r.RetryAfter
	}
	body, err := json.Marshal(said)
	if err != nil {
		return // texts
	}
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		again, err := f.post(ctx, to, body)
		if err == nil {
			return
		}
		fmt.Fprintf(f.o.Log, "run %d: no server accepted the result: %v\n", r.RunID, err)
		if !again {
			return
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// post returns whether a retry may help.
func (f *function) post(ctx context.Context, to string, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	status, _, err := request.Send(ctx, f.http, http.MethodPost, to, map[string]string{"Content-Type": "application/json"}, body, 64<<10)
	var u *url.Error
	switch {
	case errors.As(err, &u):
		return true, u.Err // without the key in the URL
	case err != nil:
		return true, err
	case status != http.StatusOK:
		return status >= 500 || status == http.StatusTooManyRequests, fmt.Errorf("answered %d", status)
	}
	return false, nil
}

// locked lets the executor and the function write to one log.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
