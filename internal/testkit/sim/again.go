package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/people"
)

// Users rerun runs that have ended. The checks here see only the outside: the runs that each
// command made, judged by the first run and by the executors' arrivals.

// again is one rerun command; repeating it with the same key means the same command.
type again struct {
	of    core.RunID
	job   string // its job, app/name
	asks  operate.RerunRequest
	by    map[string]bool // users who gave it
	given int             // how often
}

// keysAgain is the number of keys of all commands, triggers included.
const keysAgain = 40

// rerun gives a new or an earlier command. With a key, some give it twice at a time, and all repeat it until it is answered.
func (w *World) rerun(d *dice, p *process, me core.Actor) {
	var c *again
	w.mu.Lock()
	if n := len(w.repeats); n > 0 && d.n(4) == 0 {
		if c = w.repeats[d.n(n)]; c.asks.Key == "" {
			c = nil
		}
	}
	w.mu.Unlock()
	if c == nil {
		if c = w.newRerun(d, me); c == nil {
			return
		}
	}
	tries, atOnce := 1, 1
	if c.asks.Key != "" {
		tries, atOnce = 3, 1+d.n(2)
	}
	for range tries {
		var all sync.WaitGroup
		answered := make([]bool, atOnce)
		for i := range atOnce {
			all.Go(func() { answered[i] = w.giveAgain(p, me, c) })
		}
		all.Wait()
		if !slices.Contains(answered, false) {
			return
		}
	}
}

// newRerun is a command to run again something that ended: a broadcast, a shard, a run that is one again itself, or any.
func (w *World) newRerun(d *dice, me core.Actor) *again {
	t := w.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.over) == 0 {
		return nil
	}
	const looked = 300
	from, kind := d.n(len(t.over)), d.n(5)
	var of core.Run
	for i := range min(looked, len(t.over)) {
		r, _ := t.run(t.over[(from+i)%len(t.over)])
		if kind > 2 || kind == 0 && r.IsBroadcast() || kind == 1 && r.Shard.Of != 0 || kind == 2 && r.RerunOf != 0 {
			of = r
			break
		}
	}
	if a, is := w.lastAsked(d, 3); is && d.n(4) == 0 { // it may be open
		of, _ = t.run(a.run)
	}
	revs := t.jobs[of.ID.Job()]
	if of.ID == 0 || len(revs) == 0 {
		return nil
	}
	def := &revs[len(revs)-1].def
	c := &again{of: of.ID, job: def.App + "/" + def.Name, by: map[string]bool{}, asks: operate.RerunRequest{Run: of.ID.String()}}
	if d.n(2) == 0 {
		c.asks.Cause = core.CauseAPI
	}
	if d.n(4) > 0 {
		c.asks.Key = fmt.Sprintf("key-%d", d.n(keysAgain))
	}
	if d.n(4) == 0 {
		params := strings.Repeat(fmt.Sprint("r", d.n(1000)), 1+d.n(200))
		if def.Overlap.Key != "" {
			params = d.tenant()
		}
		c.asks.Params = &params
	}
	if d.n(6) == 0 {
		n := d.n(3)
		c.asks.Retries = &n
	}
	switch d.n(6) {
	case 0:
		c.asks.SameAddress = true
	case 1:
		for _, a := range apps {
			if a.name == def.App {
				c.asks.Addresses = slices.Clone(a.addresses[d.n(len(a.addresses)):])
			}
		}
	}
	w.mu.Lock()
	w.repeats = append(w.repeats, c)
	w.mu.Unlock()
	return c
}

