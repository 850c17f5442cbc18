package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// Limits for measurements of an account. The scheduler is built to tolerate values within them; a value beyond them is a finding,
// not a flaky test.
const (
	earliest   = time.Second      // that a queue may bring a message before its time
	latest     = 3 * time.Second  // of 99 in a hundred
	lagMost    = 5 * time.Second  // of an index behind its table
	wakeMost   = 2 * time.Minute  // from one pass of the tick to the next
	onTime     = 2 * time.Second  // 99 in a hundred runs, without a fault
	dearer     = 1.3              // measured to foreseen
	burst      = 100              // functions that start at once; the limit is four times higher
	hops       = 20               // retries through the delay queue; Lambda stops loops after 16
	delays     = 100              // messages
	lags       = 40               // items
	alarmsMost = 12 * time.Minute // until an alarm has rung
	ahead      = 12 * time.Minute // of the second in which all that is applied fires; ten of them are to plan it
)

// examine runs the checks of metrics, roles and indexes, after the runs are evaluated. Each gives one
// verdict; none stops the others.
func (p *proof) examine(ctx context.Context, from, to time.Time) {
	p.onTime()
	p.probeDelays(ctx)
	p.probeIndex(ctx)
	at := p.probeApply(ctx)
	p.probeBurst(ctx)
	p.probeHops(ctx)
	p.probeChain(ctx)
	p.probeSecond(ctx, at)
	p.doctor(ctx)
	p.probeLetter(ctx)
	p.refusals(ctx, from, to)
	p.wakeUps(ctx, from, to)
	p.killed(ctx)
	p.loops(ctx, from)
	p.price(ctx, from)
}

func (p *proof) onTime() {
	const what = "99 of a hundred fires arrive within 2 s while nothing is wrong"
	late := share(p.report.fires[0].lateness, 99)
	p.report.says(what, late <= onTime, "%s", late)
}

// probeDelays measures how early and how late a queue delivers delayed messages.
func (p *proof) probeDelays(ctx context.Context) {
	const what = "a queue delivers delayed messages at most 1 s early, and 99 of 100 at most 3 s late"
	off, err := p.delays(ctx)
	if err != nil {
		p.report.fails(what, err)
		return
	}
	first, last := share(off, 0), share(off, 99)
	p.report.says(what, first >= -earliest && last <= latest, "%d messages: from %s, p50 %s, p99 %s", len(off), first, share(off, 50), last)
}

func (p *proof) delays(ctx context.Context) (off []time.Duration, err error) {
	queue := p.counts["Probe"]
	due := map[string]time.Duration{}
	for i := 0; i < delays; i += 10 {
		var batch []sqstypes.SendMessageBatchRequestEntry
		for k := range 10 {
			s := int32(5 + (i+k)%40)
			id, body := fmt.Sprint(k), fmt.Sprint(s)
			batch = append(batch, sqstypes.SendMessageBatchRequestEntry{Id: &id, MessageBody: &body, DelaySeconds: s})
		}
		out, err := p.sqs.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &queue, Entries: batch})
		if err != nil {
			return nil, fmt.Errorf("send delayed messages: %w", err)
		}
		for _, e := range out.Successful {
			var k int32
			_, _ = fmt.Sscan(*e.Id, &k) // as written above
			due[*e.MessageId] = time.Duration(batch[k].DelaySeconds) * time.Second
		}
	}
	want := len(due)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for len(off) < want {
		out, err := p.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 5,
			MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameAll}})
		if err != nil {
			return off, fmt.Errorf("receive delayed messages, %d of %d came: %w", len(off), want, err)
		}
		for _, m := range out.Messages {
			sent, ok := sentAt(m)
			came, also := stamp(m, sqstypes.MessageSystemAttributeNameApproximateFirstReceiveTimestamp)
			after, known := due[*m.MessageId]
			if ok && also && known {
				off = append(off, came.Sub(sent.Add(after)))
				delete(due, *m.MessageId)
			}
			_, _ = p.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &queue, ReceiptHandle: m.ReceiptHandle})
		}
	}
	return off, nil
}

// probeIndex measures how far an index is behind its table.
func (p *proof) probeIndex(ctx context.Context) {
	const what = "an index is at most 5 s behind its table"
	var behind []time.Duration
	for i := range lags {
		d, err := p.lag(ctx, i)
		if err != nil {
			p.report.fails(what, err)
			return
		}
		behind = append(behind, d)
	}
	p.report.says(what, share(behind, 100) <= lagMost, "%d items: p50 %s, worst %s", lags, share(behind, 50), share(behind, 100))
}

