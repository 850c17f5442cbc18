package aws_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tickring/tickring/store"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/restore"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/core/tick"
	"github.com/tickring/tickring/internal/executorhttp"
	"github.com/tickring/tickring/internal/safedial"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/miniexec"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store/dynamo"
	"github.com/tickring/tickring/test/load"
	"github.com/tickring/tickring/wire"
)

const (
	restoreApp   = "web"
	restoreToken = "web-executors"
)

// site is one deployment in this process: the parts that the functions wire, driven as by Lambda.
type site struct {
	name   string
	a      *wiring.Assembly
	e      *store.Store
	m      *people.People
	fired  atomic.Int64 // messages that it acked
	failed atomic.Int64 // passes that were rejected
	stop   context.CancelFunc
	work   sync.WaitGroup
	front  http.Handler
}

func newSite(t *testing.T, region string, n dynamo.Names) *site {
	t.Helper()
	db, queues := clients(t)
	data, err := load.Open(db, queues, dynamo.Options{Names: n, Visibility: 3 * time.Second})
	check.OK(t, err)
	s := &site{name: region + "/" + n.State, stop: func() {}}
	log := slog.New(slog.DiscardHandler)
	sender := send.New(send.Options{Policy: safedial.Policy{AllowLoopback: true}})
	t.Cleanup(sender.Close)
	s.a = wiring.New(data, wiring.Options{Plan: plan.AWS(), Log: log, Deployment: s.name})
	s.e, s.m = s.a.Store, s.a.People(sender, people.Options{})
	mux := http.NewServeMux()
	executorhttp.Config{Tokens: s.a.Tokens(registry.TokensOptions{}), Log: log}.Wire(mux, s.a.Registry(registry.Options{}),
		s.a.Callback(callback.Options{}))
	s.front = mux
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = func() { cancel(); s.work.Wait() }
	t.Cleanup(func() { s.stop() })
	s.work.Go(func() {
		tk := s.a.Ticker(tick.Options{ID: region})
		for {
			if _, err := tk.Pass(ctx); core.CodeOf(err) == core.CodeRefused {
				s.failed.Add(1)
			} else if err == nil {
				if err := s.e.Alive(ctx, time.Now()); err != nil && ctx.Err() == nil {
					t.Errorf("sign of life: %v", err)
				}
			}
			if !store.Sleep(ctx, 500*time.Millisecond) {
				return
			}
		}
	})
	d := s.a.Dispatcher(sender, dispatch.Options{Invocation: 5 * time.Second})
	for range 2 {
		s.work.Go(func() {
			for ctx.Err() == nil {
				got, err := s.e.Queue.Receive(ctx, ring.KindFires, 10)
				if err != nil || len(got) == 0 {
					continue
				}
				msgs := make([]ring.Message, len(got))
				for i := range got {
					msgs[i] = got[i].Message
				}
				var done []store.Delivery
				for i, v := range d.Handle(ctx, msgs) {
					if v.Ack {
						done = append(done, got[i])
					}
				}
				s.e.Queue.Ack(ctx, done)
				s.fired.Add(int64(len(done)))
			}
		})
	}
	return s
}

// copyTables copies the current items to new tables, one table after the other, during writes: worse than a restore to one second.
func copyTables(t *testing.T, from, to dynamo.Names) (items int) {
	t.Helper()
	db, _ := clients(t)
	for _, pair := range [][2]string{{from.Runs, to.Runs}, {from.Jobs, to.Jobs}, {from.State, to.State}} {
		for _, it := range scan(t, pair[0]) {
			check.Call(t)(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &pair[1], Item: it}))
			items++
		}
	}
	return items
}

func scan(t *testing.T, table string) (list []map[string]types.AttributeValue) {
	t.Helper()
	db, _ := clients(t)
	p := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: &table})
	for p.HasMorePages() {
		page, err := p.NextPage(t.Context())
		check.OK(t, err)
		list = append(list, page.Items...)
	}
	return list
}

// TestRestore: the tables are lost some seconds after they were copied, while scheduled, triggered and retried runs are in
// progress. The restored deployment accounts for every scheduled time and allocates no number twice. In another Region the queues
// are lost too.
func TestRestore(t *testing.T) {
	for _, c := range []struct {
		name   string
		region string
		queues bool // are lost too
	}{{"tables", "us-east-1", false}, {"region", "us-west-2", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testRestore(t, c.region, c.queues)
		})
	}
}

