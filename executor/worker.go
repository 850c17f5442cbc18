package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/wire"
)

// Reasons why the executor ends runs, in the words of xxl-job: schedulers derive the result of the run from them.
const (
	reasonKill    = "scheduling center kill job."
	reasonCover   = wire.MsgBlockStrategy + ":Cover Early"
	reasonChanged = "change jobhandler or glue type, and terminate the old job thread."
	reasonStop    = "web container destroy and kill the job."
	reasonCrash   = "the executor's process ended under the run (container destroy)."

	suffixRunning = " [job running, killed]"
	suffixGoesOn  = " (its program cannot be ended and goes on)"
	suffixQueued  = " [job not executed, in the job queue, killed.]"

	msgTimeout = "job execute timeout "
)

var errTimeout = errors.New("the job's timeout has passed")

// key identifies the work of a worker: as in xxl-job, another handler or another script needs another worker.
type key struct {
	handler, glue string
	updated       int64
}

// A worker runs the runs of one job, one after another. Its fields belong to Executor.mu, except the marked ones.
type worker struct {
	id     int32
	queue  []*task
	cur    *task // from leaving the queue to its end
	key    key   // of the newest run
	wakeup chan struct{}

	// Only the worker's goroutine uses these.
	ready  *registered // its Init has succeeded
	strays *sync.WaitGroup
	stray  bool // a handler of ready was abandoned
}

func (w *worker) busy() bool { return w.cur != nil || len(w.queue) > 0 }

// A task is a run that is queued or running.
type task struct {
	wire    *incoming
	run     *Run
	key     key
	handler *registered
	durable *flush // nil if it is already in the journal

	ctx    context.Context
	cancel context.CancelCauseFunc

	// Guarded by Executor.mu. Only the goroutine that sets ended completes the run.
	ended    bool   // the handler has returned, or was abandoned
	returned bool   // it ended because the handler returned
	kill     string // why it is being ended; empty if it is not being ended
	recorded bool   // it has its result
}

// resolve finds the handler of a run; if there is none, the text explains why.
func (e *Executor) resolve(run *incoming) (*registered, key, string) {
	k := key{handler: run.Handler, glue: run.GlueType}
	if run.GlueType == wire.GlueBean || run.GlueType == "" {
		k.glue = wire.GlueBean
		if h := e.mux.handlers[run.Handler]; h != nil {
			return h, k, ""
		}
		e.log.Warn("run names a handler that is not registered", "job", run.JobID, "run", run.LogID,
			"handler", oneLine(run.Handler, 200), "known", e.mux.Names())
		return nil, k, fmt.Sprintf("job handler [%s] not found.", oneLine(run.Handler, 200))
	}
	k.updated = run.GlueUpdated
	h, why := e.o.Scripts.handler(run, e.o.Dir)
	return h, k, why
}

