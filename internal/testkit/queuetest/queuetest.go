// Package queuetest tests consumers that receive runs from a queue. One test suite covers SQS and the queues of a
// server. Only tests import this package.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/queueexec"
	"github.com/tickring/tickring/internal/testkit/check"
)

// Visibility is the visibility timeout of the suite's consumers. A consumer extends the timeout after each third of this time.
const Visibility = 9 * time.Second

// Harness is one queue, and the scheduler that sends runs to the queue.
type Harness struct {
	// Consumer returns the options of one further consumer: Queue, Servers, and Client for SQS. The consumer sends all its
	// requests through the given transport.
	Consumer func(t *testing.T, transport http.RoundTripper) queueexec.Options
	// Address is the address of the queue at the scheduler.
	Address   string
	Scheduler *people.People
}

// The app of the suite, with a job for each handler.
const app, token = "reports", "reports-token"

var handlers = []string{"work", "fail", "long", "crash", "late", "block"}

var actor = core.Actor{Name: "test"}

// save makes the jobs.
func (h *Harness) save(t *testing.T) {
	t.Helper()
	secret := token
	check.Call(t)(h.Scheduler.SaveApp(t.Context(), actor, manage.AppSpec{Name: app, Token: &secret, Executors: []string{h.Address}}))
	var specs []manage.JobSpec
	for _, name := range handlers {
		specs = append(specs, manage.JobSpec{Def: core.Def{App: app, Name: name, Handler: name}})
	}
	for _, r := range h.Scheduler.Save(t.Context(), actor, specs) {
		check.OK(t, r.Err)
	}
}

// send sends a run of the handler to the queue. All runs of one handler belong to one job.
func (h *Harness) send(t *testing.T, handler, params string) (run string) {
	t.Helper()
	r, err := h.Scheduler.Trigger(t.Context(), actor, operate.TriggerRequest{Job: app + "/" + handler, Params: &params})
	check.OK(t, err)
	return r.Run.ID.String()
}

// kill kills a run once it is sent. Before that, it would be cancelled.
func (h *Harness) kill(t *testing.T, run string) {
	t.Helper()
	h.await(t, run, core.Running)
	res, err := h.Scheduler.KillRun(t.Context(), actor, run, "")
	if err != nil || len(res.Killed) != 1 || len(res.Sent) != 1 || res.Sent[0].Err != nil {
		t.Errorf("%+v %v", res, err)
	}
}

// await waits until the run is in the given state, and returns its message.
func (h *Harness) await(t *testing.T, run string, state core.State) (message string) {
	t.Helper()
	for limit := time.Now().Add(90 * time.Second); ; <-time.After(20 * time.Millisecond) {
		v, err := h.Scheduler.Run(t.Context(), run)
		switch {
		case err == nil && v.Run.State == state:
			return v.Run.Message
		case time.Now().After(limit):
			t.Fatalf("run %s is %s %s %q, want %s: %v", run, v.Run.State, v.Run.Reason, v.Run.Message, state, err)
		}
	}
}

// Run runs the test suite. Run calls open to create a queue for each test case.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, h Harness)
	}{
		{"Shared", shared}, {"Failure", failure}, {"Long", long}, {"Disconnected", disconnectedConsumer}, {"KilledBefore", killedBefore},
		{"KilledAtWork", killedAtWork}, {"Stop", stop},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := open(t)
			h.save(t)
			c.run(t, h)
		})
	}
}

var errDisconnected = errors.New("disconnected")

// line is a connection that can be disconnected. It reports the extensions of visibility timeouts.
type line struct {
	disconnected atomic.Bool
	next         http.RoundTripper
	extended     chan struct{}
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.disconnected.Load() {
		return nil, errDisconnected
	}
	if strings.HasSuffix(r.URL.Path, "/extend") || strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ChangeMessageVisibility") {
		select {
		case l.extended <- struct{}{}:
		default:
		}
	}
	return l.next.RoundTrip(r)
}

// consumer is one running consumer.
type consumer struct {
	*line
	stop func()
}

func (h *Harness) start(t *testing.T, mux *executor.Mux, grace time.Duration) *consumer {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c := &consumer{line: &line{next: transport, extended: make(chan struct{}, 16)}}
	o := h.Consumer(t, c.line)
	o.App, o.Token, o.Visibility, o.StopGrace, o.Log = app, token, Visibility, grace, slog.New(slog.DiscardHandler)
	change := o.Change
	o.Change = func(e *executor.Options) {
		e.Client, e.LogWriter, e.CallbackRetry = &http.Client{Transport: c.line}, io.Discard, time.Second
		if change != nil {
			change(e)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- queueexec.Run(ctx, mux, o) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		transport.CloseIdleConnections()
	})
	t.Cleanup(c.stop)
	return c
}

// tally counts the runs that began.
type tally struct {
	mu sync.Mutex
	of map[string]int
}

func (c *tally) begun(r *executor.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[r.Params]++
}

func (c *tally) count(params string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[params]
}

