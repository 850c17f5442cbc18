package sim

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/callback"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/wire"
)

// executors are the fake executors of all apps, and the network to them.
type executors struct {
	w  *World
	mu sync.Mutex
	at map[string]*executor
}

// executor is one address. It behaves as an xxl-job executor does: it knows a run only while it works on it.
type executor struct {
	address string
	down    time.Time                         // it rejects connections until then
	slow    time.Time                         // it answers late until then
	deaf    time.Time                         // it answers no question until then, and works on
	tasks   map[core.RunID]*task              // under way
	jobs    map[core.JobID]map[*task]struct{} // the same by job
}

// task is one run in the hands of an executor.
type task struct {
	run  core.RunID
	job  core.JobID
	over bool
}

func newExecutors(w *World) *executors { return &executors{w: w, at: map[string]*executor{}} }

func (x *executors) add(address string) {
	x.at[address] = &executor{address: address, tasks: map[core.RunID]*task{}, jobs: map[core.JobID]map[*task]struct{}{}}
}

// errNoAnswer is the error of probing an unresponsive address.
var errNoAnswer = errors.New("connection refused")

// sender is the way from one process to the executors.
type sender struct{ in *incarnation }

func (s sender) Beat(ctx context.Context, app *core.App, address string) error {
	err := s.in.read(ctx, "Beat", func(ctx context.Context) error { return s.in.p.w.execs.hears(ctx, address) })
	if err != nil {
		s.in.p.w.noted(question{address, 0})
		s.in.p.w.unanswered(app.Name)
	}
	return err
}

// hears reports whether an address answers questions; callers wait at most as long as for a send.
func (x *executors) hears(ctx context.Context, address string) error {
	x.mu.Lock()
	e := x.at[address]
	down := e == nil || time.Now().Before(e.down)
	deaf := !down && time.Now().Before(e.deaf)
	x.mu.Unlock()
	if deaf {
		x.w.count("question not answered", 1)
		x.w.sleep(ctx, sendTimeout)
	}
	if down || deaf {
		return errNoAnswer
	}
	return nil
}

// Limit returns a time that is longer than any simulated run.
func (s sender) Limit(ctx context.Context, address string) (time.Duration, error) {
	return 3 * time.Minute, s.in.read(ctx, "Limit", func(context.Context) error { return nil })
}

