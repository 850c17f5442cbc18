package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// metric sums one of CloudWatch over [from, to); dims are pairs.
func (p *proof) metric(ctx context.Context, namespace, name string, from, to time.Time, dims ...string) (sum float64, err error) {
	q := url.Values{
		"Namespace": {namespace}, "MetricName": {name}, "Period": {"60"}, "Statistics.member.1": {"Sum"},
		"StartTime": {from.UTC().Format(time.RFC3339)}, "EndTime": {to.UTC().Format(time.RFC3339)},
	}
	for i := 0; i < len(dims); i += 2 {
		q.Set(fmt.Sprintf("Dimensions.member.%d.Name", i/2+1), dims[i])
		q.Set(fmt.Sprintf("Dimensions.member.%d.Value", i/2+1), dims[i+1])
	}
	var out struct {
		Sums []float64 `xml:"GetMetricStatisticsResult>Datapoints>member>Sum"`
	}
	if err := p.ask.Query(ctx, "monitoring", "2010-08-01", "GetMetricStatistics", q, &out); err != nil {
		return 0, fmt.Errorf("read the metric %s: %w", name, err)
	}
	for _, v := range out.Sums {
		sum += v
	}
	return sum, nil
}

// functions returns the functions of the stack, by the names of their outputs.
func (p *proof) functions() map[string]string {
	all := map[string]string{}
	for name, fn := range p.outputs {
		if short, ok := strings.CutSuffix(name, "Function"); ok {
			all[strings.ToLower(short)] = fn
		}
	}
	return all
}

// functionsSum sums a metric of all functions of the stack.
func (p *proof) functionsSum(ctx context.Context, name string, from, to time.Time) (sum float64, err error) {
	for _, fn := range p.functions() {
		n, err := p.metric(ctx, "AWS/Lambda", name, from, to, "FunctionName", fn)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// usage returns the usage in [from, to), from the metrics behind the bill. Requests of queues are an upper limit: messages are sent
// and received ten at a time if there are ten.
func (p *proof) usage(ctx context.Context, from, to time.Time) (usage, error) {
	var u usage
	var errs []error
	add := func(into *float64, namespace, name string, factor float64, dims ...string) {
		n, err := p.metric(ctx, namespace, name, from, to, dims...)
		*into += n * factor
		errs = append(errs, err)
	}
	for _, t := range p.tables() {
		add(&u.writeUnits, "AWS/DynamoDB", "ConsumedWriteCapacityUnits", 1, "TableName", t)
		add(&u.readUnits, "AWS/DynamoDB", "ConsumedReadCapacityUnits", 1, "TableName", t)
	}
	index := []string{"TableName", p.outputs["JobsTable"], "GlobalSecondaryIndexName", dueIndex}
	add(&u.writeUnits, "AWS/DynamoDB", "ConsumedWriteCapacityUnits", 1, index...)
	add(&u.readUnits, "AWS/DynamoDB", "ConsumedReadCapacityUnits", 1, index...)
	for _, out := range []string{"FiresQueue", "SlowQueue", "ChecksQueue", "ResultsQueue", "DeadQueue"} {
		name := p.outputs[out][strings.LastIndexByte(p.outputs[out], '/')+1:]
		for _, m := range []string{"NumberOfMessagesSent", "NumberOfMessagesReceived", "NumberOfMessagesDeleted", "NumberOfEmptyReceives"} {
			add(&u.queueRequests, "AWS/SQS", m, 1, "QueueName", name)
		}
	}
	for name, fn := range p.functions() {
		c, err := p.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &fn})
		if err != nil {
			return u, fmt.Errorf("read the configuration of %s: %w", name, err)
		}
		add(&u.invocations, "AWS/Lambda", "Invocations", 1, "FunctionName", fn)
		add(&u.gbSeconds, "AWS/Lambda", "Duration", float64(*c.MemorySize)/1024/1000, "FunctionName", fn)
		if name == "tick" {
			add(&u.wakes, "AWS/Lambda", "Invocations", 1, "FunctionName", fn)
		}
	}
	if api := p.outputs["HttpApi"]; api != "" {
		add(&u.httpRequests, "AWS/ApiGateway", "Count", 1, "ApiId", api)
	}
	return u, errors.Join(errs...)
}

// lines reads the first most matching lines from the log of a function, with their times.
func (p *proof) lines(ctx context.Context, fn, pattern string, from, to time.Time, most int) (
	list []time.Time, messages []string, err error,
) {
	c, err := p.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &fn})
	if err != nil || c.LoggingConfig == nil || c.LoggingConfig.LogGroup == nil {
		return nil, nil, fmt.Errorf("the log of %s: %w", fn, err)
	}
	in := map[string]any{
		"logGroupName": *c.LoggingConfig.LogGroup, "filterPattern": pattern, "startTime": from.UnixMilli(), "endTime": to.UnixMilli(),
	}
	for {
		var out struct {
			Events []struct {
				Timestamp int64
				Message   string
			}
			NextToken string
		}
		if err := p.ask.JSON(ctx, "logs", "1.1", "Logs_20140328.FilterLogEvents", in, &out); err != nil {
			return list, messages, fmt.Errorf("read the log of %s: %w", fn, err)
		}
		for _, e := range out.Events {
			list, messages = append(list, time.UnixMilli(e.Timestamp)), append(messages, e.Message)
		}
		if out.NextToken == "" || len(list) >= most {
			slices.SortFunc(list, time.Time.Compare)
			return list, messages, nil
		}
		in["nextToken"] = out.NextToken
	}
}

// watchAlarms checks every half minute which alarms are active, until rang is called, which returns the alarms that were.
func (p *proof) watchAlarms(ctx context.Context) (rang func() map[string]bool) {
	ctx, cancel := context.WithCancel(ctx)
	all, done := map[string]bool{}, make(chan struct{})
	go func() {
		defer close(done)
		_ = again(ctx, 30*time.Second, func() (bool, error) { // ends with ctx
			for name, state := range p.alarms(ctx) {
				all[name] = all[name] || state == "ALARM"
			}
			return false, nil
		})
	}()
	return func() map[string]bool {
		cancel()
		<-done
		return all
	}
}

// alarms returns the states of the stack's alarms, by their logical names; none if they cannot be read.
func (p *proof) alarms(ctx context.Context) map[string]string {
	var out struct {
		Alarms []struct {
			Name  string `xml:"AlarmName"`
			State string `xml:"StateValue"`
		} `xml:"DescribeAlarmsResult>MetricAlarms>member"`
	}
	all := map[string]string{}
	mine := url.Values{"AlarmNamePrefix": {p.o.stack + "-"}, "MaxRecords": {"100"}}
	if p.ask.Query(ctx, "monitoring", "2010-08-01", "DescribeAlarms", mine, &out) != nil {
		return all
	}
	for _, a := range out.Alarms {
		all[a.Name] = a.State
	}
	return all
}

// named finds an alarm by a part of its name, and whether it rang.
func named(rang map[string]bool, part string) (found, ever bool) {
	for _, name := range slices.Sorted(maps.Keys(rang)) {
		if strings.Contains(name, part) {
			return true, rang[name]
		}
	}
	return false, false
}
