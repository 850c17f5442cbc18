package cost

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/notification"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/core/tick/partitioning"
	"github.com/tickring/tickring/internal/lambdaboot"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/store/dynamo"
)

// A deployment runs the functions on counting fakes, in virtual time, with the usual response times of AWS.
type deployment struct {
	t     testing.TB
	e     *store.Store
	db    *fakeaws.DynamoDB
	q     *fakeaws.SQS
	o     plan.Options
	a     *wiring.Assembly
	ends  *callback.Callback
	busy  sync.WaitGroup // callbacks on their way
	fires *dispatch.Dispatcher
	// minutely are the tasks of a planner function that stays alive.
	minutely []tick.Task

	// gathers makes the executor report like the executor of the SDK: one request at a time, with all waiting results.
	gathers bool

	mu        sync.Mutex
	of        map[string]*invoked // by function
	to        int                 // sends
	waiting   []finish.Result
	reporting bool
}

type invoked struct {
	times int
	took  time.Duration
}

const (
	storeTakes    = 5 * time.Millisecond
	queueTakes    = 10 * time.Millisecond
	executorTakes = 15 * time.Millisecond // to accept
	runTakes      = 200 * time.Millisecond
	wayTakes      = 5 * time.Millisecond // of a callback, to the function and back, at least
	pollers       = 2
	tokenFor      = 10 * time.Second // as the functions do
)

func (d *deployment) invoke(name string, do func()) {
	began := time.Now()
	do()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[name] == nil {
		d.of[name] = &invoked{}
	}
	d.of[name].times++
	d.of[name].took += time.Since(began)
}

// Send accepts a run like an executor, which reports its end a little later.
func (d *deployment) Send(ctx context.Context, s dispatch.SendRequest) dispatch.Answer {
	time.Sleep(executorTakes)
	d.mu.Lock()
	d.to++
	d.mu.Unlock()
	d.busy.Go(func() {
		time.Sleep(runTakes)
		if result := (finish.Result{Run: s.Run.ID, State: core.Succeeded, Code: 200}); d.gathers {
			d.gather(result)
		} else {
			d.callback([]finish.Result{result})
		}
	})
	return dispatch.Answer{Kind: dispatch.AnswerAccepted, Took: executorTakes}
}

func (d *deployment) callback(results []finish.Result) {
	d.invoke("callback", func() {
		for _, err := range d.ends.Callback(context.Background(), callback.Caller{Token: token}, results) {
			check.NoError(d.t, err)
		}
	})
}

// gather reports a result, together with all that arrived during the previous report.
func (d *deployment) gather(result finish.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting = append(d.waiting, result); d.reporting {
		return
	}
	d.reporting = true
	for len(d.waiting) > 0 {
		some := d.waiting[:min(len(d.waiting), 500)]
		d.waiting = d.waiting[len(some):]
		d.mu.Unlock()
		time.Sleep(wayTakes)
		d.callback(some)
		d.mu.Lock()
	}
	d.reporting = false
}

func (d *deployment) Beat(context.Context, *core.App, string) error { return nil }

func (d *deployment) Idle(context.Context, *core.App, string, core.JobID) (bool, error) {
	return true, nil
}

func (d *deployment) Limit(context.Context, string) (time.Duration, error) { return time.Minute, nil }

func (d *deployment) Kill(context.Context, *core.App, string, core.JobID) error { return nil }

const token = "secret-of-the-app"

