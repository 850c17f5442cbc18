package awssend

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/postrun"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/send"
)

const (
	before = "11111111-0000-4000-8000-000000000000"
	mine   = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"
	after  = "22222222-0000-4000-8000-000000000000"
)

// group is a log group: lines of streams, found as CloudWatch finds them.
type group struct {
	name   string
	events []logstypes.FilteredLogEvent
	page   int
	takes  time.Duration // each answer
	err    error
	// endless answers with nothing and that there is more.
	endless bool
	asked   []cloudwatchlogs.FilterLogEventsInput
}

func (g *group) FilterLogEvents(_ context.Context, in *cloudwatchlogs.FilterLogEventsInput,
	_ ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.FilterLogEventsOutput, error) {
	g.asked = append(g.asked, *in)
	if time.Sleep(g.takes); g.err != nil {
		return nil, g.err
	}
	if g.endless {
		return &cloudwatchlogs.FilterLogEventsOutput{NextToken: aws.String("more")}, nil
	}
	if *in.LogGroupName != g.name {
		return nil, &logstypes.ResourceNotFoundException{}
	}
	var found []logstypes.FilteredLogEvent
	for _, e := range g.events {
		if *e.Timestamp < *in.StartTime || len(in.LogStreamNames) > 0 && *e.LogStreamName != in.LogStreamNames[0] {
			continue
		}
		if in.FilterPattern != nil {
			any := false
			for term := range strings.SplitSeq(*in.FilterPattern, ` ?`) {
				any = any || strings.Contains(*e.Message, strings.Trim(term, `?"`))
			}
			if !any {
				continue
			}
		}
		found = append(found, e)
	}
	from := 0
	if in.NextToken != nil {
		fmt.Sscan(*in.NextToken, &from)
	}
	out := &cloudwatchlogs.FilterLogEventsOutput{Events: found[from:min(from+g.page, len(found))]}
	if from+g.page < len(found) {
		out.NextToken = aws.String(fmt.Sprint(from + g.page))
	}
	return out, nil
}

func (g *group) write(stream string, lines ...string) {
	for _, l := range lines {
		at := int64(1_800_000_000_000 + len(g.events))
		g.events = append(g.events, logstypes.FilteredLogEvent{LogStreamName: &stream, Message: aws.String(l + "\n"), Timestamp: &at})
	}
}

func traced(state core.State, request string) *core.Run {
	sent := time.UnixMilli(1_800_000_000_000).UTC()
	r := &core.Run{ID: core.NumberedRun(7, 1), App: "pay", State: state, Address: "lambda:payroll:live", SentAt: sent}
	if request != "" {
		r.Tries = []core.Try{{Address: "lambda:other", Request: after}, {Address: r.Address, Code: 202, Request: request,
			Log: "/aws/lambda/payroll"}}
	}
	if !state.Open() {
		r.EndedAt = time.Now().Add(-time.Hour)
	}
	return r
}

