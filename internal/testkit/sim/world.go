// Package sim simulates whole deployments in virtual time, with faults in every call of every process. The simulation
// checks from outside that tickring keeps its promises.
//
// A World has a store without faults: SQLite in memory, or dynamo over fakes of AWS. Users and one of two
// kinds of deployments use the store (deployment.go). One kind has long-running tickers, dispatchers, callback servers
// and a watchdog. The other kind has functions that are invoked and end (function.go). Each process calls the four
// interfaces of the store with faults (calls.go, faults.go). The fake executors are in executor.go.
//
// Checks of each step are in writes.go, truth.go and story.go, and checks at the end of a World are in checker.go. liveness.go
// checks that decisions take no longer than the faults explain. audit.go compares the audit of the product with these
// results. The rules are in docs/internals/claim-protocol.md. The exceptions in section 8 of that page are counted and
// do not fail the simulation.
//
// A World runs in a testing/synctest bubble. The seed determines all events, except for the order in which goroutines run.
package sim

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/registry"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/poller"
	"github.com/tickring/tickring/internal/testkit/fakeaws"
	"github.com/tickring/tickring/internal/wiring"
	"github.com/tickring/tickring/store"
	"github.com/tickring/tickring/wire"
)

// maxStep is the largest step of a machine's clock.
const maxStep = time.Hour

// Config has the settings of a simulation.
type Config struct {
	Seed  uint64
	Fires int           // approximate number of expected scheduled times
	For   time.Duration // length of the period with faults
	Rate  float64       // rate of random faults; 1 is the usual rate, 0 means no faults
	// Late delays writes, Pauses stops processes, and Skew sets clocks. With any of these faults, the exceptions
	// in section 8 of claim-protocol.md can occur.
	Late, Pauses, Skew bool
	Failing            float64 // chance from 0 to 1 that a handler fails
	Users              int     // number of users who make changes at the same time
	// Far reports whether functions plan runs minutes ahead. If false, long-running tickers plan runs seconds ahead.
	Far bool
	// Deployed reports whether functions have their real durations. If false, the durations are a sixth of the real
	// durations. Requires Far.
	Deployed   bool
	Partitions int // initial number of partitions of the due index; 0: 2
	// AWS reports whether the store is dynamo over fakeaws. If false, the store is SQLite in memory.
	AWS      bool
	SDK      bool   // whether each single request of dynamo can have a fault
	Waits    bool   // whether all executors of an app go away and come back while jobs wait for an executor
	Limits   bool   // whether jobs have concurrency limits
	Rollouts bool   // whether processes of an older version cannot read some job definitions for some time
	Losses   bool   // whether messages of waiting runs are lost and later sent again
	Hangs    bool   // whether executors hang on runs that have a timeout
	Long     bool   // whether runs wait for minutes; fewer runs are then expected
	Days     bool   // whether runs execute and wait for days
	Line     bool   // whether the maximum number of runs waits behind runs that hang. Requires Long
	Focus    *focus // the only mechanism of the jobs; nil: jobs of all kinds
	// Machine runs all processes on one machine, as the command `serve` does. The machine sleeps, its clock
	// changes by up to an hour, and calls take minutes.
	Machine bool
	// Jobs and the following fields are for tests of one scenario.
	Jobs   []manage.JobSpec // job settings to use instead of a random mix of jobs
	Script func(Call) Fate
	// Request returns the fault of a request of dynamo. Requires SDK.
	Request func(at time.Duration, c fakeaws.Call) fakeaws.Fault
	Behave  func(*World, *dispatch.SendRequest) (dispatch.Answer, bool)
	Act     func(*World)
}

// Report has the results of a simulation.
type Report struct {
	Virtual time.Duration
	// Counts has the number of scheduled times and triggers ("fires"), of runs that were "sent" or "skipped", of
	// "retries", and of each kind of fault and event.
	Counts map[string]int
	Faults []string                  // descriptions of broken promises, at most 20
	Broken int                       // number of broken promises
	w      *World                    // as it was in the end
	runs   map[core.JobID][]core.Run // of the nth job of Config.Jobs, from 1; planned runs first
}

