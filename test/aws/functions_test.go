package aws_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/test/load"
)

// maxBinary limits the size of an upload and of a cold start. api sends no scheduled runs, so it can be larger: it has all user
// requests, tests of channels, and the console, whose templates keep every method of every type (decision 048).
const maxBinary, maxApi = 21 << 20, 44 << 20

// TestFunctions sends real events to the deployed binaries, each a process that polls the runtime API, on the emulators.
func TestFunctions(t *testing.T) {
	db, queues := clients(t)
	n := fresh(t)
	e, err := load.Open(db, queues, dynamo.Options{Names: n})
	check.OK(t, err)
	for _, name := range names {
		info, err := os.Stat(binary(t, name))
		check.OK(t, err)
		most := int64(maxBinary)
		if name == "api" {
			most = maxApi
		}
		if info.Size() >= most {
			t.Errorf("%s has %d bytes; at most %d are allowed", name, info.Size(), most)
		}
	}
	// The order matters: each step prepares the next one.
	t.Run("api", func(t *testing.T) {
		s := newSandbox(t, "api", n)
		check.Equal(t, status(t, s.ok(t, document(t, "api/testdata/url.json", adminToken, "another-admin-token"))), 401, "with another token")
		if got := s.ok(t, document(t, "api/testdata/httpapi.json")); status(t, got) != 200 {
			t.Errorf("an app: %s", got)
		}
		if got := s.ok(t, document(t, "api/testdata/url.json")); status(t, got) != 200 || !strings.Contains(got, "billing") {
			t.Errorf("the apps: %s", got)
		}
		s.reused(t)
	})
	t.Run("registry", func(t *testing.T) {
		s := newSandbox(t, "registry", n)
		if got := s.ok(t, document(t, "registry/testdata/httpapi.json", "10.0.3.17:9999", "169.254.169.254:80")); !strings.Contains(got,
			`\"code\":500`) {
			t.Errorf("the metadata service: %s", got)
		}
		check.Contains(t, s.ok(t, document(t, "registry/testdata/httpapi.json")), `\"code\":200`, "an executor")
		list, err := e.Executors(t.Context(), []string{"billing"})
		if err != nil || len(list["billing"]) != 1 || list["billing"][0].Address != "http://10.0.3.17:9999" {
			t.Errorf("registered %+v, %v", list, err)
		}
		s.reused(t)
	})
	t.Run("tick", func(t *testing.T) {
		s := newSandbox(t, "tick", n)
		s.ok(t, document(t, "tick/testdata/schedule.json"))
		alive(t, e)
		if body, fault, err := s.Invoke([]byte(`{"skip":999}`), 30*time.Second); err != nil || !fault ||
			!strings.Contains(string(body), "skip: 999; allowed values: 0 to 256") {
			t.Errorf("a skip out of range: %s, %v", body, err)
		}
		s.reused(t)
	})
	t.Run("dispatch", func(t *testing.T) {
		s := newSandbox(t, "dispatch", n)
		if got := failed(t, s.ok(t, document(t, "dispatch/testdata/batch.json"))); len(got) > 0 {
			t.Errorf("%q come again", got)
		}
		// Its fires are of jobs that never were: three, one of them in two copies.
		for job, reason := range deadLetters(t, queues, n.Dead, 3) {
			check.Contains(t, reason, "job", "%s was dead-lettered with the reason", job)
		}
		if got := failed(t, s.ok(t, document(t, "dispatch/testdata/poisoned.json"))); len(got) != 1 || !strings.HasPrefix(got[0], "00000003") {
			t.Errorf("%q come again; want the newer one", got)
		}
		poison := 0
		for _, reason := range deadLetters(t, queues, n.Dead, 7) {
			if strings.HasPrefix(reason, "unreadable message: ") {
				poison++
			}
		}
		check.Equal(t, poison, 4, "of 4 unreadable messages are among the dead letters with their reasons")
		s.reused(t)
	})
	t.Run("callback", func(t *testing.T) {
		run := core.RunID(30282209332) // of the document
		at, _ := run.Planned()
		check.OK(t, e.CreateRuns(t.Context(),
			[]core.Run{{ID: run, App: "billing", State: core.Running, Owner: "o", Address: "http://10.0.3.17:9999", Cause: core.CauseSchedule,
				At: at, Slot: at, Attempt: 1, First: run}})[0])
		s := newSandbox(t, "callback", n)
		for _, doc := range []string{"callback/testdata/httpapi.json", "callback/testdata/url.json"} {
			check.Contains(t, s.ok(t, document(t, doc)), `\"code\":200`, "%s", doc)
		}
		check.Equal(t, memory.Run(t, e, run).State, core.Succeeded, "the state of the run")
		s.reused(t)
	})
}

