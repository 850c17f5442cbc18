package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/store/dynamo"
)

const asFunction = "AWSLOAD_TEST_FUNCTION"

// TestMain is also the function that a Sandbox runs in these tests: it answers with as
// many bytes as it is asked for, and when it had to answer; never if they are less than none.
func TestMain(m *testing.M) {
	if os.Getenv(asFunction) == "" {
		os.Exit(m.Run())
	}
	base := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		res, err := http.Get(base + "next")
		if err != nil {
			os.Exit(1)
		}
		var asked struct{ Body string }
		_ = json.NewDecoder(res.Body).Decode(&asked)
		size := 0
		fmt.Sscan(asked.Body, &size)
		if size < 0 {
			select {}
		}
		answer, _ := json.Marshal(map[string]any{"statusCode": 200, "body": strings.Repeat(" ", size),
			"headers": map[string]string{"deadline": res.Header.Get("Lambda-Runtime-Deadline-Ms")}})
		if _, err = http.Post(base+res.Header.Get("Lambda-Runtime-Aws-Request-Id")+"/response", "application/json",
			strings.NewReader(string(answer))); err != nil {
			os.Exit(1)
		}
	}
}

func aFunction(t *testing.T) *Sandbox {
	self, err := os.Executable()
	check.OK(t, err)
	s, err := NewSandbox(self, filepath.Join(t.TempDir(), "log"), Place{}, dynamo.Names{}, asFunction+"=1")
	check.OK(t, err)
	t.Cleanup(s.Close)
	return s
}

func askFor(s *Sandbox, size int) (response, error) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://door/", nil)
	return ask(s, r, []byte(fmt.Sprint(size)))
}

// TestLargeAnswer: an answer of a function has at most 6 MB.
func TestLargeAnswer(t *testing.T) {
	s := aFunction(t)
	if res, err := askFor(s, 5<<20); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("5 MB: %v", err)
	}
	if _, err := askFor(s, 6<<20); err == nil {
		t.Error("more than 6 MB came through")
	}
	front := httptest.NewRecorder()
	l := &load{registry: s, got: map[core.RunID][]time.Time{}}
	l.front(front, httptest.NewRequest(http.MethodPost, "http://door/", strings.NewReader(fmt.Sprint(6<<20))))
	check.Equal(t, front.Code, http.StatusBadGateway, "more than 6 MB are answered")
}

// TestLateAnswer: a function has 29 s to answer a user; if it takes longer it is killed, without an answer.
func TestLateAnswer(t *testing.T) {
	s := aFunction(t)
	before := time.Now()
	res, err := askFor(s, 0)
	check.OK(t, err)
	var until int64
	fmt.Sscan(res.Headers["deadline"], &until)
	const door = 29 * time.Second // timeout of API Gateway
	if d := time.UnixMilli(until); d.Before(before.Add(door).Truncate(time.Millisecond)) || d.After(time.Now().Add(door)) {
		t.Errorf("its deadline is %s after the request", d.Sub(before))
	}
	if _, _, err := s.Invoke([]byte(`{"body":"-1"}`), 100*time.Millisecond); !errors.Is(err, errGone) {
		t.Errorf("no answer in its time: %v", err)
	}
	if s.Kill() {
		t.Error("it lives on")
	}
}

// A function is frozen between two invocations, with all its goroutines, and can be
// killed then.
func TestFrozen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the process state is unknown on this system")
	}
	s := aFunction(t)
	for range 2 {
		check.Call(t)(askFor(s, 0))
		stat := fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid)
		over := time.After(20 * time.Second)
		for state := ""; state != "T"; {
			b, err := os.ReadFile(stat)
			check.OK(t, err)
			_, rest, _ := strings.Cut(string(b), ") ")
			state, _, _ = strings.Cut(rest, " ")
			select {
			case <-over:
				t.Fatalf("its state between two invocations is %s", state)
			default:
			}
		}
	}
	if !s.Kill() {
		t.Error("there was nothing to kill")
	}
	if _, err := askFor(s, 0); err != nil || s.Processes() != 2 {
		t.Errorf("%d processes, %v", s.Processes(), err)
	}
}