// World is one simulated deployment.
type World struct {
	cfg      Config
	deployed deployment
	truth    *truth
	store    *store.Store // without faults
	execs    *executors
	people   *people.People // without faults: for the setup and the end
	procs    []*process     // guarded by mu: functions make more of them
	ticks    *function      // nil where tickers live
	workers  []*process     // the dispatchers
	fronts   []*process     // the callback servers
	log      *slog.Logger
	began    time.Time
	faulty   atomic.Bool
	busy     atomic.Bool  // users act
	still    atomic.Bool  // the deployment is stopped: no need to check each second
	offset   atomic.Int64 // of the machine's clock, in nanoseconds
	done     chan struct{}
	wg       sync.WaitGroup

	mu     sync.Mutex
	counts map[string]int
	calls  map[core.RunID]int // callbacks under way
	serial int                // of jobs made by users
	// appWaits is how long jobs of app come wait for an executor.
	appWaits time.Duration
	// appOverlap is the limit of jobs that set none, by app.
	appOverlap map[string]core.Overlap
	appLimits  map[string]core.Limits // limits of all runs of an app
	jobs       []string               // app/name of the jobs that users know
	canary     core.JobID             // job of the deployment, which no user changes: it shows that messages were lost
	asked      []asked
	repeats    []*again // rerun commands
	answers    []answer // to them
	faults     *troubles
	rollout    rollout
	// changes are the users' changes of triggers that waited.
	changes map[core.RunID][]*changed
}

// Run creates a World, runs the simulation and checks the result. Call Run in a testing/synctest bubble. Run returns
// after all goroutines of the World have ended.
func Run(cfg Config) Report {
	w := &World{cfg: cfg, done: make(chan struct{}), counts: map[string]int{}, calls: map[core.RunID]int{},
		appOverlap: map[string]core.Overlap{}, appLimits: map[string]core.Limits{}, changes: map[core.RunID][]*changed{}, faults: newTroubles(),
		log: slog.New(slog.DiscardHandler)}
	// Bubbles begin in 2000, run IDs in 2020.
	d := w.dice("world")
	at := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC).Add(d.between(0, 24*time.Hour))
	w.sleep(bg, time.Until(at))
	w.began = time.Now()
	switch {
	case cfg.Far && cfg.Deployed:
		w.deployed = functions()
	case cfg.Far:
		w.deployed = smallFunctions()
	default:
		w.deployed = small()
		w.deployed.plan.SlowLane = !cfg.Machine
	}
	w.truth = newTruth(w)
	w.execs = newExecutors(w)
	w.store = (&incarnation{p: &process{w: w, name: "god"}, calm: true}).opens()
	w.people = w.assembly(wiring.Options{}, w.store).People(nil, people.Options{})
	w.setUp(d)
	if w.deployed.functions {
		w.ticks = &function{w: w, name: "ticker", lasts: w.deployed.tickFor}
		w.ticks.handle = w.tick(w.ticks)
	}
	for i := range 3 {
		if !w.deployed.functions {
			w.process(fmt.Sprintf("ticker-%d", i), w.ticker)
		}
		w.workers = append(w.workers, w.process(fmt.Sprintf("dispatcher-%d", i), w.dispatcher))
	}
	for i := range 2 {
		w.fronts = append(w.fronts, w.process(fmt.Sprintf("callback-%d", i), idle))
	}
	if !w.deployed.functions {
		w.process("watchdog-0", w.watchdog)
	}
	w.process("postrun-0", w.postRuns)
	users := w.process("user-0", idle)
	w.process("registry-0", w.beats)
	w.faulty.Store(true)
	for _, p := range w.processes() {
		p.start()
	}
	w.wg.Go(w.watch)
	if w.ticks != nil {
		w.wg.Go(func() { w.wakes(w.ticks) })
	}
	w.busy.Store(true)
	var people sync.WaitGroup
	for i := range cfg.Users {
		people.Go(func() { w.person(users, i) })
	}
	if cfg.Focus != nil && cfg.Focus.act != nil {
		people.Go(func() { w.focused(w.dice("focus"), users) })
	}
	if cfg.Act != nil {
		people.Go(func() { cfg.Act(w) })
	}
	if cfg.Rate > 0 && !cfg.Days {
		people.Go(func() { w.disasters(w.dice("disasters")) })
	}
	if cfg.Waits && cfg.Rate > 0 && !cfg.Days {
		people.Go(func() { w.comings(w.dice("comings")) })
	}
	if cfg.Rollouts && cfg.Rate > 0 {
		people.Go(func() { w.rollouts(w.dice("rollouts")) })
	}
	if cfg.Losses && cfg.Rate > 0 {
		people.Go(func() { w.losses(w.dice("losses")) })
	}
	if cfg.Line {
		people.Go(func() { w.line(w.dice("line")) })
	}
	if cfg.Machine {
		people.Go(func() { w.machine(w.dice("machine")) })
	}
	w.sleep(bg, cfg.For)
	w.faulty.Store(false)
	w.busy.Store(false)
	people.Wait()
	w.judge()
	close(w.done)
	for _, p := range w.processes() {
		if in := p.living(); in != nil {
			in.stop()
		}
	}
	w.wg.Wait()
	r := w.report0()
	w.store.Close()
	return r
}