// reused fails where a process did not outlive the events that it was given.
func (s sandbox) reused(tb testing.TB) {
	tb.Helper()
	check.Equal(tb, s.Processes(), 1, "processes were needed")
}

// TestFunctionsWithoutConfiguration: a function that cannot start logs the reason in one line and ends.
func TestFunctionsWithoutConfiguration(t *testing.T) {
	for _, name := range names {
		cmd := exec.Command(binary(t, name))
		cmd.Env = []string{"AWS_REGION=us-east-1", "TICKRING_TABLE_JOBS=jobs"}
		out, err := cmd.Output()
		if err == nil {
			t.Errorf("%s started", name)
		}
		var line struct{ Level, Msg, Err string }
		if err := json.Unmarshal(out, &line); err != nil || line.Level != "ERROR" ||
			!strings.Contains(line.Err, "TICKRING_TABLE_RUNS is missing") || !strings.Contains(line.Err, "TICKRING_QUEUE_DEAD is missing") {
			t.Errorf("%s says %s", name, out)
		}
	}
}

func status(tb testing.TB, body string) int {
	tb.Helper()
	var res struct {
		StatusCode int `json:"statusCode"`
	}
	if err := json.Unmarshal([]byte(body), &res); err != nil {
		tb.Fatalf("%v: %s", err, body)
	}
	return res.StatusCode
}

// failed are the messages that an answer of dispatch returns to the queue.
func failed(tb testing.TB, body string) []string {
	tb.Helper()
	var res struct {
		BatchItemFailures []struct{ ItemIdentifier string }
	}
	if err := json.Unmarshal([]byte(body), &res); err != nil || res.BatchItemFailures == nil {
		tb.Fatalf("%v: %s", err, body)
	}
	var ids []string
	for _, f := range res.BatchItemFailures {
		ids = append(ids, f.ItemIdentifier)
	}
	return ids
}

func alive(tb testing.TB, e *store.Store) {
	tb.Helper()
	if before, err := e.LastAlive(tb.Context()); err != nil || time.Since(before) > time.Minute {
		tb.Errorf("the last sign of life was at %v, %v", before, err)
	}
}

// deadLetters waits for want dead-letter messages and returns their reasons by body; it leaves them in the queue.
func deadLetters(tb testing.TB, queues *sqs.Client, queue string, want int) map[string]string {
	tb.Helper()
	found := map[string]string{}
	for end := time.Now().Add(20 * time.Second); len(found) < want && time.Now().Before(end); {
		out, err := queues.ReceiveMessage(tb.Context(), &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 1,
			VisibilityTimeout: 1, MessageAttributeNames: []string{"All"}})
		check.OK(tb, err)
		for _, m := range out.Messages {
			if r := m.MessageAttributes["reason"].StringValue; r != nil {
				found[*m.Body] = *r
			}
		}
	}
	check.Equal(tb, len(found), want, "dead letters: %q", found)
	return found
}

// BenchmarkColdStart measures a cold start without Lambda's own part: from the start of the process to its first request for an
// event, and to its first answer. Targets: 150 ms to the first request, binaries under 20 MB.
func BenchmarkColdStart(b *testing.B) {
	n := fresh(b)
	for _, f := range []struct{ name, doc string }{
		{"tick", "tick/testdata/schedule.json"}, {"dispatch", "dispatch/testdata/batch.json"}, {"callback", "callback/testdata/httpapi.json"},
		{"registry", "registry/testdata/httpapi.json"}, {"api", "api/testdata/url.json"},
	} {
		b.Run(f.name, func(b *testing.B) {
			info, err := os.Stat(binary(b, f.name))
			check.OK(b, err)
			doc := document(b, f.doc)
			s := newSandbox(b, f.name, n)
			var asked, answered time.Duration
			for b.Loop() {
				s.Kill()
				s.ok(b, doc)
				at, first := s.Started()
				asked, answered = asked+first, answered+time.Since(at)
			}
			b.ReportMetric(float64(asked.Microseconds())/1000/float64(b.N), "ms-to-next")
			b.ReportMetric(float64(answered.Microseconds())/1000/float64(b.N), "ms-to-answer")
			b.ReportMetric(float64(info.Size())/1e6, "MB")
			b.ReportMetric(0, "ns/op")
		})
	}
}