// deploy drives the functions for as long as ctx lives.
func deploy(ctx context.Context, t testing.TB, drivers *sync.WaitGroup) *deployment {
	db, q := fakeaws.New(t.Errorf)
	wait := func(takes time.Duration) fakeaws.Faults {
		return func(context.Context, fakeaws.Call) fakeaws.Fault { return fakeaws.Fault{Wait: takes} }
	}
	db.Faults = wait(storeTakes)
	s, err := dynamo.New(db, q, dynamo.Options{Names: fakeaws.Names})
	check.OK(t, err)
	d := &deployment{t: t, e: s.Store, db: db, q: q, o: plan.AWS(), of: map[string]*invoked{}}
	d.a = wiring.New(d.e, wiring.Options{Plan: d.o})
	d.minutely = lambdaboot.Minutely(lambdaboot.NewPulse(d.e, slog.New(slog.DiscardHandler)), d.a.Watchdog(d, finish.WatchOptions{}),
		d.manage().Operate,
		d.a.Reports(report.Options{}),
		func(fires int64) { t.Errorf("%d fires were sent again", fires) })
	told := d.a.Notices(nil, notification.Options{})
	d.minutely = append(d.minutely, tick.Task{Name: "notifications", Do: func(ctx context.Context) error {
		_, err := told.Pass(ctx)
		return err
	}})
	d.ends = d.a.Callback(callback.Options{TokenFor: tokenFor})
	d.fires = d.a.Dispatcher(d, dispatch.Options{})
	text := token
	m := d.manage()
	check.Call(t)(m.SaveApp(ctx, core.Actor{Name: "ann"}, manage.AppSpec{Name: "orders", Token: &text}))
	reg := d.a.Registry(registry.Options{})
	beat := func() {
		d.invoke("registry", func() {
			if err := reg.Register(ctx, registry.Registration{App: "orders", Address: "http://10.0.0.1:9999/", Token: token}); err != nil &&
				ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	beat()
	drivers.Go(func() { every(ctx, 30*time.Second, 0, beat) })
	drivers.Go(func() {
		every(ctx, time.Minute, 17*time.Second, func() { d.invoke("tick", func() { d.wake(ctx) }) })
	})
	for range pollers {
		drivers.Go(func() { d.poll(ctx) })
	}
	return d
}

func (d *deployment) manage() *people.People {
	return d.a.People(nil, people.Options{})
}

// every calls do at whole multiples of a period, and a little after.
func every(ctx context.Context, period, after time.Duration, do func()) {
	for {
		t := time.NewTimer(time.Until(time.Now().Truncate(period).Add(period + after)))
		select {
		case <-t.C:
			do()
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// wake is one wake-up of the planner, as in functions/tick.
func (d *deployment) wake(ctx context.Context) {
	if _, err := d.a.Store.Own(ctx); err != nil && ctx.Err() == nil {
		d.t.Error(err)
	}
	ticker := d.a.Ticker(tick.Invoked(tick.Options{ID: fmt.Sprint("t", time.Now().Unix()), Rates: partitioning.Rates{Max: 16}}))
	err := ticker.Beats(tick.Invocation{Minutely: d.minutely}).Run(ctx)
	if err != nil && ctx.Err() == nil {
		d.t.Error(err)
	}
}

// poll is one poller of an event source mapping.
func (d *deployment) poll(ctx context.Context) {
	for ctx.Err() == nil {
		out, err := d.q.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &fakeaws.Names.Fires, MaxNumberOfMessages: takeBatch,
			WaitTimeSeconds: 20, VisibilityTimeout: 60})
		if err != nil {
			if ctx.Err() == nil {
				d.t.Error(err)
			}
			return
		}
		d.mu.Lock()
		if len(out.Messages) == 0 {
			d.mu.Unlock()
			continue
		}
		d.mu.Unlock()
		var msgs []ring.Message
		for _, m := range out.Messages {
			msg, err := ring.Decode([]byte(*m.Body))
			if err != nil {
				d.t.Error(err)
				return
			}
			msgs = append(msgs, msg)
		}
		d.invoke("dispatch", func() {
			ctx, cancel := context.WithTimeout(ctx, 28*time.Second)
			defer cancel()
			for _, v := range d.fires.Handle(ctx, msgs) {
				if !v.Ack && ctx.Err() == nil {
					d.t.Error(v.Err)
				}
			}
		})
		_ = d.delete(ctx, out)
	}
}

// measured is the usage of a deployment over a span.
type measured struct {
	span        time.Duration
	fires       int
	read, write float64
	on          map[string]fakeaws.Used // by table and index
	queue       map[string]int
	of          map[string]invoked
	runs, state int // bytes that lie in the tables
}

func (d *deployment) take(span time.Duration) measured {
	d.mu.Lock()
	defer d.mu.Unlock()
	u, q := d.db.Units(), d.q.Units()
	m := measured{span: span, fires: d.to, read: u.Read, write: u.Write + u.Index, on: u.On, queue: maps.Clone(q.Requests),
		of: map[string]invoked{}}
	for name, i := range d.of {
		m.of[name] = *i
	}
	d.of, d.to = map[string]*invoked{}, 0
	m.runs, m.state = d.db.Stored(fakeaws.Names.Runs), d.db.Stored(fakeaws.Names.State)
	return m
}

func (m measured) String() string {
	var b strings.Builder
	n := float64(max(m.fires, 1))
	fmt.Fprintf(&b, "%d fires in %s; per fire: %.3f write, %.3f read, queue", m.fires, m.span, m.write/n, m.read/n)
	for _, k := range slices.Sorted(maps.Keys(m.queue)) {
		fmt.Fprintf(&b, " %s %.4f", k, float64(m.queue[k])/n)
	}
	for _, k := range slices.Sorted(maps.Keys(m.on)) {
		fmt.Fprintf(&b, "; %s %.3f written, %.3f read", k, m.on[k].Write/n, m.on[k].Read/n)
	}
	for _, k := range slices.Sorted(maps.Keys(m.of)) {
		i := m.of[k]
		fmt.Fprintf(&b, "; %s %.4f of %s", k, float64(i.times)/n, (i.took / time.Duration(max(i.times, 1))).Round(time.Millisecond))
	}
	return b.String()
}

// TestMeasured compares the results of Idle and Jobs with the measured usage of a deployment.
func TestMeasured(t *testing.T) {
	for _, c := range []struct {
		fleet
		jobs    int           // instead of the fleet's own number
		span    time.Duration // of the measurement
		slow    bool
		gathers bool
	}{
		{fleet: fleet{name: "idle"}, span: time.Hour},
		{fleet: fleets[0], jobs: 500, span: 22 * time.Minute, slow: true},
		{fleet: fleets[1], jobs: 500, span: 22 * time.Minute, slow: true},
		{fleet: fleet{name: "gathered", when: fleets[1].when}, jobs: 1000, span: 11 * time.Minute, slow: true, gathers: true},
		{fleet: fleets[2], jobs: 20, span: 55 * time.Minute},
		{fleet: fleets[3], jobs: 5, span: 11 * time.Minute, slow: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.slow && testing.Short() {
				t.Skip("takes ten seconds")
			}
			var m measured
			synctest.Test(t, func(t *testing.T) { m = measure(t, c.jobs, c.span, c.gathers, c.when) })
			t.Log(m)
			near := func(what string, says, is, within float64) {
				t.Helper()
				t.Logf("%s: says %.1f, is %.1f", what, says, is)
				if says < is*(1-within) || says > is*(1+within) {
					t.Errorf("%s: says %.1f, is %.1f", what, says, is)
				}
			}
			dep := Standard()
			dep.Executors = 1
			if c.gathers {
				if dep.Results = float64(m.fires) / float64(m.of["callback"].times); dep.Results < gathered {
					t.Errorf("%.1f results a callback", dep.Results)
				}
			}
			say := Idle(dep).Times(float64(c.span) / float64(Month))
			var counts Counts
			if c.jobs > 0 {
				var err error
				counts, err = Replay(jobsOf(c.jobs, c.when), begin, c.span, plan.AWS())
				check.OK(t, err)
				used := Jobs(counts, dep).Times(float64(c.span) / float64(Month)).Plus(Planning(float64(counts.Wakes), dep))
				say = say.Plus(used)
				kept := (float64(m.runs)*float64(dep.Keep) + float64(m.state)*float64(keepsJournals)) / float64(Month)
				near("bytes stored", 1e9*used.StoredGB, kept, 0.02)
			}
			of := unitsOfIdle(dep)
			for i := range of {
				of[i].Write, of[i].Read = of[i].Write*float64(c.span)/float64(Month), of[i].Read*float64(c.span)/float64(Month)
			}
			if c.jobs > 0 {
				for i, more := range unitsOfJobs(counts, dep) {
					of[i].Write, of[i].Read = of[i].Write+more.Write, of[i].Read+more.Read
				}
				of[3].Write, of[3].Read = of[3].Write+writesOfDue*float64(counts.Wakes), of[3].Read+readsOfDue*float64(counts.Wakes)
			}
			for _, table := range of {
				is := m.on[strings.TrimPrefix(table.Of, "jobs/")]
				near("written to "+table.Of, table.Write, is.Write, 0.02)
				t.Logf("read of %s: the page has %.1f, measured %.1f", table.Of, table.Read, is.Read)
				if math.Abs(table.Read-is.Read) > m.read/20 { // of all reads: some tables have next to none
					t.Errorf("read of %s: the page has %.1f, measured %.1f", table.Of, table.Read, is.Read)
				}
			}
			near("write units", say.WriteUnits, m.write, 0.01)
			near("read units", say.ReadUnits, m.read, 0.03)
			if c.jobs > 0 {
				near("fires", say.Fires, float64(m.fires), 0.01)
			}
			takes := m.of["dispatch"].times
			near("invocations", say.Invocations, float64(m.of["tick"].times+takes+m.of["callback"].times+m.of["registry"].times), 0.05)
			// Never much less than the measurement; more if a pass of the planner ended in time.
			is := gb(dep.MemoryMB.Tick)*m.of["tick"].took.Seconds() + gb(dep.MemoryMB.Dispatch)*m.of["dispatch"].took.Seconds() +
				gb(dep.MemoryMB.API)*(m.of["callback"].took+m.of["registry"].took).Seconds()
			t.Logf("function time: the page has %.1f, measured %.1f GB-seconds", say.GBSeconds, is)
			if say.GBSeconds < 0.9*is || say.GBSeconds > 1.5*is {
				t.Errorf("function time: the page has %.1f, measured %.1f GB-seconds", say.GBSeconds, is)
			}
		})
	}
}

// measure returns the usage of a deployment with these jobs once its rhythm is stable.
func measure(t *testing.T, jobs int, span time.Duration, gathers bool, when func(i int) core.When) measured {
	time.Sleep(time.Until(begin))
	ctx, stop := context.WithCancel(t.Context())
	var drivers sync.WaitGroup
	d := deploy(ctx, t, &drivers)
	d.gathers = gathers
	var specs []manage.JobSpec
	for _, j := range jobsOf(jobs, when) {
		specs = append(specs, manage.JobSpec{Def: core.Def{App: "orders", Name: j.Name, Handler: "work"}, Schedule: j.Schedule})
	}
	for part := range slices.Chunk(specs, 500) {
		for _, r := range d.manage().Save(ctx, core.Actor{Name: "ann"}, part) {
			check.OK(t, r.Err)
		}
	}
	time.Sleep(25 * time.Minute)
	before := d.take(0)
	time.Sleep(span)
	m := d.take(span)
	m.runs -= before.runs
	m.state -= before.state
	stop()
	drivers.Wait()
	d.busy.Wait()
	return m
}

func (d *deployment) delete(ctx context.Context, out *sqs.ReceiveMessageOutput) error {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &fakeaws.Names.Fires}
	for i, m := range out.Messages {
		id := fmt.Sprint(i)
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: &id, ReceiptHandle: m.ReceiptHandle})
	}
	_, err := d.q.DeleteMessageBatch(ctx, in)
	return err
}