func (w *World) process(name string, run func(in *incarnation)) *process {
	p := &process{w: w, name: name, run: run, calls: map[string]uint64{}, storms: map[string]time.Time{}}
	w.mu.Lock()
	w.procs = append(w.procs, p)
	w.mu.Unlock()
	return p
}

// processes returns the processes started so far.
func (w *World) processes() []*process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.procs)
}

func (p *process) kind() string {
	kind, _, _ := strings.Cut(p.name, "-")
	return kind
}

func idle(*incarnation) {}

// The time of the world.

// sleep waits, on a timer of the bubble, unless ctx or the world ends before.
func (w *World) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-w.done:
	}
}

func (w *World) after(d time.Duration, f func()) {
	w.wg.Go(func() {
		w.sleep(bg, d)
		f()
	})
}

func (w *World) closing() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// dice returns the dice of one actor of the world; no other actor throws them.
func (w *World) dice(actor string) *dice { return &dice{mix(w.cfg.Seed ^ hashOf(actor))} }

func (w *World) count(what string, n int) {
	w.mu.Lock()
	w.counts[what] += n
	w.mu.Unlock()
}

// stands lets time pass while the deployment is stopped, so that days cost nothing; stored items still expire.
func (w *World) stands(d time.Duration) {
	w.still.Store(true)
	until := time.Now().Add(d)
	if w.ticks != nil {
		w.ticks.stops(until)
	}
	for _, p := range w.processes() {
		p.stops(until)
	}
	w.troubleForAll(until.Add(w.deployed.aftermath().again))
	w.sleep(bg, d)
	w.still.Store(false)
	w.sleep(bg, 10*time.Second) // until all are there
}

// watch asserts each second the rules that hold at any moment.
func (w *World) watch() {
	for n := 1; !w.closing(); n++ {
		w.sleep(bg, time.Second)
		for w.still.Load() && !w.closing() {
			w.sleep(bg, 10*time.Minute)
		}
		if n%sweepEvery == 0 {
			w.truth.sweep()
		}
		w.truth.look()
	}
}

// The processes.

// ticker beats once a second.
func (w *World) ticker(in *incarnation) {
	id := in.p.name
	if d, _ := in.p.dice("name"); d.n(2) == 0 { // else it comes back under its old name, with leases of which it does not know
		id = fmt.Sprintf("%s.%d", in.p.name, in.n)
	}
	if w.cfg.Machine {
		id = "serve" // all are
	}
	o := w.tickOptions()
	o.ID = id
	t := in.assembly().Ticker(o)
	for !w.closing() && !in.dead.Load() {
		ctx, cancel := context.WithTimeout(in.ctx, 30*time.Second)
		_, _ = t.Pass(ctx)
		cancel()
		now := in.p.now()
		w.sleep(in.ctx, now.Truncate(time.Second).Add(time.Second).Sub(now))
	}
}

