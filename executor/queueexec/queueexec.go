// Package queueexec makes a program an executor that needs no open port: it receives runs from a queue. A tickring server on
// one machine has its own queues, which the program reads by long polling:
//
//	mux := executor.NewMux()
//	mux.Register("nightly", nightly)
//	err := queueexec.Run(ctx, mux, queueexec.Options{
//		Queue: "reports", App: "reports", Servers: servers, Token: token,
//	})
//
// On AWS, the queue is an SQS queue:
//
//	err := queueexec.Run(ctx, mux, queueexec.Options{
//		Queue:  "https://sqs.eu-central-1.amazonaws.com/123456789012/reports",
//		Client: sqs.NewFromConfig(config),
//		App:    "reports", Servers: servers, Token: token,
//	})
//
// A message has the format of the body that a scheduler sends to /run. Several processes can consume one queue. Each process
// should register all handlers.
//
// The consumer polls at least every 30 s, so that the servers know that the queue has a consumer. The consumer asks the
// servers whether a run was killed: before it starts the run, and each time it extends the message's visibility timeout. If no
// server answers, the run starts or continues.
//
// # Guarantees
//
// While a run waits or is running, its message is hidden from other processes. The message is deleted after a server accepted
// the result. If a process dies or cannot reach the queue, the message becomes visible again after [Options].Visibility.
// Another process then starts the run again, with Run.Again set. A process that cannot extend a message in time cancels the
// handler's context before the message becomes visible, and does not report the run.
//
// A run may therefore start twice, and handlers must be idempotent. SQS hides a message for at most 12 hours, so a longer run
// starts again in another process.
//
// The consumer does not delete a message that is not a run of its app. SQS moves the message to the dead-letter queue.
package queueexec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/executor/internal/request"
	"github.com/tickring/tickring/wire"
)

// A Client has the methods of *sqs.Client that this package uses.
type Client interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput,
		...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
}

// Options of Run. Queue and App are required. Client is required for SQS, and Servers for a queue of the servers.
type Options struct {
	// Queue is the URL of an SQS queue. Without a Client, it is the name of a queue on the servers.
	Queue string
	// Client is the SQS client. nil: the queue is on the servers.
	Client Client
	// Address is the queue's name in the app's addresses, after "queue:". For SQS this can be its ARN. Empty: the part of
	// Queue after the last slash.
	Address string
	// App is the name of the app, Servers are the base URLs of the servers, and Token is the app's access token. Without
	// servers, no results are reported, and a message is deleted after its run has ended.
	App     string
	Servers []string
	Token   string

	// Concurrency is the maximum number of runs that the process holds, waiting or running. 0: 10. Runs of one job run one
	// after another.
	Concurrency int
	// Visibility is the visibility timeout of messages: a whole number of seconds from 6 s to 12 h. After a crash,
	// another process receives the run after at most this time. Until the result of the run is reported, the process
	// extends the timeout whenever a third of Visibility has passed. 0: 60 s.
	Visibility time.Duration
	// StopGrace is how long running runs may continue after ctx has ended. Then unfinished runs are released to the queue. 0:
	// 30 s. Negative: runs are released immediately.
	StopGrace time.Duration
	// LogTail is how many bytes from the end of a run's log are added to the run's message. "tickring logs" shows these lines,
	// because servers cannot request a consumer's log. Negative: none. 0: 4,096 bytes of a successful run's log, and up to
	// 15,000 characters of any other.
	LogTail int
	// Log receives the consumer's log messages. nil: slog.Default().
	Log *slog.Logger

	// Change may change the options of the underlying executor. nil: the options stay unchanged.
	Change func(*executor.Options)
}

var (
	errLost = errors.New("the queue delivers the run to another executor")
	errStop = errors.New("the executor stops and returns the run to the queue")
	// errEnded: for the server it was cancelled, timed out or was lost.
	errEnded = errors.New("the server has already ended the run")
)

