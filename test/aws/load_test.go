package aws_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/engine/awsengine"
	"github.com/tickring/tickring/internal/miniexec"
	"github.com/tickring/tickring/wire"
)

var (
	loadFires     = flag.Int("load.fires", 1000, "how many fires TestLoad asks for, about")
	loadKills     = flag.Duration("load.kill", 1500*time.Millisecond, "how long between two kills of a dispatching process, on average; 0: none")
	loadTickKills = flag.Int("load.tickkills", 0, "how often the planning process is killed; each holds up planning for a lease of 45 s")
)

const (
	loadTimeout    = 8 * time.Second  // of dispatch
	loadVisibility = 10 * time.Second // of the fires queue
	dispatchers    = 4                // at a time
	loadApp        = "load"
	loadToken      = "load-executors"
)

// load is one deployment: the functions as processes, what drives them as
// Lambda does, and an executor that counts.
type load struct {
	t      *testing.T
	fires  int // asked for, about
	n      awsengine.Names
	e      *engine.Engine
	queues *sqs.Client

	tick, registry, callback, checks, slow *sandbox
	dispatch                               []*sandbox
	meters                                 map[string]*meter

	mu     sync.Mutex
	got    map[core.RunID][]time.Time
	early  int
	late   []time.Duration
	struck map[core.RunID][]time.Time // when a process died with a message of this run in hand
	hand   map[core.RunID]*sandbox    // who was given a message of this run last
	aim    chan *sandbox              // asked for by the killer: one that is sending right now
	shot   chan struct{}              // the killer is done with that
	kills  int
	esm    map[string]int // requests to queues of what Lambda does by itself
}

// TestLoad: whatever process of dispatch dies when, no fire is lost, none comes
// early, and only those come twice that a process had in hand when it died.
func TestLoad(t *testing.T) {
	deploy(t, *loadFires, func(ctx context.Context, l *load, end core.Instant) {
		killing, done := context.WithDeadline(ctx, end.Time())
		defer done()
		var killers sync.WaitGroup
		if *loadKills > 0 {
			killers.Go(func() { l.killer(killing) })
		}
		killers.Go(func() { l.tickKiller(killing, *loadTickKills) })
		killers.Wait()
	})
}

// TestPurge: the queue is purged under load, and nothing planned is on it any
// more; a replan of the span sends what was lost, and nothing is lost.
func TestPurge(t *testing.T) {
	deploy(t, 600, func(ctx context.Context, l *load, end core.Instant) {
		from := core.InstantOf(time.Now()) - 60
		pause(ctx, time.Until(end.Time())/2)
		if _, err := l.queues.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: &l.n.Fires}); err != nil {
			t.Fatal(err)
		}
		l.mu.Lock()
		before := len(l.got)
		l.mu.Unlock()
		pause(ctx, time.Until(end.Time())+3*time.Second)
		m := manage.New(l.e.Manage, l.e.Ring, nil, nil, manage.Options{Plan: plan.AWS()})
		var sent int64
		for range 60 { // what may be on its way is left alone
			r, err := m.Replan(ctx, manage.Actor{Name: "load"}, "", from, end)
			if err != nil {
				t.Fatal(err)
			}
			if sent += r.Sent; sent > 0 && r.Missing == 0 {
				break
			}
			pause(ctx, 3*time.Second)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		t.Logf("purge after %d of the fires had arrived; replan sent %d", before, sent)
		if sent == 0 {
			t.Error("the purge lost nothing: nothing is proven")
		}
	})
}

