package load

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/tickring/tickring/store/dynamo"
)

// AdminToken is the admin token of the functions in a Sandbox.
const AdminToken = "function-admin-token"

// A Sandbox simulates Lambda's environment of a function: one process at a time that requests one event after the other, and is
// frozen in between. A process that ended, or was killed at its timeout, is replaced at the next event.
type Sandbox struct {
	bin string
	env []string
	log string
	api *httptest.Server

	turn sync.Mutex // one event at a time

	mu      sync.Mutex
	cmd     *exec.Cmd
	work    chan *event   // for the current process; events for an earlier process are dropped
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

// NewSandbox returns a Sandbox for the function with the given binary. The function uses the given tables and queues,
// writes to the given log file, and gets additional environment variables. The caller must close the Sandbox.
func NewSandbox(bin, log string, p Place, n dynamo.Names, more ...string) *Sandbox {
	s := &Sandbox{bin: bin, log: log, open: map[string]*event{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", s.next)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", s.answered(false))
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", s.answered(true))
	s.api = httptest.NewServer(mux)
	s.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(log), "TZ=UTC",
		"AWS_LAMBDA_RUNTIME_API=" + s.api.Listener.Addr().String(),
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=tickring", "AWS_SECRET_ACCESS_KEY=tickring", "AWS_EC2_METADATA_DISABLED=true",
		// Other requests of the SDK must not leave this machine.
		"AWS_ENDPOINT_URL=http://127.0.0.1:9",
		"AWS_ENDPOINT_URL_DYNAMODB=" + p.DynamoDB, "AWS_ENDPOINT_URL_SQS=" + p.SQS,
		"TICKRING_TABLE_JOBS=" + n.Jobs, "TICKRING_TABLE_RUNS=" + n.Runs, "TICKRING_TABLE_STATE=" + n.State,
		"TICKRING_QUEUE_FIRES=" + n.Fires, "TICKRING_QUEUE_SLOW=" + n.Slow,
		"TICKRING_QUEUE_CHECKS=" + n.Checks, "TICKRING_QUEUE_POSTRUN=" + n.PostRun,
		"TICKRING_QUEUE_DEAD=" + n.Dead,
		"TICKRING_ADMIN_TOKEN=" + AdminToken, "TICKRING_ALLOW=10.0.0.0/8", "TICKRING_ALLOW_LOOPBACK=1",
	}, more...)
	return s
}

// Close ends the function process and the simulated runtime.
func (s *Sandbox) Close() {
	s.Kill()
	s.api.Close()
}

// Tail returns the end of the output of the function processes.
func (s *Sandbox) Tail() string {
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// Processes returns the number of processes that were started so far.
func (s *Sandbox) Processes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started
}

// Started returns when the current process was started, and the time until the process requested its first event.
func (s *Sandbox) Started() (at time.Time, asked time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since, s.asked
}

func (s *Sandbox) next(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.asked == 0 {
		s.asked = time.Since(s.since)
	}
	process, work := s.cmd.Process, s.work
	s.mu.Unlock()
	freeze(process)
	defer thaw(process)
	select {
	case e := <-work:
		thaw(process)
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", e.id)
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(e.deadline.UnixMilli(), 10))
		w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:"+filepath.Base(s.bin))
		w.Write(e.payload)
	case <-r.Context().Done():
	}
}

func (s *Sandbox) answered(fault bool) http.HandlerFunc {
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
func (s *Sandbox) start() error {
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
	s.since, s.asked, s.work = time.Now(), 0, make(chan *event)
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

// Kill ends the current process with SIGKILL, even if the process is frozen, and waits until it has ended. Kill
// reports whether a process was running.
func (s *Sandbox) Kill() bool {
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

// Invoke passes one event to the function and waits for the answer of the function.
func (s *Sandbox) Invoke(payload []byte, timeout time.Duration) (body []byte, fault bool, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.start(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	s.n++
	e := &event{id: fmt.Sprintf("request-%d", s.n), payload: payload, deadline: time.Now().Add(timeout), answer: make(chan answer, 1)}
	s.open[e.id] = e
	gone, work := s.gone, s.work
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.open, e.id)
		s.mu.Unlock()
	}()
	over := time.NewTimer(timeout)
	defer over.Stop()
	for {
		select {
		case work <- e:
			work = nil
		case a := <-e.answer:
			return a.body, a.fault, nil
		case <-gone:
			return nil, false, errGone
		case <-over.C:
			s.Kill()
			return nil, false, fmt.Errorf("no answer in %s: %w", timeout, errGone)
		}
	}
}