// accept judges a run, journals it and queues it. It returns once that is
// completed.
func (e *Executor) accept(run *incoming) (code int, msg string) {
	h, k, why := e.resolve(run)
	if why != "" {
		return wire.CodeFailure, why
	}
	e.mu.Lock()
	switch {
	case e.state != stateRunning:
		e.mu.Unlock()
		return wire.CodeBusy, wire.MsgQueueFull + ": the executor is stopping"
	case e.known(run.LogID):
		e.mu.Unlock()
		return wire.CodeFailure, fmt.Sprintf("%s, logId:%d", wire.MsgRepeatTrigger, run.LogID)
	case e.awaited(run) && e.journal.full(e.o.MaxUnreported, e.o.MaxUnreportedBytes):
		e.mu.Unlock()
		return wire.CodeBusy, wire.MsgQueueFull + ": too many results wait for a server"
	}
	w := e.workers[run.JobID]
	if w != nil && w.busy() {
		switch {
		case w.key != k:
			e.endAll(w, reasonChanged)
		case run.BlockStrategy == wire.BlockDiscard:
			e.mu.Unlock()
			return wire.CodeFailure, wire.MsgBlockStrategy + ":Discard Later"
		case run.BlockStrategy == wire.BlockCover:
			e.endAll(w, reasonCover)
		case len(w.queue) >= e.o.QueueSize:
			e.mu.Unlock()
			return wire.CodeBusy, fmt.Sprintf("%s: %d runs of the job wait", wire.MsgQueueFull, e.o.QueueSize)
		}
	}
	t := e.newTask(run, h, k, run.again)
	t.durable = e.journal.accept(run)
	w = e.enqueue(t)
	e.mu.Unlock()

	<-t.durable.done
	if err := t.durable.err; err != nil {
		e.mu.Lock()
		if t.ended {
			// A kill or a stop came first: the run has a result, which is reported, so no other executor may get it.
			e.mu.Unlock()
			return wire.CodeSuccess, ""
		}
		t.ended = true
		e.dequeue(t)
		delete(e.open, run.LogID)
		e.journal.taken(run.LogID)
		e.mu.Unlock()
		t.cancel(nil)
		e.log.Error("run rejected: the journal is not writable", "job", run.JobID, "run", run.LogID, "error", err)
		return wire.CodeBusy, wire.MsgQueueFull + ": the run cannot be journaled"
	}
	nudge(w.wakeup)
	return wire.CodeSuccess, ""
}

// known reports whether a run is here or has ended here, even if only the journal still has it because no server took its
// result. Call it with mu held.
func (e *Executor) known(id int64) bool {
	return e.open[id] != nil || e.past.has(id, time.Now()) || e.journal.has(id)
}

// awaited reports whether a server waits for the result of a run. The caller of Submit has its result, so a submitted run
// is awaited only if there are servers.
func (e *Executor) awaited(run *incoming) bool { return run.sub == nil || len(e.o.Servers) > 0 }

func (e *Executor) newTask(run *incoming, h *registered, k key, again bool) *task {
	t := &task{wire: run, key: k, handler: h, run: newRun(run, e.logs.open(run.LogID, run.LogTime), again)}
	if !e.o.InMemory {
		t.run.journal = e.journal
	}
	t.ctx, t.cancel = context.WithCancelCause(e.base)
	if run.sub != nil {
		run.sub.t = t
	}
	return t
}

// enqueue adds t to the queue of its job's worker, and starts the worker if necessary. Call it with mu held.
func (e *Executor) enqueue(t *task) *worker {
	id := t.wire.JobID
	w := e.workers[id]
	if w == nil {
		w = &worker{id: id, wakeup: make(chan struct{}, 1), strays: &sync.WaitGroup{}}
		e.workers[id] = w
		e.wg.Go(func() { e.work(w) })
	}
	w.key = t.key
	w.queue = append(w.queue, t)
	e.open[t.wire.LogID] = t
	return w
}

// recover handles the runs of a dead process; left are the runs whose programs could not be ended. Call it with mu held.
func (e *Executor) recover(open []*incoming, left map[int64]bool) {
	again := 0
	for _, run := range open {
		h := e.mux.handlers[run.Handler]
		if !left[run.LogID] && (run.GlueType == wire.GlueBean || run.GlueType == "") && h != nil && h.again {
			e.enqueue(e.newTask(run, h, key{handler: run.Handler, glue: wire.GlueBean}, true))
			again++
			continue
		}
		t := e.newTask(run, h, key{}, true)
		why := reasonCrash + suffixRunning
		if left[run.LogID] {
			why = reasonCrash + suffixRunning + suffixGoesOn
		}
		t.run.log.last("---- end: " + why)
		e.record(t, why)
		t.cancel(nil)
	}
	if len(open) > 0 {
		e.log.Warn("previous executor process died with open runs", "failed", len(open)-again, "again", again)
	}
}

