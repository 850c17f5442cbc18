package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/cfnoutputs"
)

// Cloud has the facts that AWS reports about a deployment's stack.
type Cloud struct {
	Clock     time.Time // the clock of AWS, accurate to one second; zero: unknown
	Tables    map[string]*Table
	Queues    map[string]*Queue
	Functions map[string]*Function
	Schedule  *Schedule
	Account   *Account
	Unread    []Unread // the facts that could not be read
	Emulated  bool     // whether the stack is in an AWS emulator, which does not report some settings
	// NoHTTPAPIs and NoPermissions report whether the emulator lacks HTTP APIs and permission checks.
	NoHTTPAPIs, NoPermissions bool
}

// Unread is a fact that could not be read, with the error.
type Unread struct{ What, Why core.Text }

// Table has the facts about a DynamoDB table. Missing reports that no table with this name exists.
type Table struct {
	Name        string
	Missing     bool
	Status      string
	Protected   bool
	TTL         string // the attribute with the expiry time of items; empty: items do not expire
	Recoverable *bool  // whether point-in-time recovery is on; nil: unknown, because AWS was not asked
	Indexes     map[string]string
}

type Queue struct {
	URL                    string
	Missing                bool
	Made                   time.Time // time at which the queue was created; zero: unknown
	Visibility, Retention  time.Duration
	Dead                   string // ARN of the dead-letter queue of this queue
	MaxReceives            int
	Due, Waiting, InFlight int
}

type Function struct {
	Name          string
	Missing       bool
	State, Update string
	Log           string // the name of the function's log group
	Timeout       time.Duration
	Env           map[string]string
	Reserved      *int              // the reserved concurrency of the function; nil: none
	Loop          string            // the recursive loop setting of the function, Allow or Terminate; empty: AWS was not asked
	Mappings      map[string]string // the state of each event source mapping, by the ARN of its queue
	Errors        float64           // number of failed invocations in the last 15 minutes
	Throttles     float64
}

// Schedule has the facts about the EventBridge rule that starts the planner.
type Schedule struct {
	Name    string
	Missing bool
	State   string
	Rate    string
}

type Account struct {
	Concurrency, Unreserved int
	TableWrite, TableRead   int64 // maximum write units per second of an on-demand table; 0: AWS was not asked
}

// Asker requests facts from AWS. *awsclient.Client implements Asker.
type Asker interface {
	JSON(ctx context.Context, service, version, target string, in, out any) error
	Get(ctx context.Context, service, path string, out any) error
	Query(ctx context.Context, service, version, action string, params url.Values, out any) error
	Clock(ctx context.Context) (time.Time, error)
	Lacks(ctx context.Context) (httpAPIs, permissions bool, err error)
}

// refusal is an error with which AWS rejects a request, such as *awsclient.Error. Code that only gathers a server's own facts
// needs nothing of AWS.
type refusal interface {
	error
	NotFound() bool
	Denied() bool
	Reason() string
}

// gone records that a thing does not exist, which is not an error.
func gone(missing *bool, err error) error {
	r, ok := errors.AsType[refusal](err)
	if *missing = ok && r.NotFound(); *missing {
		return nil
	}
	return err
}

// atOnce is how many questions are under way at a time.
const atOnce = 8

// asking gathers facts. Each query fills its own fields until all have ended, except the maps, which the lock guards.
type asking struct {
	a     Asker
	now   time.Time
	mu    sync.Mutex
	c     *Cloud
	all   sync.WaitGroup
	slots chan struct{}
}

// Ask reads the facts of AWS about a stack. Facts that cannot be read are in the field Unread of the result.
func Ask(ctx context.Context, a Asker, o cfnoutputs.Outputs, now time.Time) *Cloud {
	c := &Cloud{Tables: map[string]*Table{}, Queues: map[string]*Queue{}, Functions: map[string]*Function{}, Account: &Account{},
		Emulated: o.Emulated()}
	k := &asking{a: a, now: now, c: c, slots: make(chan struct{}, atOnce)}
	k.ask(core.Say("clock of AWS"), func() (err error) {
		c.Clock, err = a.Clock(ctx)
		return err
	})
	for what, name := range o.Tables() {
		k.ask(core.Say("table %s", what), func() error { return k.table(ctx, what, &Table{Name: name, Indexes: map[string]string{}}) })
	}
	for what, u := range o.Queues() {
		k.ask(core.Say("queue %s", what), func() error { return k.queue(ctx, what, &Queue{URL: u}) })
	}
	for what, name := range o.Functions() {
		k.function(ctx, what, &Function{Name: name})
	}
	k.ask(core.Say("schedule"), func() error { return k.schedule(ctx, o[cfnoutputs.WakeRule]) })
	k.ask(core.Say("account concurrency"), func() error {
		var out struct {
			AccountLimit struct{ ConcurrentExecutions, UnreservedConcurrentExecutions int }
		}
		err := a.Get(ctx, "lambda", "/2016-08-19/account-settings/", &out)
		c.Account.Concurrency, c.Account.Unreserved = out.AccountLimit.ConcurrentExecutions, out.AccountLimit.UnreservedConcurrentExecutions
		return err
	})
	k.ask(core.Say("table quota"), func() error {
		var out struct{ TableMaxReadCapacityUnits, TableMaxWriteCapacityUnits int64 }
		err := k.dynamodb(ctx, "DescribeLimits", map[string]any{}, &out)
		c.Account.TableRead, c.Account.TableWrite = out.TableMaxReadCapacityUnits, out.TableMaxWriteCapacityUnits
		return err
	})
	if c.Emulated {
		k.ask(core.Say("emulator"), func() (err error) {
			c.NoHTTPAPIs, c.NoPermissions, err = a.Lacks(ctx)
			return err
		})
	}
	k.all.Wait()
	return c
}

