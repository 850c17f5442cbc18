package queueexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"go.uber.org/goleak"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A queue is the client of SQS, and the server that accepts callbacks.
type queue struct {
	*fakeaws.SQS
	mu             sync.Mutex
	story          []string
	items          []wire.CallbackItem
	down, noServer bool // nothing answers there
}

func newQueue(t *testing.T) *queue {
	_, fake := fakeaws.New(t.Errorf)
	q := &queue{SQS: fake}
	fake.MaxReceives = 1000
	fake.Observe = func(_ string, _ fakeaws.Message, gone bool) {
		q.tell("%s", map[bool]string{false: "sent", true: "deleted"}[gone])
	}
	fake.Faults = func(_ context.Context, c fakeaws.Call) (f fakeaws.Fault) {
		q.locked(func() {
			if q.down && c.Op == "ReceiveMessage" {
				f.Before = errors.New("no route")
			}
		})
		return f
	}
	return q
}

// locked calls a function while nothing else is recorded.
func (q *queue) locked(call func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	call()
}

func (q *queue) tell(format string, args ...any) {
	q.locked(func() { q.story = append(q.story, fmt.Sprintf(format, args...)) })
}

func (q *queue) put(t *testing.T, body []byte) {
	t.Helper()
	check.Call(t)(q.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &fakeaws.Names.Fires, MessageBody: new(string(body))}))
}

func (q *queue) messages() []fakeaws.Message { return q.Messages(fakeaws.Names.Fires) }

func (q *queue) empty() bool { return len(q.messages()) == 0 }

// results returns the results that the server has.
func (q *queue) results() (list []wire.CallbackItem) {
	q.locked(func() { list = slices.Clone(q.items) })
	return list
}

// until waits until ok holds.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	for range 100_000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it did not come")
}

func (q *queue) DeleteMessage(ctx context.Context, in *sqs.DeleteMessageInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	_, err := q.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: in.QueueUrl,
		Entries: []types.DeleteMessageBatchRequestEntry{{Id: new("0"), ReceiptHandle: in.ReceiptHandle}}})
	return &sqs.DeleteMessageOutput{}, err
}

func (q *queue) ChangeMessageVisibility(ctx context.Context, in *sqs.ChangeMessageVisibilityInput, _ ...func(*sqs.Options)) (
	*sqs.ChangeMessageVisibilityOutput, error,
) {
	out, err := q.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: in.QueueUrl,
		Entries: []types.ChangeMessageVisibilityBatchRequestEntry{{Id: new("0"), ReceiptHandle: in.ReceiptHandle,
			VisibilityTimeout: in.VisibilityTimeout}}})
	if err == nil && len(out.Failed) > 0 {
		err = &types.MessageNotInflight{}
	}
	return &sqs.ChangeMessageVisibilityOutput{}, err
}

