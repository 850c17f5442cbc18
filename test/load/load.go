// Package load runs the Lambda functions of a deployment on this machine under load, while their processes are killed.
// The functions use DynamoDB Local and an SQS server. Each function is a process behind a simulated Lambda runtime.
// The package also simulates the AWS services that invoke functions, and an executor that counts runs.
//
// The package reports lost, duplicate and early runs. It does not measure speed. It connects only to this machine, and
// rejects emulators on other machines.
package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/wire"
)

// A Place holds the addresses of the local emulators of DynamoDB and SQS.
type Place struct{ DynamoDB, SQS string }

// NewPlace checks the base URLs of the two emulators and returns a Place. It returns an error for another machine,
// because the load test creates tables and queues, and kills and purges.
func NewPlace(dynamodb, sqs string) (Place, error) {
	for _, f := range []struct{ field, value string }{{"dynamodb", dynamodb}, {"sqs", sqs}} {
		u, err := url.Parse(f.value)
		if err != nil || u.Scheme != "http" || u.Path != "" && u.Path != "/" {
			return Place{}, core.Invalid(f.field, f.value, "allowed: http://127.0.0.1:PORT, where test/localaws/start.sh has started one")
		}
		if ip, err := netip.ParseAddr(u.Hostname()); err != nil || !ip.IsLoopback() {
			return Place{}, core.Invalid(f.field, f.value, "only this machine is allowed, by its address: http://127.0.0.1:PORT")
		}
	}
	return Place{strings.TrimSuffix(dynamodb, "/"), strings.TrimSuffix(sqs, "/")}, nil
}

// Clients returns clients of the DynamoDB and SQS emulators.
func (p Place) Clients() (*dynamodb.Client, *sqs.Client) {
	keys := credentials.NewStaticCredentialsProvider("tickring", "tickring", "")
	return dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: &p.DynamoDB, Credentials: keys}),
		sqs.New(sqs.Options{Region: "us-east-1", BaseEndpoint: &p.SQS, Credentials: keys})
}

// Options has the settings of a load test.
type Options struct {
	Place Place
	// Functions is the directory with the binaries of the functions: tick, dispatch, callback, registry and api.
	Functions string
	// Dir is the directory for the logs of the functions.
	Dir string
	// Prefix is the prefix of the names of created tables and queues.
	Prefix string
	// Fires is the approximate number of scheduled runs.
	Fires int
	// Kill is the average time between two kills of a dispatch process; 0 means no kills.
	Kill time.Duration
	// Account adds faults that emulators do not have, to the requests of the functions and to the messages for the functions.
	Account fakeaws.Account
	// Log receives messages in addition to the report.
	Log func(format string, args ...any)
}

// A Report has the results of a load test.
type Report struct {
	Fires int // number of expected scheduled runs
	Runs  int // number of runs that were closed as succeeded
	Lost  int // number of expected runs that never reached the executor
	Twice int // number of runs that reached the executor twice although the protocol does not allow it
	Early int // number of runs that reached the executor before their scheduled time
	// Resent is the number of runs that reached the executor again with their ID after a kill, which the protocol allows.
	Resent int
	Kills  int // number of kills of dispatch processes

	// Faults lists violations of tickring's promises.
	Faults []string
}

// Print writes the report as a table, followed by the faults.
func (r *Report) Print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIRES\tRUNS\tLOST\tTWICE\tEARLY\tRE-SENT\tKILLS")
	fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%d\n", r.Fires, r.Runs, r.Lost, r.Twice, r.Early, r.Resent, r.Kills)
	t.Flush()
	for i, f := range r.Faults {
		if i == 20 {
			fmt.Fprintf(w, "and %d more faults\n", len(r.Faults)-i)
			break
		}
		fmt.Fprintln(w, "fault: "+f)
	}
}

const (
	loadTimeout    = 18 * time.Second // of dispatch, as deployed
	loadVisibility = 25 * time.Second // of the fires queue, as deployed
	dispatchers    = 4                // at a time
	loadApp        = "load"
	loadToken      = "load-executors"
)