// dispatcher works on batches as the queue brings them.
func (w *World) dispatcher(in *incarnation) {
	var nonces atomic.Int64
	made := func() *dispatch.Dispatcher {
		return in.assembly().Dispatcher(sender{in}, dispatch.Options{
			SlowCount: w.deployed.slowCount, SlowWithin: w.deployed.slowWithin, SlowTimeouts: w.deployed.slowCount,
			ProbeEvery: w.deployed.probeEvery, HealthEvery: 2 * time.Second,
			Nonce:      func() string { return fmt.Sprintf("%s.%d.%d", in.p.name, in.n, nonces.Add(1)) },
			Invocation: w.deployed.invocation, SendsMin: w.deployed.sendsMin, SendsMax: w.deployed.sendsMax,
			BackoffMax: w.deployed.backoffMax,
		})
	}
	if !w.deployed.functions {
		d := made()
		in.delivers(func(got []store.Delivery) { w.handle(in, d, got) })
		in.spawn(func() { w.intake(in, d, ring.KindSlow).Run(in.ctx, in.ctx) })
		w.intake(in, d, ring.KindFires).Run(in.ctx, in.ctx)
		return
	}
	fast, slow := &instances{made: made}, &instances{made: made} // of two functions
	in.delivers(func(got []store.Delivery) { fast.invoke(func(d *dispatch.Dispatcher) { w.handle(in, d, got) }) })
	in.spawn(func() { w.takes(in, slow, ring.KindSlow) })
	in.spawn(func() { w.checks(in, in.watchdog()) })
	w.takes(in, fast, ring.KindFires)
}

// delivers sets how a delivery comes to the process without the queue.
func (in *incarnation) delivers(how func([]store.Delivery)) {
	in.p.mu.Lock()
	defer in.p.mu.Unlock()
	in.deliver = how
}

// instances holds the dispatchers of a function: each invocation has one to itself, with its
// own knowledge, and a free one is used again.
type instances struct {
	made func() *dispatch.Dispatcher
	mu   sync.Mutex
	free []*dispatch.Dispatcher
}

func (x *instances) invoke(f func(d *dispatch.Dispatcher)) {
	x.mu.Lock()
	var d *dispatch.Dispatcher
	if n := len(x.free); n > 0 {
		d, x.free = x.free[n-1], x.free[:n-1]
	} else {
		d = x.made()
	}
	x.mu.Unlock()
	f(d)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.free = append(x.free, d)
}

// takes runs batches of one queue.
func (w *World) takes(in *incarnation, of *instances, lane ring.Kind) {
	for !w.closing() && !in.dead.Load() {
		limit, _ := in.p.dice("limit")
		got, err := in.store.Queue.Receive(in.ctx, lane, 1+limit.n(8))
		if err != nil || len(got) == 0 {
			w.sleep(in.ctx, 10*time.Millisecond)
			continue
		}
		for _, part := range bySlot(&limit, got) {
			in.spawn(func() { of.invoke(func(d *dispatch.Dispatcher) { w.handle(in, d, part) }) })
		}
	}
}

// bySlot mostly makes a batch of each slot, so that the reads of an invocation are known for certain; some stay mixed.
func bySlot(d *dice, got []store.Delivery) [][]store.Delivery {
	if d.n(5) == 0 {
		return [][]store.Delivery{got}
	}
	parts := map[core.Instant][]store.Delivery{}
	var order []core.Instant
	for _, d := range got {
		if parts[d.Message.Slot] == nil {
			order = append(order, d.Message.Slot)
		}
		parts[d.Message.Slot] = append(parts[d.Message.Slot], d)
	}
	list := make([][]store.Delivery, 0, len(parts))
	for _, s := range order {
		list = append(list, parts[s])
	}
	return list
}

