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

type LogsClient interface {
	FilterLogEvents(context.Context, *cloudwatchlogs.FilterLogEventsInput,
		...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.FilterLogEventsOutput, error)
}

// Limits for reading a log: the pages and the time to search from its first line, and the size of the answer, which has the last
// lines found.
const (
	maxLogPages = 100 // of 1 MB or 10,000 lines at most
	maxLogTime  = 10 * time.Second
	maxLogBytes = 1 << 20
	// wholeAfter is how long after its end a run's log counts as whole.
	wholeAfter = 30 * time.Second
)

// logGroup returns the default log group of a function.
func logGroup(function string) string {
	if arn, ok := core.ParseARN(function); ok {
		return "/aws/lambda/" + arn.Name
	}
	name, _, _ := strings.Cut(function, ":")
	return "/aws/lambda/" + name
}

// Log implements send.Functions. Log searches the function's log group in CloudWatch Logs. A function instance processes one
// invocation at a time. The run's lines are therefore in one log stream. They begin with the first line that names the
// invocation or the run, and end with the report of the invocation.
//
// If the log exceeds maxLogBytes, the text has a line about the missing lines and then the end of the log. If the search
// reaches its limits before the end of the log, the last line of the text reports this. The error then has the code
// core.CodeTooLarge.
func (f *Functions) Log(ctx context.Context, function string, run *core.Run, from int) (text string, next int, end bool, err error) {
	request, group, known := "", logGroup(function), false
	for _, t := range run.Tries {
		if t.Request != "" && t.Address == run.Address {
			request = t.Request
		}
	}
	if f.logs == nil {
		return "", from, true, core.Errorf(core.CodeUnavailable,
			"the log of run %d is in CloudWatch Logs, group %s, which this server does not read", run.ID, group)
	}
	if out, err := f.client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &function}); err == nil &&
		out.LoggingConfig != nil {
		known = true
		if g := aws.ToString(out.LoggingConfig.LogGroup); g != "" {
			group = g
		}
	}
	log, err := f.lines(ctx, group, request, run)
	if err != nil {
		return "", from, false, logError(group, known, run, request, err)
	}
	over := log.whole || log.bounded || !run.State.Open() && time.Since(run.EndedAt) > wholeAfter
	switch {
	case len(log.lines) == 0 && log.bounded:
		return "", from, true, core.Errorf(core.CodeTooLarge,
			"run %d has no lines in the first %d pages of the log group %s, and further pages are not read", run.ID, log.answers, group)
	case len(log.lines) == 0 && over:
		return "", from, true, core.Errorf(core.CodeNotFound,
			"run %d has no lines in the log group %s: the lines have expired, or the function writes no log", run.ID, group)
	}
	where := fmt.Sprintf("the log group %s, stream %s", group, log.stream)
	if log.bounded {
		log.lines = append(log.lines, "---- cut: the rest was not read; the full log is in "+where)
		err = core.Errorf(core.CodeTooLarge, "the log of run %d continues after the first %d pages of the log group %s",
			run.ID, log.answers, group)
	}
	next = log.dropped + len(log.lines) + 1
	if from >= next {
		return "", from, over, nil
	}
	if from > log.dropped {
		return strings.Join(log.lines[from-1-log.dropped:], "\n") + "\n", next, over, err
	}
	// This line has the number of the last line that it replaces.
	text = fmt.Sprintf("---- cut: lines %d to %d are in %s\n", from, log.dropped, where)
	return text + strings.Join(log.lines, "\n") + "\n", next, over, err
}

type found struct {
	stream  string
	lines   []string // the last ones
	dropped int      // lines before them
	whole   bool     // its invocation is over
	bounded bool     // more lines can follow that were not read
	answers int      // number of pages read
}

func (f *Functions) lines(ctx context.Context, group, request string, run *core.Run) (log found, err error) {
	pattern := `?"run ` + run.ID.String() + `"` // the prefix that the SDK writes on each line
	if request != "" {
		pattern += ` ?"` + request + `"`
	}
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group, FilterPattern: &pattern,
		StartTime: aws.Int64(core.Millis(run.SentAt.Add(-5 * time.Second)))}
	var first *logstypes.FilteredLogEvent
	looked := time.Now() // both searches share one time limit
	if log.answers, log.bounded, err = f.pages(ctx, looked, in, func(e *logstypes.FilteredLogEvent) bool {
		first = e
		return false
	}); err != nil || first == nil {
		return log, err
	}
	log.stream = aws.ToString(first.LogStreamName)
	in = &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group, LogStreamNames: []string{log.stream}, StartTime: first.Timestamp}
	size, begun := 0, false
	log.answers, log.bounded, err = f.pages(ctx, looked, in, func(e *logstypes.FilteredLogEvent) bool {
		line := strings.TrimRight(aws.ToString(e.Message), "\r\n")
		id, over := invocation(line)
		switch {
		case id != "" && request == "":
			request = id
		case id != "" && id != request:
			log.whole = begun // the next one of this instance; before it the one before
			return !begun
		}
		begun = begun || id == request || strings.Contains(line, "run "+run.ID.String()+":")
		if !begun {
			return true
		}
		for line := range strings.SplitSeq(line, "\n") { // numbered as readers count them
			log.lines = append(log.lines, line)
			size += len(line) + 1
		}
		for size-len(log.lines[0])-1 >= maxLogBytes {
			size -= len(log.lines[0]) + 1
			log.lines, log.dropped = log.lines[1:], log.dropped+1
		}
		log.whole = over
		return !over
	})
	return log, err
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

// pages passes events in order to more until it returns false. bounded reports that a limit ended the search, so further events can
// follow.
func (f *Functions) pages(ctx context.Context, begun time.Time, in *cloudwatchlogs.FilterLogEventsInput,
	more func(*logstypes.FilteredLogEvent) bool) (answers int, bounded bool, err error) {
	for {
		out, err := f.logs.FilterLogEvents(ctx, in)
		if err != nil {
			return answers, false, err
		}
		answers++
		for i := range out.Events {
			if !more(&out.Events[i]) {
				return answers, false, nil
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return answers, false, nil
		}
		if answers >= maxLogPages || time.Since(begun) >= maxLogTime {
			return answers, true, nil
		}
	}
}

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
			why, code = core.Say("this server has no permission to read the log group: grant `logs:FilterLogEvents`"), core.CodeRefused
		case api.ErrorCode() == "ResourceNotFoundException":
			why, code = core.Say("the log group does not exist"), core.CodeNotFound
			if !known {
				why = core.Say("%s; if the function writes to another log group, "+
					"grant this scheduler lambda:GetFunctionConfiguration for the function", why)
			}
		}
	}
	return &core.Error{Code: code, Reason: core.Say("the log of run %d is in CloudWatch Logs (%s): %s", run.ID, at, why), Err: err}
}
