package send

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/wire"
)

// handed records the payloads for functions and queues.
type handed struct {
	handedTo
	payload []byte
}

func (h *handed) Invoke(_ context.Context, _ string, payload []byte) dispatch.Answer {
	h.payload = payload
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}
}

func (h *handed) Put(ctx context.Context, _ *core.App, queue string, _ core.RunID, payload []byte) dispatch.Answer {
	return h.Invoke(ctx, queue, payload)
}

func (*handed) Polled(context.Context, *core.App, string) error { return nil }

func (*handed) Idle(context.Context, *core.App, string, core.JobID) (bool, error) { return true, nil }

// Whatever an executor is, it gets the span of its send as traceparent, and without a
// span not a word of it.
func TestTraceparentReachesExecutors(t *testing.T) {
	var header http.Header
	exec := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		header = r.Header
		w.Write(wire.AppendReply(nil, 200, ""))
	})
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, address := range []string{exec.URL, "call:" + exec.URL, "lambda:payroll", "queue:nightly",
		"queue:arn:aws:sqs:eu-central-1:123456789012:nightly"} {
		for _, want := range []string{parent, ""} {
			var h handed
			header = nil
			s := newSender(t, Options{Functions: &h, SQS: &h, Queues: &h})
			sh := shipment(address, "/work")
			sh.Traceparent = want
			if a := s.Send(t.Context(), sh); a.Kind != dispatch.AnswerAccepted && a.Kind != dispatch.AnswerEnded {
				t.Fatalf("%s: %+v", address, a)
			}
			got := header.Get("traceparent")
			if header == nil {
				run, err := wire.DecodeRun(h.payload)
				check.OK(t, err)
				if got = run.About.Traceparent; want == "" && strings.Contains(string(h.payload), "traceparent") {
					t.Errorf("%s: %s", address, h.payload)
				}
			}
			if _, ok := header["Traceparent"]; got != want || ok && want == "" {
				t.Errorf("%s got %q, want %q", address, got, want)
			}
		}
	}
}
