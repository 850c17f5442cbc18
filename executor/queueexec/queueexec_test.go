package queueexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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
	"github.com/tickring/tickring/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A queue fakes the client of SQS, and the server that accepts callbacks.
type queue struct {
	mu       sync.Mutex
	changed  chan struct{}
	messages []*message
	handles  int
	story    []string
	items    []wire.CallbackItem
	down     bool // no request to SQS is answered
	noServer bool
}

type message struct {
	id, body, handle string
	visible          time.Time
	received         int
}

func newQueue() *queue { return &queue{changed: make(chan struct{})} }

func (q *queue) tell(format string, args ...any) {
	q.story = append(q.story, fmt.Sprintf(format, args...))
	q.rouse()
}

// rouse wakes the goroutines that wait for a change. Call it with mu held.
func (q *queue) rouse() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queue) put(body []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = append(q.messages, &message{id: fmt.Sprint("m", len(q.messages)+1), body: string(body), visible: time.Now()})
	q.tell("sent")
}

// until waits until ok holds.
func (q *queue) until(t *testing.T, ok func() bool) {
	t.Helper()
	limit := time.NewTimer(24 * time.Hour)
	defer limit.Stop()
	for {
		q.mu.Lock()
		done, changed := ok(), q.changed
		q.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			t.Fatalf("it did not come: %q", q.story)
		}
	}
}

func (q *queue) empty() bool { return len(q.messages) == 0 }