// TestLog: the lines of one invocation are found among other lines, in the formats that Lambda writes, over several pages, and from
// the line where a reader stopped.
func TestLog(t *testing.T) {
	run := traced(core.Running, mine)
	for name, c := range map[string]struct {
		lines   []string
		request string
		want    string
		end     bool
	}{
		"text": {[]string{"START RequestId: " + before + " Version: $LATEST", "another's", "REPORT RequestId: " + before + "\tDuration: 1 ms",
			"START RequestId: " + mine + " Version: $LATEST", "paying", "paid", "END RequestId: " + mine, "REPORT RequestId: " + mine +
				"\tDuration: 1 ms",
			"START RequestId: " + after + " Version: $LATEST", "another's again"}, mine, "START paying paid END REPORT", true},
		"at work": {[]string{"START RequestId: " + mine + " Version: 1", "paying"}, mine, "START paying", false},
		"JSON": {[]string{`{"type":"platform.start","record":{"requestId":"` + mine + `"}}`, `{"level":"INFO","message":"paying","requestId":"` +
			mine + `"}`, "plain",
			`{"type":"platform.report","record":{"requestId":"` + mine + `"}}`, "after"}, mine, `{"type":"platform.start","record":{"requestId":"` +
			mine + `"}} {"level":"INFO","message":"paying","requestId":"` + mine + `"} plain {"type":"platform.report","record":{"requestId":"` +
			mine + `"}}`, true},
		"JSON without the platform's": {[]string{`{"message":"paying","requestId":"` + mine + `"}`, `{"message":"next","requestId":"` + after +
			`"}`}, mine, `{"message":"paying","requestId":"` + mine + `"}`, true},
		"by the run alone": {[]string{"START RequestId: " + before + " Version: $LATEST", "another's", "REPORT RequestId: " + before + "\t",
			"run " + run.ID.String() + ": request " + mine, "run " + run.ID.String() + ": paying", "REPORT RequestId: " + mine + "\t"}, "",
			"run " + run.ID.String() + ": request " + mine + " run " + run.ID.String() + ": paying REPORT", true},
		"nothing yet": {nil, mine, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := &group{name: "/aws/lambda/payroll", page: 2}
			g.write("other", "START RequestId: "+before+" Version: $LATEST", "elsewhere")
			g.write("stream", c.lines...)
			f := NewFunctions(noConfiguration{}, g)
			short := func(text string) string {
				var words []string
				for line := range strings.Lines(text) {
					line = strings.TrimSpace(line)
					if word, _, ok := strings.Cut(line, " RequestId"); ok {
						line = word
					}
					words = append(words, line)
				}
				return strings.Join(words, " ")
			}
			text, next, end, err := f.Log(t.Context(), "payroll:live", traced(core.Running, c.request), 1)
			if err != nil || short(text) != c.want || end != c.end {
				t.Fatalf("%q end %t %v; want %q end %t", short(text), end, err, c.want, c.end)
			}
			if again, n, _, err := f.Log(t.Context(), "payroll:live", traced(core.Running, c.request), next); again != "" || n != next ||
				err != nil {
				t.Errorf("read on: %q %d %v", again, n, err)
			}
		})
	}
}

// noConfiguration denies access to the configuration of functions.
type noConfiguration struct{ FunctionsClient }

func (noConfiguration) GetFunctionConfiguration(context.Context, *lambda.GetFunctionConfigurationInput,
	...func(*lambda.Options)) (*lambda.GetFunctionConfigurationOutput, error) {
	return nil, &smithy.GenericAPIError{Code: "AccessDeniedException"}
}

// TestLogRefused: if a log cannot be read, the error explains why and where the log is.
func TestLogRefused(t *testing.T) {
	texts := golden.New(t)
	for name, c := range map[string]struct {
		logs LogsClient
		code core.Code
	}{
		"no way":   {nil, core.CodeUnavailable},
		"denied":   {&group{err: &smithy.GenericAPIError{Code: "AccessDeniedException"}}, core.CodeRefused},
		"no group": {&group{name: "x"}, core.CodeNotFound},
		"silent":   {&group{err: context.DeadlineExceeded}, core.CodeUnavailable},
		"gone":     {&group{name: "/aws/lambda/payroll", page: 10}, core.CodeNotFound},
	} {
		_, _, _, err := NewFunctions(noConfiguration{}, c.logs).Log(t.Context(), "payroll", traced(core.Succeeded, mine), 1)
		check.Equal(t, core.CodeOf(err), c.code, "%s: %v", name, err)
		texts.Equal(t, name, fmt.Sprint(err))
	}
	s := send.New(send.Options{})
	defer s.Close()
	_, _, _, err := s.Log(t.Context(), &core.App{Name: "pay"}, traced(core.Running, mine), 1)
	check.Equal(t, core.CodeOf(err), core.CodeUnavailable, "a server without AWS: %v", err)
	texts.Equal(t, "a server without AWS", fmt.Sprint(err))
}

