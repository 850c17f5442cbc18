package main

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/send"
)

// results processes Lambda's records of invoked functions. The queue is their destination on success and on failure.
type results struct {
	key  send.Key // signs the invocations of functions; nil: no key
	end  func(context.Context, []finish.Result) []error
	bury func(ctx context.Context, body, reason string) error
	now  func() time.Time
	log  *slog.Logger
}

// A record of a destination, with the fields used here.
type record struct {
	RequestContext struct {
		RequestID   string `json:"requestId"`
		FunctionARN string `json:"functionArn"`
		Condition   string `json:"condition"`
		Invocations int    `json:"approximateInvokeCount"`
	} `json:"requestContext"`
	RequestPayload struct {
		LogID    int64 `json:"logId"`
		Tickring struct {
			Key string `json:"key"`
		} `json:"tickring"`
	} `json:"requestPayload"`
	ResponseContext struct {
		FunctionError string `json:"functionError"`
	} `json:"responseContext"`
	ResponsePayload json.RawMessage `json:"responsePayload"`
}

// The conditions of a record.
const (
	conditionSuccess   = "Success"
	conditionExhausted = "RetriesExhausted"
	conditionAge       = "EventAgeExceeded"
)

// handle returns the records to deliver again. It moves foreign records to the dead-letter queue with the reason.
func (h *results) handle(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	res := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	if h.key == nil {
		return res, errors.New("TICKRING_ADMIN_TOKEN is missing: it is required to verify the sender of a result")
	}
	key, err := h.key(ctx)
	if err != nil {
		return res, fmt.Errorf("all records are redelivered: %w", err)
	}
	again := func(id string) {
		res.BatchItemFailures = append(res.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: id})
	}
	var ends []finish.Result
	var of []string // message IDs
	for i := range e.Records {
		m := &e.Records[i]
		if m.MessageId == "" {
			return res, fmt.Errorf("record %d of the event has no messageId", i)
		}
		end, err := h.read([]byte(m.Body), key)
		switch {
		case errors.Is(err, errNothing):
		case err != nil:
			h.log.Error("record of a function moved to the dead-letter queue", "message", m.MessageId, "why", err.Error())
			if berr := h.bury(ctx, m.Body, err.Error()); berr != nil {
				h.log.Error("record not moved to the dead-letter queue: it is redelivered", "message", m.MessageId, "err", berr)
				again(m.MessageId)
			}
		default:
			ends, of = append(ends, end), append(of, m.MessageId)
		}
	}
	if len(ends) == 0 {
		return res, nil
	}
	for i, err := range h.end(ctx, ends) {
		switch {
		case err == nil:
		case errors.Is(err, finish.ErrUnsent):
			h.log.Warn("result of an unsent run ignored", "run", ends[i].Run, "job", ends[i].Run.Job())
		case core.CodeOf(err) == core.CodeNotFound:
			h.log.Info("result of a deleted run ignored", "run", ends[i].Run)
		default:
			h.log.Warn("result redelivered", "run", ends[i].Run, "job", ends[i].Run.Job(), "err", err)
			again(of[i])
		}
	}
	return res, nil
}

// errNothing marks a record that adds nothing new.
var errNothing = errors.New("record without new information ignored")

// read converts a record to the end of a run.
func (h *results) read(body, key []byte) (finish.Result, error) {
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return finish.Result{}, fmt.Errorf("not a record of a Lambda destination: %w", err)
	}
	id := core.RunID(r.RequestPayload.LogID)
	switch {
	case r.RequestContext.Condition == "":
		return finish.Result{}, errors.New("not a record of a Lambda destination: the condition is missing")
	case !id.Valid():
		return finish.Result{}, errors.New("the function was not invoked with a run")
	case !hmac.Equal([]byte(r.RequestPayload.Tickring.Key), []byte(send.ReportSignature(key, id))):
		return finish.Result{}, fmt.Errorf("the key does not match run %d", id)
	}
	return r.end(id, h.now())
}

