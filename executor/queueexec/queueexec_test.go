package queueexec

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

var quiet = slog.New(slog.DiscardHandler)

// TestMain runs a consumer instead of tests if a test sets the variable: a separate process can be killed.
func TestMain(m *testing.M) {
	if url := os.Getenv("QUEUEEXEC_TEST_URL"); url != "" {
		mux := executor.NewMux()
		mux.Register("h", func(_ context.Context, r *executor.Run) error {
			if r.Again {
				return nil
			}
			fmt.Println("began")
			select {}
		})
		err := Run(context.Background(), mux, Options{Queue: url + "/queue", Client: client(url, http.DefaultClient), App: "demo",
			Servers: []string{url}, Log: quiet})
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// client is the real one of the AWS SDK.
func client(url string, h *http.Client) *sqs.Client {
	return sqs.New(sqs.Options{Region: "eu-central-1", BaseEndpoint: &url, HTTPClient: h, RetryMaxAttempts: 1,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		})})
}

// A queue fakes SQS in its own protocol, and the scheduler that accepts callbacks.
type queue struct {
	mu       sync.Mutex
	changed  chan struct{}
	messages []*message
	handles  int
	down     map[string]bool // of consumers that cannot reach it
	story    []string
	items    []wire.CallbackItem
	noServer bool
	polls    int // long polls that wait
}

type message struct {
	id, body, handle string
	visible          time.Time
	received         int
}

func newQueue() *queue { return &queue{changed: make(chan struct{}), down: map[string]bool{}} }

func (q *queue) tell(format string, args ...any) {
	q.story = append(q.story, fmt.Sprintf(format, args...))
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

func (q *queue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	status, reply := q.answer(r.Context(), r.URL.Path, r.Header.Get("X-Amz-Target"), body)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	io.WriteString(w, reply)
}

func (q *queue) answer(ctx context.Context, path, target string, body []byte) (int, string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if path == wire.PathCallback {
		if q.noServer {
			return 500, ""
		}
		c, err := wire.DecodeCallback(body, 0)
		if err != nil {
			return 500, err.Error()
		}
		q.items = append(q.items, c.Items...)
		for _, it := range c.Items {
			q.tell("reported %d: %d", it.LogID, it.Code)
		}
		return 200, `{"code":200,"msg":null}`
	}
	var in struct {
		MaxNumberOfMessages, WaitTimeSeconds, VisibilityTimeout int
		ReceiptHandle                                           string
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return 400, `{"__type":"com.amazonaws.sqs#InvalidMessageContents"}`
	}
	if target == "AmazonSQS.ReceiveMessage" {
		limit := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
		q.polls++
		defer func() {
			q.polls--
			q.tell("polled")
		}()
		for {
			now := time.Now()
			next := limit
			var out []map[string]any
			for _, m := range q.messages {
				if m.visible.After(now) {
					if m.visible.Before(next) {
						next = m.visible
					}
					continue
				}
				if len(out) == in.MaxNumberOfMessages {
					break
				}
				m.received++
				q.handles++
				m.handle, m.visible = fmt.Sprint("h", q.handles), now.Add(time.Duration(in.VisibilityTimeout)*time.Second)
				sum := md5.Sum([]byte(m.body))
				out = append(out, map[string]any{"MessageId": m.id, "ReceiptHandle": m.handle, "Body": m.body, "MD5OfBody": hex.EncodeToString(sum[:]),
					"Attributes": map[string]string{"ApproximateReceiveCount": fmt.Sprint(m.received)}})
			}
			if len(out) > 0 || !now.Before(limit) {
				b, _ := json.Marshal(map[string]any{"Messages": out})
				return 200, string(b)
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
				return 500, ""
			}
		}
	}
	for i, m := range q.messages {
		if m.handle != in.ReceiptHandle {
			continue
		}
		switch target {
		case "AmazonSQS.DeleteMessage":
			q.messages = append(q.messages[:i:i], q.messages[i+1:]...)
			q.tell("deleted %s", m.id)
			return 200, "{}"
		case "AmazonSQS.ChangeMessageVisibility":
			if time.Now().After(m.visible) {
				return 400, `{"__type":"com.amazonaws.sqs#MessageNotInflight"}`
			}
			m.visible = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
			if in.VisibilityTimeout == 0 {
				q.tell("given back %s", m.id)
			}
			return 200, "{}"
		}
	}
	return 400, `{"__type":"com.amazonaws.sqs#ReceiptHandleIsInvalid"}`
}

// line is a consumer's connection, which can be cut.
type line struct {
	q    *queue
	name string
}

func (l line) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	l.q.mu.Lock()
	down := l.q.down[l.name]
	l.q.mu.Unlock()
	if down {
		return nil, errors.New("no route")
	}
	status, reply := l.q.answer(r.Context(), r.URL.Path, r.Header.Get("X-Amz-Target"), body)
	if r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(strings.NewReader(reply)), Request: r}, nil
}