// Idle returns a result that agrees with the executor's running runs, or an error.
func (s sender) Idle(ctx context.Context, app *core.App, address string, job core.JobID) (idle bool, err error) {
	err = s.in.read(ctx, "Idle", func(ctx context.Context) error {
		x := s.in.p.w.execs
		if err := x.hears(ctx, address); err != nil {
			return err
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		idle = len(x.at[address].jobs[job]) == 0
		return nil
	})
	w := s.in.p.w
	if invocationOf(ctx) != nil { // for a fire whose route chooses who is idle
		switch {
		case err != nil:
			w.unanswered(app.Name)
		case !idle:
			w.busyWith(job)
		default:
			w.truth.saidIdle(s.in, question{address, job})
		}
		return idle, err
	}
	switch {
	case err != nil:
		w.noted(question{address, 0})
	case !idle:
		w.noted(question{address, job})
	}
	return idle, err
}

// Kill ends all tasks of a job at the address. Each task reports that it was killed.
func (s sender) Kill(ctx context.Context, app *core.App, address string, job core.JobID) error {
	return s.in.read(ctx, "Kill", func(context.Context) error {
		s.in.p.w.execs.alone(address, job)
		s.in.p.w.execs.endAll(address, job, "[job running, killed]")
		return nil
	})
}

// killTakes is the longest time from reading the open runs to notifying their executor; each address gets at most this long.
const killTakes = 10 * time.Second

// alone asserts that a kill because of a timeout ends nothing else: all running runs without a
// user's kill are past their own timeout, except later arrivals.
func (x *executors) alone(address string, job core.JobID) {
	x.mu.Lock()
	var there []core.RunID
	if e := x.at[address]; e != nil {
		for t := range e.jobs[job] {
			there = append(there, t.run)
		}
	}
	x.mu.Unlock()
	var over, others []core.RunID
	for _, id := range there {
		switch r, ok := x.w.truth.run(id); {
		case !ok || !r.State.Open() || r.KillBy != "":
		case r.PastTimeout():
			over = append(over, id)
		case time.Since(r.SentAt) > killTakes:
			others = append(others, id)
		}
	}
	if len(over) > 0 {
		x.w.count("kill of what is past its timeout", 1)
	}
	if len(over) > 0 && len(others) > 0 {
		x.w.truth.mu.Lock()
		defer x.w.truth.mu.Unlock()
		x.w.truth.fail(over[0], "a kill of runs past their timeout, %v, ends others of the job: %v", over, others)
	}
}

// endAll ends the tasks of a job at an address with a report.
func (x *executors) endAll(address string, job core.JobID, why string) {
	x.mu.Lock()
	var ended []core.RunID
	if e := x.at[address]; e != nil {
		for t := range e.jobs[job] {
			e.drop(t)
			ended = append(ended, t.run)
		}
	}
	x.mu.Unlock()
	for _, id := range ended {
		x.w.truth.done(id)
		x.w.report(wire.CallbackItem{LogID: int64(id), Code: 500, Msg: why})
	}
}

func (e *executor) drop(t *task) {
	t.over = true
	if e.tasks[t.run] == t {
		delete(e.tasks, t.run)
	}
	if of := e.jobs[t.job]; of != nil {
		delete(of, t)
		if len(of) == 0 {
			delete(e.jobs, t.job)
		}
	}
}

// sendTimeout is how long an answer is waited for.
const sendTimeout = 3 * time.Second

// Send simulates one request over an unreliable network to an executor that may misbehave.
func (s sender) Send(ctx context.Context, sh dispatch.SendRequest) dispatch.Answer {
	w := s.in.p.w
	fate, d, _, _ := s.in.begin(ctx, "Send", false)
	inv := invocationOf(ctx)
	began := time.Now()
	w.truth.sending(inv, s.in, &sh)
	call := strings.HasPrefix(sh.Address, "call:")
	wait := func(t time.Duration) { // the request is on its way whatever becomes of its sender
		w.sleep(context.Background(), t)
	}
	finished := func(a dispatch.Answer) dispatch.Answer {
		s.in.alive()
		if fate == KillAfter {
			s.in.kill("dispatcher after a send")
			s.in.end()
		}
		a.Took = time.Since(began)
		switch {
		case a.Kind == dispatch.AnswerBusy:
			w.troubleOf(time.Now(), time.Now().Add(w.deployed.aftermath().again), sh.Run.ID)
		case a.Took > 500*time.Millisecond: // others wait for its place
			w.troubleAt(sh.Run.App, began, time.Now().Add(w.deployed.aftermath().again))
		}
		w.truth.answered(inv, sh.Run.ID, a.Kind)
		return a
	}
	if fate == Before || fate == Throttled {
		return finished(dispatch.Answer{Kind: dispatch.AnswerRefused, Message: "connection refused"})
	}
	wait(d.between(time.Millisecond, 5*time.Millisecond))
	if s.in.dead.Load() && d.chance(0.5) {
		s.in.end() // it died with its request unsent
	}
	x := w.execs
	x.mu.Lock()
	e := x.at[sh.Address]
	if e == nil || time.Now().Before(e.down) {
		x.mu.Unlock()
		return finished(dispatch.Answer{Kind: dispatch.AnswerRefused, Message: "connection refused"})
	}
	isSlow, isDeaf := time.Now().Before(e.slow), time.Now().Before(e.deaf)
	x.mu.Unlock()

	odd := w.faulty.Load() && w.cfg.Rate > 0
	if w.cfg.Behave != nil {
		a, handled := w.cfg.Behave(w, &sh)
		if handled {
			return finished(a)
		}
	}
	silent := dispatch.Answer{Kind: dispatch.AnswerUnconfirmed, Message: "no answer"}
	timeout := func() dispatch.Answer {
		w.sleep(ctx, sendTimeout)
		a := silent
		a.TimedOut = true
		return finished(a)
	}
	r := w.cfg.Rate
	switch {
	case isDeaf:
		return timeout()
	case !odd:
	case d.chance(0.02 * r):
		w.count("send refused", 1)
		wait(d.between(0, 20*time.Millisecond))
		return finished(dispatch.Answer{Kind: dispatch.AnswerRefused, Code: 500, Message: "no handler of that name"})
	case d.chance(0.015 * r):
		w.count("send busy", 1)
		return finished(dispatch.Answer{Kind: dispatch.AnswerBusy, Code: 429, Message: "queue is full"})
	case d.chance(0.01 * r):
		w.count("send never arrived, no answer", 1)
		return timeout()
	}
	// The run arrives. An executor that has the run already reports a repeat; a function does not know, and begins it once more.
	x.mu.Lock()
	if e.tasks[sh.Run.ID] != nil && !call && !strings.HasPrefix(sh.Address, "lambda:") {
		x.mu.Unlock()
		w.truth.arrived(inv, &sh)
		return finished(dispatch.Answer{Kind: dispatch.AnswerRepeat, Code: 500, Message: "repeate trigger job"})
	}
	others := len(e.jobs[sh.Job.Def.ID])
	if others > 0 && sh.Job.Def.Block == core.BlockDiscardLater {
		x.mu.Unlock()
		w.count("send blocked", 1)
		return finished(dispatch.Answer{Kind: dispatch.AnswerBlocked, Code: 500, Message: "block strategy effect：Discard Later"})
	}
	x.mu.Unlock()
	if others > 0 && sh.Job.Def.Block == core.BlockCoverEarly {
		x.endAll(sh.Address, sh.Job.Def.ID, "block strategy effect：Cover Early [job running, killed]")
	}
	t := x.takes(&sh)
	w.truth.arrived(inv, &sh)

	if call && w.cfg.Machine && odd && sh.Job.Def.Timeout >= time.Minute && d.chance(0.4) {
		w.count("long call", 1)
		w.sleep(ctx, min(d.between(20*time.Second, 9*time.Minute), sh.Job.Def.Timeout))
		x.end(e, t)
		switch n := d.n(4); {
		case ctx.Err() != nil || n == 0:
			return finished(silent) // and nothing is ever reported
		case n == 1:
			return finished(dispatch.Answer{Kind: dispatch.AnswerAccepted, Code: 202}) // nor here
		case n == 2:
			w.after(d.between(0, time.Minute), func() { w.report(wire.CallbackItem{LogID: int64(sh.Run.ID), Code: 200}) })
			return finished(dispatch.Answer{Kind: dispatch.AnswerAccepted, Code: 202})
		}
		return finished(dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200})
	}
	took := d.between(5*time.Millisecond, 2*time.Second)
	if d.chance(0.05) {
		took = d.between(2*time.Second, 12*time.Second)
	}
	result := wire.CallbackItem{LogID: int64(t.run), Code: 200}
	if d.chance(w.cfg.Failing) {
		result.Code, result.Msg = 500, "handler failed"
		if d.chance(0.4) {
			result.RetryAfter = []int64{wire.NeverRetry, 1, 1 + int64(d.n(20))}[d.n(3)]
		}
	}
	if limit := sh.Job.Def.Timeout; limit > 0 && took > limit {
		took, result.Code, result.Msg, result.RetryAfter = limit, callback.CodeTimedOut, "timed out", 0
	}
	if result.Code != 200 { // a call that ends in time has no retry result, which counts as one too
		w.truth.says(t.run, result.RetryAfter)
	}
	hangs := odd && w.cfg.Hangs && sh.Job.Def.Timeout > 0 && !call && d.chance(0.05*r)
	if line := sh.Job.Def.Name == lineJob; line {
		took, result.Code, result.Msg, result.RetryAfter = d.between(5*time.Millisecond, 50*time.Millisecond), 200, "", 0
		hangs = w.truth.hangs(sh.Run.ID)
	}
	if hangs { // until it is killed, or for long if its timeout is forgotten
		w.count("hangs", 1)
		took = 40 * time.Minute
	}
	never := odd && !hangs && sh.Job.Def.Name != lineJob && d.chance(0.01*r)
	if never { // it restarts in the middle of it, and forgets
		took = d.between(5*time.Second, 60*time.Second)
	}
	if call && !never && took < sendTimeout && d.chance(0.7) {
		// The answer is the result.
		wait(took)
		x.end(e, t)
		if odd && d.chance(0.02*r) {
			return timeout()
		}
		if result.Code == 200 {
			return finished(dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Succeeded, Code: 200})
		}
		return finished(dispatch.Answer{Kind: dispatch.AnswerEnded, State: core.Failed, Reason: core.ReasonHandler, Code: 500,
			RetryAfter: time.Duration(result.RetryAfter) * time.Second})
	}
	twice := d.chance(0.05)
	w.wg.Go(func() {
		w.sleep(context.Background(), took)
		if x.end(e, t) && !never {
			w.report(result)
			if twice && w.faulty.Load() {
				w.count("duplicate callback", 1)
				w.report(result)
			}
		}
	})
	switch {
	case odd && d.chance(0.02*r):
		w.count("taken, no answer", 1)
		return timeout()
	case odd && (d.chance(0.05*r) || isSlow && d.chance(0.9)):
		w.count("slow answer", 1) // often after the callback
		w.sleep(ctx, d.between(500*time.Millisecond, sendTimeout-100*time.Millisecond))
	default:
		wait(d.between(2*time.Millisecond, 60*time.Millisecond))
	}
	if ctx.Err() != nil {
		return finished(silent)
	}
	a := dispatch.Answer{Kind: dispatch.AnswerAccepted, Code: 200}
	if strings.HasPrefix(sh.Address, "lambda:") {
		a.Request, a.Log = "request", "group" // which is one write more
	}
	return finished(a)
}

