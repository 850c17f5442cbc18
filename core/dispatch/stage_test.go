package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/dispatch"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/internal/testkit/fixture"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/memory"
	"github.com/tickring/tickring/internal/testkit/story"
	"github.com/tickring/tickring/store"
)

// stage is a dispatcher, another one over the same store, and a watchdog, with executors whose answers the story sets.
type stage struct {
	*story.Data
	s        *data
	d, other *dispatch.Dispatcher
	w        *finish.Watchdog
	nonces   atomic.Int64

	mu      sync.Mutex
	answers []answer
	sent    []core.RunID        // accepted, in the order of their sends
	running map[core.RunID]bool // accepted, without an end
	most    int                 // at once
	kills   int                 // kill requests
	deaf    bool                // executors take no kill
	probes  map[string]string   // how addresses answer probes: silent, unasked, busy, idle, or free until their first run
	begun   sync.WaitGroup      // steps that run beside the story
	down    bool                // no journal is stored
	mute    string              // the post-run queue and checks accept nothing, or do not answer: refuses, silent
	source  string              // the next read of a source fails, or finds none: throttled, cut, absent
}

// answer is the answer to sends of a job and to an address; zero: of all jobs, to all addresses.
type answer struct {
	Job     core.JobID
	Address string
	dispatch.Answer
}

func newStage(t *testing.T) *story.Stage { return stageOf(t).Stage }

// bubble runs a test of a stage in a bubble of testing/synctest.
func bubble(t *testing.T, test func(st *stage)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(story.Begin)) // fake time
		test(stageOf(t))
	})
}

func stageOf(t *testing.T) *stage {
	st := &stage{s: newData(t, plan.AWS(), memory.Options{}), running: map[core.RunID]bool{}, probes: map[string]string{}}
	st.Data = story.NewData(&story.Stage{T: t, Now: time.Now, Sleep: time.Sleep}, st.s.Store, "a")
	o := st.options()
	st.s.say = st.Say
	st.s.faulty = hook.Over(st.s.faulty, st.tell)
	st.s.f = st.s.finish()
	st.d = st.s.dispatcher(st, o)
	o.Now = time.Now
	st.other = dispatch.New(st.s.Store.Store, st, st.s.f, o)
	st.w = finish.NewWatchdog(st.s.f, st, finish.WatchOptions{})
	st.Add(map[string]func(string){"trigger": st.triggers, "run": st.runs, "closes": st.closes, "answers": st.answer, "retime": st.retimes,
		"before": st.before, "unreadable": st.unreadable, "down": func(string) { st.down = true }, "journals": st.journals,
		"up": func(string) { st.down = false }, "purge": st.purge, "kills": st.userKills, "lost": st.lost, "cut": st.cut,
		"mute": func(how string) { st.mute = how }, "deaf": func(string) { st.deaf = true }, "hears": func(string) { st.deaf = false },
		"slots": st.slots, "killed": st.killed, "probe": st.probe, "slow": st.slow, "evicted": st.evicted,
		"script": st.script, "source": func(how string) { st.source = how }, "span": st.spans, "fails": st.fails, "long": st.long})
	st.Do = map[string]func(string){"fire": func(args string) { st.fire(st.d, args) },
		"elsewhere": func(args string) { st.fire(st.other, args) }, "come": st.comes, "end": st.ends, "checks": st.checks,
		"bury": st.buries, "skips": st.skips, "mend": st.mends, "begin": st.begins,
		"finish": func(string) { st.begun.Wait() }}
	see := st.See
	st.See = func() map[string][]string {
		all := see()
		for _, fields := range all {
			for i := range fields {
				fields[i] = owners.ReplaceAllString(fields[i], "owner=n")
			}
		}
		if st.mu.Lock(); len(st.running) > 0 {
			all["running"] = []string{fmt.Sprint("runs=", len(st.running))}
		}
		st.mu.Unlock()
		return all
	}
	st.Step("app executors=http://10.0.0.1:1")
	return st
}

func (st *stage) options() dispatch.Options {
	return dispatch.Options{SendsMin: 1, SendsMax: 1, Nonce: func() string { return fmt.Sprint("n", st.nonces.Add(1)) }}
}

// owners matches the owner of a run, whose number depends on random times.
var owners = regexp.MustCompile(`^owner=n\d+`)

