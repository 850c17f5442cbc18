package aws_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickring/tickring/engine/awsengine"
)

// names of the functions, each a binary of its own.
var names = []string{"tick", "dispatch", "callback", "registry", "api"}

const adminToken = "function-admin-token" // of the event documents

// binaries is the folder in which the functions are, built once.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tickring-functions")
	if err != nil {
		return "", err
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tickring/tickring").Output()
	if err != nil {
		return dir, fmt.Errorf("find the module to build: %w", err)
	}
	for _, name := range names {
		// As a deployment builds them, but for this machine's processor.
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "lambda.norpc", "-o", filepath.Join(dir, name), "./functions/"+name)
		cmd.Dir = strings.TrimSpace(string(root))
		cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return dir, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if built {
		if dir, _ := binaries(); dir != "" {
			os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

var built bool

func binary(tb testing.TB, name string) string {
	tb.Helper()
	built = true
	dir, err := binaries()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// A sandbox is what Lambda gives a function: one process at a time that asks
// for one event after the other. A process that is gone, or was killed at its
// timeout, is replaced when the next event comes.
type sandbox struct {
	bin  string
	env  []string
	log  string
	api  *httptest.Server
	work chan *event

	turn sync.Mutex // one event at a time

	mu      sync.Mutex
	cmd     *exec.Cmd
	gone    chan struct{} // closed when the process has ended
	since   time.Time     // when it was started
	asked   time.Duration // from then to its first question
	open    map[string]*event
	n       int
	started int // processes
}

type event struct {
	id       string
	payload  []byte
	deadline time.Time
	answer   chan answer
}

type answer struct {
	body  []byte
	fault bool
}

// errGone is the answer where the process ended before it answered.
var errGone = errors.New("the process ended without an answer")

// newSandbox makes one for a function on these tables and queues; more is
// added to the environment.
func newSandbox(tb testing.TB, name string, n awsengine.Names, more ...string) *sandbox {
	tb.Helper()
	s := &sandbox{bin: binary(tb, name), log: filepath.Join(tb.TempDir(), name+".log"), work: make(chan *event), open: map[string]*event{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", s.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", s.answered(false))
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", s.answered(true))
	s.api = httptest.NewServer(mux)
	s.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + tb.TempDir(), "TZ=UTC",
		"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(s.api.URL, "http://"),
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=tickring", "AWS_SECRET_ACCESS_KEY=tickring", "AWS_EC2_METADATA_DISABLED=true",
		// Nothing that the SDK calls besides is to leave this machine.
		"AWS_ENDPOINT_URL=http://127.0.0.1:9",
		"AWS_ENDPOINT_URL_DYNAMODB=" + os.Getenv("TICKRING_TEST_DYNAMODB"), "AWS_ENDPOINT_URL_SQS=" + os.Getenv("TICKRING_TEST_SQS"),
		"TICKRING_TABLE_JOBS=" + n.Jobs, "TICKRING_TABLE_RUNS=" + n.Runs, "TICKRING_TABLE_STATE=" + n.State,
		"TICKRING_QUEUE_FIRES=" + n.Fires, "TICKRING_QUEUE_SLOW=" + n.Slow, "TICKRING_QUEUE_CHECKS=" + n.Checks, "TICKRING_QUEUE_DEAD=" + n.Dead,
		"TICKRING_ADMIN_TOKEN=" + adminToken, "TICKRING_ALLOW=10.0.0.0/8", "TICKRING_ALLOW_LOOPBACK=1",
	}, more...)
	tb.Cleanup(func() {
		s.kill()
		s.api.Close()
		if tb.Failed() {
			if b, err := os.ReadFile(s.log); err == nil {
				tb.Logf("%s:\n%s", name, b[max(0, len(b)-4000):])
			}
		}
	})
	return s
}

func (s *sandbox) next(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.asked == 0 {
		s.asked = time.Since(s.since)
	}
	s.mu.Unlock()
	select {
	case e := <-s.work:
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", e.id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(e.deadline.UnixMilli(), 10))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:"+filepath.Base(s.bin))
		w.Write(e.payload)
	case <-r.Context().Done():
	}
}

func (s *sandbox) answered(fault bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		s.mu.Lock()
		e := s.open[r.PathValue("id")]
		s.mu.Unlock()
		if err == nil && e != nil {
			e.answer <- answer{body, fault}
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// start starts a process unless one runs.
func (s *sandbox) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		select {
		case <-s.gone:
		default:
			return nil
		}
	}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.bin)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.env, log, log
	gone := make(chan struct{})
	s.since, s.asked = time.Now(), 0
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.gone = cmd, gone
	s.started++
	go func() {
		cmd.Wait()
		close(gone)
	}()
	return nil
}

// kill is kill -9; it returns when the process is gone, and tells whether there was one.
func (s *sandbox) kill() bool {
	s.mu.Lock()
	cmd, gone := s.cmd, s.gone
	s.mu.Unlock()
	if cmd == nil {
		return false
	}
	select {
	case <-gone:
		return false
	default:
	}
	cmd.Process.Kill()
	<-gone
	return true
}

// invoke gives the function one event and waits for its answer.
func (s *sandbox) invoke(payload []byte, timeout time.Duration) (body []byte, fault bool, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.start(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	s.n++
	e := &event{id: fmt.Sprintf("request-%d", s.n), payload: payload, deadline: time.Now().Add(timeout), answer: make(chan answer, 1)}
	s.open[e.id] = e
	gone := s.gone
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.open, e.id)
		s.mu.Unlock()
	}()
	over := time.NewTimer(timeout)
	defer over.Stop()
	work := s.work
	for {
		select {
		case work <- e:
			work = nil
		case a := <-e.answer:
			return a.body, a.fault, nil
		case <-gone:
			return nil, false, errGone
		case <-over.C:
			s.kill()
			return nil, false, fmt.Errorf("no answer in %s: %w", timeout, errGone)
		}
	}
}

// ok invokes and expects an answer that is no error.
func (s *sandbox) ok(tb testing.TB, payload []byte) string {
	tb.Helper()
	body, fault, err := s.invoke(payload, 30*time.Second)
	if err != nil || fault {
		tb.Fatalf("%s: %s, %v", filepath.Base(s.bin), body, err)
	}
	return string(body)
}

// document is an event of a function's testdata, with texts replaced.
func document(tb testing.TB, path string, replace ...string) []byte {
	tb.Helper()
	b, err := os.ReadFile("../../functions/" + path)
	if err != nil {
		tb.Fatal(err)
	}
	return []byte(strings.NewReplacer(replace...).Replace(string(b)))
}

// fresh makes tables and queues for one test.
func fresh(tb testing.TB) awsengine.Names {
	tb.Helper()
	db, queues := clients(tb)
	n, err := awsengine.CreateLocal(context.Background(), db, queues, fmt.Sprintf("t%d-%d", os.Getpid(), made.Add(1)))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
