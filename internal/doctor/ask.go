package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/tickring/tickring/internal/awsask"
	"github.com/tickring/tickring/internal/stack"
)

// Asker asks AWS; *awsask.Client does.
type Asker interface {
	JSON(ctx context.Context, service, version, target string, in, out any) error
	Get(ctx context.Context, service, path string, out any) error
	Query(ctx context.Context, service, version, action string, params url.Values, out any) error
	Clock(ctx context.Context) (time.Time, error)
}

// atOnce is how many questions are under way at a time.
const atOnce = 8

// asking gathers; its lock guards what the questions fill in.
type asking struct {
	a     Asker
	now   time.Time
	mu    sync.Mutex
	c     *Cloud
	all   sync.WaitGroup
	slots chan struct{}
}

// Ask asks AWS about a stack. What cannot be asked is named in Unread.
func Ask(ctx context.Context, a Asker, name, region string, o stack.Outputs, now time.Time) *Cloud {
	c := &Cloud{Stack: name, Region: region, Tables: map[string]*Table{}, Queues: map[string]*Queue{}, Functions: map[string]*Function{}, Unread: map[string]string{}}
	k := &asking{a: a, now: now, c: c, slots: make(chan struct{}, atOnce)}
	k.ask("clock of AWS", func() error {
		at, err := a.Clock(ctx)
		k.set(func() { c.Clock = at })
		return err
	})
	for what, name := range o.Tables() {
		c.Tables[what] = &Table{Name: name, Indexes: map[string]string{}}
		k.table(ctx, what, c.Tables[what])
	}
	for what, u := range o.Queues() {
		c.Queues[what] = &Queue{URL: u}
		k.queue(ctx, what, c.Queues[what])
	}
	for what, name := range o.Functions() {
		c.Functions[what] = &Function{Name: name}
		k.function(ctx, what, c.Functions[what])
	}
	if name := o[stack.WakeSchedule]; name != "" {
		k.schedule(ctx, name)
	} else {
		c.Unread["schedule"] = "the stack has no output " + stack.WakeSchedule + ": whether the tick is woken shows by the last tick alone"
	}
	k.account(ctx)
	k.all.Wait()
	return c
}

// ask runs one question in its turn.
func (k *asking) ask(what string, f func() error) {
	k.all.Go(func() {
		k.slots <- struct{}{}
		defer func() { <-k.slots }()
		if err := f(); err != nil {
			k.set(func() { k.c.Unread[what] = unreadText(err) })
		}
	})
}

func (k *asking) set(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
}

func unreadText(err error) string {
	if awsask.Denied(err) {
		e, _ := errors.AsType[*awsask.Error](err)
		return "these AWS credentials may not ask that: " + e.Message
	}
	return err.Error()
}

const dynamodb = "DynamoDB_20120810."

func (k *asking) table(ctx context.Context, what string, t *Table) {
	in := map[string]string{"TableName": t.Name}
	k.ask("table "+what, func() error {
		var out struct {
			Table struct {
				TableStatus               string
				DeletionProtectionEnabled bool
				GlobalSecondaryIndexes    []struct{ IndexName, IndexStatus string }
			}
		}
		err := k.a.JSON(ctx, "dynamodb", "1.0", dynamodb+"DescribeTable", in, &out)
		if awsask.NotFound(err) {
			k.set(func() { t.Missing = true })
			return nil
		}
		if err != nil {
			k.set(func() { delete(k.c.Tables, what) })
			return err
		}
		var ttl struct {
			TimeToLiveDescription struct{ TimeToLiveStatus, AttributeName string }
		}
		if err := k.a.JSON(ctx, "dynamodb", "1.0", dynamodb+"DescribeTimeToLive", in, &ttl); err != nil {
			k.set(func() { delete(k.c.Tables, what) })
			return err
		}
		k.set(func() {
			t.Status, t.Protected = out.Table.TableStatus, out.Table.DeletionProtectionEnabled
			for _, x := range out.Table.GlobalSecondaryIndexes {
				t.Indexes[x.IndexName] = x.IndexStatus
			}
			if s := ttl.TimeToLiveDescription.TimeToLiveStatus; s == "ENABLED" || s == "ENABLING" {
				t.TTL = ttl.TimeToLiveDescription.AttributeName
			}
		})
		var back struct {
			ContinuousBackupsDescription struct {
				PointInTimeRecoveryDescription struct{ PointInTimeRecoveryStatus string }
			}
		}
		if err := k.a.JSON(ctx, "dynamodb", "1.0", dynamodb+"DescribeContinuousBackups", in, &back); err != nil {
			return fmt.Errorf("its point-in-time recovery: %w", err)
		}
		on := back.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == "ENABLED"
		k.set(func() { t.Recoverable = &on })
		return nil
	})
}