// tell reports the messages and journals that a dispatcher stored.
func (st *stage) tell(ctx context.Context, c *hook.Call, next func() []error) []error {
	for _, group := range c.Write {
		w := &group.Writes[0]
		if !strings.HasPrefix(w.Kind, "journal#") {
			continue
		}
		j, err := store.DecodeJournal(&w.Record)
		must(st.T, err)
		slices.SortFunc(j.Entries, func(a, b core.Entry) int { return int(a.Run - b.Run) })
		if st.s.faulty.ByJournal {
			st.Say("journal %s", strings.Join(story.Fields(j), " "))
		}
		if st.down {
			return hook.Fail(errors.New("no answer"), len(c.Write))
		}
	}
	if len(c.Get) > 0 && strings.HasPrefix(c.Get[0].Kind, "script#") {
		return st.readSource(next)
	}
	muted := len(c.Out) > 0 && c.Out[0].Message.Kind == ring.KindPostRun || len(c.Write) > 0 && c.Write[0].Writes[0].Kind == "look"
	if st.mute != "" && muted {
		if st.mute == "silent" {
			<-ctx.Done()
		}
		return hook.Fail(core.ErrThrottled, max(len(c.Out), len(c.Write)))
	}
	errs := next()
	for i, o := range c.Out {
		if errs[i] == nil {
			st.Say("%s", story.Enqueued(o))
		}
	}
	if c.Bury != "" {
		st.Say("dead letter: %s", c.Bury)
	}
	return errs
}

// readSource reads a source, which takes a while.
func (st *stage) readSource(next func() []error) []error {
	st.Say("a source is read")
	time.Sleep(10 * time.Millisecond) // fake time
	st.mu.Lock()
	how := st.source
	st.source = ""
	st.mu.Unlock()
	if how == "" {
		return next()
	}
	return []error{map[string]error{"throttled": core.ErrThrottled, "cut": errors.New("cut")}[how]}
}

// ---- the executors

func (st *stage) Beat(ctx context.Context, _ *core.App, address string) error {
	st.Say("asked %s", address)
	st.mu.Lock()
	how := st.probes[address]
	st.mu.Unlock()
	switch how {
	case "silent":
		select {
		case <-time.After(3100 * time.Millisecond): // fake time: longer than a batch asks
		case <-ctx.Done():
		}
		return errors.New("no answer")
	case "unasked":
		return core.Errorf(core.CodeUnavailable, "not asked: too many open files")
	case "idle":
		time.Sleep(time.Millisecond) // all addresses that are asked at once are asked before the first answers
	}
	return nil
}

func (st *stage) Idle(ctx context.Context, app *core.App, address string, _ core.JobID) (bool, error) {
	st.mu.Lock()
	how, idle := st.probes[address], len(st.running) == 0
	st.mu.Unlock()
	if how == "" {
		return idle, nil
	}
	err := st.Beat(ctx, app, address)
	return err == nil && how != "busy", err
}

func (st *stage) Kill(_ context.Context, _ *core.App, _ string, job core.JobID) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.kills++; st.deaf {
		return errors.New("not now")
	}
	st.Say("kill of job %d", job)
	maps.DeleteFunc(st.running, func(id core.RunID, _ bool) bool { return id.Job() == job })
	return nil
}

func (st *stage) Limit(context.Context, string) (time.Duration, error) { return time.Minute, nil }

func (st *stage) Send(ctx context.Context, r dispatch.SendRequest) dispatch.Answer {
	a := dispatch.Answer{Kind: dispatch.AnswerAccepted}
	st.mu.Lock()
	for _, x := range st.answers { // the last one that matches
		if (x.Job == 0 || x.Job == r.Run.ID.Job()) && (x.Address == "" || x.Address == r.Address) {
			a = x.Answer
		}
	}
	if a.Kind == dispatch.AnswerAccepted {
		st.sent, st.running[r.Run.ID] = append(st.sent, r.Run.ID), true
		st.most = max(st.most, len(st.running))
		if st.probes[r.Address] == "free" {
			st.probes[r.Address] = "busy"
		}
	}
	line := fmt.Sprintf("sent %s to %s: %s", story.Name(r.Run.ID), r.Address, a.Kind)
	st.mu.Unlock()
	for _, part := range []string{"params " + r.Params, "handler " + r.Job.Def.Handler, "dialect " + r.Dialect} {
		if !strings.HasSuffix(part, " ") && part != "handler h" {
			line += ", " + part
		}
	}
	if s := r.Job.Def.Script; s != nil {
		line += fmt.Sprintf(", source %s of version %d", r.Source, s.Version)
	}
	st.Say("%s", line)
	select {
	case <-time.After(a.Took): // fake time
		return a
	case <-ctx.Done():
		return dispatch.Answer{Kind: dispatch.AnswerUnconfirmed}
	}
}