// handle is one invocation of the function: dispatch, then ack or release.
func (w *World) handle(in *incarnation, d *dispatch.Dispatcher, got []store.Delivery) {
	var done []store.Delivery
	for i, v := range w.batch(in.ctx, in, d, got, func() {}) {
		switch {
		case v.Ack:
			done = append(done, got[i])
		case !v.RetryAt.IsZero():
			at := v.RetryAt
			if soon := in.p.now().Add(time.Second); at.Before(soon) {
				at = soon
			}
			in.store.Queue.Release(in.ctx, got[i:i+1], at)
		}
	}
	if len(done) > 0 {
		in.store.Queue.Ack(in.ctx, done)
	}
}

// intake receives messages as serve does, with few places.
func (w *World) intake(in *incarnation, d *dispatch.Dispatcher, lane ring.Kind) *poller.Poller {
	return &poller.Poller{
		Queue: in.store.Queue, Kind: lane, Messages: 8, Places: places, Now: in.p.now, Log: w.log,
		Handle: func(ctx context.Context, got []store.Delivery, free func()) []dispatch.Verdict {
			limit, _ := in.p.dice("limit")
			verdicts := map[int64]dispatch.Verdict{}
			var mu sync.Mutex
			var all sync.WaitGroup
			list := bySlot(&limit, got)
			left := len(list)
			for _, part := range list {
				all.Go(func() {
					freed := sync.OnceFunc(func() {
						mu.Lock()
						defer mu.Unlock()
						if left--; left == 0 {
							free()
						}
					})
					of := w.batch(ctx, in, d, part, freed)
					freed()
					mu.Lock()
					defer mu.Unlock()
					for i := range part {
						verdicts[part[i].ID] = of[i]
					}
				})
			}
			all.Wait()
			if in.dead.Load() {
				in.end()
			}
			answers := make([]dispatch.Verdict, len(got))
			for i := range got {
				answers[i] = verdicts[got[i].ID]
			}
			return answers
		},
	}
}

// places is the number of parallel tasks of a process for the store.
const places = 6

// batch dispatches messages, and records their effects for the checker.
func (w *World) batch(ctx context.Context, in *incarnation, d *dispatch.Dispatcher, got []store.Delivery, free func()) []dispatch.Verdict {
	inv := &invocation{in: in, got: got, began: time.Now(), until: time.Now().Add(w.deployed.invocation + time.Second),
		fires: map[core.RunID]core.Fire{}, jobsRead: map[core.JobID]time.Time{}, journals: map[core.JournalKey]looked{},
		waits: map[core.RunID]bool{}}
	for i := range got {
		for _, f := range got[i].Message.Fires {
			inv.all = append(inv.all, f.Run)
			if old, ok := inv.fires[f.Run]; !ok || old.Rev < f.Rev {
				inv.fires[f.Run] = f
			}
		}
	}
	w.truth.hold(inv)
	switch until := in.p.frozenUntil(); {
	case in.dead.Load(): // since they were received
		w.troubleOf(time.Now(), time.Now().Add(w.deployed.visibility), inv.all...)
	case until.After(time.Now()):
		w.gone(in.p, until)
	}
	ctx = context.WithValue(ctx, invocationKey{}, inv)
	if !w.cfg.Machine { // there it is as long as its calls
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.deployed.invocation)
		defer cancel()
	}
	if w.deployed.functions {
		over := new(atomic.Bool)
		defer over.Store(true)
		ctx = context.WithValue(ctx, answeredKey{}, over)
	}
	verdicts := d.HandleFreeing(ctx, poller.Messages(got), free)
	if in.dead.Load() {
		in.end()
	}
	w.truth.letGo(inv)
	return verdicts
}

// duplicate brings a delivery to another dispatcher too.
func (w *World) duplicate(m store.Delivery, after time.Duration, to int) {
	w.after(after, func() {
		if w.closing() {
			return
		}
		if in := w.workers[to%len(w.workers)].living(); in != nil {
			in.p.mu.Lock()
			deliver := in.deliver
			in.p.mu.Unlock()
			if deliver != nil {
				deliver([]store.Delivery{m})
			}
		}
	})
}

// watchdog scans the journals and handles checks.
func (w *World) watchdog(in *incarnation) {
	d := in.watchdog()
	in.spawn(func() {
		for !w.closing() && !in.dead.Load() {
			ctx, cancel := context.WithTimeout(in.ctx, 30*time.Second)
			_, _ = d.Pass(ctx)
			cancel()
			w.sleep(in.ctx, w.deployed.watchEvery)
		}
	})
	w.checks(in, d)
}