// ask runs one question in its turn.
func (k *asking) ask(what core.Text, f func() error) {
	k.all.Go(func() {
		k.slots <- struct{}{}
		defer func() { <-k.slots }()
		if err := f(); err != nil {
			why := core.Say("%v", err)
			if e, ok := errors.AsType[*core.Error](err); ok {
				why = e.Reason
			}
			if r, ok := errors.AsType[refusal](err); ok && r.Denied() {
				why = core.Say("these AWS credentials do not have the permission: %s", r.Reason())
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			k.c.Unread = append(k.c.Unread, Unread{what, why})
		}
	})
}

// of returns an error that names the thing that err concerns.
func of(what core.Text, err error) error {
	return &core.Error{Code: core.CodeOf(err), Reason: what, Err: err}
}

// put stores a fact; missing facts are not checked.
func put[T any](k *asking, m map[string]T, what string, x T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m[what] = x
}

func (k *asking) dynamodb(ctx context.Context, action string, in, out any) error {
	return k.a.JSON(ctx, "dynamodb", "1.0", "DynamoDB_20120810."+action, in, out)
}

func (k *asking) table(ctx context.Context, what string, t *Table) error {
	in := map[string]string{"TableName": t.Name}
	var out struct {
		Table struct {
			TableStatus               string
			DeletionProtectionEnabled bool
			GlobalSecondaryIndexes    []struct{ IndexName, IndexStatus string }
		}
	}
	var ttl struct {
		TimeToLiveDescription struct{ TimeToLiveStatus, AttributeName string }
	}
	err := gone(&t.Missing, k.dynamodb(ctx, "DescribeTable", in, &out))
	if err == nil && !t.Missing {
		err = k.dynamodb(ctx, "DescribeTimeToLive", in, &ttl)
	}
	if err != nil {
		return err
	}
	put(k, k.c.Tables, what, t)
	if t.Missing {
		return nil
	}
	t.Status, t.Protected = out.Table.TableStatus, out.Table.DeletionProtectionEnabled
	for _, x := range out.Table.GlobalSecondaryIndexes {
		t.Indexes[x.IndexName] = x.IndexStatus
	}
	if s := ttl.TimeToLiveDescription.TimeToLiveStatus; s == "ENABLED" || s == "ENABLING" {
		t.TTL = ttl.TimeToLiveDescription.AttributeName
	}
	var back struct {
		ContinuousBackupsDescription struct {
			PointInTimeRecoveryDescription struct{ PointInTimeRecoveryStatus string }
		}
	}
	if err := k.dynamodb(ctx, "DescribeContinuousBackups", in, &back); err != nil {
		return of(core.Say("the point-in-time recovery of the table could not be read: %v", err), err)
	}
	on := back.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == "ENABLED"
	t.Recoverable = &on
	return nil
}

func (k *asking) queue(ctx context.Context, what string, q *Queue) error {
	var out struct{ Attributes map[string]string }
	in := map[string]any{"QueueUrl": q.URL, "AttributeNames": []string{"All"}}
	if err := gone(&q.Missing, k.a.JSON(ctx, "sqs", "1.0", "AmazonSQS.GetQueueAttributes", in, &out)); err != nil {
		return err
	}
	put(k, k.c.Queues, what, q)
	if q.Missing {
		return nil
	}
	return q.read(out.Attributes)
}

func (q *Queue) read(attributes map[string]string) error {
	var errs []error
	number := func(name, text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("the %s is %q, not a number", name, text))
		}
		return n
	}
	attribute := func(name string) int { return number("attribute "+name, attributes[name]) }
	q.Visibility = time.Duration(attribute("VisibilityTimeout")) * time.Second
	q.Retention = time.Duration(attribute("MessageRetentionPeriod")) * time.Second
	q.Due, q.Waiting = attribute("ApproximateNumberOfMessages"), attribute("ApproximateNumberOfMessagesDelayed")
	q.InFlight = attribute("ApproximateNumberOfMessagesNotVisible")
	if text := attributes["CreatedTimestamp"]; text != "" {
		q.Made = time.Unix(int64(number("attribute CreatedTimestamp", text)), 0)
	}
	if text := attributes["RedrivePolicy"]; text != "" {
		var p struct {
			Target string `json:"deadLetterTargetArn"`
			Max    any    `json:"maxReceiveCount"` // SQS writes it as a number or as a text
		}
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			return errors.Join(append(errs, fmt.Errorf("the redrive policy is not JSON: %w", err))...)
		}
		q.Dead, q.MaxReceives = p.Target, number("maxReceiveCount", fmt.Sprint(p.Max))
	}
	return errors.Join(errs...)
}