func (q *queue) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (
	*sqs.ReceiveMessageOutput, error,
) {
	limit := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.down {
			return nil, errors.New("no route")
		}
		now := time.Now()
		next := limit
		out := &sqs.ReceiveMessageOutput{}
		for _, m := range q.messages {
			if m.visible.After(now) {
				if m.visible.Before(next) {
					next = m.visible
				}
				continue
			}
			if len(out.Messages) == int(in.MaxNumberOfMessages) {
				break
			}
			m.received++
			q.handles++
			m.handle, m.visible = fmt.Sprint("h", q.handles), now.Add(time.Duration(in.VisibilityTimeout)*time.Second)
			out.Messages = append(out.Messages, types.Message{MessageId: &m.id, ReceiptHandle: new(m.handle), Body: &m.body,
				Attributes: map[string]string{"ApproximateReceiveCount": fmt.Sprint(m.received)}})
		}
		if len(out.Messages) > 0 || !now.Before(limit) {
			q.rouse()
			return out, nil
		}
		changed := q.changed
		q.mu.Unlock()
		t := time.NewTimer(next.Sub(now))
		select {
		case <-changed:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
		q.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// held returns the position of the message with a receipt handle. Call it with mu held.
func (q *queue) held(handle *string) (int, error) {
	for i, m := range q.messages {
		if m.handle == *handle {
			return i, nil
		}
	}
	return 0, &types.ReceiptHandleIsInvalid{}
}

func (q *queue) DeleteMessage(_ context.Context, in *sqs.DeleteMessageInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i, err := q.held(in.ReceiptHandle)
	if err != nil {
		return nil, err
	}
	id := q.messages[i].id
	q.messages = append(q.messages[:i:i], q.messages[i+1:]...)
	q.tell("deleted %s", id)
	return &sqs.DeleteMessageOutput{}, nil
}

func (q *queue) ChangeMessageVisibility(_ context.Context, in *sqs.ChangeMessageVisibilityInput, _ ...func(*sqs.Options)) (
	*sqs.ChangeMessageVisibilityOutput, error,
) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i, err := q.held(in.ReceiptHandle)
	if err != nil {
		return nil, err
	}
	m := q.messages[i]
	if time.Now().After(m.visible) {
		return nil, &types.MessageNotInflight{}
	}
	m.visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
	if in.VisibilityTimeout == 0 {
		q.tell("given back %s", m.id)
	}
	return &sqs.ChangeMessageVisibilityOutput{}, nil
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
		q.tell("reported %d: %d", it.LogID, it.Code)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"code":200,"msg":null}`))}, nil
}

// consume starts a consumer and returns a function that stops it.
func consume(t *testing.T, q *queue, mux *executor.Mux) (stop func()) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	o := Options{Queue: "http://sqs/queue", Client: q, App: "demo", Servers: []string{"http://server"}, Log: quiet,
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
		q := newQueue()
		mux := executor.NewMux()
		mux.Register("h", func(_ context.Context, r *executor.Run) error {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.tell("began %d", r.ID)
			return nil
		})
		consume(t, q, mux)
		q.put(order(1, 7, "h"))
		q.until(t, q.empty)
		check.Equal(t, strings.Join(q.story, ", "), "sent, began 7, reported 7: 200, deleted m1")
		// A missing handler is a failure that is reported; a message that is no run stays, and blocks no other.
		q.put([]byte("nonsense"))
		q.put(order(1, 8, "nobody"))
		for id := range int64(100) {
			q.put(order(int32(id%7)+1, 100+id, "h"))
		}
		q.until(t, func() bool { return len(q.items) == 102 && len(q.messages) == 1 })
		check.Equal(t, q.messages[0].body, "nonsense", "left")
		// SQS redelivers a reported run: it is deleted, not run.
		q.put(order(1, 7, "h"))
		q.until(t, func() bool { return len(q.messages) == 1 })
		check.Equal(t, len(q.items), 102, "results")
	})
}

// TestVisibilityIsExtended: a message stays hidden while its run is running, and while no server takes its result.
func TestVisibilityIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.noServer = true
		mux := executor.NewMux()
		mux.Register("slow", func(context.Context, *executor.Run) error { <-time.After(time.Hour); return nil })
		consume(t, q, mux)
		consume(t, q, mux)
		q.put(order(1, 1, "slow"))
		<-time.After(90 * time.Minute)
		q.mu.Lock()
		q.noServer = false
		check.Equal(t, q.messages[0].received, 1, "it was received N times")
		q.mu.Unlock()
		q.until(t, q.empty)
		check.Equal(t, len(q.items), 1, "results %v", q.items)
	})
}

// TestStop: at a stop, a run that does not end in time is released and starts elsewhere at once; a run that ends is
// reported.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		mux, two := executor.NewMux(), executor.NewMux()
		mux.Register("short", func(context.Context, *executor.Run) error { <-time.After(10 * time.Second); return nil })
		mux.Register("long", func(ctx context.Context, _ *executor.Run) error { <-ctx.Done(); return nil })
		two.Register("long", func(_ context.Context, r *executor.Run) error {
			r.SetResult(executor.Success, fmt.Sprint("again ", r.Again))
			return nil
		})
		stop := consume(t, q, mux)
		q.put(order(1, 1, "short"))
		q.put(order(2, 2, "long"))
		q.put(order(2, 3, "long")) // waits behind it
		q.until(t, func() bool { return q.messages[0].received+q.messages[1].received+q.messages[2].received == 3 })
		synctest.Wait()
		began := time.Now()
		stop()
		if d := time.Since(began); d < 30*time.Second || d > 31*time.Second {
			t.Errorf("the stop took %v", d)
		}
		q.mu.Lock()
		if len(q.items) != 1 || q.items[0].LogID != 1 || q.items[0].Code != 200 || len(q.messages) != 2 {
			t.Errorf("results %v, %d messages", q.items, len(q.messages))
		}
		q.mu.Unlock()
		began = time.Now()
		consume(t, q, two)
		q.until(t, q.empty)
		if time.Since(began) > time.Second || len(q.items) != 3 || !strings.HasPrefix(q.items[1].Msg, "again true") ||
			!strings.HasPrefix(q.items[2].Msg, "again true") {
			t.Errorf("after %v: %v", time.Since(began), q.items)
		}
	})
}

// TestLogComesAlong: the end of a log comes with the result. For a failed run it fills the message, because no server can
// request the rest.
func TestLogComesAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
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
		q.put(order(1, 1, "work"))
		q.until(t, q.empty)
		q.put(order(2, 2, "work"))
		q.until(t, q.empty)
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
		q := newQueue()
		q.down = true
		mux := executor.NewMux()
		mux.Register("h", func(context.Context, *executor.Run) error { return nil })
		consume(t, q, mux)
		q.put(order(1, 1, "h"))
		<-time.After(time.Hour)
		q.mu.Lock()
		q.down = false
		q.mu.Unlock()
		q.until(t, q.empty)
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