// checks brings checks to the watchdog.
func (w *World) checks(in *incarnation, d *finish.Watchdog) {
	for !w.closing() && !in.dead.Load() {
		got, err := in.store.Queue.Receive(in.ctx, ring.KindCheck, 5)
		if err != nil {
			w.sleep(in.ctx, 100*time.Millisecond)
			continue
		}
		for _, m := range got {
			in.spawn(func() {
				ctx, cancel := context.WithTimeout(in.ctx, 20*time.Second)
				defer cancel()
				if err := d.Check(ctx, m.Message.Check); err != nil {
					in.store.Queue.Release(in.ctx, []store.Delivery{m}, in.p.now().Add(2*time.Second))
					return
				}
				in.store.Queue.Ack(in.ctx, []store.Delivery{m})
			})
		}
	}
}

// report brings the end of a run to a callback server, again and again until it is taken, as executors do.
func (w *World) report(r wire.CallbackItem) {
	id := core.RunID(r.LogID)
	d := w.dice("report " + id.String())
	if r.Msg == "" && d.chance(0.15) {
		r.Msg = strings.Repeat("long ", 100) // an engine may keep it elsewhere
	}
	r.Data = "of " + id.String()
	w.truth.reports(id, strings.Contains(r.Msg, "killed]"))
	w.mu.Lock()
	w.calls[id]++
	w.mu.Unlock()
	w.wg.Go(func() {
		defer func() {
			w.mu.Lock()
			add(w.calls, id, -1)
			w.mu.Unlock()
		}()
		for try := 0; !w.closing(); try++ {
			err, answered := w.callback(w.fronts[d.n(len(w.fronts))], r)
			switch {
			case !answered:
			case err == nil:
				return
			case core.CodeOf(err) == core.CodeNotFound:
				w.truth.mu.Lock()
				w.truth.fail(id, "the callback of run %d, which an executor has, was answered: %v", id, err)
				w.truth.mu.Unlock()
				return
			}
			w.sleep(bg, d.between(time.Second, 6*time.Second))
		}
	})
}

// calling reports that an executor still reports the end of a run.
func (w *World) calling(id core.RunID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[id] > 0
}

// callback is one request to a callback server; answered is false when the server died or hung under it.
func (w *World) callback(p *process, r wire.CallbackItem) (err error, answered bool) {
	in := p.living()
	if in == nil {
		return nil, false
	}
	answer := make(chan error, 1)
	in.spawn(func() {
		ctx, cancel := context.WithTimeout(in.ctx, 10*time.Second)
		defer cancel()
		c := in.assembly().Callback(callback.Options{})
		end := callback.Translate(core.RunID(r.LogID), r.Code, r.Msg, r.Data, p.now())
		end.RetryAfter = time.Duration(r.RetryAfter) * time.Second
		answer <- c.Callback(ctx, callback.Caller{Proven: true}, []finish.Result{end})[0]
	})
	select {
	case err := <-answer:
		return err, true
	case <-time.After(12 * time.Second):
	case <-w.done:
	}
	return nil, false
}

// machine makes faults of a machine, and all that runs on it.
func (w *World) machine(d *dice) {
	for w.busy.Load() {
		w.sleep(bg, d.between(time.Minute, 3*time.Minute))
		if !w.faulty.Load() {
			return
		}
		switch d.n(4) {
		case 0:
			w.count("sleep of all", 1)
			long := d.between(95*time.Second, 15*time.Minute)
			for _, p := range w.processes() {
				p.freeze(long)
			}
			w.sleep(bg, long)
		case 1:
			long := d.between(95*time.Second, 5*time.Minute)
			w.someProcess(d).freeze(long)
			w.sleep(bg, long)
		case 2:
			w.setClock(d.between(-maxStep, maxStep))
		case 3:
			w.setClock(0)
		}
	}
}

// someProcess is one of them.
func (w *World) someProcess(d *dice) *process {
	all := w.processes()
	return all[d.n(len(all))]
}

