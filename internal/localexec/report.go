package localexec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/wire"
)

// The exit code of a command is its result code. A command that was ended by a signal gets the exit code that shells
// use for this signal. The result codes of the protocol are higher than exit codes. The exception is the success code,
// so exit200 replaces the exit code 200.
const (
	mostExit                  = 255
	bySignal                  = 128
	exit200  executor.Outcome = 1200
)

// reports brings results from the executor to the store. The executor's HTTP client treats it
// as a server, so results stay in its journal until they are stored.
type reports struct{ c *Commands }

func (t reports) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	batch, err := wire.DecodeCallback(body, 0)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	now := time.Now()
	results := make([]finish.Result, len(batch.Items))
	for i := range batch.Items {
		results[i] = endOf(&batch.Items[i], now)
	}
	answer := wire.AppendReply(nil, wire.CodeSuccess, "")
	for i, err := range t.c.o.Finish.End(r.Context(), results) {
		if err != nil && core.CodeOf(err) != core.CodeNotFound && !errors.Is(err, finish.ErrUnsent) {
			// After a rejection, the executor sends the results of the batch one by one.
			answer = wire.AppendReply(nil, wire.CodeFailure, fmt.Sprintf("store the end of run %d: %v", results[i].Run, err))
		}
	}
	return &http.Response{StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(answer)), ContentLength: int64(len(answer)), Request: r}, nil
}

// endOf converts an executor's report to the end of a run. A command's output follows the
// executor's text, and is not parsed as that text.
func endOf(it *wire.CallbackItem, now time.Time) finish.Result {
	said, printed, _ := strings.Cut(it.Msg, logMark)
	if printed != "" {
		printed = logMark + printed
	}
	r := finish.Result{Run: core.RunID(it.LogID), State: core.Failed, Reason: core.ReasonHandler, Reported: true, At: now,
		Message:    core.TruncateMessage(strings.TrimPrefix(said+printed, "\n")),
		RetryAfter: time.Duration(it.RetryAfter) * time.Second}
	switch code := executor.Outcome(it.Code); {
	case code == executor.Success:
		r.State, r.Reason = core.Succeeded, ""
	case code == exit200:
		r.Code = 200
	case code <= mostExit:
		r.Code = it.Code
	case it.RetryAfter == wire.NeverRetry:
		r.Code = executor.ExitCancel
	case it.RetryAfter > 0:
		r.Code = executor.ExitSnooze
	default:
		is := callback.Translate(r.Run, it.Code, said, "", now)
		r.State, r.Reason, r.Killed = is.State, is.Reason, is.Killed
		switch {
		case is.Reason == core.ReasonCrashed:
			r.State, r.Reason, said = core.Lost, core.ReasonGone, lost(said)
		case is.State == core.TimedOut && strings.Contains(said, "goes on"):
			said = "the command exceeded its timeout and was killed, but is still running"
		case is.State == core.TimedOut:
			said = "the command exceeded its timeout and was killed"
		case is.State == core.Killed:
			said = "killed with its process group"
		}
		r.Message = core.TruncateMessage(said + printed)
	}
	return r
}

// logMark is the text that executor.Options.LogTail puts before the last lines of a log.
const logMark = "\n---- log\n"

// lost returns the message for a command whose server ended while it ran.
func lost(said string) string {
	what := "the server's process ended during the command, and the remaining processes were ended"
	switch {
	case strings.Contains(said, "goes on"):
		what = "the server's process ended during the command, and the remaining processes cannot be ended and continue"
	case strings.Contains(said, "not executed"):
		what = "the server stopped before the command began"
	case strings.Contains(said, "web container destroy"):
		what = "the server stopped and ended the command"
	}
	return what + "; it is not restarted automatically"
}
