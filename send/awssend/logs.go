package awssend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/tickring/tickring/core"
)

// LogsClient is what is needed of *cloudwatchlogs.Client.
type LogsClient interface {
	FilterLogEvents(context.Context, *cloudwatchlogs.FilterLogEventsInput,
		...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.FilterLogEventsOutput, error)
}

// Bounds of one look at a log.
const (
	maxLogPages = 20
	maxLogLines = 10_000
	maxLogBytes = 1 << 20
	// wholeAfter is how long after its end a run's log counts as whole.
	wholeAfter = 30 * time.Second
)

// logGroup is where a function writes unless it was told otherwise.
func logGroup(function string) string {
	if arn, ok := core.ParseARN(function); ok {
		return "/aws/lambda/" + arn.Name
	}
	name, _, _ := strings.Cut(function, ":")
	return "/aws/lambda/" + name
}

// Log implements send.Functions. An instance works on one invocation at a time,
// so what stands in its stream between the first line that names the invocation
// or the run and the report of the invocation is the run's. The lines are
// looked for in the group that the function's configuration names, where that
// may be read.
func (f *Functions) Log(ctx context.Context, function string, run *core.Run, from int) (text string, next int, end bool, err error) {
	request, group, known := "", logGroup(function), false
	for _, t := range run.Tries {
		if t.Request != "" && t.Address == run.Address {
			request = t.Request
		}
	}
	if f.logs == nil {
		return "", from, true, core.Errorf(core.CodeUnavailable, "the log of run %d is in CloudWatch Logs, group %s, which is not read here",
			run.ID, group)
	}
	if out, err := f.client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &function}); err == nil &&
		out.LoggingConfig != nil {
		known = true
		if g := aws.ToString(out.LoggingConfig.LogGroup); g != "" {
			group = g
		}
	}
	lines, whole, err := f.lines(ctx, group, request, run)
	if err != nil {
		return "", from, false, logError(group, known, run, request, err)
	}
	over := whole || !run.State.Open() && time.Since(run.EndedAt) > wholeAfter
	if len(lines) == 0 && over {
		return "", from, true, core.Errorf(core.CodeNotFound,
			"there is no line of run %d in the log group %s: its lines may have passed their retention, or the function writes none", run.ID, group)
	}
	if from > len(lines) {
		return "", from, over, nil
	}
	return strings.Join(lines[from-1:], "\n") + "\n", len(lines) + 1, over, nil
}

// lines are those of a run; whole says that its invocation is over.
func (f *Functions) lines(ctx context.Context, group, request string, run *core.Run) (lines []string, whole bool, err error) {
	pattern := `?"run ` + run.ID.String() + `"` // what the SDK writes before each line
	if request != "" {
		pattern += ` ?"` + request + `"`
	}
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group, FilterPattern: &pattern,
		StartTime: aws.Int64(core.Millis(run.SentAt.Add(-5 * time.Second)))}
	var first *logstypes.FilteredLogEvent
	if err := f.pages(ctx, in, func(e *logstypes.FilteredLogEvent) bool {
		first = e
		return false
	}); err != nil || first == nil {
		return nil, false, err
	}
	size := 0
	in = &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group, LogStreamNames: []string{aws.ToString(first.LogStreamName)},
		StartTime: first.Timestamp}
	begun := false
	err = f.pages(ctx, in, func(e *logstypes.FilteredLogEvent) bool {
		line := strings.TrimRight(aws.ToString(e.Message), "\r\n")
		id, over := invocation(line)
		switch {
		case id != "" && request == "":
			request = id
		case id != "" && id != request:
			whole = begun // the next one of this instance; before it the one before
			return !begun
		}
		begun = begun || id == request || strings.Contains(line, "run "+run.ID.String()+":")
		if !begun {
			return true
		}
		lines = append(lines, line)
		size += len(line)
		if over {
			whole = true
			return false
		}
		if len(lines) >= maxLogLines || size >= maxLogBytes {
			lines = append(lines, fmt.Sprintf("---- cut: more is in the log group %s, stream %s", group, aws.ToString(first.LogStreamName)))
			whole = true
			return false
		}
		return true
	})
	return lines, whole, err
}

// invocation is which invocation a line of the platform is about, and whether
// it is its last one; empty for other lines.
func invocation(line string) (id string, over bool) {
	for _, word := range []string{"START", "END", "REPORT"} {
		if rest, ok := strings.CutPrefix(line, word+" RequestId: "); ok {
			id, _, _ = strings.Cut(strings.ReplaceAll(rest, "\t", " "), " ")
			return id, word == "REPORT"
		}
	}
	if !strings.HasPrefix(line, "{") {
		return "", false
	}
	var v struct {
		Type   string `json:"type"`
		Record struct {
			RequestID string `json:"requestId"`
		} `json:"record"`
		RequestID string `json:"requestId"`
	}
	if json.Unmarshal([]byte(line), &v) != nil {
		return "", false
	}
	if v.Record.RequestID != "" {
		return v.Record.RequestID, v.Type == "platform.report"
	}
	return v.RequestID, false
}

// pages hands out events in their order until more says no.
func (f *Functions) pages(ctx context.Context, in *cloudwatchlogs.FilterLogEventsInput, more func(*logstypes.FilteredLogEvent) bool) error {
	for range maxLogPages {
		out, err := f.logs.FilterLogEvents(ctx, in)
		if err != nil {
			return err
		}
		for i := range out.Events {
			if !more(&out.Events[i]) {
				return nil
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return nil
		}
	}
	return nil
}

// logError says for people why a log cannot be read.
func logError(group string, known bool, run *core.Run, request string, err error) error {
	at := "log group " + group
	if request != "" {
		at += ", request " + request
	}
	var api smithy.APIError
	why := core.Say("CloudWatch Logs did not answer: try again")
	code := core.CodeUnavailable
	if errors.As(err, &api) {
		switch {
		case strings.Contains(api.ErrorCode(), "AccessDenied"):
			why, code = core.Say("this scheduler may not read it: allow it logs:FilterLogEvents"), core.CodeRefused
		case api.ErrorCode() == "ResourceNotFoundException":
			why, code = core.Say("there is no such group"), core.CodeNotFound
			if !known {
				why = core.Say("%s; if the function writes to another, allow this scheduler lambda:GetFunctionConfiguration of it", why)
			}
		}
	}
	return &core.Error{Code: code, Reason: core.Say("the log of run %d is in CloudWatch Logs (%s): %s", run.ID, at, why), Err: err}
}