// load is one deployment: the functions as processes, what drives them as Lambda does, and an executor that counts.
type load struct {
	o      Options
	n      dynamo.Names
	e      *store.Store
	db     *dynamodb.Client
	queues *sqs.Client

	tick, registry, callback, checks, slow *Sandbox
	dispatch                               []*Sandbox
	account                                *account
	closers                                []func()

	mu     sync.Mutex
	got    map[core.RunID][]time.Time
	early  int
	struck map[core.RunID][]time.Time // when a process died with a message of this run in hand
	hand   map[core.RunID]*Sandbox    // the process that last received a message of this run
	aim    chan *Sandbox              // the killer's request for a process that is sending right now
	shot   chan struct{}              // the killer is done with that
	kills  int
	faults []string
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func (l *load) close() {
	for _, f := range slices.Backward(l.closers) {
		f()
	}
}

// box creates a function's sandbox.
func (l *load) box(name string, p Place) *Sandbox {
	s := NewSandbox(filepath.Join(l.o.Functions, name), filepath.Join(l.o.Dir, fmt.Sprintf("%s-%d.log", name, len(l.closers))), p, l.n,
		"TICKRING_VISIBILITY="+loadVisibility.String(), "TICKRING_LOG_LEVEL=error")
	l.closers = append(l.closers, s.Close)
	return s
}

// Run schedules runs and kills dispatch processes. No run may be lost or early. Only runs that a process was handling
// when it was killed may be sent twice.
func Run(ctx context.Context, o Options) (*Report, error) {
	l := &load{o: o, account: newAccount(o.Account), got: map[core.RunID][]time.Time{}, struck: map[core.RunID][]time.Time{},
		hand: map[core.RunID]*Sandbox{}, aim: make(chan *Sandbox), shot: make(chan struct{})}
	defer l.close()
	l.db, l.queues = o.Place.Clients()
	var err error
	if l.n, err = CreateLocal(ctx, l.db, l.queues, o.Prefix); err != nil {
		return nil, err
	}
	if l.e, err = Open(l.db, l.queues, dynamo.Options{Names: l.n, Visibility: loadVisibility}); err != nil {
		return nil, err
	}
	defer l.e.Close()
	between, leave := l.account.in(o.Place)
	l.closers = append(l.closers, leave)
	for s, name := range map[**Sandbox]string{&l.tick: "tick", &l.registry: "registry", &l.callback: "callback", &l.checks: "dispatch",
		&l.slow: "dispatch"} {
		*s = l.box(name, between)
	}
	for range dispatchers {
		l.dispatch = append(l.dispatch, l.box("dispatch", between))
	}
	if err := l.e.PutApp(ctx, 0, core.App{Name: loadApp, Token: loadToken, Rev: 1, Created: time.Now()},
		core.Change{ID: 1, App: loadApp, Verb: "created"}); err != nil {
		return nil, err
	}
	front := httptest.NewServer(http.HandlerFunc(l.front))
	defer front.Close()
	exec, err := miniexec.Start(miniexec.Options{App: loadApp, Admin: front.URL, Token: loadToken, Received: l.received, Handle: work})
	if err != nil {
		return nil, err
	}
	defer exec.Close()
	select {
	case <-exec.Registered():
	case <-time.After(time.Minute):
		return nil, errors.New("the executor could not register: " + l.registry.Tail())
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	// The drivers of the functions stop before the functions.
	driving, stop := context.WithCancel(ctx)
	var drivers sync.WaitGroup
	defer drivers.Wait()
	defer stop()
	for _, s := range l.dispatch {
		drivers.Go(func() { l.mapping(driving, l.n.Fires, s) })
	}
	drivers.Go(func() { l.mapping(driving, l.n.Slow, l.slow) })
	drivers.Go(func() { l.mapping(driving, l.n.Checks, l.checks) })
	drivers.Go(func() { l.clock(driving) })

	demanded, end, err := l.seed(driving)
	if err != nil {
		return nil, err
	}
	if o.Kill > 0 {
		killing, done := context.WithDeadline(driving, end.Time())
		l.killer(killing)
		done()
	}
	if err := l.await(driving, demanded, max(time.Until(end.Time()), 0)+10*time.Minute); err != nil {
		return nil, err
	}
	stop()
	drivers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := l.judge(ctx, demanded, end)
	if err != nil {
		return nil, err
	}
	if r.Faults = l.faults; len(r.Faults) > 0 {
		for _, s := range append(l.dispatch, l.tick, l.callback) {
			o.Log("%s:\n%s", filepath.Base(s.log), s.Tail())
		}
	}
	return r, nil
}

// seed makes secondly jobs in five waves over the first half of the time, due to be planned by the tick, as a creator leaves them
// that dies before it plans. All end in the same second. It answers the runs that they demand, and the end.
func (l *load) seed(ctx context.Context) (demanded []core.RunID, end core.Instant, err error) {
	jobs := 50
	if l.o.Fires > 2000 {
		jobs = 100
	}
	const waves = 5
	span := time.Duration(float64(l.o.Fires)/float64(jobs)/0.8+1) * time.Second
	end = core.Ceil(time.Now().Add(span))
	first, err := l.e.JobIDs(ctx, jobs)
	if err != nil {
		return nil, 0, err
	}
	next := time.NewTicker(span / (2 * waves))
	defer next.Stop()
	for w := range waves {
		if w > 0 {
			select {
			case <-next.C:
			case <-ctx.Done():
				return nil, 0, ctx.Err()
			}
		}
		now := time.Now().UTC().Truncate(time.Millisecond)
		var list []store.JobPut
		for i := w; i < jobs; i += waves {
			id := first + core.JobID(i)
			s := core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Second, Aligned: true}}, Until: end.Time().Format(time.RFC3339)}
			sch, err := schedule.Compile(s, id)
			if err != nil {
				return nil, 0, err
			}
			j := core.Job{
				Def: core.Def{ID: id, App: loadApp, Name: fmt.Sprintf("job-%d", i), Handler: "work", Route: core.RouteRound, Block: core.BlockSerial,
					LostAfter: 10 * time.Minute, Created: now},
				Sched: core.Sched{ID: id, App: loadApp, Rev: now.UnixMilli(), RevAt: now, Schedule: s, Misfire: core.MisfireAll, Grace: time.Minute},
			}
			j.Sched = plan.Start(j.Sched, sch, plan.AWS())
			for at, ok := sch.Next(core.InstantOf(now)); ok; at, ok = sch.Next(at) {
				demanded = append(demanded, core.PlannedRun(id, at))
			}
			list = append(list, store.JobPut{Create: &j, Changes: []core.Change{{ID: j.Sched.Rev, At: now, By: "load",
				Verb: core.VerbCreated, App: loadApp, Job: id, Name: j.Def.Name, New: core.RecordOf(&j.Sched, &j.Def).String()}}})
		}
		for _, err := range l.e.Jobs.Put(ctx, list) {
			if err != nil {
				return nil, 0, err
			}
		}
	}
	return demanded, end, nil
}