// answer sets the answer to sends: "busy job=7 message=full".
func (st *stage) answer(args string) {
	kind, rest, _ := strings.Cut(args, " ")
	var x answer
	for x.Kind = dispatch.AnswerUnconfirmed; x.Kind.String() != kind; x.Kind++ {
	}
	st.Set(rest, &x, &x.Answer)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.answers = append(st.answers, x)
}

// ---- verbs that prepare a story

// triggers stores a trigger that is due now, with an entry of the due index.
func (st *stage) triggers(args string) {
	name, rest, _ := strings.Cut(args, " ")
	id := st.Run(name)
	st.Jobs[id.Job()] = true
	r := fixture.Trigger("a", id, core.InstantOf(time.Now()))
	j := st.s.JobOf(id.Job())
	r.Follow(&j.Def)
	st.Set(rest, &r)
	st.s.trigger(r)
}

// runs stores a run of another process.
func (st *stage) runs(args string) {
	name, rest, _ := strings.Cut(args, " ")
	r := core.Run{ID: st.Run(name), App: "a", State: core.Running, Cause: core.CauseSchedule, Rev: 1, Attempt: 1, First: st.Run(name)}
	r.At, _ = r.ID.Planned()
	r.Slot = r.At
	st.Jobs[r.ID.Job()] = true
	st.Set(rest, &r)
	st.s.Create(r)
}

// closes ends a run without its follow-ups: "7@1s skipped".
func (st *stage) closes(args string) {
	words := strings.SplitN(args, " ", 3)
	to := core.Run{EndedAt: time.Now()}
	to.State, to.Reason = result(words[1])
	if len(words) > 2 {
		st.Set(words[2], &to)
	}
	id := st.Run(words[0])
	must(st.T, st.s.Change(core.End(id, to)))
	st.ended(id)
}

func result(word string) (core.State, core.Reason) {
	state, reason, _ := strings.Cut(word, ":")
	return core.State(state), core.Reason(reason)
}

func (st *stage) ended(id core.RunID) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.running, id)
}

// retimes changes a trigger as a user does.
func (st *stage) retimes(args string) {
	name, rest, _ := strings.Cut(args, " ")
	r := st.s.Store.Run(st.Run(name))
	next := r
	st.Set(rest, &next)
	must(st.T, st.s.retime(r.Retime(next, time.Now()), next.Slot))
}

// before plays steps once, before a dispatcher reads slots of limits, or before it changes a run.
func (st *stage) before(args string) {
	what, steps, _ := strings.Cut(args, " ")
	if what == "put" {
		st.s.put = func(*core.RunPut) error {
			st.s.put = nil
			st.Steps(steps)
			return nil
		}
		return
	}
	st.s.read = func(_ context.Context, k store.Key) error {
		if strings.HasPrefix(k.Kind, "permit#") {
			st.s.read = nil
			st.Steps(steps)
		}
		return nil
	}
}

// evicted plays a step once a chain has lost its slot of a limit, before slots of another one are read: "job/7 7@1s STEP".
func (st *stage) evicted(args string) {
	words := strings.SplitN(args, " ", 3)
	st.s.read = func(_ context.Context, k store.Key) error {
		p := st.s.PermitsOf(words[0])
		if strings.HasPrefix(k.Kind, "permit#") && k.Kind != "permit#"+words[0] && !p.Holds(st.Run(words[1])) {
			st.s.read = nil
			st.Step(words[2])
		}
		return nil
	}
}

// probe sets how addresses answer probes: "silent http://a:1 http://b:1".
func (st *stage) probe(args string) {
	how, addresses, _ := strings.Cut(args, " ")
	st.mu.Lock()
	defer st.mu.Unlock()
	for address := range strings.FieldsSeq(addresses) {
		st.probes[address] = how
	}
}

// slow makes the dispatcher use a slow queue.
func (st *stage) slow(string) {
	o := st.options()
	o.SlowQueue = true
	st.d = st.s.dispatcher(st, o)
}

// slots stores the slots of the limit of a run: "7#1 holders=7#2".
func (st *stage) slots(args string) {
	name, rest, _ := strings.Cut(args, " ")
	st.Step("permits " + st.s.Store.Run(st.Run(name)).Permit + " " + rest)
}