// Run receives and executes runs until ctx ends. Then running runs may continue for StopGrace, and unfinished runs are
// released to the queue. While the queue is unreachable, Run keeps trying. Run returns an error if mux or o is invalid, or if
// handlers did not return.
func Run(ctx context.Context, mux *executor.Mux, o Options) error {
	switch {
	case o.Queue == "":
		return errors.New("queueexec: option Queue is required")
	case o.Client == nil && len(o.Servers) == 0:
		return errors.New("queueexec: option Client is required for an SQS queue, and option Servers for a queue of a " +
			"tickring server")
	case o.Visibility < 0 || o.Visibility%time.Second != 0 || o.Visibility > 12*time.Hour || o.Visibility > 0 && o.Visibility < 6*time.Second:
		return errors.New("queueexec: option Visibility must be whole seconds from 6s to 12h")
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 10
	}
	if o.Visibility == 0 {
		o.Visibility = time.Minute
	}
	failedTail := 0
	if o.LogTail == 0 {
		// On AWS the size of a run is paid for by the KB, also if it succeeded.
		o.LogTail, failedTail = 4096, wire.MaxMessage
	}
	if o.StopGrace == 0 {
		o.StopGrace = 30 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	eo := executor.Options{App: o.App, Servers: o.Servers, Token: o.Token, Log: o.Log,
		InMemory: true, Unregistered: true, LogTail: o.LogTail, FailedLogTail: failedTail, QueueSize: o.Concurrency, CancelGrace: 5 * time.Second}
	if o.Change != nil {
		o.Change(&eo)
	}
	if o.Address == "" {
		o.Address = o.Queue[strings.LastIndexByte(o.Queue, '/')+1:]
	}
	door := &door{servers: eo.Servers, app: eo.App, token: eo.Token, queue: o.Address, http: eo.Client}
	if door.http == nil {
		door.http = request.NewClient(http.DefaultTransport.(*http.Transport).Clone())
		defer door.http.CloseIdleConnections()
	}
	e, err := executor.New(mux, eo)
	if err != nil {
		return err
	}
	if err := e.Start(); err != nil {
		return err
	}
	c := &consumer{o: o, e: e, reports: len(eo.Servers) > 0, over: make(chan struct{}), last: make(chan struct{})}
	c.src = &polled{door: door, o: &c.o}
	if o.Client != nil {
		c.src = &queued{o: &c.o, door: door}
	}
	var beats sync.WaitGroup
	if o.Client != nil && len(eo.Servers) > 0 {
		life, stop := context.WithCancel(context.Background())
		defer beats.Wait()
		defer stop()
		beats.Go(func() { door.beat(life, o.Log) })
	}
	c.poll(ctx)
	return c.stop()
}

type consumer struct {
	src     source
	o       Options
	e       *executor.Executor
	reports bool
	wg      sync.WaitGroup
	over    chan struct{} // closed once running runs must be released
	last    chan struct{} // closed once results that no server takes are given up
}

// poll receives until ctx ends.
func (c *consumer) poll(ctx context.Context) {
	held := make(chan struct{}, c.o.Concurrency)
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case held <- struct{}{}:
		}
		most := 1
	more:
		for most < 10 { // SQS returns at most 10 at a time
			select {
			case held <- struct{}{}:
				most++
			default:
				break more
			}
		}
		list, err := c.src.receive(ctx, most)
		if err == nil {
			for _, m := range list {
				most--
				c.wg.Go(func() {
					c.work(m)
					<-held
				})
			}
		}
		for range most {
			<-held
		}
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if failures++; failures == 1 {
			c.o.Log.Warn("queue not read: retrying", "queue", c.o.Queue, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(time.Second<<min(failures-1, 10), 30*time.Second)):
		}
	}
}

// work holds one message until its run is reported, lost or released.
func (c *consumer) work(m delivery) {
	var opts []executor.SubmitOption
	if m.receives > 1 {
		opts = append(opts, executor.Redelivered())
	}
	switch m.state {
	case stateEnded:
		c.remove(m)
		return
	case stateUnknown:
		c.o.Log.Error("run of another app in the queue: its message stays there until the queue moves it to the dead-letter "+
			"queue", "queue", c.o.Queue, "message", m.id)
		return
	}
	run, err := c.e.Submit(context.Background(), m.body, opts...)
	switch {
	case errors.Is(err, executor.ErrReported):
		c.remove(m)
		return
	case errors.Is(err, executor.ErrOpen):
		return // delivered twice; the holder of the other delivery deletes the run's message, then this one
	case errors.Is(err, executor.ErrBusy):
		_, _ = c.hide(m, 5*time.Second) // on failure it becomes visible later
		return
	case err != nil:
		c.o.Log.Error("message without a run in the queue: it stays there until the queue moves it to the dead-letter queue",
			"queue", c.o.Queue, "message", m.id, "error", err)
		return
	}
	until := m.got.Add(c.o.Visibility)
	renew := time.After(c.o.Visibility / 3)
	done := run.Ended()
	if c.reports {
		done = run.Reported()
	}
	over := c.over
	for {
		select {
		case <-done:
			c.remove(m)
			return

		case <-renew:
			began := time.Now()
			state, err := c.hide(m, c.o.Visibility)
			switch {
			case err == nil && state != stateLost:
				switch state {
				case stateKilled:
					run.Kill() // its report ends it
				case stateEnded:
					if run.Drop(errEnded) {
						c.o.Log.Warn("run ended on the server: its handler was cancelled", "run", run.RunID())
						<-run.Ended()
						c.remove(m)
						return
					}
				}
				until, renew = began.Add(c.o.Visibility), time.After(c.o.Visibility/3)
				continue
			case err != nil && time.Until(until) > c.o.Visibility/3:
				renew = time.After(c.o.Visibility / 12)
				continue
			}
			// From here on, another executor may be running it too.
			if run.Drop(errLost) {
				c.o.Log.Warn("run lost to another executor: the visibility timeout of its message was not extended",
					"run", run.RunID(), "error", err)
				return
			}
			renew = nil // it has ended: only the report is missing

		case <-over:
			over = nil
			if run.Drop(errStop) {
				<-run.Ended()
				_, _ = c.hide(m, 0) // on failure it becomes visible later
				return
			}

		case <-c.last:
			c.o.Log.Error("result lost, because no server accepted it: another executor repeats the run", "run", run.RunID())
			return
		}
	}
}

// hide hides a message from now on for d; 0 shows it.
func (c *consumer) hide(m delivery, d time.Duration) (state, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.o.Visibility/6)
	defer cancel()
	return c.src.hide(ctx, m, d)
}

// remove deletes a message. If that fails and the message is redelivered here, the run counts as reported; elsewhere it
// starts again.
func (c *consumer) remove(m delivery) {
	var err error
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), c.o.Visibility/6)
		err = c.src.remove(ctx, m)
		cancel()
		if err == nil {
			return
		}
	}
	c.o.Log.Warn("message of a reported run not deleted", "queue", c.o.Queue, "message", m.id, "error", err)
}

// stop waits for running runs, releases the rest, and stops the executor.
func (c *consumer) stop() error {
	ended := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(ended)
	}()
	wait := func(d time.Duration) bool {
		select {
		case <-ended:
			return true
		case <-time.After(max(d, 0)):
			return false
		}
	}
	if !wait(c.o.StopGrace) {
		close(c.over)
		if !wait(15 * time.Second) {
			close(c.last)
			<-ended
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.e.Stop(ctx); err != nil {
		return fmt.Errorf("queueexec: %w", err)
	}
	return nil
}