// tableNames are the only variables read from a function's environment: the others may be secret.
var tableNames = []string{"TICKRING_TABLE_JOBS", "TICKRING_TABLE_RUNS", "TICKRING_TABLE_STATE"}

func (k *asking) function(ctx context.Context, what string, fn *Function) {
	name := "/functions/" + url.PathEscape(fn.Name)
	k.ask(core.Say("function %s", what), func() error {
		var out struct {
			State, LastUpdateStatus string
			Timeout                 int
			Environment             struct{ Variables map[string]string }
			LoggingConfig           struct{ LogGroup string }
		}
		if err := gone(&fn.Missing, k.a.Get(ctx, "lambda", "/2015-03-31"+name+"/configuration", &out)); err != nil {
			return err
		}
		put(k, k.c.Functions, what, fn)
		if fn.Missing {
			return nil
		}
		fn.State, fn.Update, fn.Timeout = out.State, out.LastUpdateStatus, time.Duration(out.Timeout)*time.Second
		fn.Log = cmp.Or(out.LoggingConfig.LogGroup, "/aws/lambda/"+fn.Name)
		fn.Env = out.Environment.Variables
		maps.DeleteFunc(fn.Env, func(name, _ string) bool { return !slices.Contains(tableNames, name) })
		var reserved struct{ ReservedConcurrentExecutions *int }
		if err := gone(new(bool), k.a.Get(ctx, "lambda", "/2019-09-30"+name+"/concurrency", &reserved)); err != nil {
			return of(core.Say("the concurrency of the function could not be read: %v", err), err)
		}
		fn.Reserved = reserved.ReservedConcurrentExecutions
		if loops[what] {
			var loop struct{ RecursiveLoop string }
			if err := k.a.Get(ctx, "lambda", "/2024-08-31"+name+"/recursion-config", &loop); err != nil {
				return of(core.Say("the recursion setting of the function could not be read: %v", err), err)
			}
			fn.Loop = loop.RecursiveLoop
		}
		return nil
	})
	if takers[what] {
		k.ask(core.Say("mappings of function %s", what), func() error {
			var out struct {
				EventSourceMappings []struct{ EventSourceArn, State string }
			}
			path := "/2015-03-31/event-source-mappings/?MaxItems=100&FunctionName=" + url.QueryEscape(fn.Name)
			if err := k.a.Get(ctx, "lambda", path, &out); err != nil {
				return err
			}
			fn.Mappings = map[string]string{}
			for _, m := range out.EventSourceMappings {
				fn.Mappings[m.EventSourceArn] = m.State
			}
			return nil
		})
	}
	for name, into := range map[string]*float64{"Errors": &fn.Errors, "Throttles": &fn.Throttles} {
		k.ask(core.Say("%s of function %s", name, what), func() (err error) {
			*into, err = k.sum(ctx, "AWS/Lambda", name, "FunctionName", fn.Name)
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

func (k *asking) schedule(ctx context.Context, name string) error {
	if name == "" {
		return core.Errorf(core.CodeNotFound, "the stack has no output %s: only the check \"last tick\" shows whether the "+
			"function `tick` runs",
			cfnoutputs.WakeRule)
	}
	var out struct{ State, ScheduleExpression string }
	s := &Schedule{Name: name}
	if err := gone(&s.Missing, k.a.JSON(ctx, "events", "1.1", "AWSEvents.DescribeRule", map[string]any{"Name": name}, &out)); err != nil {
		return err
	}
	s.State, s.Rate = out.State, out.ScheduleExpression
	k.c.Schedule = s
	return nil
}
