// Package localexec runs the commands of jobs on the machine of the server, as cron does. It is an executor in the
// process of the server. Package executor keeps its journal and logs, and ends all processes of a run, together with
// their process group.
//
// Each job has a queue of the server (core/pullqueue), so waiting commands survive a restart. Commands of one job run
// one after another. The jobs take turns, and Options limits the number of concurrent commands. Commands therefore do
// not delay runs at other executors.
//
// The package rejects users and directories that the options of the server do not allow (see Allow). It does not start
// a command that may have started before. The run of such a command is lost, and its message has the reason.
package localexec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/pullqueue"
	"github.com/tickring/tickring/executor"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/send"
	"github.com/tickring/tickring/store"
)

// Options has the settings of Commands. A field without a default is required, except Allowed.
type Options struct {
	// Allowed has the users and directories that commands may use; nil: no command starts, and remaining commands of
	// an earlier process are ended.
	Allowed *Allowed
	Dir     string // directory of the journal and the logs
	Most    int    // maximum number of concurrent commands; 0: 10
	// StopGrace is the time that Stop waits for running commands. Then Stop ends them.
	StopGrace time.Duration // default: 10 s
	// Again is the delay before a retry after an error of the store or the disk.
	Again time.Duration // default: 1 s
	Log   *slog.Logger

	Queue  *pullqueue.Puller
	Store  *store.Store // its Box encrypts secret environment variables in the queue
	Finish pullqueue.Finisher
}

// Commands runs commands between the calls of Start and Stop.
type Commands struct {
	o       Options
	e       *executor.Executor
	slots   chan struct{} // goroutines get one in turn
	taking  context.Context
	stop    context.CancelFunc // stops taking: no command begins any more
	stopped chan struct{}      // closed once no report can come any more
	jobs    sync.WaitGroup
	at      sync.WaitGroup // handlers
	ends    sync.Once
	// begins is read-locked from taking a run from its queue until the run is in the executor's
	// journal: a stop in between would leave it unknown whether the run began.
	begins sync.RWMutex

	mu    sync.Mutex
	lines map[core.JobID]*line // of jobs with a non-empty queue, as far as known
	specs map[core.RunID]item  // of runs that are about to begin
	had   map[core.RunID]bool  // runs that a process before this one took from their queue: they may have begun
}

// line is the worker of a job's queue.
type line struct {
	more bool // a run came since the last check
	run  core.RunID
	sub  *executor.Submitted // nil: run, if there is one, is about to begin
	kill bool                // it was killed before it began
}

// item is the queue's form of a run. The secret variables of its command are encrypted.
type item struct {
	Run     core.RunID   `json:"run"`
	Order   []byte       `json:"order"`
	Command core.Command `json:"command"`
	Until   time.Time    `json:"until,omitzero"` // time until which the command must start
}

// WithSecrets returns a copy of the item in which the function `turn` has encrypted or decrypted each secret.
func (it item) WithSecrets(turn func(secret string) string) item {
	it.Command = *core.Def{Command: &it.Command}.WithSecrets(turn).Command
	return it
}

// SecretsOf returns the name of the record that the encrypted secrets belong to.
func (it item) SecretsOf() string { return "run/" + it.Run.String() }

var _ send.Commands = (*Commands)(nil)