func testRestore(t *testing.T, region string, queuesToo bool) {
	ctx, who := t.Context(), core.Actor{Name: "ann"}
	n1 := fresh(t)
	old := newSite(t, "us-east-1", n1)
	var front atomic.Pointer[http.Handler]
	front.Store(&old.front)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*front.Load()).ServeHTTP(w, r) }))
	defer web.Close()

	var mu sync.Mutex
	got := map[core.RunID]map[string]bool{} // the params of each arrival of a run
	exec, err := miniexec.Start(miniexec.Options{App: restoreApp, Admin: web.URL, Token: restoreToken,
		Received: func(r *wire.Run, _ time.Time) {
			mu.Lock()
			defer mu.Unlock()
			if got[core.RunID(r.LogID)] == nil {
				got[core.RunID(r.LogID)] = map[string]bool{}
			}
			got[core.RunID(r.LogID)][r.Params] = true
		},
		Handle: func(ctx context.Context, r *wire.Run) (int, string) {
			switch r.Handler {
			case "slow": // running when the copy is made, and when the tables are lost
				store.Sleep(ctx, 4*time.Second)
			case "fails":
				return wire.CodeFailure, "no"
			}
			return wire.CodeSuccess, ""
		}})
	check.OK(t, err)
	defer exec.Close()
	token := restoreToken
	check.Call(t)(old.m.SaveApp(ctx, who, manage.AppSpec{Name: restoreApp, Token: &token}))
	select {
	case <-exec.Registered():
	case <-time.After(30 * time.Second):
		t.Fatal("the executor could not register")
	}
	begin := time.Now()
	end := begin.Add(24 * time.Second).Truncate(time.Second)
	secondly := func(name, handler string) manage.JobSpec {
		return manage.JobSpec{Def: core.Def{App: restoreApp, Name: name, Handler: handler, Params: name,
			Retry: core.Retry{Max: 1, Delay: 3 * time.Second}}, Misfire: core.MisfireAll, Grace: 10 * time.Minute,
			Schedule: core.Schedule{Any: []core.When{{Kind: core.KindEvery, Every: time.Second, Aligned: true}},
				Until: end.UTC().Format(time.RFC3339)}}
	}
	jobs := map[core.JobID]string{}
	save := func(s *site, specs ...manage.JobSpec) {
		t.Helper()
		for _, r := range s.m.Save(ctx, who, specs) {
			check.OK(t, r.Err)
			if other, twice := jobs[r.ID]; twice && other != r.Name {
				t.Errorf("number %d belongs to %s and to %s", r.ID, other, r.Name)
			}
			jobs[r.ID] = r.Name
		}
	}
	save(old, secondly("quick", "quick"), secondly("slow", "slow"), secondly("fails", "fails"),
		manage.JobSpec{Def: core.Def{App: restoreApp, Name: "byhand", Handler: "quick"}})
	triggered := map[core.RunID]string{}
	trigger := func(s *site) {
		t.Helper()
		text := fmt.Sprintf("trigger %d of %s", len(triggered), s.name)
		r, err := s.m.Trigger(ctx, who, operate.TriggerRequest{Job: restoreApp + "/byhand", Params: &text})
		check.OK(t, err)
		if other, twice := triggered[r.Run.ID]; twice {
			t.Errorf("run %d was given to %q and to %q", r.Run.ID, other, text)
		}
		triggered[r.Run.ID] = text
	}
	from := core.InstantOf(time.Now()) + 1
	for time.Since(begin) < 6*time.Second {
		trigger(old)
		store.Sleep(ctx, 300*time.Millisecond)
	}

	n2 := fresh(t)
	if !queuesToo {
		n2.Fires, n2.Checks, n2.Dead = n1.Fires, n1.Checks, n1.Dead
	}
	moment := time.Now()
	items := copyTables(t, n1, n2)
	for time.Since(moment) < 5*time.Second {
		trigger(old)
		store.Sleep(ctx, 300*time.Millisecond)
	}
	save(old, manage.JobSpec{Def: core.Def{App: restoreApp, Name: "made-later", Handler: "quick"}})
	old.stop()
	db, _ := clients(t)
	for _, table := range []string{n1.Jobs, n1.Runs, n1.State} {
		check.Call(t)(db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &table}))
	}

	// A deployment does not work on data that was not restored.
	now := newSite(t, region, n2)
	front.Store(&now.front)
	for over := time.Now().Add(30 * time.Second); now.failed.Load() == 0 && time.Now().Before(over); {
		store.Sleep(ctx, 100*time.Millisecond)
	}
	store.Sleep(ctx, 2*time.Second) // for mistaken work to show
	if now.failed.Load() == 0 || now.fired.Load() > 0 {
		t.Errorf("before the restore: %d messages done, %d passes refused", now.fired.Load(), now.failed.Load())
	}
	if _, err := now.m.Trigger(ctx, who, operate.TriggerRequest{Job: restoreApp + "/byhand"}); core.CodeOf(err) != core.CodeRefused {
		t.Errorf("a trigger before the restore: %v", err)
	}
	res, err := now.a.Restorer(restore.Options{Budget: time.Minute}).Do(ctx, restore.Request{By: "ann", From: moment})
	if err != nil || res.Next != 0 || res.Generation != 2 || res.Jobs != 4 || res.Waiting+res.Watched == 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	save(now, manage.JobSpec{Def: core.Def{App: restoreApp, Name: "made-after", Handler: "quick"}})
	for range 10 {
		trigger(now)
	}

	store.Sleep(ctx, time.Until(end)+3*time.Second)
	var sent int64
	var a query.AuditSum
	for over := time.Now().Add(90 * time.Second); ; {
		p, err := now.m.Replan(ctx, who, "", core.InstantOf(moment.Add(-15*time.Minute)), core.InstantOf(time.Now()))
		check.OK(t, err)
		sent += p.Sent
		a, err = now.m.AuditAll(ctx, from, core.InstantOf(end)+1)
		check.OK(t, err)
		if p.Missing == 0 && a.Pending == 0 && a.Unaccounted == 0 || time.Now().After(over) {
			break
		}
		store.Sleep(ctx, time.Second)
	}
	if a.Unaccounted != 0 || a.Pending != 0 || a.Partial || a.Demanded < 3*20 {
		t.Errorf("audit: %+v", a)
	}
	store.Sleep(ctx, 6*time.Second) // the last runs end, and the last retries
	now.stop()
	if queuesToo && sent == 0 {
		t.Error("the queue that was lost had carried nothing: nothing is proven")
	}

	// By the tables alone: each instant that the three jobs demand has its run.
	have, open := map[core.RunID]bool{}, map[core.RunID]bool{}
	for _, it := range scan(t, n2.Runs) {
		id, _ := strconv.ParseInt(it["run"].(*types.AttributeValueMemberN).Value, 10, 64)
		if id <= 0 {
			continue // an item with a run's long fields
		}
		have[core.RunID(id)] = true
		state := it["State"].(*types.AttributeValueMemberS).Value
		if core.State(state).Open() {
			open[core.RunID(id)] = true
		}
	}
	for id, name := range jobs {
		if name != "quick" && name != "slow" && name != "fails" {
			continue
		}
		for at := from + 1; at <= core.InstantOf(end); at++ {
			if !have[core.PlannedRun(id, at)] {
				t.Errorf("%s has no run of %s", name, at)
			}
		}
	}
	// Every open run is watched: a journal names it.
	named := map[core.RunID]bool{}
	for minute := begin.Unix() / 60; minute <= time.Now().Unix()/60; minute++ {
		journals, err := now.e.JournalsAt(ctx, minute, core.JournalKey{}, 1000)
		check.OK(t, err)
		for _, j := range journals {
			for _, e := range j.Entries {
				named[e.Run] = named[e.Run] || e.Outcome == core.Accepted || e.Outcome == core.Unconfirmed
			}
		}
	}
	for id := range open {
		if !named[id] {
			t.Errorf("run %d is open, but no check is scheduled", id)
		}
	}
	// No ID stands for two runs: a run always arrived with the same params.
	mu.Lock()
	defer mu.Unlock()
	numbered := 0
	for id, params := range got {
		if _, is := id.Number(); is {
			numbered++
		}
		if len(params) > 1 {
			t.Errorf("run %d came with %d different params: %v", id, len(params), params)
		}
	}
	t.Logf("%d items copied; %+v; replan sent %d; audit %+v; %d runs arrived, %d of them with numbers, %d are open", items, res, sent,
		a.AuditCount, len(got), numbered, len(open))
	if numbered < 20 {
		t.Errorf("%d runs with numbers arrived: nothing is proven", numbered)
	}
}
