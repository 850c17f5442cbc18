//go:build unix

package awssend

import (
	"net/http"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/internal/testkit/check"
)

// TestWantOfDescriptors: without descriptors nothing goes to AWS, and that is no
// refusal of a function or a queue.
func TestWantOfDescriptors(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusAccepted) })
	fn := functions(f.url)
	queues := queues(f.url, aws.NopRetryer{})
	var was syscall.Rlimit
	check.OK(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was))
	none := was
	none.Cur = 0
	check.OK(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was)
	if a := fn.Invoke(t.Context(), "pay", []byte(`{}`)); a.Kind != dispatch.AnswerBusy || !a.Ours {
		t.Errorf("a function: %+v", a)
	}
	check.Equal(t, queues.Put(t.Context(), nil, "mail", 1, nil).Kind, dispatch.AnswerBusy, "a queue")
	check.NoError(t, queues.Polled(t.Context(), nil, "mail"))
}