// New returns Commands that are not started. New does not access the disk or the store.
func New(o Options) (*Commands, error) {
	o.Most = cmp.Or(o.Most, 10)
	o.StopGrace, o.Again = cmp.Or(o.StopGrace, 10*time.Second), cmp.Or(o.Again, time.Second)
	o.Log = cmp.Or(o.Log, slog.Default())
	c := &Commands{o: o, slots: make(chan struct{}, o.Most), stopped: make(chan struct{}), lines: map[core.JobID]*line{},
		specs: map[core.RunID]item{}, had: map[core.RunID]bool{}}
	c.taking, c.stop = context.WithCancel(context.Background())
	mux := executor.NewMux()
	mux.Register(handler, c.handle)
	var err error
	c.e, err = executor.New(mux, executor.Options{
		App: "commands", Token: "of this process", Unregistered: true,
		// Results go to this process too, and are in the journal until they are stored.
		Servers: []string{"http://commands.invalid"}, Client: &http.Client{Transport: reports{c}}, CallbackRetry: 10 * time.Second,
		RequestTimeout: 10 * time.Second,
		Dir:            o.Dir, LogTail: tail, LogMax: core.MaxMaxOutput + 1<<20, StopGrace: o.StopGrace, CancelGrace: 5 * time.Second, Log: o.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("create the executor of commands: %w", err)
	}
	return c, nil
}

const (
	handler = "command"
	tail    = 4 << 10 // bytes of a log that stand in the message of its run
	visible = pullqueue.MinVisibility
	// storeFor is the timeout of a request to the store for a run.
	storeFor = 10 * time.Second
)

// queue returns the queue of a job. No app has the empty name, so no executor pulls from it.
func queue(job core.JobID) store.PullQueue { return store.PullQueue{Name: "commands/" + job.String()} }

// Start ends commands that an earlier process left running, and reports their runs as lost. Then it continues with the
// waiting runs. Start returns errors of the directory and of the store.
func (c *Commands) Start(ctx context.Context) error {
	if err := c.e.Start(); err != nil {
		return err
	}
	for after, limit := int64(0), 1000; ; {
		list, err := c.o.Store.Pull.ListPulled(ctx, after, limit)
		if err != nil {
			return errors.Join(fmt.Errorf("list waiting commands: %w", err), c.Stop(ctx))
		}
		for _, l := range list {
			if l.Queue != queue(l.Run.Job()) {
				continue
			}
			if l.N > 0 {
				c.mu.Lock()
				c.had[l.Run] = true
				c.mu.Unlock()
			}
			c.rouse(l.Run.Job())
		}
		if len(list) < limit {
			return nil
		}
		after = list[len(list)-1].ID
	}
}

// Stop ends the work of c. No further command starts, and waiting runs stay in their queues. Running commands may
// continue until Options.StopGrace has passed or ctx ends. Then Stop ends these commands and reports them as lost.
// Stop returns after all commands have ended. A second call of Stop returns nil.
func (c *Commands) Stop(ctx context.Context) (err error) {
	c.ends.Do(func() { err = c.end(ctx) })
	return err
}

func (c *Commands) end(ctx context.Context) error {
	c.stop()
	c.begins.Lock()   // holders wait only for the store, and briefly
	c.begins.Unlock() //nolint:staticcheck // it is only waited for
	err := c.e.Stop(ctx)
	ended := make(chan struct{})
	go func() {
		c.at.Wait()
		close(ended)
	}()
	// Killed commands end, unless the kernel itself waits for a disk.
	t := time.NewTimer(10 * time.Second)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C:
		err = errors.Join(err, errors.New("some killed commands are still running"))
	}
	close(c.stopped)
	c.jobs.Wait()
	return err
}

func (c *Commands) Run(ctx context.Context, sh dispatch.SendRequest, order []byte) dispatch.Answer {
	it := item{Run: sh.Run.ID, Order: order, Command: *sh.Job.Def.Command}
	if d := sh.Job.Sched.Deadline; d > 0 && sh.Run.Cause.Planned() {
		it.Until = sh.Run.Slot.Time().Add(d)
	}
	it, err := secretbox.Seal(c.o.Store.Box, it)
	if err != nil {
		return dispatch.Answer{Kind: dispatch.AnswerBusy, Message: "encrypt the run: " + err.Error()}
	}
	body, err := json.Marshal(it)
	if err != nil {
		return dispatch.Answer{Kind: dispatch.AnswerRefused, Message: "write the run: " + err.Error()}
	}
	job := sh.Run.ID.Job()
	err = c.o.Queue.Put(ctx, store.PullItem{Queue: queue(job), Run: sh.Run.ID, Body: body})
	switch {
	case err == nil:
		c.rouse(job)
		return dispatch.Answer{Kind: dispatch.AnswerAccepted}
	case errors.Is(err, store.ErrFull):
		return dispatch.Answer{Kind: dispatch.AnswerBusy, Message: "the maximum number of runs of the job is waiting"}
	case errors.Is(err, core.ErrThrottled):
		return dispatch.Answer{Kind: dispatch.AnswerBusy, Message: "the store is overloaded"}
	}
	c.rouse(job) // it may be there; put again it is there once
	return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed, Message: "unknown whether the run is stored"}
}

