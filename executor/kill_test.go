package executor

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

var (
	kills    = flag.Int("kills", 4, "how often TestKilled kills the executor; CI takes 50")
	killSeed = flag.Uint64("kills.seed", 0, "of the moments of the kills; 0: another one each time")
)

// child runs the executor of TestKilled, in a separate process that can be killed. It returns false in the test process.
func child() bool {
	server, dir := os.Getenv("EXECUTOR_TEST_SERVER"), os.Getenv("EXECUTOR_TEST_DIR")
	if program := os.Getenv("EXECUTOR_TEST_PROGRAM"); program != "" {
		runProgram(dir, program, os.Getenv("EXECUTOR_TEST_PIPE"))
		return true
	}
	if server == "" {
		return false
	}
	ran, err := os.OpenFile(filepath.Join(dir, "ran"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	// Each start is recorded in a file, one line in one write.
	work := func(_ context.Context, r *Run) error {
		if _, err := fmt.Fprintf(ran, "%d\n", r.ID); err != nil {
			panic(err)
		}
		r.Printf("at work")
		r.SetResult(Success, fmt.Sprintf("done %d", r.ID))
		return nil
	}
	mux := NewMux()
	mux.Register("once", work)
	mux.Register("again", work, RerunAfterCrash())
	e, err := New(mux, Options{
		App: "demo", Servers: []string{server}, Token: "secret", Listen: "127.0.0.1:0", Dir: dir, Log: quiet,
		NoSync: os.Getenv("EXECUTOR_TEST_NOSYNC") != "", QueueSize: 10_000, CallbackRetry: time.Second,
		journalMost: 64 << 10, // small, so that kills also hit new files
	})
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := e.ListenAndServe(ctx); err != nil {
		panic(err)
	}
	return true
}

// runProgram is an executor in a separate process that runs one program and waits to be killed.
func runProgram(dir, program, pipe string) {
	mux := muxOf("p", Program{Path: "sh", Args: []string{"-c", program, "sh"}}.Handle)
	e, err := New(mux, Options{App: "demo", Dir: dir, Log: quiet, LogMax: -1})
	if err != nil {
		panic(err)
	}
	if err := e.Start(); err != nil {
		panic(err)
	}
	run := order(1, 77, "p")
	run.Params = pipe
	if r := send(e, run); !r.OK() {
		panic(r.Msg)
	}
	<-time.After(time.Hour)
}

// A killWorld is the scheduler of TestKilled: it sends runs and accepts results.
type killWorld struct {
	*fake
	accepted map[int64]bool     // answered with success, or "repeate trigger job"
	refused  map[int64]bool     // answered otherwise
	unknown  map[int64]wire.Run // without answer
	down     atomic.Bool        // callbacks are rejected
	next     atomic.Int64
}

func (k *killWorld) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	res, err := k.RoundTrip(r)
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	_, _ = io.Copy(w, res.Body)
}

// results returns the first result of each run.
func (k *killWorld) results() map[int64]wire.CallbackItem {
	all := map[int64]wire.CallbackItem{}
	for _, it := range slices.Backward(k.items) {
		all[it.LogID] = it
	}
	return all
}

// send sends one run and records the answer.
func (k *killWorld) send(client *http.Client, address string, run wire.Run) {
	req, err := http.NewRequest(http.MethodPost, address+wire.PathRun, bytes.NewReader(wire.AppendRun(nil, &run)))
	if err != nil {
		panic(err)
	}
	req.Header.Set(wire.HeaderToken, "secret")
	reply := wire.Reply{}
	res, err := client.Do(req)
	if err == nil {
		var b []byte
		b, err = io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil {
			reply, err = wire.DecodeReply(b)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil && errors.Is(err, syscall.ECONNREFUSED):
		k.refused[run.LogID] = true
	case err != nil:
		k.unknown[run.LogID] = run
	case reply.OK(), reply.Verdict() == wire.VerdictRepeatTrigger:
		k.accepted[run.LogID] = true
		delete(k.unknown, run.LogID)
	default:
		if _, open := k.unknown[run.LogID]; !open {
			k.refused[run.LogID] = true
		}
	}
}

func killRun(id int64) wire.Run {
	handler := "once"
	if id%2 == 0 {
		handler = "again"
	}
	run := order(int32(id%8)+1, id, handler)
	run.LogTime = 1_700_000_000_000
	return run
}

// TestKilled: the executor's process is killed under load, repeatedly. Each run that was answered with success gets one
// result, however often it is reported, and only handlers with RerunAfterCrash run twice. The same holds for runs that were sent
// again because no answer came.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	k := &killWorld{fake: newFake(), accepted: map[int64]bool{}, refused: map[int64]bool{}, unknown: map[int64]wire.Run{}}
	k.answer = func(_, path string, _ []byte) string {
		if path == wire.PathCallback && k.down.Load() {
			return ""
		}
		return taken
	}
	server := httptest.NewServer(k)
	defer server.Close()
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-kills.seed=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()

	for round := range *kills + 1 {
		last := round == *kills
		k.locked(func() { k.regs = nil })
		// In some rounds no result is accepted, so that results accumulate across a kill.
		k.down.Store(!last && random.IntN(3) == 0)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "EXECUTOR_TEST_SERVER="+server.URL, "EXECUTOR_TEST_DIR="+dir)
		if round%2 == 1 {
			cmd.Env = append(cmd.Env, "EXECUTOR_TEST_NOSYNC=1")
		}
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		check.OK(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		defer cmd.Process.Kill()
		k.until(t, func() bool { return len(k.regs) > 0 })
		var address string
		var again []wire.Run
		k.locked(func() { address, again = k.regs[0].Address, slices.Collect(maps.Values(k.unknown)) })
		for _, run := range again {
			k.send(client, address, run)
		}

		// The load: until a kill cuts it off.
		var sent atomic.Int64
		stop := make(chan struct{})
		var loops sync.WaitGroup
		at := int64(50 + random.IntN(600))
		reached := make(chan struct{})
		for range 8 {
			loops.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					k.send(client, address, killRun(k.next.Add(1)))
					if sent.Add(1) == at {
						close(reached)
					}
				}
			})
		}
		<-reached
		if !last {
			cmd.Process.Kill()
			<-ended
			close(stop)
			loops.Wait()
			client.CloseIdleConnections()
			continue
		}
		close(stop)
		loops.Wait()
		k.until(t, func() bool { // a result of each accepted run
			results := k.results()
			for id := range k.accepted {
				if _, ok := results[id]; !ok {
					return false
				}
			}
			return true
		})
		cmd.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("the stop: %v\n%s", err, said.String())
		}
	}

	crashed, results := 0, k.results()
	for id, it := range results {
		switch {
		case k.refused[id]:
			t.Errorf("run %d was refused and has a result: %d %q", id, it.Code, it.Msg)
		case it.Code == 200 && it.Msg == fmt.Sprintf("done %d", id):
		case it.Code == 500 && it.Msg == reasonCrash+suffixRunning && id%2 == 1:
			crashed++
		default:
			t.Errorf("run %d: %d %q", id, it.Code, it.Msg)
		}
	}
	for _, it := range k.items {
		if was := results[it.LogID]; was.Code != it.Code || was.Msg != it.Msg {
			t.Errorf("run %d: reported %d %q, and then %d %q", it.LogID, was.Code, was.Msg, it.Code, it.Msg)
		}
	}
	if n := len(k.unknown); n > 0 {
		t.Errorf("%d runs have no answer though they were sent again", n)
	}
	b, err := os.ReadFile(filepath.Join(dir, "ran"))
	check.OK(t, err)
	times := map[int64]int{}
	for line := range strings.Lines(string(b)) {
		id, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		check.OK(t, err)
		times[id]++
	}
	twice := 0
	for id, n := range times {
		if n > 1 {
			twice++
			if id%2 == 1 {
				t.Errorf("run %d was begun %d times", id, n)
			}
		}
	}
	for id, it := range results {
		if it.Code == 200 && times[id] == 0 {
			t.Errorf("run %d has a result and was never begun", id)
		}
	}
	t.Logf("%d kills: %d runs accepted, all with one result; %d reported as failed by the crash, %d run again, %d refused", *kills,
		len(k.accepted), crashed, twice, len(k.refused))
}