// Competing consumers share a queue, each run goes to one of them, and one consumer serves all handlers.
func shared(t *testing.T, h Harness) {
	var c tally
	mux := func(name string) *executor.Mux {
		m := executor.NewMux()
		for _, handler := range []string{"work", "late"} {
			m.Register(handler, func(_ context.Context, r *executor.Run) error {
				c.begun(r)
				r.SetResult(executor.Success, handler+" "+r.Params)
				return nil
			})
		}
		return m
	}
	h.start(t, mux("one"), 0)
	h.start(t, mux("two"), 0)
	want := map[string]string{}
	for i := range 30 {
		handler, params := []string{"work", "late"}[i%2], fmt.Sprint("p", i)
		want[h.send(t, handler, params)] = handler + " " + params
	}
	for run, message := range want {
		if got := h.await(t, run, core.Succeeded); got != message {
			t.Errorf("run %s: %q, want %q", run, got, message)
		}
	}
	for i := range 30 {
		if n := c.count(fmt.Sprint("p", i)); n != 1 {
			t.Errorf("p%d was begun %d times", i, n)
		}
	}
}

func failure(t *testing.T, h Harness) {
	mux := executor.NewMux()
	mux.Register("fail", func(context.Context, *executor.Run) error { return errors.New("no paper") })
	mux.Register("work", func(_ context.Context, r *executor.Run) error {
		r.Printf("page %s", r.Params)
		return nil
	})
	h.start(t, mux, 0)
	if got := h.await(t, h.send(t, "fail", ""), core.Failed); got != "no paper" {
		t.Errorf("%q", got)
	}
	// A log comes with the result.
	if got := h.await(t, h.send(t, "work", "7"), core.Succeeded); strings.Contains(got, "----") || !strings.HasSuffix(got, " page 7") {
		t.Errorf("%q", got)
	}
	if got := h.await(t, h.send(t, "block", ""), core.Failed); got == "" { // no such handler is registered
		t.Error("an unknown handler has no message")
	}
}

// A run that takes longer than the visibility is extended, and runs once.
func long(t *testing.T, h Harness) {
	var c tally
	mux := executor.NewMux()
	end := make(chan struct{})
	mux.Register("long", func(ctx context.Context, r *executor.Run) error {
		c.begun(r)
		select {
		case <-end:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	one, two := h.start(t, mux, 0), h.start(t, mux, 0)
	go func() {
		for range 4 { // the fourth extension comes after more than one visibility timeout
			select {
			case <-one.extended:
			case <-two.extended:
			}
		}
		close(end)
	}()
	h.await(t, h.send(t, "long", "x"), core.Succeeded)
	if n := c.count("x"); n != 1 {
		t.Errorf("begun %d times", n)
	}
}

// A consumer that is disconnected loses its run to another once the visibility ends,
// ends its handler before that, and reports nothing.
func disconnectedConsumer(t *testing.T, h Harness) {
	began, ended := make(chan struct{}), make(chan time.Time, 1)
	one, two := executor.NewMux(), executor.NewMux()
	one.Register("crash", func(ctx context.Context, r *executor.Run) error {
		close(began)
		<-ctx.Done()
		ended <- time.Now()
		r.SetResult(executor.Success, "by one")
		return nil
	})
	two.Register("crash", func(_ context.Context, r *executor.Run) error {
		select {
		case <-ended:
		default:
			t.Error("the other one is still running")
		}
		r.SetResult(executor.Success, fmt.Sprint("by two, again ", r.Again))
		return nil
	})
	first := h.start(t, one, -1)
	run := h.send(t, "crash", "")
	<-began
	first.disconnected.Store(true)
	h.start(t, two, 0)
	if got := h.await(t, run, core.Succeeded); !strings.HasPrefix(got, "by two, again true") {
		t.Errorf("%q", got)
	}
}

// A run that is killed while it waits never begins.
func killedBefore(t *testing.T, h Harness) {
	var c tally
	mux := executor.NewMux()
	mux.Register("work", func(_ context.Context, r *executor.Run) error { c.begun(r); return nil })
	run := h.send(t, "work", "killed")
	h.kill(t, run)
	h.start(t, mux, 0)
	h.await(t, run, core.Killed)
	h.await(t, h.send(t, "work", "other"), core.Succeeded)
	if n := c.count("killed"); n != 0 {
		t.Errorf("begun %d times", n)
	}
}

// A run that is killed while it executes ends at the next extension.
func killedAtWork(t *testing.T, h Harness) {
	began, ended := make(chan struct{}), make(chan struct{})
	mux := executor.NewMux()
	mux.Register("block", func(ctx context.Context, _ *executor.Run) error {
		close(began)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	h.start(t, mux, 0)
	run := h.send(t, "block", "")
	<-began
	h.kill(t, run)
	h.await(t, run, core.Killed)
	<-ended
}

// A run that does not end in time at a stop is returned, and begins elsewhere.
func stop(t *testing.T, h Harness) {
	began := make(chan struct{})
	one, two := executor.NewMux(), executor.NewMux()
	one.Register("block", func(ctx context.Context, _ *executor.Run) error {
		close(began)
		<-ctx.Done()
		return nil
	})
	two.Register("block", func(_ context.Context, r *executor.Run) error {
		r.SetResult(executor.Success, fmt.Sprint("again ", r.Again))
		return nil
	})
	first := h.start(t, one, -1)
	run := h.send(t, "block", "")
	<-began
	first.stop()
	h.start(t, two, 0)
	if got := h.await(t, run, core.Succeeded); !strings.HasPrefix(got, "again true") {
		t.Errorf("%q", got)
	}
}