// deploy runs a deployment on some fires; disturb lasts until what it does is
// over. Then all that was demanded must arrive, and is judged.
func deploy(t *testing.T, fires int, disturb func(ctx context.Context, l *load, end core.Instant)) {
	db, queues := clients(t)
	n := fresh(t)
	e, err := awsengine.Open(db, queues, awsengine.Options{Names: n, Visibility: loadVisibility})
	if err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, fires: fires, n: n, e: e, queues: queues, meters: map[string]*meter{}, got: map[core.RunID][]time.Time{}, struck: map[core.RunID][]time.Time{}, esm: map[string]int{}, hand: map[core.RunID]*sandbox{}, aim: make(chan *sandbox), shot: make(chan struct{})}
	box := func(name string) *sandbox {
		if l.meters[name] == nil {
			l.meters[name] = newMeter(t)
		}
		return newSandbox(t, name, n, append(l.meters[name].environment(), "TICKRING_VISIBILITY="+loadVisibility.String(), "TICKRING_LOG_LEVEL=error")...)
	}
	l.tick, l.registry, l.callback, l.checks, l.slow = box("tick"), box("registry"), box("callback"), box("dispatch"), box("dispatch")
	for range dispatchers {
		l.dispatch = append(l.dispatch, box("dispatch"))
	}
	if err := e.Manage.PutApp(t.Context(), 0, core.App{Name: loadApp, Token: loadToken, Rev: 1, Created: time.Now()}, core.Change{ID: 1, App: loadApp, Verb: "created"}); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(http.HandlerFunc(l.front))
	defer front.Close()
	exec, err := miniexec.Start(miniexec.Options{App: loadApp, Admin: front.URL, Token: loadToken, Received: l.received, Handle: work, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Close()
	select {
	case <-exec.Registered():
	case <-time.After(20 * time.Second):
		t.Fatal("the executor could not register")
	}

	// What drives the functions ends before they do.
	ctx, stop := context.WithCancel(t.Context())
	var drivers sync.WaitGroup
	defer drivers.Wait()
	defer stop()
	for _, s := range l.dispatch {
		drivers.Go(func() { l.mapping(ctx, n.Fires, s) })
	}
	drivers.Go(func() { l.mapping(ctx, n.Slow, l.slow) })
	drivers.Go(func() { l.mapping(ctx, n.Checks, l.checks) })
	drivers.Go(func() { l.clock(ctx) })

	demanded, sched, end := l.seed()
	disturb(ctx, l, end)
	l.await(demanded, time.Until(end.Time())+3*time.Minute)
	stop()
	drivers.Wait()
	l.judge(demanded, end)
	l.print(len(demanded), price(t, n, sched))
}

// seed makes secondly jobs in five waves over the first half of the time, due to
// be planned by the tick, as a creator leaves them that dies before it plans.
// All end in the same second. It answers the runs that they demand, an item of
// one job's schedule, and the end.
func (l *load) seed() (demanded []core.RunID, item map[string]types.AttributeValue, end core.Instant) {
	jobs := 50
	if l.fires > 2000 {
		jobs = 100
	}
	const waves = 5
	span := time.Duration(float64(l.fires)/float64(jobs)/0.8+1) * time.Second
	end = core.Ceil(time.Now().Add(span))
	first, err := l.e.Manage.NewJobIDs(l.t.Context(), jobs)
	if err != nil {
		l.t.Fatal(err)
	}
	next := time.NewTicker(span / (2 * waves))
	defer next.Stop()
	for w := range waves {
		if w > 0 {
			<-next.C
		}
		now := time.Now().UTC().Truncate(time.Millisecond)
		var list []core.Job
		var changes []core.Change
		for i := w; i < jobs; i += waves {
			id := first + core.JobID(i)
			s := core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Second, Aligned: true}}, Until: end.Time().Format(time.RFC3339)}
			sch, err := schedule.Compile(s, id)
			if err != nil {
				l.t.Fatal(err)
			}
			j := core.Job{
				Def:   core.Def{ID: id, App: loadApp, Name: fmt.Sprintf("job-%d", i), Handler: "work", Route: core.RouteRound, Block: core.BlockSerial, LostAfter: 10 * time.Minute, Created: now},
				Sched: core.Sched{ID: id, App: loadApp, Rev: now.UnixMilli(), RevAt: now, Schedule: s, Misfire: core.MisfireAll, Grace: time.Minute},
			}
			j.Sched = plan.Start(j.Sched, sch, plan.AWS())
			for at, ok := sch.Next(core.InstantOf(now)); ok; at, ok = sch.Next(at) {
				demanded = append(demanded, core.PlannedRun(id, at))
			}
			list = append(list, j)
			changes = append(changes, core.Change{ID: j.Sched.Rev, At: now, By: "load", Verb: core.VerbCreated, App: loadApp, Job: id, Name: j.Def.Name, New: core.RecordOf(&j.Sched, &j.Def).String()})
		}
		for _, err := range l.e.Manage.CreateJobs(l.t.Context(), list, changes) {
			if err != nil {
				l.t.Fatal(err)
			}
		}
		if item == nil {
			item = l.schedItem()
		}
	}
	return demanded, item, end
}