// work lasts longer than a message is invisible for every other job: only open runs can be sent again.
func work(ctx context.Context, r *wire.Run) (int, string) {
	if r.JobID%2 == 0 {
		store.Sleep(ctx, loadVisibility+2*time.Second)
	}
	return wire.CodeSuccess, ""
}

func (l *load) received(r *wire.Run, at time.Time) {
	id := core.RunID(r.LogID)
	instant, _ := id.Planned()
	l.mu.Lock()
	s := l.hand[id]
	l.mu.Unlock()
	select {
	case l.aim <- s: // the killer waits: it dies before it has this answer
		<-l.shot
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got[id] = append(l.got[id], at)
	if at.Before(instant.Time()) {
		l.early++
	}
}

// front is the HTTP API: it converts requests to events, for the function of their path.
func (l *load) front(w http.ResponseWriter, r *http.Request) {
	s := l.registry
	if r.URL.Path == "/api/callback" {
		s = l.callback
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	res, err := ask(s, r, body)
	if err != nil {
		http.Error(w, "no answer", http.StatusBadGateway)
		return
	}
	for k, v := range res.Headers {
		w.Header().Set(k, v)
	}
	w.WriteHeader(res.StatusCode)
	io.WriteString(w, res.Body)
}

type response struct {
	StatusCode int               `json:"statusCode"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
}

// ask passes an HTTP request to a function as API Gateway does.
func ask(s *Sandbox, r *http.Request, body []byte) (res response, err error) {
	headers := map[string]string{"host": r.Host}
	for k := range r.Header {
		headers[strings.ToLower(k)] = r.Header.Get(k)
	}
	doc, err := json.Marshal(map[string]any{
		"version": "2.0", "routeKey": "$default", "rawPath": r.URL.EscapedPath(), "rawQueryString": r.URL.RawQuery, "headers": headers,
		"body": string(body), "isBase64Encoded": false,
		"requestContext": map[string]any{"domainName": r.Host, "stage": "$default", "http": map[string]any{"method": r.Method, "path": r.URL.Path,
			"protocol": r.Proto, "sourceIp": "127.0.0.1"}},
	})
	if err != nil {
		return res, err
	}
	answer, fault, err := s.Invoke(doc, doorTimeout)
	switch {
	case err != nil:
		return res, err
	case len(answer) > maxAnswer:
		return res, fmt.Errorf("an answer of %d bytes: at most %d are sent on", len(answer), maxAnswer)
	case fault:
		return res, fmt.Errorf("the function failed: %s", answer)
	}
	return res, json.Unmarshal(answer, &res)
}

// mapping is an event source mapping: it receives, invokes, and deletes finished messages. The messages of a function that died
// become visible by themselves.
func (l *load) mapping(ctx context.Context, queue string, s *Sandbox) {
	for ctx.Err() == nil {
		f, most := l.account.fault("ReceiveMessage", 10), int32(10)
		if f.Short > 0 {
			most = int32(f.Short)
		}
		out, err := l.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: most, WaitTimeSeconds: 1,
			VisibilityTimeout:           int32(loadVisibility / time.Second),
			MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameAll}})
		if err != nil {
			if ctx.Err() == nil {
				l.fail("receive: %v", err)
			}
			return
		}
		if len(out.Messages) == 0 || f.Spent != nil { // spent: its function is throttled, and the messages are delivered again
			continue
		}
		var records []map[string]any
		for _, m := range out.Messages {
			records = append(records, map[string]any{"messageId": *m.MessageId, "receiptHandle": *m.ReceiptHandle, "body": *m.Body,
				"attributes": m.Attributes, "messageAttributes": map[string]any{},
				"md5OfBody": aws.ToString(m.MD5OfBody), "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:" +
					path.Base(queue), "awsRegion": "us-east-1"})
		}
		doc, err := json.Marshal(map[string]any{"Records": records})
		if err != nil {
			panic(err)
		}
		l.mu.Lock()
		for _, id := range runsOf(out.Messages) {
			l.hand[id] = s
		}
		l.mu.Unlock()
		body, fault, err := s.Invoke(doc, loadTimeout)
		if err != nil || fault {
			if fault {
				l.o.Log("a batch failed: %s", body)
			} else {
				l.died(out.Messages)
			}
			continue
		}
		again, err := failures(body)
		if err != nil {
			l.fail("dispatch answered %s: %v", body, err)
		}
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &queue}
		f = l.account.fault("DeleteMessageBatch", len(out.Messages))
		for i, m := range out.Messages {
			stays := f.Again != nil && f.Again(i) || f.Part != nil && f.Part(i)
			if !stays && !slices.Contains(again, *m.MessageId) {
				in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)),
					ReceiptHandle: m.ReceiptHandle})
			}
		}
		if len(in.Entries) > 0 {
			if _, err := l.queues.DeleteMessageBatch(context.WithoutCancel(ctx), in); err != nil {
				l.fail("delete: %v", err)
			}
		}
	}
}

// failures are the messages that a function wants again.
func failures(body []byte) (ids []string, err error) {
	var res struct {
		BatchItemFailures []struct{ ItemIdentifier string }
	}
	err = json.Unmarshal(body, &res)
	for _, f := range res.BatchItemFailures {
		ids = append(ids, f.ItemIdentifier)
	}
	return ids, err
}

// died records the runs that a process held when it died: only those may arrive twice.
func (l *load) died(msgs []sqstypes.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range runsOf(msgs) {
		l.struck[id] = append(l.struck[id], time.Now())
	}
}

func runsOf(msgs []sqstypes.Message) (ids []core.RunID) {
	for _, m := range msgs {
		if r, err := ring.Decode([]byte(*m.Body)); err == nil {
			for _, f := range r.Fires {
				ids = append(ids, f.Run)
			}
		}
	}
	return ids
}

// clock wakes the tick, more often than a schedule can.
func (l *load) clock(ctx context.Context) {
	wake := time.NewTicker(time.Second)
	defer wake.Stop()
	doc := []byte(`{"version":"0","detail-type":"Scheduled Event","source":"aws.scheduler","detail":"{}"}`)
	for {
		if body, fault, _ := l.tick.Invoke(doc, 30*time.Second); fault {
			l.o.Log("a tick failed: %s", body) // the next one continues
		}
		select {
		case <-wake.C:
		case <-ctx.Done():
			return
		}
	}
}

// killer kills processes of dispatch at random times, every other time one whose run arrives, before it has the answer.
func (l *load) killer(ctx context.Context) {
	for n := 0; ; n++ {
		if !store.Sleep(ctx, rand.N(2*l.o.Kill)) {
			return
		}
		s, aimed := l.dispatch[rand.IntN(dispatchers)], n%2 == 1
		if aimed {
			select {
			case s = <-l.aim:
			case <-ctx.Done():
				return
			}
		}
		if s != nil && s.Kill() {
			l.mu.Lock()
			l.kills++
			l.mu.Unlock()
		}
		if aimed {
			l.shot <- struct{}{}
		}
	}
}

// await waits until every run that was demanded has arrived and is closed, or
// until for a limit none more does: a busy machine is slow, and loses nothing.
func (l *load) await(ctx context.Context, demanded []core.RunID, limit time.Duration) error {
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	over := time.NewTimer(limit)
	defer over.Stop()
	left, arrived := slices.Clone(demanded), 0
	for {
		select {
		case <-look.C:
		case <-over.C:
			l.fail("%d of %d runs are not done, the first is %s, and nothing more has come for %s", len(left), len(demanded), left[0], limit)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		l.mu.Lock()
		missing := slices.ContainsFunc(left, func(id core.RunID) bool { return len(l.got[id]) == 0 })
		n := len(l.got)
		l.mu.Unlock()
		if n > arrived {
			arrived = n
			over.Reset(limit)
		}
		if missing {
			continue
		}
		runs, err := l.e.Runs.Get(ctx, left)
		if err != nil {
			return fmt.Errorf("read runs: %w", err)
		}
		open := len(left)
		left = slices.DeleteFunc(left, func(id core.RunID) bool { r, ok := runs[id]; return ok && r.Err == nil && !r.Is.State.Open() })
		if len(left) == 0 {
			return nil
		}
		if len(left) < open {
			over.Reset(limit)
		}
	}
}

func (l *load) judge(ctx context.Context, demanded []core.RunID, end core.Instant) (*Report, error) {
	runs, err := readRuns(ctx, l.e, demanded)
	if err != nil {
		return nil, err
	}
	r := l.compare(demanded, runs)
	var first core.Instant
	for _, id := range demanded {
		if i, _ := id.Planned(); first == 0 || i < first {
			first = i
		}
	}
	return r, l.audit(ctx, first, end)
}

// readRuns reads runs until none was throttled.
func readRuns(ctx context.Context, s *store.Store, ids []core.RunID) (map[core.RunID]core.Run, error) {
	all := map[core.RunID]core.Run{}
	for len(ids) > 0 {
		found, err := s.Runs.Get(ctx, ids)
		ids = nil
		for id, g := range found {
			switch {
			case g.Err == nil:
				all[id] = *g.Is
			case errors.Is(g.Err, core.ErrThrottled):
				ids = append(ids, id)
			default:
				err = g.Err
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read runs: %w", err)
		}
	}
	return all, nil
}

// compare compares the arrivals with the expected runs and the allowed duplicates.
func (l *load) compare(demanded []core.RunID, runs map[core.RunID]core.Run) *Report {
	r := &Report{Fires: len(demanded)}
	want := map[core.RunID]bool{}
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	l.mu.Lock()
	defer func() {
		l.faults = append(l.faults, faults...)
		l.mu.Unlock()
	}()
	r.Early, r.Kills = l.early, l.kills
	var longest time.Duration
	for _, id := range demanded {
		want[id] = true
		n := len(l.got[id])
		wrong := false
		if n > 1+len(l.struck[id]) {
			wrong = true
			fault("run %s came %d times, though only %d processes died with it in hand", id, n, len(l.struck[id]))
		}
		// Each but the last was followed by a death before its journal was stored.
		for _, at := range l.got[id][:max(n-1, 0)] {
			before := unstored(at, l.struck[id])
			longest = max(longest, before)
			if before > resendable {
				wrong = true
				fault("run %s came again, though it had arrived %s before the process died", id, before)
			}
		}
		switch {
		case n == 0:
			r.Lost++
		case wrong:
			r.Twice++
		case n > 1:
			r.Resent++
		}
		if run := runs[id]; run.State == core.Succeeded {
			r.Runs++
		} else {
			fault("run %s is %q (%s), it arrived %d times", id, run.State, run.Reason, n)
		}
	}
	for id := range l.got {
		if !want[id] {
			fault("run %s arrived, and nothing demanded it", id)
		}
	}
	if r.Lost > 0 || r.Early > 0 {
		fault("%d lost, %d early", r.Lost, r.Early)
	}
	if l.kills > 0 && len(l.struck) == 0 {
		fault("%d processes were killed, none with a message in hand: nothing is proven", l.kills)
	}
	l.o.Log("%d runs were in the hands of processes that died; runs that came again had arrived at most %s before the death", len(l.struck),
		longest.Round(time.Millisecond))
	return r
}

// resendable is how long before its death a process can have sent a run that is resent: 250 ms until the journal is due, and the
// time to store it on a busy machine.
const resendable = 5 * time.Second

// unstored returns the time from an arrival to the next death; an hour if none followed. Runs in transit at a death are recorded as
// arrived shortly after it, on a busy machine.
func unstored(arrived time.Time, deaths []time.Time) time.Duration {
	next := time.Hour
	for _, d := range deaths {
		if after := d.Sub(arrived); after > -resendable {
			next = min(next, max(after, 0))
		}
	}
	return next
}

// audit asks the API whether everything is accounted for.
func (l *load) audit(ctx context.Context, from, to core.Instant) error {
	s := l.box("api", l.o.Place)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://tickring/v1/audit?from=%s&to=%s",
		from.Time().Format(time.RFC3339), to.Time().Format(time.RFC3339)), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+AdminToken)
	res, err := ask(s, req, nil)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("answered %d: %s", res.StatusCode, res.Body)
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	var sum struct {
		Demanded    int `json:"expected"`
		Unaccounted int `json:"unaccounted"`
	}
	if err := json.Unmarshal([]byte(res.Body), &sum); err != nil || sum.Demanded == 0 || sum.Unaccounted != 0 {
		l.fail("audit: %s, %v", res.Body, err)
	}
	return nil
}