// RoundTrip answers as the server.
func (q *queue) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.noServer || r.URL.Path != wire.PathCallback {
		return nil, errors.New("no route")
	}
	c, err := wire.DecodeCallback(body, 0)
	if err != nil {
		return nil, err
	}
	q.items = append(q.items, c.Items...)
	for _, it := range c.Items {
		q.story = append(q.story, fmt.Sprintf("reported %d: %d", it.LogID, it.Code))
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"code":200,"msg":null}`))}, nil
}

// consume starts a consumer and returns a function that stops it.
func consume(t *testing.T, q *queue, mux *executor.Mux) (stop func()) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	o := Options{Queue: fakeaws.Names.Fires, Client: q, App: "demo", Servers: []string{"http://server"}, Log: quiet,
		Change: func(e *executor.Options) { e.Client, e.LogMax = &http.Client{Transport: q}, -1 }}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, mux, o) }()
	stop = sync.OnceFunc(func() {
		cancel()
		check.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

func order(job int32, id int64, handler string) []byte {
	return wire.AppendRun(nil, &wire.Run{JobID: job, LogID: id, LogTime: 1, Handler: handler, GlueType: wire.GlueBean, BroadcastTotal: 1})
}

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		mux := executor.NewMux()
		mux.Register("h", func(_ context.Context, r *executor.Run) error {
			q.tell("began %d", r.ID)
			return nil
		})
		consume(t, q, mux)
		q.put(t, order(1, 7, "h"))
		until(t, q.empty)
		check.Equal(t, strings.Join(q.story, ", "), "sent, began 7, reported 7: 200, deleted")
		// A missing handler is a failure that is reported; a message that is no run stays, and blocks no other.
		q.put(t, []byte("nonsense"))
		q.put(t, order(1, 8, "nobody"))
		for id := range int64(100) {
			q.put(t, order(int32(id%7)+1, 100+id, "h"))
		}
		until(t, func() bool { return len(q.results()) == 102 && len(q.messages()) == 1 })
		check.Equal(t, q.messages()[0].Body, "nonsense", "left")
		// SQS redelivers a reported run: it is deleted, not run.
		q.put(t, order(1, 7, "h"))
		until(t, func() bool { return len(q.messages()) == 1 })
		check.Equal(t, len(q.results()), 102, "results")
	})
}

// TestVisibilityIsExtended: a message stays hidden while its run is running, and while no server takes its result.
func TestVisibilityIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.noServer = true
		mux := executor.NewMux()
		mux.Register("slow", func(context.Context, *executor.Run) error { <-time.After(time.Hour); return nil })
		consume(t, q, mux)
		consume(t, q, mux)
		q.put(t, order(1, 1, "slow"))
		<-time.After(90 * time.Minute)
		q.locked(func() { q.noServer = false })
		check.Equal(t, q.messages()[0].Receives, 1, "it was received N times")
		until(t, q.empty)
		check.Equal(t, len(q.results()), 1, "results %v", q.results())
	})
}

// TestStop: at a stop, a run that does not end in time is released and starts elsewhere at once; a run that ends is
// reported.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		mux, two := executor.NewMux(), executor.NewMux()
		mux.Register("short", func(context.Context, *executor.Run) error { <-time.After(10 * time.Second); return nil })
		mux.Register("long", func(ctx context.Context, _ *executor.Run) error { <-ctx.Done(); return nil })
		two.Register("long", func(_ context.Context, r *executor.Run) error {
			r.SetResult(executor.Success, fmt.Sprint("again ", r.Again))
			return nil
		})
		stop := consume(t, q, mux)
		q.put(t, order(1, 1, "short"))
		q.put(t, order(2, 2, "long"))
		q.put(t, order(2, 3, "long")) // waits behind it
		until(t, func() bool { m := q.messages(); return m[0].Receives+m[1].Receives+m[2].Receives == 3 })
		synctest.Wait()
		began := time.Now()
		stop()
		if d := time.Since(began); d < 30*time.Second || d > 31*time.Second {
			t.Errorf("the stop took %v", d)
		}
		if got := q.results(); len(got) != 1 || got[0].LogID != 1 || got[0].Code != 200 || len(q.messages()) != 2 {
			t.Errorf("results %v, %d messages", got, len(q.messages()))
		}
		began = time.Now()
		consume(t, q, two)
		until(t, q.empty)
		if got := q.results(); time.Since(began) > time.Second || len(got) != 3 || !strings.HasPrefix(got[1].Msg, "again true") ||
			!strings.HasPrefix(got[2].Msg, "again true") {
			t.Errorf("after %v: %v", time.Since(began), got)
		}
	})
}

// TestLogComesAlong: the end of a log comes with the result. For a failed run it fills the message, because no server can
// request the rest.
func TestLogComesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		mux := executor.NewMux()
		work := func(_ context.Context, r *executor.Run) error {
			for i := range 10_000 {
				r.Printf("row %d", i)
			}
			if r.JobID == 2 {
				return errors.New("no such table")
			}
			return nil
		}
		mux.Register("work", work)
		stop := consume(t, q, mux)
		q.put(t, order(1, 1, "work"))
		until(t, q.empty)
		q.put(t, order(2, 2, "work"))
		until(t, q.empty)
		stop()
		fine, failed := q.items[0].Msg, q.items[1].Msg
		if len(fine) > 4200 || len(fine) < 4000 || !strings.HasSuffix(fine, " row 9999") {
			t.Errorf("of one that succeeded: %d bytes, to %q", len(fine), fine[len(fine)-20:])
		}
		if len(failed) > wire.MaxMessage || len(failed) < wire.MaxMessage-100 || !strings.HasPrefix(failed, "no such table\n---- log\n") ||
			!strings.HasSuffix(failed, " row 9999") {
			t.Errorf("of one that failed: %d bytes, from %.40q to %q", len(failed), failed, failed[len(failed)-20:])
		}
	})
}

func TestQueueAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.down = true
		mux := executor.NewMux()
		mux.Register("h", func(context.Context, *executor.Run) error { return nil })
		consume(t, q, mux)
		q.put(t, order(1, 1, "h"))
		<-time.After(time.Hour)
		q.locked(func() { q.down = false })
		until(t, q.empty)
	})
}

func TestOptions(t *testing.T) {
	mux := executor.NewMux()
	for _, o := range []Options{{App: "a"}, {App: "a", Queue: "q", Client: &sqs.Client{}, Visibility: time.Second},
		{Queue: "q", Client: &sqs.Client{}}} {
		if err := Run(t.Context(), mux, o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}