// setClock sets the clock of the machine. Its server notes an outage before it decides anything by the new time.
func (w *World) setClock(offset time.Duration) {
	now, was := time.Now(), time.Duration(w.offset.Load())
	up := now.Add(offset)
	if err := registry.NoteOutage(bg, w.store, up.Add(-max(offset-was, 0)), up, core.BeatExpiry); err != nil {
		w.fail(0, "note an outage: %v", err)
	}
	w.offset.Store(int64(offset))
	w.mu.Lock()
	w.faults.clocks = append(w.faults.clocks, clock{now, offset})
	w.faults.shown = slices.MaxFunc([]time.Time{w.faults.shown, now.Add(was)}, time.Time.Compare)
	back := w.faults.shown.Sub(up)
	w.mu.Unlock()
	w.troubleAt(come, now, now.Add(core.BeatExpiry+w.deployed.aftermath().again)) // its runs wait for executors to register again
	// A clock that was set back, in one step or several, waits until it shows again its latest time.
	w.troubleForAll(now.Add(max(back, 0) + w.deployed.aftermath().again))
	w.count("clock of all set", 1)
	for _, p := range w.processes() {
		p.stepped.Store(time.Now().UnixNano())
	}
}

// disasters makes faults of several processes at once, or for long.
func (w *World) disasters(d *dice) {
	for w.busy.Load() {
		w.sleep(bg, d.between(8*time.Second, 25*time.Second))
		if !w.faulty.Load() {
			return
		}
		switch d.n(8) {
		case 0: // an outage of all that plan, or all that dispatch
			kind := []string{"ticker", "dispatcher"}[d.n(2)]
			until := time.Now().Add(d.between(10*time.Second, 80*time.Second))
			w.count("outage of all "+kind+"s", 1)
			if w.ticks != nil && kind == "ticker" {
				w.ticks.stops(until)
			}
			if kind == "dispatcher" {
				w.troubleForAll(until.Add(w.deployed.aftermath().again))
			} else {
				w.troublePlanning(until.Add(w.deployed.aftermath().lease))
			}
			for _, p := range w.processes() {
				if p.kind() == kind {
					p.stops(until)
				}
			}
		case 1, 2: // one kind of write is throttled for longer than an invocation
			p := w.someProcess(d)
			ops := []string{"write journal", "write journal", "CloseRuns", "Enqueue", "Advance", "Create", "ClearOwed", "*", "*"}
			p.mu.Lock()
			p.storms[ops[d.n(len(ops))]] = time.Now().Add(d.between(3*time.Second, 25*time.Second))
			p.mu.Unlock()
		case 3: // an executor is away
			of, until := apps[d.n(len(apps))].addresses, time.Now().Add(time.Duration(5+d.n(20))*time.Second)
			w.execs.set(func(e *executor) { e.down = until }, of[d.n(len(of))])
			w.count("executor away", 1)
		case 7: // or answers late
			of, until := apps[d.n(len(apps))].addresses, time.Now().Add(time.Duration(10+d.n(20))*time.Second)
			w.execs.set(func(e *executor) { e.slow = until }, of[d.n(len(of))])
			w.count("executor slow", 1)
		case 4:
			if in := w.someProcess(d).living(); in != nil {
				in.kill(in.p.kind())
			}
		case 5: // the index is partitioned, or the jobs are grouped, again
			g, err := w.store.Global(bg)
			seen, what := g.Rev, ""
			if g.Rev = max(seen+1, time.Now().UnixMilli()); d.n(2) == 0 {
				g.Groups, what = 1+d.n(9), "groups change"
			} else if g.Partitions == 2 {
				g.Partitions, g.Readable, what = 4, max(g.Readable, 4), "partitions 2 to 4"
			}
			if err == nil && what != "" && w.store.PutGlobal(bg, seen, g) == nil {
				w.count(what, 1)
			}
		case 6:
			if w.cfg.Skew {
				p := w.someProcess(d)
				p.step(time.Duration(d.n(5)-2) * time.Second)
			}
		}
	}
}