func (p *proof) lag(ctx context.Context, i int) (time.Duration, error) {
	table, at := p.counts["ProbeTable"], fmt.Sprint(i)
	of, number := &dbtypes.AttributeValueMemberS{Value: "lag"}, &dbtypes.AttributeValueMemberN{Value: at}
	if _, err := p.db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: map[string]dbtypes.AttributeValue{
		"id": &dbtypes.AttributeValueMemberS{Value: at}, "of": of, "at": number,
	}}); err != nil {
		return 0, fmt.Errorf("write an item: %w", err)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := again(ctx, 5*time.Millisecond, func() (bool, error) {
		out, err := p.db.Query(ctx, &dynamodb.QueryInput{
			TableName: &table, IndexName: aws.String("lag"), KeyConditionExpression: aws.String("#of = :of AND #at = :at"),
			ExpressionAttributeNames:  map[string]string{"#of": "of", "#at": "at"},
			ExpressionAttributeValues: map[string]dbtypes.AttributeValue{":of": of, ":at": number},
		})
		return err == nil && out.Count > 0, err
	})
	return time.Since(began), err
}

// probeApply creates many jobs of one app by one command, and returns the second in which all of them fire.
func (p *proof) probeApply(ctx context.Context) (at time.Time) {
	what := fmt.Sprintf("one apply makes %d jobs of one app, and a second finds nothing to do", p.o.apply)
	began := time.Now()
	at = began.Add(ahead).Truncate(time.Minute)
	err := func() error {
		file, err := p.write("many.yaml", many(p.o.apply, p.apps[0].name, at))
		if err != nil {
			return err
		}
		if _, err := p.cli(ctx, "apply", "-f", file); err != nil {
			return err
		}
		took := time.Since(began).Round(time.Second)
		out, err := p.cli(ctx, "apply", "--dry-run", "-f", file)
		if err == nil && !strings.Contains(out, fmt.Sprintf("%d unchanged", p.o.apply)) {
			err = errors.New(out[max(0, len(out)-300):])
		}
		if err != nil {
			return fmt.Errorf("after %s, the second time: %w", took, err)
		}
		return nil
	}()
	if err != nil {
		p.report.fails(what, err)
		return at
	}
	store.Sleep(ctx, 3*time.Minute) // metrics are late
	conflicts := 0.0
	for _, t := range p.tables() {
		n, err := p.metric(ctx, "AWS/DynamoDB", "TransactionConflict", began, time.Now(), "TableName", t)
		if err != nil {
			p.report.fails(what, err)
			return at
		}
		conflicts += n
	}
	p.report.says(what, true, "in %s, with %.0f conflicts of transactions", time.Since(began).Round(time.Second), conflicts)
	return at
}

// probeSecond waits until the jobs that were applied have fired, and judges what arrived.
func (p *proof) probeSecond(ctx context.Context, at time.Time) {
	what := fmt.Sprintf("%d runs of one app that are due in one second arrive, once each, none early (docs/reference/limits.md) "+
		"and none later than the grace of a minute (docs/explanation/late-runs.md)", p.o.apply)
	store.Sleep(ctx, time.Until(at.Add(endsWithin)))
	var history map[core.RunID]end
	jobs, err := p.jobs(ctx, "once")
	if err == nil {
		history, err = p.history(ctx, jobs, at, at)
	}
	if err != nil {
		p.report.fails(what, err)
		return
	}
	all := judge(jobs, at, at.Add(time.Second), p.ledger, history, nil, nil)[0]
	held, found := inOneSecond(all, p.o.apply)
	p.report.says(what, held, "%s", found)
}

// inOneSecond reports whether n runs that were due in one second all arrived as is promised.
func inOneSecond(t *tally, n int) (held bool, found string) {
	held = t.fires == n && t.wrong() == 0 && share(t.lateness, 100) <= grace
	return held, oneLine(fmt.Sprintf("%d were due, %d arrived once, %d more often; sent after %s (first), %s (p50), %s (p99), %s (last)%s",
		t.fires, t.once, t.twice, share(t.lateness, 0), share(t.lateness, 50), share(t.lateness, 99), share(t.lateness, 100),
		strings.Join(append([]string{""}, t.faults...), "; ")))
}