// endAll ends the running run of a job and the runs in its queue. Call it with mu held.
func (e *Executor) endAll(w *worker, reason string) {
	e.cancel(w.cur, reason)
	e.emptyQueue(w, reason)
}

// cancel ends a running run, unless it has ended. Call it with mu held.
func (e *Executor) cancel(t *task, reason string) {
	if t == nil || t.ended || t.kill != "" {
		return
	}
	t.kill = reason
	t.cancel(errors.New(reason))
}

// emptyQueue reports waiting runs as not executed. Call it with mu held.
func (e *Executor) emptyQueue(w *worker, reason string) {
	for _, t := range w.queue {
		e.unbegun(t, reason)
	}
	w.queue = nil
}

// unbegun reports a run that has left its queue as not executed. Call it with mu held.
func (e *Executor) unbegun(t *task, reason string) {
	t.run.log.last("---- end: " + reason + suffixQueued)
	e.record(t, reason+suffixQueued)
	t.ended = true
	t.cancel(nil)
}

// dequeue removes t from the queue of its job's worker; it returns false if t is not in the queue. Call it with mu held.
func (e *Executor) dequeue(t *task) bool {
	w := e.workers[t.wire.JobID]
	if w == nil {
		return false
	}
	i := slices.Index(w.queue, t)
	if i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
	return i >= 0
}

// killJob ends all runs of a job, as /kill asks.
func (e *Executor) killJob(job int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.workers[job]; w != nil {
		e.endAll(w, reasonKill)
	}
}

// idle reports whether a job has no running and no waiting runs.
func (e *Executor) idle(job int32) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.workers[job]
	return w == nil || !w.busy()
}