// consume starts a consumer and returns a function that stops it.
func consume(t *testing.T, q *queue, name string, mux *executor.Mux, change func(*Options)) (stop func()) {
	t.Helper()
	h := &http.Client{Transport: line{q, name}}
	o := Options{Queue: "http://sqs/queue", Client: client("http://sqs", h), App: "demo", Servers: []string{"http://server"}, Log: quiet,
		Change: func(e *executor.Options) { e.Client, e.LogMax = h, -1 }}
	if change != nil {
		change(&o)
	}
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
		consume(t, q, "one", mux, nil)
		q.put(order(1, 7, "h"))
		q.until(t, q.empty)
		check.Equal(t, strings.ReplaceAll(strings.Join(q.story, ", "), "polled, ", ""), "sent, began 7, reported 7: 200, deleted m1")
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
		consume(t, q, "one", mux, nil)
		consume(t, q, "two", mux, nil)
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

// TestCutOff: a disconnected consumer loses its run to another one. It ends its handler before the other one starts, and
// does not report.
func TestCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		var ended, began time.Time
		first := make(chan struct{})
		one, two := executor.NewMux(), executor.NewMux()
		one.Register("h", func(ctx context.Context, r *executor.Run) error {
			close(first)
			<-ctx.Done()
			q.mu.Lock()
			ended = time.Now()
			q.mu.Unlock()
			if !errors.Is(context.Cause(ctx), errLost) {
				t.Errorf("the cause is %v", context.Cause(ctx))
			}
			return nil
		})
		two.Register("h", func(_ context.Context, r *executor.Run) error {
			q.mu.Lock()
			began = time.Now()
			q.mu.Unlock()
			if !r.Again {
				t.Error("it runs again without the mark")
			}
			r.SetResult(executor.Success, "by two")
			return nil
		})
		consume(t, q, "one", one, nil)
		q.put(order(1, 1, "h"))
		<-first
		q.mu.Lock()
		q.down["one"] = true
		q.mu.Unlock()
		consume(t, q, "two", two, nil)
		q.until(t, q.empty)
		q.mu.Lock()
		if !ended.Before(began) || ended.IsZero() {
			t.Errorf("ended %v, began again %v", ended, began)
		}
		q.down["one"] = false
		q.mu.Unlock()
		<-time.After(10 * time.Minute)
		if len(q.items) != 1 || !strings.HasPrefix(q.items[0].Msg, "by two") {
			t.Errorf("results %v", q.items)
		}
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
		stop := consume(t, q, "one", mux, nil)
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
		consume(t, q, "two", two, nil)
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
		stop := consume(t, q, "one", mux, nil)
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
		q.down["one"] = true
		mux := executor.NewMux()
		mux.Register("h", func(context.Context, *executor.Run) error { return nil })
		consume(t, q, "one", mux, nil)
		q.put(order(1, 1, "h"))
		<-time.After(time.Hour)
		q.mu.Lock()
		q.down["one"] = false
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

// A process that is killed under a run loses it to another one.
func TestKilled(t *testing.T) {
	q := newQueue()
	server := httptest.NewServer(q)
	defer server.Close()
	start := func() (*exec.Cmd, *bytes.Buffer) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "QUEUEEXEC_TEST_URL="+server.URL)
		cmd.Dir = t.TempDir()
		var said bytes.Buffer
		cmd.Stderr = &said
		return cmd, &said
	}
	one, said := start()
	out, err := one.StdoutPipe()
	check.OK(t, err)
	check.OK(t, one.Start())
	q.put(order(1, 1, "h"))
	b := make([]byte, len("began\n"))
	if _, err := io.ReadFull(out, b); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	one.Process.Kill()
	one.Wait()
	q.until(t, func() bool { return q.polls == 0 }) // the server has noticed the cut connection
	q.mu.Lock()
	if len(q.items) != 0 || q.messages[0].received != 1 {
		t.Errorf("before its visibility has passed: results %v, received %d times", q.items, q.messages[0].received)
	}
	q.messages[0].visible = time.Now() // the minute has passed
	q.tell("visible")
	q.mu.Unlock()
	two, said := start()
	check.OK(t, two.Start())
	defer two.Wait()
	defer two.Process.Kill()
	q.until(t, q.empty)
	if len(q.items) != 1 || q.items[0].LogID != 1 || q.items[0].Code != 200 {
		t.Errorf("results %v: %s", q.items, said)
	}
}