// TestLogCut: if a log exceeds one answer, the answer has its last lines with their numbers. If it exceeds the search, the answer
// reports that and the log is kept cut.
func TestLogCut(t *testing.T) {
	texts := golden.New(t)
	for name, c := range map[string]struct {
		lines int           // of 30,000 bytes
		page  int           // lines in an answer
		takes time.Duration // each answer
		state core.State
		more  bool
	}{
		"as long as an answer":   {30, 10, 0, core.Failed, false},
		"longer":                 {500, 10, 0, core.Failed, false},
		"longer, running":        {500, 10, 0, core.Running, false},
		"more answers than that": {maxLogPages * 3, 2, 0, core.Failed, true},
		"answers that take long": {100, 2, 3 * time.Second, core.Failed, true},
		"one that takes all":     {100, 20, 9 * time.Second, core.Failed, true},
		"one line for an answer": {3, 1, 0, core.Failed, false},
		"answers without an end": {maxLogPages, 1, 0, core.Failed, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &group{name: "/aws/lambda/payroll", page: c.page, takes: c.takes}
				g.write("stream", "START RequestId: "+mine+" Version: $LATEST")
				for i := range c.lines {
					g.write("stream", fmt.Sprintf("line %06d %s", i+2, strings.Repeat("x", 30_000-12)))
				}
				g.write("stream", "REPORT RequestId: "+mine+"\tDuration: 1 ms")
				f, run := NewFunctions(noConfiguration{}, g), traced(c.state, mine)
				begun := time.Now()
				text, next, end, err := f.Log(t.Context(), "payroll", run, 1)
				if took := time.Since(begun); took > maxLogTime+c.takes {
					t.Errorf("the search took %s", took)
				}
				lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
				if (core.CodeOf(err) == core.CodeTooLarge) != c.more || !c.more && err != nil || !end || len(text) > maxLogBytes+64<<10 {
					t.Errorf("%d bytes from %.80q to %.80q, end %t, %v", len(text), lines[0], lines[len(lines)-1], end, err)
				}
				texts.Equal(t, name, lines[0]+"\n"+lines[len(lines)-1])
				first := next - len(lines) // the number of its first line
				for i, line := range lines[1 : len(lines)-1] {
					if want := fmt.Sprintf("line %06d", first+1+i); !strings.HasPrefix(line, want) {
						t.Fatalf("line %d of the answer is %.20q, want %s", i+2, line, want)
					}
				}
				if on, n, end, err := f.Log(t.Context(), "payroll", run, next); on != "" || n != next || !end || err != nil {
					t.Errorf("read on: %d bytes, next %d of %d, %t, %v", len(on), n, next, end, err)
				}
				if on, _, _, _ := f.Log(t.Context(), "payroll", run, next-2); on != strings.Join(lines[len(lines)-2:], "\n")+"\n" {
					t.Errorf("from the last line but one: %d bytes", len(on))
				}
				k, err := postrun.End(t.Context(), functionLogs{f}, &core.App{}, run)
				kept, bad := postrun.Text(&k)
				if err != nil || bad != nil || k.More != c.more || !strings.HasSuffix(text, kept) ||
					k.From != next-strings.Count(kept, "\n") {
					t.Errorf("kept: %d bytes from line %d, more %t, %v, %v", len(kept), k.From, k.More, err, bad)
				}
			})
		})
	}
}

// functionLogs reads logs of functions alone.
type functionLogs struct{ f *Functions }

func (l functionLogs) Log(ctx context.Context, _ *core.App, run *core.Run, from int) (text string, next int, end bool, err error) {
	return l.f.Log(ctx, "payroll", run, from)
}

// TestLogNotFoundInTime: if a run's lines are not in the searched part of its group, the error reports that, and not a missing log.
func TestLogNotFoundInTime(t *testing.T) {
	g := &group{name: "/aws/lambda/payroll", endless: true}
	_, _, _, err := NewFunctions(noConfiguration{}, g).Log(t.Context(), "payroll", traced(core.Failed, mine), 1)
	if core.CodeOf(err) != core.CodeTooLarge || len(g.asked) != maxLogPages {
		t.Errorf("after %d answers: %v", len(g.asked), err)
	}
	golden.New(t).Equal(t, "not found", fmt.Sprint(err))
}

// TestLogLines: an event of several lines counts as several lines.
func TestLogLines(t *testing.T) {
	g := &group{name: "/aws/lambda/payroll", page: 10}
	g.write("stream", "START RequestId: "+mine, "a trace:\n at one\n at two", "REPORT RequestId: "+mine)
	f := NewFunctions(noConfiguration{}, g)
	_, next, _, err := f.Log(t.Context(), "payroll", traced(core.Failed, mine), 1)
	from, _, _, err2 := f.Log(t.Context(), "payroll", traced(core.Failed, mine), 4)
	if next != 6 || from != " at two\nREPORT RequestId: "+mine+"\n" || err != nil || err2 != nil {
		t.Errorf("next %d, from line 4 %q, %v, %v", next, from, err, err2)
	}
}