// work is a worker's life.
func (e *Executor) work(w *worker) {
	for {
		e.mu.Lock()
		if len(w.queue) > 0 {
			t := w.queue[0]
			w.queue[0] = nil
			w.queue = w.queue[1:]
			w.cur = t
			e.mu.Unlock()
			e.do(w, t)
			e.mu.Lock()
			w.cur = nil
			e.mu.Unlock()
			continue
		}
		w.queue = nil
		e.mu.Unlock()

		select {
		case <-w.wakeup:
			continue
		case <-time.After(e.o.Idle):
		case <-e.halt:
		}
		if e.testIdle != nil {
			e.testIdle(w.id)
		}
		e.mu.Lock()
		more := len(w.queue) > 0
		e.mu.Unlock()
		if more {
			continue
		}
		if e.testEnding != nil {
			e.testEnding(w.id)
		}
		e.teardown(w)
		// The worker is registered until here, so that a run which arrived during teardown is in its queue and gets no second
		// worker.
		e.mu.Lock()
		if len(w.queue) == 0 {
			delete(e.workers, w.id)
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
	}
}

// setup has the worker ready for h.
func (e *Executor) setup(w *worker, h *registered) error {
	if w.ready == h {
		return nil
	}
	e.teardown(w)
	if h.init != nil {
		if err := guard(func() error { return h.init(e.base) }); err != nil {
			return fmt.Errorf("init of handler %s: %w", h.name, err)
		}
	}
	w.ready = h
	return nil
}

// teardown calls Destroy once no run of the handler is running.
func (e *Executor) teardown(w *worker) {
	h := w.ready
	if w.ready = nil; h == nil || h.destroy == nil {
		return
	}
	strays, stray := w.strays, w.stray
	w.strays, w.stray = &sync.WaitGroup{}, false
	ctx := context.WithoutCancel(e.base)
	last := func() {
		strays.Wait()
		if err := guard(func() error { return h.destroy(ctx) }); err != nil {
			e.log.Error("destroy function of a handler failed", "handler", h.name, "job", w.id, "error", err)
		}
	}
	if stray {
		go last() // whenever that is
		return
	}
	last()
}

// guard turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// do runs one run to its end.
func (e *Executor) do(w *worker, t *task) {
	if t.durable != nil {
		<-t.durable.done
		if t.durable.err != nil {
			return // the caller that accepted the run rejects it
		}
	}
	defer t.cancel(nil)
	r := t.run
	if r.log != nil {
		r.log.first(fmt.Sprintf("---- start: job %d, run %d, handler %s, shard %d/%d, params: %s",
			r.JobID, r.ID, t.handler.name, r.ShardIndex, r.ShardTotal, oneLine(r.Params, 2000)))
	}
	if r.Again {
		r.log.line("The process that had this run died or returned the run. The run starts again.")
	}
	err := e.setup(w, t.handler)
	if err != nil {
		r.log.line(err.Error())
	}
	e.mu.Lock()
	gone, kill := t.ended, t.kill
	t.ended = gone || err != nil
	e.mu.Unlock()
	switch {
	case gone: // Stop gave it up
		return
	case err != nil && kill != "":
		e.complete(t, wire.CallbackItem{Code: wire.CodeFailure, Msg: kill + suffixRunning})
		return
	case err != nil:
		e.complete(t, wire.CallbackItem{Code: wire.CodeFailure, Msg: firstLine(err.Error())})
		return
	}
	ctx, stop := t.ctx, context.CancelFunc(func() {})
	if r.Timeout > 0 {
		ctx, stop = context.WithTimeoutCause(ctx, r.Timeout, errTimeout)
	}
	defer stop()
	if !t.wire.until.IsZero() {
		ctx, stop = context.WithDeadlineCause(ctx, t.wire.until, errTimeout)
		defer stop()
	}

	returned := make(chan struct{})
	timedOut := false
	err = errGoexit
	strays := w.strays
	strays.Add(1)
	go func() {
		defer strays.Done()
		defer func() {
			timedOut = errors.Is(context.Cause(ctx), errTimeout)
			e.mu.Lock()
			gone := t.ended
			t.ended, t.returned = true, !gone
			e.mu.Unlock()
			if gone {
				e.strays.Add(-1)
				r.log.line("The handler returned after its run had ended.")
			}
			close(returned)
		}()
		err = call(ctx, t.handler.handle, r)
	}()
	select {
	case <-returned:
	case <-ctx.Done():
		select {
		case <-returned:
		case <-time.After(e.o.CancelGrace):
		}
	}

	e.mu.Lock()
	unheeded, mine := !t.ended, t.returned
	t.ended = true // from here on the result of the handler does not count
	kill = t.kill
	e.mu.Unlock()
	switch {
	case unheeded:
		w.stray = true
		e.abandon(t, kill)
		return
	case !mine: // Stop gave it up
		w.stray = true
		return
	}
	<-returned
	it := r.result(err)
	switch {
	case kill != "":
		it = wire.CallbackItem{Code: wire.CodeFailure, Msg: kill + suffixRunning}
	case timedOut:
		it = wire.CallbackItem{Code: wire.CodeTimeout, Msg: msgTimeout}
	}
	e.complete(t, it)
}

var errGoexit = errors.New("the handler ended its goroutine instead of returning")

// abandon completes a run whose handler ignores the end of its context.
func (e *Executor) abandon(t *task, kill string) {
	e.strays.Add(1)
	e.log.Warn("handler still running after its run was ended", "handler", t.handler.name, "job", t.run.JobID, "run", t.run.ID, "cause",
		context.Cause(t.ctx))
	const note = "(the handler has not returned and goes on)"
	if kill != "" {
		e.complete(t, wire.CallbackItem{Code: wire.CodeFailure, Msg: kill + suffixRunning + " " + note})
		return
	}
	e.complete(t, wire.CallbackItem{Code: wire.CodeTimeout, Msg: msgTimeout + note})
}

// giveUp abandons the handlers of all open runs when the executor must end.
func (e *Executor) giveUp() {
	var left []*task
	e.mu.Lock()
	for _, t := range e.open {
		if !t.ended {
			t.ended = true
			left = append(left, t)
		}
	}
	e.mu.Unlock()
	for _, t := range left {
		e.abandon(t, reasonStop)
	}
}

// complete records the result of a run and has it reported. Only the goroutine that set ended, or removed the run from the
// queue, may call it.
func (e *Executor) complete(t *task, it wire.CallbackItem) {
	it.Msg = truncateMessage(it.Msg)
	if t.run.log != nil {
		t.run.log.last(fmt.Sprintf("---- end: code %d, message: %s", it.Code, oneLine(it.Msg, 4000)))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end(t, it)
}

// record is complete of a failure, without log and data. Call it with mu held.
func (e *Executor) record(t *task, msg string) {
	e.end(t, wire.CallbackItem{Code: wire.CodeFailure, Msg: msg})
}

// end is complete without the log. Call it with mu held.
func (e *Executor) end(t *task, it wire.CallbackItem) {
	it.LogID, it.LogTime, it.Msg = t.wire.LogID, t.wire.LogTime, t.run.log.tailed(it.Msg, it.Code != wire.CodeSuccess)
	now := time.Now()
	t.recorded = true
	if s := t.wire.sub; s != nil {
		s.result = Result{it.LogID, Outcome(it.Code), it.Msg, it.Data, it.RetryAfter}
		defer close(s.ended)
		if s.dropped {
			e.journal.taken(it.LogID)
			e.closed(t)
			return
		}
	}
	b := e.journal.end(&it, now.UnixMilli())
	e.closed(t)
	e.past.add(t.wire.LogID, now.UnixMilli(), now)
	if !e.awaited(t.wire) {
		e.journal.taken(it.LogID)
		return
	}
	e.reporter.add(pending{item: it, durable: b, sub: t.wire.sub})
}

// closed has t no longer open. Call it with mu held.
func (e *Executor) closed(t *task) {
	delete(e.open, t.wire.LogID)
	if w := e.workers[t.wire.JobID]; w != nil && w.cur == t {
		w.cur = nil // a scheduler that gets the result may send the next run
	}
}

// result returns the result of a run whose handler returned err.
func (r *Run) result(err error) wire.CallbackItem {
	r.mu.Lock()
	defer r.mu.Unlock()
	it := wire.CallbackItem{Code: wire.CodeSuccess, Data: r.data}
	var word *retryError
	switch {
	case err != nil:
		it.Code, it.Msg = wire.CodeFailure, err.Error()
		if errors.As(err, &word) {
			it.RetryAfter = word.after
		}
	case r.outcome > 0:
		it.Code, it.Msg = int(r.outcome), r.message
	}
	return it
}

// call calls a handler. A panic is an error, and its stack in the log.
func call(ctx context.Context, h Handler, r *Run) (err error) {
	err = errGoexit
	defer func() {
		if p := recover(); p != nil {
			r.log.line(fmt.Sprintf("panic: %v\n%s", p, debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return h(ctx, r)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// memory holds the IDs of ended runs.
type memory struct {
	keep  time.Duration
	most  int
	at    map[int64]int64 // ms of the end, by ID
	order []int64         // the IDs, the oldest first
}

func (m *memory) has(id int64, now time.Time) bool {
	at, ok := m.at[id]
	return ok && now.UnixMilli()-at < m.keep.Milliseconds()
}

func (m *memory) add(id, at int64, now time.Time) {
	if now.UnixMilli()-at >= m.keep.Milliseconds() {
		return
	}
	if _, ok := m.at[id]; !ok {
		if m.order = append(m.order, id); len(m.order) > m.most {
			delete(m.at, m.order[0])
			m.order = m.order[1:]
		}
	}
	m.at[id] = at
}

// list returns the remembered runs, oldest first.
func (m *memory) list(now time.Time) []remembered {
	out := make([]remembered, 0, len(m.at))
	for _, id := range m.order {
		if m.has(id, now) {
			out = append(out, remembered{id, m.at[id]})
		}
	}
	return out
}