func (c *Commands) Idle(ctx context.Context, job core.JobID) (bool, error) {
	return c.o.Queue.Idle(ctx, queue(job), job)
}

func (c *Commands) Log(run *core.Run, from int) (text string, next int, end bool) {
	return c.e.Log(int64(run.ID), run.SentAt, from)
}

// Kill implements send.Commands. A waiting run is ended when it would start.
func (c *Commands) Kill(ctx context.Context, job core.JobID) error {
	c.mu.Lock()
	l := c.lines[job]
	var run core.RunID
	if l != nil {
		run = l.run
	}
	c.mu.Unlock()
	if run == 0 {
		return nil
	}
	is, err := c.read(ctx, run)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.run != run || pullqueue.StateOf(is) == pullqueue.StateHeld {
		return nil
	}
	if l.kill = true; l.sub != nil {
		l.sub.Kill()
	}
	return nil
}

// read reads a run, nil if it does not exist.
func (c *Commands) read(ctx context.Context, id core.RunID) (*core.Run, error) {
	run, err := c.o.Store.Run(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read run %d: %w", id, err)
	}
	return run, nil
}

// rouse has the queue of a job worked off.
func (c *Commands) rouse(job core.JobID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taking.Err() != nil {
		return // the next process finds it
	}
	if l := c.lines[job]; l != nil {
		l.more = true
		return
	}
	l := &line{more: true}
	c.lines[job] = l
	c.jobs.Go(func() { c.work(job, l) })
}

// work executes the queue of a job: each run in its turn among the runs of all jobs.
func (c *Commands) work(job core.JobID, l *line) {
	for {
		select {
		case c.slots <- struct{}{}:
		case <-c.taking.Done():
			return
		}
		worked, err := c.next(job, l)
		<-c.slots
		idle := false
		if err == nil && !worked {
			idle, err = c.Idle(c.taking, job)
		}
		if err != nil && c.taking.Err() == nil {
			c.o.Log.Warn("command postponed: retrying", "job", job, "err", err)
		}
		if worked {
			continue
		}
		if err == nil && idle && c.over(job, l) {
			return
		}
		if err != nil || !idle { // it was handed out before, and is shown again within seconds
			c.wait()
		}
		if c.taking.Err() != nil {
			return
		}
	}
}

// over ends the line of a job whose queue was found empty; false: a run came since.
func (c *Commands) over(job core.JobID, l *line) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.more {
		l.more = false
		return false
	}
	delete(c.lines, job)
	return true
}

// wait waits before a retry; false: there must be no retry.
func (c *Commands) wait() bool { return store.Sleep(c.taking, c.o.Again) }

// next executes the next run of a job to its end; false: no run is available now.
func (c *Commands) next(job core.JobID, l *line) (worked bool, err error) {
	c.begins.RLock()
	begun := sync.OnceFunc(c.begins.RUnlock)
	defer begun()
	if c.taking.Err() != nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.taking), storeFor)
	defer cancel()
	held, err := c.o.Queue.Receive(ctx, queue(job), pullqueue.Want{Max: 1, Visibility: visible})
	if err != nil || len(held) == 0 {
		return false, err
	}
	h := held[0]
	run := h.Receipt.Run
	c.mu.Lock()
	had := c.had[run]
	if !had || c.e.Unreported() == 0 {
		l.run = run
	}
	c.mu.Unlock()
	if l.run == 0 { // its end may be known, and must be stored first
		c.o.Queue.Return(queue(job), held)
		return false, nil
	}
	defer func() {
		c.mu.Lock()
		l.run, l.sub, l.kill = 0, nil, false
		delete(c.specs, run)
		delete(c.had, run)
		c.mu.Unlock()
	}()
	for !c.take(l, h, had, begun) {
		if begun(); !c.wait() {
			if !had { // the next process must know that it has not begun
				c.o.Queue.Return(queue(job), held)
			}
			return false, nil
		}
	}
	ack, cancel2 := context.WithTimeout(context.WithoutCancel(c.taking), storeFor)
	defer cancel2()
	_, err = c.o.Queue.Ack(ack, queue(job), []store.Receipt{h.Receipt})
	return true, err
}