func (k *asking) queue(ctx context.Context, what string, q *Queue) {
	k.ask("queue "+what, func() error {
		var out struct{ Attributes map[string]string }
		err := k.a.JSON(ctx, "sqs", "1.0", "AmazonSQS.GetQueueAttributes", map[string]any{"QueueUrl": q.URL, "AttributeNames": []string{"All"}}, &out)
		if awsask.NotFound(err) {
			k.set(func() { q.Missing = true })
			return nil
		}
		if err != nil {
			k.set(func() { delete(k.c.Queues, what) })
			return err
		}
		k.set(func() { err = q.read(out.Attributes) })
		return err
	})
}

func (q *Queue) read(attributes map[string]string) error {
	var errs []error
	number := func(name string) int {
		n, err := strconv.Atoi(attributes[name])
		if err != nil {
			errs = append(errs, fmt.Errorf("its attribute %s is %q", name, attributes[name]))
		}
		return n
	}
	q.Visibility = time.Duration(number("VisibilityTimeout")) * time.Second
	q.Retention = time.Duration(number("MessageRetentionPeriod")) * time.Second
	q.Due, q.Waiting, q.InFlight = number("ApproximateNumberOfMessages"), number("ApproximateNumberOfMessagesDelayed"), number("ApproximateNumberOfMessagesNotVisible")
	if text := attributes["RedrivePolicy"]; text != "" {
		var err error
		if q.Dead, q.MaxReceives, err = redrive(text); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (k *asking) function(ctx context.Context, what string, fn *Function) {
	path := "/2015-03-31/functions/" + url.PathEscape(fn.Name)
	k.ask("function "+what, func() error {
		var out struct {
			State, LastUpdateStatus string
			Timeout                 int
			Environment             struct{ Variables map[string]string }
			LoggingConfig           struct{ LogGroup string }
		}
		err := k.a.Get(ctx, "lambda", path+"/configuration", &out)
		if awsask.NotFound(err) {
			k.set(func() { fn.Missing = true })
			return nil
		}
		if err != nil {
			k.set(func() { delete(k.c.Functions, what) })
			return err
		}
		k.set(func() {
			fn.State, fn.Update, fn.Timeout = out.State, out.LastUpdateStatus, time.Duration(out.Timeout)*time.Second
			fn.Log = cmp.Or(out.LoggingConfig.LogGroup, "/aws/lambda/"+fn.Name)
			fn.Env = map[string]string{}
			for name, v := range out.Environment.Variables { // names of tables only: the rest may be secret
				if name == "TICKRING_TABLE_JOBS" || name == "TICKRING_TABLE_RUNS" || name == "TICKRING_TABLE_STATE" {
					fn.Env[name] = v
				}
			}
		})
		var reserved struct{ ReservedConcurrentExecutions *int }
		if err := k.a.Get(ctx, "lambda", "/2019-09-30/functions/"+url.PathEscape(fn.Name)+"/concurrency", &reserved); err != nil && !awsask.NotFound(err) {
			return fmt.Errorf("its concurrency: %w", err)
		}
		k.set(func() { fn.Reserved = reserved.ReservedConcurrentExecutions })
		if loops[what] {
			var loop struct{ RecursiveLoop string }
			if err := k.a.Get(ctx, "lambda", "/2024-08-31/functions/"+url.PathEscape(fn.Name)+"/recursion-config", &loop); err != nil {
				return fmt.Errorf("its recursion setting: %w", err)
			}
			k.set(func() { fn.Loop = loop.RecursiveLoop })
		}
		return nil
	})
	if takers[what] {
		k.ask("mappings of function "+what, func() error {
			var out struct {
				EventSourceMappings []struct{ EventSourceArn, State string }
			}
			if err := k.a.Get(ctx, "lambda", "/2015-03-31/event-source-mappings/?MaxItems=100&FunctionName="+url.QueryEscape(fn.Name), &out); err != nil {
				return err
			}
			k.set(func() {
				fn.Mappings = map[string]string{}
				for _, m := range out.EventSourceMappings {
					fn.Mappings[m.EventSourceArn] = m.State
				}
			})
			return nil
		})
	}
	for _, m := range []struct {
		name string
		into *float64
	}{{"Errors", &fn.Errors}, {"Throttles", &fn.Throttles}} {
		k.ask(m.name+" of function "+what, func() error {
			sum, err := k.sum(ctx, "AWS/Lambda", m.name, "FunctionName", fn.Name)
			k.set(func() { *m.into = sum })
			return err
		})
	}
}

// sum is the sum of a metric over the last 15 minutes.
func (k *asking) sum(ctx context.Context, space, metric, dimension, value string) (total float64, err error) {
	var out struct {
		Points []struct {
			Sum float64 `xml:"Sum"`
		} `xml:"GetMetricStatisticsResult>Datapoints>member"`
	}
	err = k.a.Query(ctx, "monitoring", "2010-08-01", "GetMetricStatistics", url.Values{
		"Namespace": {space}, "MetricName": {metric}, "Period": {"900"}, "Statistics.member.1": {"Sum"},
		"StartTime": {k.now.Add(-15 * time.Minute).UTC().Format(time.RFC3339)}, "EndTime": {k.now.UTC().Format(time.RFC3339)},
		"Dimensions.member.1.Name": {dimension}, "Dimensions.member.1.Value": {value}}, &out)
	for _, p := range out.Points {
		total += p.Sum
	}
	return total, err
}

func (k *asking) schedule(ctx context.Context, name string) {
	k.ask("schedule", func() error {
		var out struct {
			State, ScheduleExpression string
			CreationDate              float64 // seconds since 1970
		}
		err := k.a.Get(ctx, "scheduler", "/schedules/"+url.PathEscape(name), &out)
		if err != nil && !awsask.NotFound(err) {
			return err
		}
		k.set(func() {
			k.c.Schedule = &Schedule{Name: name, Missing: err != nil, State: out.State, Rate: out.ScheduleExpression}
			if out.CreationDate > 0 {
				k.c.Schedule.Made = time.UnixMilli(int64(out.CreationDate * 1000))
			}
		})
		return nil
	})
}

func (k *asking) account(ctx context.Context) {
	k.set(func() { k.c.Account = &Account{} })
	k.ask("account concurrency", func() error {
		var out struct {
			AccountLimit struct{ ConcurrentExecutions, UnreservedConcurrentExecutions int }
		}
		err := k.a.Get(ctx, "lambda", "/2016-08-19/account-settings/", &out)
		k.set(func() {
			k.c.Account.Concurrency, k.c.Account.Unreserved = out.AccountLimit.ConcurrentExecutions, out.AccountLimit.UnreservedConcurrentExecutions
		})
		return err
	})
	k.ask("table quota", func() error {
		var out struct{ TableMaxReadCapacityUnits, TableMaxWriteCapacityUnits int64 }
		err := k.a.JSON(ctx, "dynamodb", "1.0", dynamodb+"DescribeLimits", map[string]any{}, &out)
		k.set(func() {
			k.c.Account.TableRead, k.c.Account.TableWrite = out.TableMaxReadCapacityUnits, out.TableMaxWriteCapacityUnits
		})
		return err
	})
}

// redrive reads a redrive policy, whose number SQS writes as one or as a text.
func redrive(text string) (dead string, receives int, err error) {
	var p struct {
		DeadLetterTargetArn string `json:"deadLetterTargetArn"`
		MaxReceiveCount     any    `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return "", 0, fmt.Errorf("its redrive policy is no JSON: %w", err)
	}
	if receives, err = strconv.Atoi(fmt.Sprint(p.MaxReceiveCount)); err != nil {
		return "", 0, fmt.Errorf("its redrive policy has the maxReceiveCount %v", p.MaxReceiveCount)
	}
	return p.DeadLetterTargetArn, receives, nil
}
