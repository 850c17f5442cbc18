package aws_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/test/load"
)

// maxBinary limits the size of an upload and of a cold start. api sends no scheduled runs, so it can be larger: it has all user
// requests, tests of channels, and the console, whose templates keep every method of every type (decision 048).
const maxBinary, maxApi = 21 << 20, 44 << 20

// TestFunctions sends real events to the deployed binaries, each a process that polls the runtime API, on the emulators: each
// answers all of its events, and changes the data. What functions answer in detail is tested in functions/.
func TestFunctions(t *testing.T) {
	db, queues := clients(t)
	n := fresh(t)
	e, err := load.Open(db, queues, dynamo.Options{Names: n})
	check.OK(t, err)
	run := core.RunID(30282209332) // of the documents for callback
	at, _ := run.Planned()
	check.OK(t, e.CreateRuns(t.Context(),
		[]core.Run{{ID: run, App: "billing", State: core.Running, Owner: "o", Address: "http://10.0.3.17:9999", Cause: core.CauseSchedule,
			At: at, Slot: at, Attempt: 1, First: run}})[0])
	boxes := map[string]sandbox{}
	for _, name := range names {
		boxes[name] = newSandbox(t, name, n)
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
	for _, c := range []struct {
		name, doc, want string
		replace         []string
	}{
		{"api", "url.json", `"statusCode":401`, []string{adminToken, "another-admin-token"}},
		{"api", "httpapi.json", `"statusCode":200`, nil}, // it creates the app billing
		{"api", "url.json", "billing", nil},
		{"registry", "httpapi.json", `\"code\":500`, []string{"10.0.3.17:9999", "169.254.169.254:80"}}, // the metadata service
		{"registry", "httpapi.json", `\"code\":200`, nil},
		{"tick", "schedule.json", "", nil},
		{"dispatch", "batch.json", `"batchItemFailures":[]`, nil},
		{"dispatch", "poisoned.json", `[{"itemIdentifier":"00000003`, nil}, // the one in a newer format comes again
		{"callback", "httpapi.json", `\"code\":200`, nil},
		{"callback", "url.json", `\"code\":200`, nil},
	} {
		check.Contains(t, boxes[c.name].ok(t, document(t, c.name+"/testdata/"+c.doc, c.replace...)), c.want, "%s: %s", c.name, c.doc)
	}
	if body, fault, err := boxes["tick"].Invoke([]byte(`{"skip":999}`), 30*time.Second); err != nil || !fault {
		t.Errorf("a skip out of range: %s, %v", body, err)
	}
	for name, s := range boxes {
		check.Equal(t, s.Processes(), 1, "processes of %s were needed", name)
	}
	list, err := e.Executors(t.Context(), []string{"billing"})
	if err != nil || len(list["billing"]) != 1 || list["billing"][0].Address != "http://10.0.3.17:9999" {
		t.Errorf("registered %+v, %v", list, err)
	}
	if before, err := e.LastAlive(t.Context()); err != nil || time.Since(before) > time.Minute {
		t.Errorf("the last sign of life was at %v, %v", before, err)
	}
	check.Equal(t, memory.Run(t, e, run).State, core.Succeeded, "the state of the run")
	// In each of the two batches three runs of jobs that never were, and in the second one four unreadable messages.
	got, err := queues.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &n.Dead,
		AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameApproximateNumberOfMessages}})
	check.OK(t, err)
	check.Equal(t, got.Attributes["ApproximateNumberOfMessages"], "10", "dead letters")
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