// probeBurst asks as many functions as there may be at once, all of them new.
func (p *proof) probeBurst(ctx context.Context) {
	n, err := p.burst(ctx)
	what := fmt.Sprintf("%d functions that start at once all answer", n)
	if err != nil {
		p.report.fails(what, err)
		return
	}
	began := time.Now()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = p.api.ListApps(ctx) })
	}
	wg.Wait()
	failed := 0
	for _, err := range errs {
		if err != nil {
			failed++
		}
	}
	took := time.Since(began).Round(time.Millisecond)
	p.report.says(what, failed == 0, "%d failed, the last answered after %s%s", failed, took, because(errors.Join(errs...)))
}

// burst makes all functions of the API new; it answers how many may start at once:
// of an account that is new not many.
func (p *proof) burst(ctx context.Context) (n int, err error) {
	s, err := p.lambda.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return burst, fmt.Errorf("how many functions the account may run: %w", err)
	}
	n = max(2, min(burst, int(s.AccountLimit.ConcurrentExecutions)/4))
	fn := p.outputs["ApiFunction"]
	c, err := p.lambda.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &fn})
	if err != nil {
		return n, fmt.Errorf("read the configuration of the API: %w", err)
	}
	return n, p.configure(ctx, &lambda.UpdateFunctionConfigurationInput{FunctionName: &fn, MemorySize: aws.Int32(*c.MemorySize + 1)})
}

// probeHops has a run tried again through the ring more often than Lambda lets functions call one another.
func (p *proof) probeHops(ctx context.Context) {
	what := fmt.Sprintf("a run is tried %d times through the ring: nothing takes that for a runaway loop", hops+1)
	err := p.comes(ctx, "hops/hops", "failed", hops+1, fmt.Sprintf("version: 1\napps:\n"+
		"  - {name: hops, executors: [\"call:https://proof.invalid/\"]}\njobs:\n"+
		"  - {app: hops, name: hops, handler: \"POST /x\", retry: {max: %d, delay: 1s}}\n", hops), "trigger", "hops/hops")
	p.report.says(what, err == nil, "%d attempts%s", hops+1, because(err))
}

// probeChain runs a chain as long, in which the end of each run starts the next: it includes the executor's own function, which has
// no permission to loop.
func (p *proof) probeChain(ctx context.Context) {
	what := fmt.Sprintf("%d runs of which each begins with the end of the one before: their executor is not stopped as a loop", hops+1)
	name := p.apps[1].name + "/chain"
	err := p.comes(ctx, name, "succeeded", hops+1, fmt.Sprintf("version: 1\njobs:\n"+
		"  - {app: %s, name: chain, handler: work, schedule: {fixedDelay: 1s}}\n", p.apps[1].name), "get", name)
	_, paused := p.cli(ctx, "pause", name, "--reason", "it is proven")
	err = errors.Join(err, paused)
	p.report.says(what, err == nil, "%d runs%s", hops+1, because(err))
}

// comes applies a file, runs one more command, and waits until a job has want runs that ended in state.
func (p *proof) comes(ctx context.Context, job, state string, want int, file string, command ...string) error {
	path, err := p.write("probe.yaml", file)
	if err != nil {
		return err
	}
	for _, args := range [][]string{{"apply", "-f", path}, command} {
		if _, err := p.cli(ctx, args...); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Minute)
	defer cancel()
	n := 0
	if err := again(ctx, 2*time.Second, func() (bool, error) {
		page, err := p.api.ListRuns(ctx, client.ListRunsParams{Job: job, State: []string{state}, Limit: 100})
		n = len(page.Runs)
		return n >= want, err
	}); err != nil {
		return fmt.Errorf("%d runs of %s are %s: %w", n, job, state, err)
	}
	return nil
}

// probeLetter puts a message into the dead-letter queue, and waits for the alarm.
func (p *proof) probeLetter(ctx context.Context) {
	const what = "the alarm on dead letters rings"
	queue, body := p.outputs["DeadQueue"], `{"proof":"no message of tickring"}`
	if _, err := p.sqs.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: &body}); err != nil {
		p.report.fails(what, err)
		return
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, alarmsMost)
	defer cancel()
	err := again(ctx, 15*time.Second, func() (bool, error) {
		for name, state := range p.alarms(ctx) {
			if strings.Contains(name, "Problems") && state == "ALARM" {
				return true, nil
			}
		}
		return false, nil
	})
	p.report.says(what, err == nil, "after %s", time.Since(began).Round(time.Second))
	found, ever := named(p.report.rang, "Faults")
	p.report.says("there is an alarm on throttled tables; it rings after ten minutes of it", found, "rang after a minute of it: %v", ever)
}