// end converts the outcome of an invocation into the end of its run.
func (r *record) end(id core.RunID, now time.Time) (finish.Result, error) {
	switch c := r.RequestContext; c.Condition {
	case conditionSuccess:
		return r.succeeded(id, now)
	case conditionExhausted, conditionAge:
		return r.failed(id, now), nil
	default:
		return finish.Result{}, fmt.Errorf("unknown condition %q", c.Condition)
	}
}

// succeeded is of a function that returned. One that was made with the SDK and
// has no server to report to returns how its run ended, and the SDK's returns
// nothing at all where a server has that already.
func (r *record) succeeded(id core.RunID, now time.Time) (finish.Result, error) {
	var sdk struct {
		LogID   *string `json:"logId"`
		Code    *int    `json:"code"`
		Message string  `json:"msg"`
		Data    string  `json:"tickringData"`
		// RetryAfter is when to retry the run, in seconds; any function may return it: see docs/how-to/lambda.md.
		RetryAfter int32 `json:"tickringRetryAfter"`
	}
	if json.Unmarshal(r.ResponsePayload, &sdk) == nil {
		after := max(time.Duration(sdk.RetryAfter)*time.Second, core.NoRetry)
		switch {
		case sdk.LogID != nil && sdk.Code != nil && *sdk.LogID == strconv.FormatInt(int64(id), 10):
			end := callback.Translate(id, *sdk.Code, sdk.Message, sdk.Data, now)
			end.RetryAfter = after
			return end, nil
		case sdk.LogID != nil && sdk.Code != nil && *sdk.LogID == "0":
			return finish.Result{}, errNothing
		case after != 0:
			return finish.Result{Run: id, Reported: true, State: core.Failed, Reason: core.ReasonHandler, RetryAfter: after,
				Message: text(r.ResponsePayload), At: now}, nil
		}
	}
	return finish.Result{Run: id, Reported: true, State: core.Succeeded, Message: text(r.ResponsePayload), At: now}, nil
}

// timedOut matches Lambda's message for a function that it ended for its timeout.
var timedOut = regexp.MustCompile(`Task timed out after [0-9.]+ seconds`)

// failed is of an invocation that failed, or never began.
func (r *record) failed(id core.RunID, now time.Time) finish.Result {
	end := finish.Result{Run: id, Reported: true, State: core.Failed, Reason: core.ReasonHandler, At: now}
	n := r.RequestContext.Invocations
	if r.ResponseContext.FunctionError == "" && len(r.ResponsePayload) == 0 {
		// Lambda could not invoke the function: throttled, or its own errors.
		end.Message = "Lambda gave up the invocation: " + r.RequestContext.Condition +
			"; the function is throttled (reserved or account concurrency), or Lambda failed"
		end.Reason = core.ReasonNotAccepted
		if n > 0 {
			end.State, end.Reason = core.Lost, core.ReasonNoReport // it may have begun
		}
		return end
	}
	var e struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	_ = json.Unmarshal(r.ResponsePayload, &e) // on failure the payload is shown as it is
	switch {
	case timedOut.MatchString(e.Message):
		end.State, end.Reason = core.TimedOut, core.ReasonTimeout
	case e.Type == "Runtime.ExitError", strings.HasPrefix(e.Type, "Extension."),
		strings.Contains(e.Message, "Process exited before completing request"):
		end.Reason = core.ReasonCrashed
	}
	switch {
	case e.Type != "" && e.Message != "":
		end.Message = e.Type + ": " + e.Message
	case e.Message != "":
		end.Message = e.Message
	default:
		end.Message = text(r.ResponsePayload)
	}
	if n > 1 {
		end.Message += fmt.Sprintf("\n(Lambda invoked the function %d times for this run: disable its retries with maximum-retry-attempts 0)", n)
	}
	return end
}

// maxText limits a function's return value, in bytes; finish truncates it to the length that a run keeps.
const maxText = 64 << 10

// text formats a function's return value for people: a string as it is, anything else as JSON, null as nothing.
func text(payload json.RawMessage) string {
	var s string
	switch {
	case len(payload) == 0 || string(payload) == "null":
		return ""
	case json.Unmarshal(payload, &s) == nil:
	default:
		s = string(payload)
	}
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