// killed reports whether the number of kill requests, which have random delays, is not between two numbers: "10 80".
func (st *stage) killed(args string) {
	var want struct{ Least, Most int }
	least, most, _ := strings.Cut(args, " ")
	if st.Set("least="+least+" most="+most, &want); st.kills < want.Least || st.kills > want.Most {
		st.T.Errorf("%d kill requests, want %s to %s", st.kills, least, most)
	}
}

// script gives a job another version of its script: "7 SOURCE".
func (st *stage) script(args string) {
	id, source := st.ID(args)
	must(st.T, st.s.PutSource(st.T.Context(), id, source, time.Now()))
	st.s.Edit(id, func(j *core.Job) {
		j.Sched.Rev++
		j.Def.Handler, j.Def.Script = "", core.ScriptOf(core.ScriptShell, "", source)
		j.Def.Script.Version, j.Def.Script.Rev = int(j.Sched.Rev-1), j.Sched.Rev
	})
}

// long makes a job whose params become too long when they are filled.
func (st *stage) long(id string) {
	st.Step("job " + id + " template params=" + strings.Repeat("x", core.MaxParams-5) + "{{scheduledAt}}")
}

// fails stores failed runs of a job, one each second: "7 120".
func (st *stage) fails(args string) {
	job, times, _ := strings.Cut(args, " ")
	n, err := strconv.Atoi(times)
	must(st.T, err)
	for range n {
		time.Sleep(time.Second) // fake time
		st.runs(job + "@now state=failed reason=handler endedat=now")
	}
}

// spans lets reads of spans of runs fail, after all of their time or at once: silent, damaged.
func (st *stage) spans(how string) {
	st.s.span = func(ctx context.Context) error {
		if how == "silent" {
			<-ctx.Done()
			return ctx.Err()
		}
		return errors.New("a damaged run")
	}
}

// unreadable makes a run unreadable for the dispatcher.
func (st *stage) unreadable(args string) {
	var bad []core.RunID
	for name := range strings.FieldsSeq(args) {
		bad = append(bad, st.Run(name))
	}
	st.s.runsRead = func(got map[core.RunID]store.Got[*core.Run]) {
		for _, id := range bad {
			got[id] = store.Got[*core.Run]{Err: errors.New("no JSON")}
		}
	}
}

// cut lets writes of a run fail that do not end it, or none.
func (st *stage) cut(name string) {
	st.s.put = nil
	if name != "none" {
		id := st.Run(name)
		st.s.put = func(p *core.RunPut) error {
			if p.ID == id && !p.Ends() {
				return errors.New("cut")
			}
			return nil
		}
	}
}

func (st *stage) userKills(args string) {
	r := st.s.Store.Run(st.Run(args))
	must(st.T, st.s.Change(r.Kill("ann", time.Now())))
}

// lost loses the answers to new records, as if a client stored them, got no answer, and tried again, or to ends of runs.
func (st *stage) lost(what string) {
	st.s.answer = func(p *store.RunPut, err error) error {
		switch {
		case what == "records" && p.Create != nil:
			return core.ErrRefused
		case what == "ends" && p.Change != nil && p.Change.Ends():
			return errors.New("connection reset")
		}
		return err
	}
}

// journals makes lists use journals.
func (st *stage) journals(string) { st.s.faulty.ByJournal = true }

// purge removes all messages from the delay queue, in a minute.
func (st *stage) purge(string) {
	end := time.Now().Add(time.Minute)
	defer func() { time.Sleep(time.Until(end)) }()
	for st.s.Messages(ring.KindFires) > 0 {
		st.s.Ack(st.s.Receive(ring.KindFires, 10)...)
	}
}

// ---- verbs that do something

// fire dispatches runs, each message after a plus: "7@1s 7@2s try=1 + 7@3s". Fields with a value are of the message or of its
// runs.
func (st *stage) fire(d *dispatch.Dispatcher, args string) {
	var list []ring.Message
	for text := range strings.SplitSeq(args, " + ") {
		m := ring.Message{Kind: ring.KindFires}
		var set []string
		for word := range strings.FieldsSeq(text) {
			if strings.Contains(word, "=") {
				set = append(set, word)
			} else {
				m.Fires = append(m.Fires, st.one(st.Run(word)))
			}
		}
		m.Slot = m.Fires[0].Slot
		for i := range m.Fires {
			f := m.Fires[i]
			for _, word := range set {
				st.Set(word, &f, &m)
			}
			m.Fires[i] = f
		}
		m.Slot = m.Fires[0].Slot
		list = append(list, m)
	}
	st.handle(d, list)
}