// schedItem is any item of the due index.
func (l *load) schedItem() map[string]types.AttributeValue {
	db, _ := clients(l.t)
	out, err := db.Scan(l.t.Context(), &dynamodb.ScanInput{TableName: &l.n.Jobs})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, it := range out.Items {
		if it["planAt"] != nil && it["partition"] != nil {
			return it
		}
	}
	l.t.Fatal("no job is due to be planned")
	return nil
}

// work lasts longer than a message is invisible for every other job: only what
// has not ended can be sent again.
func work(ctx context.Context, r *wire.Run, _ func(string, ...any)) (int, string) {
	if r.JobID%2 == 0 {
		pause(ctx, loadVisibility+2*time.Second)
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
	late := at.Sub(instant.Time())
	l.late = append(l.late, late)
	if late < 0 {
		l.early++
	}
}

// front is the HTTP API: it makes events of requests, for the function whose
// path it is.
func (l *load) front(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s := l.registry
	if r.URL.Path == "/api/callback" {
		s = l.callback
	}
	headers := map[string]string{"host": r.Host}
	for k := range r.Header {
		headers[strings.ToLower(k)] = r.Header.Get(k)
	}
	doc, err := json.Marshal(map[string]any{
		"version": "2.0", "routeKey": "$default", "rawPath": r.URL.EscapedPath(), "rawQueryString": r.URL.RawQuery, "headers": headers, "body": string(body), "isBase64Encoded": false,
		"requestContext": map[string]any{"domainName": r.Host, "stage": "$default", "http": map[string]any{"method": r.Method, "path": r.URL.Path, "protocol": r.Proto, "sourceIp": "127.0.0.1"}},
	})
	if err != nil {
		panic(err)
	}
	answer, fault, err := s.invoke(doc, 20*time.Second)
	if err != nil || fault {
		http.Error(w, "no answer", http.StatusBadGateway)
		return
	}
	var res struct {
		StatusCode int               `json:"statusCode"`
		Headers    map[string]string `json:"headers"`
		Body       string            `json:"body"`
	}
	if err := json.Unmarshal(answer, &res); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	for k, v := range res.Headers {
		w.Header().Set(k, v)
	}
	w.WriteHeader(res.StatusCode)
	io.WriteString(w, res.Body)
}

// mapping is an event source mapping: it receives, invokes, and deletes what is
// not to come again. What a function that died had in hand becomes visible by
// itself.
func (l *load) mapping(ctx context.Context, queue string, s *sandbox) {
	for ctx.Err() == nil {
		out, err := l.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue, MaxNumberOfMessages: 10, WaitTimeSeconds: 1, VisibilityTimeout: int32(loadVisibility / time.Second),
			MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{sqstypes.MessageSystemAttributeNameAll}})
		if err != nil {
			if ctx.Err() == nil {
				l.t.Errorf("receive: %v", err)
			}
			return
		}
		if len(out.Messages) == 0 {
			l.count("idle ReceiveMessage", 1)
			continue
		}
		l.count("ReceiveMessage", 1)
		var records []map[string]any
		for _, m := range out.Messages {
			records = append(records, map[string]any{"messageId": *m.MessageId, "receiptHandle": *m.ReceiptHandle, "body": *m.Body, "attributes": m.Attributes, "messageAttributes": map[string]any{},
				"md5OfBody": aws.ToString(m.MD5OfBody), "eventSource": "aws:sqs", "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:" + path.Base(queue), "awsRegion": "us-east-1"})
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
		body, fault, err := s.invoke(doc, loadTimeout)
		if err != nil || fault {
			if fault {
				l.t.Logf("a batch failed: %s", body)
			} else {
				l.died(out.Messages)
			}
			continue
		}
		again := failed(l.t, string(body))
		in := &sqs.DeleteMessageBatchInput{QueueUrl: &queue}
		for i, m := range out.Messages {
			if !slices.Contains(again, *m.MessageId) {
				in.Entries = append(in.Entries, sqstypes.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle})
			}
		}
		if len(in.Entries) > 0 {
			l.count("DeleteMessageBatch", 1)
			if _, err := l.queues.DeleteMessageBatch(context.WithoutCancel(ctx), in); err != nil {
				l.t.Errorf("delete: %v", err)
			}
		}
	}
}