// doctor finds nothing wrong with the deployment, once all is over. It checks settings such as the time to live of tables.
func (p *proof) doctor(ctx context.Context) {
	out, err := p.cli(ctx, "doctor", "--stack", p.o.stack, "--region", p.o.region)
	p.report.says("doctor finds nothing wrong once the faults are over", err == nil, "%s", oneLine(out))
}

// refusals checks that no function was denied a permission that it needs.
func (p *proof) refusals(ctx context.Context, from, to time.Time) {
	const allowed = "no request of a function was denied"
	var errs []error
	denied := 0
	for _, fn := range p.functions() {
		list, messages, err := p.lines(ctx, fn, `?AccessDenied ?"is not authorized"`, from, to, 100)
		errs = append(errs, err)
		if denied += len(list); len(list) > 0 {
			errs = append(errs, fmt.Errorf("%s: %.300s", fn, messages[0]))
		}
	}
	err := errors.Join(errs...)
	p.report.says(allowed, err == nil, "%d lines say so%s", denied, because(err))
}

// wakeUps reads, of the lines that the tick writes at debug, how far apart its
// passes are; that there are any shows that Lambda lets them pass.
func (p *proof) wakeUps(ctx context.Context, from, to time.Time) {
	const logged = "debug lines pass Lambda's own level"
	const woken = "passes of the tick are no further apart than two wake-ups of a minute each may be"
	list, _, err := p.lines(ctx, p.outputs["TickFunction"], `"pass"`, from, to, 20_000)
	if err != nil {
		p.report.fails(logged, err)
		return
	}
	p.report.says(logged, len(list) > 0, "%d lines", len(list))
	gap := time.Duration(0)
	for i := 1; i < len(list); i++ {
		if !slices.ContainsFunc(p.windows, func(w window) bool { return w.covers(list[i]) }) {
			gap = max(gap, list[i].Sub(list[i-1]))
		}
	}
	p.report.says(woken, len(list) > 1 && gap <= wakeMost, "at most %s, while nothing was wrong", gap.Round(time.Second))
}

// killed checks that the kills ended batches.
func (p *proof) killed(ctx context.Context) {
	const what = "the kills ended batches of dispatch, so the accounting is a real test"
	for _, w := range p.windows {
		if w.name != killed {
			continue
		}
		from, to := w.from.Truncate(time.Minute), w.to.Add(2*time.Minute)
		n, err := p.metric(ctx, "AWS/Lambda", "Errors", from, to, "FunctionName", p.outputs["DispatchFunction"])
		p.report.says(what, err == nil && n >= kills, "%.0f batches died%s", n, because(err))
	}
}

// loops checks that Lambda dropped no invocation as a runaway loop. Doctor checks the setting that allows loops.
func (p *proof) loops(ctx context.Context, from time.Time) {
	const what = "functions that put on a queue which leads back to them may do so, and nothing was dropped"
	n, err := p.functionsSum(ctx, "RecursiveInvocationsDropped", from, time.Now())
	p.report.says(what, err == nil && n == 0, "%.0f invocations were dropped%s", n, because(err))
}

// price compares the usage before the first fault with the forecast.
func (p *proof) price(ctx context.Context, from time.Time) {
	const what = "the measured usage is within 30 percent of docs/reference/aws-cost.md"
	to := from.Add(p.o.length)
	if len(p.windows) > 0 {
		to = p.windows[0].from
	}
	from, to = from.Truncate(time.Minute), to.Truncate(time.Minute)
	used, err := p.usage(ctx, from, to)
	if err != nil {
		p.report.fails(what, err)
		return
	}
	foreseen := expected(p.o.jobs, to.Sub(from))
	if p.outputs["HttpApi"] != "" {
		foreseen.httpRequests = foreseen.runs
	}
	used.runs = foreseen.runs
	p.report.measured, p.report.foreseen, p.report.priced = used, foreseen, fmt.Sprintf("%s of nothing but fires", to.Sub(from))
	is, said := used.dollars(), foreseen.dollars()
	p.report.says(what, is <= dearer*said, "%s, foreseen %s", dollars(is), dollars(said))
	p.billed(ctx, from, to, foreseen)
}