// one returns the fire of a run: of its record, its scheduled time, its broadcast, or a trigger that is due now.
func (st *stage) one(id core.RunID) core.Fire {
	st.Jobs[id.Job()] = true
	if r := st.s.Store.Run(id); r.ID != 0 {
		return r.Fire()
	}
	at, is := id.Planned()
	if !is {
		for r, err := range st.s.NewestRuns(st.T.Context(), core.RunRanges(id.Job())[0], 100) {
			must(st.T, err)
			for _, f := range r.ShardFires() {
				if f.Run == id {
					return f
				}
			}
		}
		now := core.InstantOf(time.Now())
		return core.Fire{Run: id, Rev: 1, At: now, Slot: now, Cause: core.CauseAPI}
	}
	f := planned(id.Job(), at)
	f.Rev = max(st.s.JobOf(id.Job()).Sched.Rev, 1)
	return f
}

func (st *stage) handle(d *dispatch.Dispatcher, list []ring.Message) []dispatch.Verdict {
	began := time.Now()
	verdicts := d.Handle(st.T.Context(), list)
	if took := time.Since(began); took > 0 {
		st.Say("took %s", took)
	}
	for _, v := range verdicts {
		if !v.Ack {
			st.Say("not acked: %v", v.Err)
		}
	}
	return verdicts
}

// comes dispatches all messages that are due, except the messages of a run: "without 7@1s".
func (st *stage) comes(args string) {
	var lost core.RunID
	if name, is := strings.CutPrefix(args, "without "); is {
		lost = st.Run(name)
	}
	for due, _ := st.s.Depth(ring.KindFires); due > 0; due, _ = st.s.Depth(ring.KindFires) {
		for _, x := range st.s.Receive(ring.KindFires, 10) {
			if m := x.Message; m.Fires[0].Run == lost || st.handle(st.d, []ring.Message{m})[0].Ack {
				st.s.Ack(x)
			}
		}
	}
}

// checks delivers messages and checks until none is due.
func (st *stage) checks(string) {
	for st.comes(""); ; st.comes("") {
		got := st.s.Due(ring.KindCheck)
		if got == nil {
			return
		}
		must(st.T, st.w.Check(st.T.Context(), got[0].Message.Check))
		st.s.Ack(got...)
	}
}

// ends ends a run as its executor reports: "7@1s failed:handler".
func (st *stage) ends(args string) {
	words := strings.SplitN(args, " ", 3)
	r := finish.Result{Run: st.Run(words[0]), Reported: true}
	r.State, r.Reason = result(words[1])
	if len(words) > 2 {
		st.Set(words[2], &r)
	}
	st.ended(r.Run)
	if err := st.s.f.End(st.T.Context(), []finish.Result{r})[0]; err != nil {
		st.Say("end of %s: %s: %v", words[0], core.CodeOf(err), err)
	}
}

// buries records the dead letter of a message with runs.
func (st *stage) buries(args string) {
	m := ring.Message{Kind: ring.KindFires}
	for _, id := range st.Runs(args) {
		m.Fires = append(m.Fires, st.one(id))
	}
	m.Slot = m.Fires[0].Slot
	n, err := st.s.dead().Record(st.T.Context(), &core.Letter{ID: "1", Body: string(ring.Encode(m)), Reason: "received too often"})
	if st.Say("recorded: %d", n); err != nil {
		st.Say("then: %v", err)
	}
}

// skips skips shards of a broadcast as a user does: the broadcast as read, and the numbers of its shards.
func (st *stage) skips(args string) {
	ids := st.Runs(args)
	whole := st.s.Store.Run(ids[0])
	must(st.T, st.s.f.SkipShards(st.T.Context(), &whole, ids[1:], "cancelled"))
}

// begins plays a step beside the story, as far as it goes without time. The verb finish waits for its end.
func (st *stage) begins(step string) {
	st.begun.Go(func() { st.Step(step) })
	synctest.Wait()
}

func (st *stage) mends(args string) {
	run := st.s.Store.Run(st.Run(args))
	if err := st.s.f.Mend(st.T.Context(), &run); err != nil {
		st.Say("mend: %v", err)
	}
}