func (l *load) count(what string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.esm[what] += n
}

// died notes the runs that a process had in hand when it died: only those may
// come twice.
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
	doc := document(l.t, "tick/testdata/schedule.json")
	for {
		if body, fault, err := l.tick.invoke(doc, 30*time.Second); fault {
			l.t.Errorf("the tick failed: %s, %v", body, err)
		}
		select {
		case <-wake.C:
		case <-ctx.Done():
			return
		}
	}
}

// killer kills processes of dispatch at random instants, every other time one
// whose run arrives, before it has the answer.
func (l *load) killer(ctx context.Context) {
	for n := 0; ; n++ {
		if !pause(ctx, rand.N(2**loadKills)) {
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
		if s != nil && s.kill() {
			l.mu.Lock()
			l.kills++
			l.mu.Unlock()
		}
		if aimed {
			l.shot <- struct{}{}
		}
	}
}

// pause waits; false if ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tickKiller kills the planning process a few times while it passes.
func (l *load) tickKiller(ctx context.Context, times int) {
	for n := 0; n < times; {
		if !pause(ctx, rand.N(3*time.Second)) {
			return
		}
		if l.tick.kill() {
			n++
		}
	}
}

// await waits until every run that was demanded has arrived and is closed.
func (l *load) await(demanded []core.RunID, limit time.Duration) {
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	over := time.NewTimer(limit)
	defer over.Stop()
	left := slices.Clone(demanded)
	for {
		select {
		case <-look.C:
		case <-over.C:
			l.t.Errorf("%d of %d runs are not done after %s, the first is %s", len(left), len(demanded), limit, left[0])
			return
		}
		l.mu.Lock()
		missing := slices.ContainsFunc(left, func(id core.RunID) bool { return len(l.got[id]) == 0 })
		l.mu.Unlock()
		if missing {
			continue
		}
		runs, _, err := l.e.Finish.Runs(l.t.Context(), left)
		if err != nil {
			l.t.Error(err)
			return
		}
		left = slices.DeleteFunc(left, func(id core.RunID) bool { r, ok := runs[id]; return ok && !r.State.Open() })
		if len(left) == 0 {
			return
		}
	}
}

func (l *load) judge(demanded []core.RunID, end core.Instant) {
	t := l.t
	want := map[core.RunID]bool{}
	for _, id := range demanded {
		want[id] = true
	}
	runs, _, err := l.e.Finish.Runs(t.Context(), demanded)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lost, twice := 0, 0
	var longest time.Duration
	for id := range want {
		n := len(l.got[id])
		if n == 0 {
			lost++
		}
		if n > 1 {
			twice++
		}
		if n > 1+len(l.struck[id]) {
			t.Errorf("run %s came %d times, though only %d processes died with it in hand", id, n, len(l.struck[id]))
		}
		// Each but the last was followed by a death before its journal was stored.
		for _, at := range l.got[id][:max(n-1, 0)] {
			before := unstored(at, l.struck[id])
			longest = max(longest, before)
			if before > resendable {
				t.Errorf("run %s came again, though it had arrived %s before the process died", id, before)
			}
		}
		if r := runs[id]; r.State != core.Succeeded {
			t.Errorf("run %s is %q (%s), it arrived %d times", id, r.State, r.Reason, n)
		}
	}
	for id := range l.got {
		if !want[id] {
			t.Errorf("run %s arrived, and nothing demanded it", id)
		}
	}
	if lost > 0 || l.early > 0 {
		t.Errorf("%d lost, %d early", lost, l.early)
	}
	if l.kills > 0 && len(l.struck) == 0 {
		t.Errorf("%d processes were killed, none with a message in hand: nothing is proven", l.kills)
	}
	slices.Sort(l.late)
	at := func(q float64) time.Duration { return l.late[int(q*float64(len(l.late)-1))].Round(time.Millisecond) }
	t.Logf("%d fires, %d processes killed with %d runs in hand: %d lost, %d early, %d came again with the same ID, having arrived at most %s before the death; late by p50 %s, p99 %s, most %s",
		len(demanded), l.kills, len(l.struck), lost, l.early, twice, longest.Round(time.Millisecond), at(.5), at(.99), at(1))
	var first core.Instant
	for id := range want {
		if i, _ := id.Planned(); first == 0 || i < first {
			first = i
		}
	}
	l.audit(first, end)
}

// resendable is how long before its death a process may have sent what is sent
// again: 250 ms until the journal is due, and what it takes to store it on a
// busy machine.
const resendable = 2 * time.Second

// unstored is how long after an arrival the next death came; an hour if none did.
func unstored(arrived time.Time, deaths []time.Time) time.Duration {
	next := time.Hour
	for _, d := range deaths {
		if after := d.Sub(arrived); after >= 0 {
			next = min(next, after)
		}
	}
	return next
}

// audit asks the API whether everything is accounted for.
func (l *load) audit(from, to core.Instant) {
	s := newSandbox(l.t, "api", l.n)
	doc := document(l.t, "api/testdata/url.json", "/v1/apps", "/v1/audit", `"rawQueryString": ""`,
		fmt.Sprintf(`"rawQueryString": "from=%s&to=%s"`, from.Time().Format(time.RFC3339), to.Time().Format(time.RFC3339)))
	got := s.ok(l.t, doc)
	var res struct{ Body string }
	var sum struct {
		Demanded    int `json:"demanded"`
		Unaccounted int `json:"unaccounted"`
	}
	if err := json.Unmarshal([]byte(got), &res); err != nil || status(l.t, got) != 200 {
		l.t.Fatalf("audit: %s, %v", got, err)
	}
	if err := json.NewDecoder(bytes.NewReader([]byte(res.Body))).Decode(&sum); err != nil || sum.Demanded == 0 || sum.Unaccounted != 0 {
		l.t.Errorf("audit: %s, %v", res.Body, err)
	}
}

// print tells what a fire cost.
func (l *load) print(fires int, p prices) {
	per := func(n float64) float64 { return n / float64(fires) }
	var w, r float64
	q := 0
	for _, name := range []string{"tick", "dispatch", "callback", "registry"} {
		m := l.meters[name]
		mw, mr, mq := m.writeUnits(p), m.readUnits(), m.queueRequests()
		w, r, q = w+mw, r+mr, q+mq
		l.t.Logf("%s: per fire %.3f write units, %.3f read units, %.3f queue requests\n%s", name, per(mw), per(mr), per(float64(mq)), strings.Join(m.lines(), "\n"))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	mapping := l.esm["ReceiveMessage"] + l.esm["DeleteMessageBatch"]
	l.tick.mu.Lock()
	wakes, ticks := l.tick.n, l.tick.started
	l.tick.mu.Unlock()
	moves := float64(l.meters["tick"].statements["UPDATE "+l.n.Jobs]) * p[l.n.Jobs]
	l.t.Logf("the tick woke %d times in %d processes: %.2f write units each for leases and the sign of life", wakes, ticks, (l.meters["tick"].writeUnits(p)-moves)/float64(wakes))
	l.t.Logf("a run costs %.2f write units a statement, the move of a job %.2f", p[l.n.Runs], p[l.n.Jobs])
	l.t.Logf("in all per fire: %.3f write units, %.3f read units, %.3f queue requests (%.3f of the functions, %.3f of the mapping, which asked %d times for nothing besides)",
		per(w), per(r), per(float64(q+mapping)), per(float64(q)), per(float64(mapping)), l.esm["idle ReceiveMessage"])
}