// works has an executor take a run for a time, and report its success.
func (x *executors) works(sh *dispatch.SendRequest, takes time.Duration) (dispatch.Answer, bool) {
	x.w.truth.arrives(sh)
	e, t := x.at[sh.Address], x.takes(sh)
	x.w.after(takes, func() {
		if x.end(e, t) {
			x.w.report(wire.CallbackItem{LogID: int64(t.run), Code: 200})
		}
	})
	return dispatch.Answer{Kind: dispatch.AnswerAccepted}, true
}

// set changes the behavior of some addresses.
func (x *executors) set(how func(e *executor), addresses ...string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, a := range addresses {
		how(x.at[a])
	}
}

// takes lets an executor begin a run.
func (x *executors) takes(sh *dispatch.SendRequest) *task {
	x.w.truth.works(sh.Run.ID)
	t := &task{run: sh.Run.ID, job: sh.Job.Def.ID}
	x.mu.Lock()
	defer x.mu.Unlock()
	e := x.at[sh.Address]
	e.tasks[t.run] = t
	if e.jobs[t.job] == nil {
		e.jobs[t.job] = map[*task]struct{}{}
	}
	e.jobs[t.job][t] = struct{}{}
	return t
}

// end ends a task; false if that was done already.
func (x *executors) end(e *executor, t *task) bool {
	x.mu.Lock()
	over := t.over
	if !over {
		e.drop(t)
	}
	x.mu.Unlock()
	if !over {
		x.w.truth.done(t.run)
	}
	return !over
}