// giveAgain gives a command once; false if it should be repeated.
func (w *World) giveAgain(p *process, me core.Actor, c *again) (done bool) {
	w.mu.Lock()
	c.given++
	c.by[me.Name] = true
	w.mu.Unlock()
	var over bool // guarded by mu
	w.ask(p, func(ctx context.Context, m *people.People) {
		res, err := m.Rerun(ctx, me, c.asks)
		if p.living() == nil || errors.Is(ctx.Err(), context.Canceled) {
			return // the process died, and some of its parallel work ended there
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		switch code := core.CodeOf(err); {
		case err == nil:
			over = true
			x := &res.Runs[0]
			w.counts["run again"]++
			if x.Existing {
				w.counts["run again: the key has its run"]++
			}
			params := ""
			if c.asks.Params != nil {
				params = *c.asks.Params
			}
			w.answers = append(w.answers, answer{c, x.As.ID})
			w.asked = append(w.asked, asked{x.As.ID, c.asks.Key, c.job, params})
		case code == core.CodeRefused || code == core.CodeConflict || code == core.CodeNotFound:
			over = true
			w.counts["run again: "+string(code)]++
		}
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	return over
}

// answer is the run that a user got as the answer.
type answer struct {
	to  *again
	run core.RunID
}

// toldAgain asserts that each answered run is the run that the command asked for. Callers hold mu of the truth.
func (w *World) toldAgain() {
	for _, a := range w.answers {
		if r, ok := w.truth.run(a.run); !ok || r.RerunOf != a.to.of || r.Key != a.to.asks.Key {
			w.truth.fail(a.to.of, "who ran %d again with the key %q got run %d: it exists %v, %+v", a.to.of, a.to.asks.Key, a.run, ok, r)
		}
	}
}

// ranAgain asserts that each rerun is the one that was asked for, once. Callers hold mu of the truth.
func (w *World) ranAgain(byID map[core.RunID]*core.Run, all []core.Run) {
	t := w.truth
	keys := map[string]core.RunID{}
	made := map[*again]int{}
	for i := range all {
		r := &all[i]
		if r.Key != "" {
			if other := keys[r.Key]; other != 0 {
				t.fail(r.ID, "run %d and run %d have the key %s of one job", other, r.ID, r.Key)
			}
			keys[r.Key] = r.ID
		}
		if r.RerunOf == 0 {
			continue
		}
		w.count("runs again", 1)
		i := slices.IndexFunc(w.repeats, func(c *again) bool { return c.of == r.RerunOf && c.asks.Key == r.Key && c.makes(r) })
		if i < 0 {
			t.fail(r.ID, "run %d runs %d again with the key %q, without a request for that: %+v", r.ID, r.RerunOf, r.Key, *r)
			continue
		}
		if c := w.repeats[i]; c.asks.Key == "" {
			made[c]++
		}
		if of := byID[r.RerunOf]; of == nil {
			t.fail(r.ID, "run %d runs %d again, which is not there", r.ID, r.RerunOf)
		} else {
			w.isAgain(r, of, w.repeats[i])
		}
	}
	for c, n := range made { // the runs of equal commands are counted with it
		given := 0
		for _, o := range w.repeats {
			if o.of == c.of && o.asks.Key == "" {
				given += o.given
			}
		}
		if n > given {
			t.fail(c.of, "run %d was run again %d times, and that was asked for %d times", c.of, n, given)
		}
	}
}

// makes reports whether a command may have made a run, by fields that no edit changes.
func (c *again) makes(r *core.Run) bool {
	cause := c.asks.Cause
	if cause == "" {
		cause = core.CauseManual
	}
	return r.Cause == cause && c.by[r.By]
}

// isAgain asserts that a run is another again. Callers hold mu of the truth.
func (w *World) isAgain(r, of *core.Run, c *again) {
	t := w.truth
	st, was := t.story(r.ID), t.story(of.ID)
	shard := core.Shard{}
	if !of.IsBroadcast() {
		shard = core.Shard{Index: of.Shard.Index, Total: of.Shard.Total}
	}
	switch {
	case of.State.Open() || of.Then != 0 || st.made.Before(was.closed):
		t.fail(r.ID, "run %d runs %d again, which is %s and followed by %d, and ended %s later", r.ID, of.ID, of.State, of.Then,
			was.closed.Sub(st.made))
	case r.At != of.At || r.Attempt != 1 || r.First != r.ID:
		t.fail(r.ID, "run %d of instant %s, attempt %d, runs %d of instant %s again", r.ID, r.At, r.Attempt, of.ID, of.At)
	case !r.IsBroadcast() && r.Shard != shard:
		t.fail(r.ID, "run %d, which runs %d again, is of shard %+v, and that is of %+v", r.ID, of.ID, r.Shard, of.Shard)
	case r.IsBroadcast() && shard.Total != 0:
		t.fail(r.ID, "run %d, which runs the shard %d again, is a broadcast", r.ID, of.ID)
	}
	switch {
	case of.IsBroadcast():
		w.count("a broadcast again", 1)
	case of.Shard.Total > 0:
		w.count("a shard again", 1)
	}
	if len(w.changes[r.ID]) > 0 {
		return // it has other params by now
	}
	if r.IsBroadcast() && of.IsBroadcast() && c.asks.SameAddress && w.alone(c) && !slices.Equal(r.Addresses, of.Addresses) {
		t.fail(r.ID, "broadcast %d, which runs %d again, goes to %v, and had to go to %v", r.ID, of.ID, r.Addresses, of.Addresses)
	}
	if got := t.gotAll(r); len(got) > 0 {
		w.hadThose(r, of, c, got)
	}
	for _, a := range st.arrivals {
		if (c.asks.SameAddress && a.address != of.Address || len(c.asks.Addresses) > 0 && !slices.Contains(c.asks.Addresses, a.address)) &&
			w.alone(c) {
			t.fail(r.ID, "run %d, which runs %d again, arrived at %s: asked for were %v, the same %v, which is %s", r.ID, of.ID, a.address,
				c.asks.Addresses, c.asks.SameAddress, of.Address)
		}
	}
}

// gotAll are the params that a run arrived with, or the shards of a broadcast, in which it is called ID. Callers hold mu.
func (t *truth) gotAll(r *core.Run) (list []string) {
	ids := []core.RunID{r.ID}
	for i := range r.Shard.Total {
		if r.IsBroadcast() {
			ids = append(ids, r.Shard.IDOf(i))
		}
	}
	for _, id := range ids {
		if st := t.stories[id]; st != nil {
			for _, a := range st.arrivals {
				list = append(list, strings.ReplaceAll(a.got, id.String(), "ID"))
			}
		}
	}
	return list
}

// alone reports whether no other command equals this one, except in fields that a user may change.
func (w *World) alone(c *again) bool {
	return !slices.ContainsFunc(w.repeats, func(o *again) bool { return o != c && o.of == c.of && o.asks.Key == c.asks.Key })
}

// hadThose asserts that a rerun was sent with the requested params, or with the params of the
// first run. Callers hold mu of the truth.
func (w *World) hadThose(r, of *core.Run, c *again, got []string) {
	if !w.alone(c) {
		return
	}
	t := w.truth
	var those []string
	switch {
	case c.asks.Params != nil:
		those = append(those, *c.asks.Params)
	case of.Params != nil:
		those = append(those, *of.Params)
	default:
		those = t.gotAll(of)
		when := of.SentAt
		if when.IsZero() {
			when = of.EndedAt
		}
		// A change between the reading of the job and the claim may count for it; an unsent run
		// goes by the revision under which it was made.
		revs := t.jobs[of.ID.Job()]
		for i := range revs {
			if of.SentAt.IsZero() && revs[i].rev == of.Rev && !revs[i].def.Template {
				those = append(those, revs[i].def.Params)
			}
			from, to := revs[i].revAt.Add(-w.slack()), time.Now()
			if i+1 < len(revs) {
				to = revs[i+1].revAt.Add(w.deployed.invocation + w.slack())
			}
			if revs[i].def.Template {
				if len(those) == 0 {
					return // it was never filled
				}
			} else if !from.After(when) && !to.Before(when) {
				those = append(those, revs[i].def.Params)
			}
		}
	}
	w.count("run again with its params", 1)
	for _, text := range got {
		if !slices.Contains(those, text) {
			t.fail(r.ID, "run %d, which runs %d again, was sent with %.80q, and had to be with one of %.200q", r.ID, of.ID, text, those)
		}
	}
}