// take starts a run, calls begun then, and waits for its end; false: it did not begin, and must
// be retried.
func (c *Commands) take(l *line, h store.Held, had bool, begun func()) (over bool) {
	id := h.Receipt.Run
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.taking), storeFor)
	defer cancel()
	is, err := c.read(ctx, id)
	if err != nil {
		return false
	}
	var it item
	bad := json.Unmarshal(h.Body, &it)
	if bad == nil {
		it, bad = secretbox.Open(c.o.Store.Box, it)
	}
	switch end := (finish.Result{Run: id, State: core.Failed, Reason: core.ReasonNotAccepted}); {
	case is == nil || !is.State.Open():
		return true
	case had:
		end.State, end.Reason, end.Message = core.Lost, core.ReasonGone, "the server's process ended while it started the command: the "+
			"command may have started, and is not restarted automatically"
		return c.close(ctx, end)
	case !is.KillAt.IsZero():
		end.State, end.Reason, end.Killed, end.Message = core.Killed, core.ReasonPerson, true, "killed before the start"
		return c.close(ctx, end)
	case !it.Until.IsZero() && time.Now().After(it.Until):
		end.State, end.Reason = core.Skipped, core.ReasonDeadline
		end.Message = fmt.Sprintf("the deadline %s passed while the command waited: concurrent commands are limited to %d (--commands-most)",
			it.Until.Format(time.RFC3339), c.o.Most)
		return c.close(ctx, end)
	case bad != nil:
		end.Message = "the stored run cannot be read: " + bad.Error()
		return c.close(ctx, end)
	}
	if err := c.o.Allowed.Check(&it.Command); err != nil {
		return c.close(ctx, finish.Result{Run: id, State: core.Failed, Reason: core.ReasonNotAccepted, Message: err.Error()})
	}
	c.mu.Lock()
	c.specs[id] = it
	c.mu.Unlock()
	sub, err := c.e.Submit(context.Background(), it.Order)
	begun()
	switch {
	case errors.Is(err, executor.ErrBusy):
		if c.taking.Err() == nil {
			c.o.Log.Error("command not started, waiting", "run", id, "job", id.Job(), "err", err)
		}
		return false
	case errors.Is(err, executor.ErrOpen), errors.Is(err, executor.ErrReported):
		return true // its end is stored, or about to be
	case err != nil:
		return c.close(ctx, finish.Result{Run: id, State: core.Failed, Reason: core.ReasonNotAccepted, Message: err.Error()})
	}
	c.mu.Lock()
	if l.sub = sub; l.kill {
		sub.Kill()
	}
	c.mu.Unlock()
	select {
	case <-sub.Reported():
	case <-c.stopped:
	}
	return true
}

// close stores the end of a run that did not begin; false: it is not certain.
func (c *Commands) close(ctx context.Context, r finish.Result) bool {
	r.Reported = true
	if err := c.o.Finish.End(ctx, []finish.Result{r})[0]; err != nil && core.CodeOf(err) != core.CodeNotFound {
		c.o.Log.Warn("result of a command not stored: retrying", "run", r.Run, "job", r.Run.Job(), "err", err)
		return false
	}
	return true
}

// AtWork returns the number of commands that are running or about to start.
func (c *Commands) AtWork() int { return len(c.slots) }

// spec returns the command of a run; false if another process took the run.
func (c *Commands) spec(run int64) (core.Command, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it, is := c.specs[core.RunID(run)]
	return it.Command, is
}
