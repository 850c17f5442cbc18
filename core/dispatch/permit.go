package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// permitsAtOnce is how many items of permits a batch reads and writes side by side.
const permitsAtOnce = 16

// permitWait is how far away the last look is of what waits for a permit without a deadline.
const permitWait = 366 * 24 * time.Hour

var errNoPermit = errors.New("as many are at work as its limit allows")

// permitAsk is a write that claims a run which a limit counts.
type permitAsk struct {
	it     *item
	run    *core.Run
	create *core.Run    // nil: it is a put
	put    *core.RunPut // nil: it is a create
	name   string       // of the limit that it asks
	names  []string     // of those that it is still to ask
	answer core.PermitAnswer
	from   core.Instant // of PermitLater
	beside bool         // its last answer: the line of its app is full, and it comes again beside it
	ends   core.RunID   // the first run of the chain at work in whose place it goes; 0: none
	err    error
	// As its last answer found them: how many are at work, and how many wait.
	held, waiting int
}

// overlap is the limit as its job or app has it now; false: they have another.
func (a *permitAsk) overlap(name string) (core.Overlap, bool) {
	if core.IsPermitOfApp(name) {
		if a.it.app == nil {
			return core.Overlap{}, false
		}
		return a.it.app.Limits.Overlap(), a.it.app.Limits.Counts(a.it.app.Name, name)
	}
	o := a.it.job.Overlap(a.it.app)
	return o, o.Counts(a.it.job.Def.ID, name)
}

// replaces reports whether a run that waits goes in the place of another.
func (a *permitAsk) replaces() bool {
	o, is := a.overlap(a.name)
	return a.put != nil && !a.put.To.MaybeSent && o.Full == core.FullReplace && is
}

// limited takes the fires out that a limit counts, by limit: it may take a while to ask for
// it, which is no other fire's wait. Those of an app that has limits ask for these
// together: they would be in each other's way.
func (b *batch) limited() (groups map[string][]*item) {
	groups = map[string][]*item{}
	b.items = slices.DeleteFunc(b.items, func(it *item) bool {
		name := ""
		if it.phase == (undecided{}) {
			if names := core.PermitNames(it.permit()); len(names) > 0 {
				name = names[len(names)-1]
			}
		}
		if name != "" {
			groups[name] = append(groups[name], it)
		}
		return name != ""
	})
	return groups
}

// permit is the name of the limit that counts a fire, empty if none does: of one that was to
// be sent before what it was then, else what its job and app say now.
func (it *item) permit() string {
	switch r := it.run; {
	case r.Permit != "" || it.job == nil || it.of != nil || r.Cause == core.CauseRetry:
		return r.Permit
	case r.ID == 0:
		return it.job.Permit(it.app, &core.Run{At: it.fire.At})
	case r.State == core.Planned || r.State == core.Queued:
		return it.job.Permit(it.app, r)
	}
	return ""
}

// claimLimited takes such fires through all steps.
func (b *batch) claimLimited(ctx context.Context, items []*item, senders *sync.WaitGroup) {
	b.claim(ctx, items)
	waits, rest := takeWaiting(items)
	b.sendClaimed(ctx, rest, senders)
	for app, items := range waits {
		senders.Go(func() { b.waitThenSend(ctx, app, items, senders) })
	}
}

// permits asks for the claims among writes (section 9 of the protocol); those without a
// permit become records of what waits, or is skipped. One whose record is not stored yet
// does not enter the queue, where nothing but its message would say that it waits.
func (b *batch) permits(ctx context.Context, w *writes) {
	var asks []*permitAsk
	for i := range w.creates {
		if r := &w.creates[i]; r.Permit != "" && r.State == core.Running {
			asks = append(asks, &permitAsk{it: w.createOf[i], run: r, create: r, names: core.PermitNames(r.Permit)})
		}
	}
	for i := range w.puts {
		if p := &w.puts[i]; p.To.Permit != "" && p.Set&core.RunOwner != 0 {
			was := p.Was
			was.Permit = p.To.Permit
			asks = append(asks, &permitAsk{it: w.putOf[i], run: &was, put: p, names: core.PermitNames(was.Permit)})
		}
	}
	if len(asks) == 0 {
		return
	}
	for b.askNext(ctx, asks) {
	}
	for _, a := range asks {
		// Perhaps it asked for those behind this one before a person changed what counts it:
		// who waits for one permit is to have none behind it.
		if a.err == nil && a.answer == core.PermitWaits && a.put != nil && a.it.run.Permit == "" {
			a.err = b.d.finish.Leave(ctx, a.run.First, a.name, a.names...)
		}
	}
	drop := map[*item]bool{}
	for _, a := range asks {
		drop[a.it] = !b.answered(a)
	}
	w.drop(drop)
}

// askNext asks for the next permit of those that have all that they asked for yet; false:
// there is none.
func (b *batch) askNext(ctx context.Context, asks []*permitAsk) bool {
	byName := map[string][]*permitAsk{}
	for _, a := range asks {
		if len(a.names) > 0 && a.err == nil && a.answer == core.PermitGranted {
			a.name, a.names = a.names[0], a.names[1:]
			byName[a.name] = append(byName[a.name], a)
		}
	}
	var all sync.WaitGroup
	places := make(chan struct{}, permitsAtOnce)
	for name, list := range byName {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			b.ask(ctx, name, list)
			b.replace(ctx, name, list)
		})
	}
	all.Wait()
	return len(byName) > 0
}

// answered makes of a claim what its answer leads to; false: nothing is written now.
func (b *batch) answered(a *permitAsk) bool {
	if a.err != nil {
		a.it.phase = passing{why: a.err}
		return false
	}
	reason := core.ReasonOverlap
	switch a.answer {
	case core.PermitGranted:
		return true
	case core.PermitFull:
		reason = core.ReasonQueueFull
	case core.PermitWaits, core.PermitLater:
		switch {
		case a.create != nil: // once that is stored it is looked at, and enters the queue
			*a.create = b.recorded(a.it, b.now(), core.Queued)
			return true
		case a.put.To.MaybeSent: // another's: it stays his until it is taken
			a.it.phase = passing{why: errNoPermit}
			return false
		}
		until := b.now().Add(permitWait)
		// What is triggered by hand goes on after it, and is not to be looked at each second.
		if end := a.it.fire.Slot.Time().Add(a.it.job.Sched.Deadline); end.After(b.now()) {
			until = end
		}
		a.it.phase = passing{waits: until, at: a.from, why: errNoPermit}
		*a.put = b.listed(a.it.run.Wait()).Counted(a.run.Permit)
		return a.run.State != core.Queued
	}
	if a.it.reason = reason; a.create != nil {
		*a.create = b.recorded(a.it, b.now(), core.Skipped)
	} else {
		*a.put = b.listed(a.it.run.SkipUnsent(reason, b.now())).Told(a.it.tellsSkip()).Counted(a.run.Permit)
	}
	a.tell()
	return true
}

// tell has the end of a run that is skipped say why.
func (a *permitAsk) tell() {
	of, value := core.SplitPermit(a.name)
	if of == "job/"+a.it.job.Def.ID.String() {
		of = "job/" + a.it.job.Name()
	}
	if of = strings.Replace(of, "/", " ", 1); value != "" {
		of += " with its value"
	}
	are := "are"
	if a.held == 1 {
		are = "is"
	}
	text := fmt.Sprintf("%d of %s %s at work, the most that may be", a.held, of, are)
	switch {
	case a.answer == core.PermitFull:
		text = fmt.Sprintf("%d wait for %s, the most that may wait", a.waiting, of)
	case a.ends != 0:
		text = fmt.Sprintf("run %d, due later, goes in its place", a.ends)
	}
	if a.create != nil {
		a.create.Message = text
	} else {
		a.put.To.Message = text
	}
}

// ask asks for runs under one name.
func (b *batch) ask(ctx context.Context, name string, list []*permitAsk) {
	slices.SortFunc(list, func(x, y *permitAsk) int {
		return cmp.Or(cmp.Compare(x.run.Slot, y.run.Slot), cmp.Compare(x.run.First, y.run.First))
	})
	inHand := make([]core.RunID, len(list))
	for i, a := range list {
		inHand[i], a.it.asked = a.run.First, a.run.Permit
	}
	err := b.d.finish.PutPermits(ctx, name, inHand, func(p *core.Permits) (bool, error) {
		was := p.Clone()
		changed := b.askAllOf(p, list)
		// Nobody waits, or is skipped, for what is over. Of those that wait the first sees to
		// it; the others, also those beside a full line, see to that one.
		var late, sees bool
		for _, a := range list {
			if a.answer != core.PermitGranted && a.answer != core.PermitLater {
				later := slices.Index(was.Queue, a.run.First) > 0 || a.beside && len(was.Queue) > 0
				late, sees = late || later, sees || !later
			}
		}
		if late && !sees {
			first, err := b.d.finish.Over(ctx, &core.Permits{Name: name, Queue: was.Queue[:1]})
			if err != nil {
				return false, err
			}
			sees = first[was.Queue[0]]
		}
		if !sees {
			return changed, nil
		}
		over, err := b.d.finish.Over(ctx, &was)
		if err != nil {
			return false, err
		}
		if was.Release(func(first core.RunID) bool { return over[first] }) {
			b.askAllOf(&was, slices.DeleteFunc(slices.Clone(list), func(a *permitAsk) bool { // what is closed asks no more
				return a.put != nil && over[a.run.First]
			}))
			*p, changed = was, true
		}
		return changed, nil
	})
	for _, a := range list {
		a.err = err
	}
}

// replaceTries bounds how often a run asks again that has taken the place of one that waits.
const replaceTries = 3

// replace has those ended in whose place others go, of those that have asked: who waits
// at the head of the queue goes in the place of the one at work longest, and so on. Of
// those that wait there are as many as the limit, the newest.
func (b *batch) replace(ctx context.Context, name string, list []*permitAsk) {
	for try := 0; try < replaceTries; try++ {
		var full []*permitAsk
		for _, a := range list {
			if a.err == nil && a.answer == core.PermitFull && a.replaces() {
				full = append(full, a)
			}
		}
		if len(full) == 0 {
			break
		}
		for _, a := range full {
			later, err := b.d.finish.Supersede(ctx, name, a.ends, a.run)
			switch a.err = err; {
			case later:
				a.answer = core.PermitSkips
			case err == nil:
				b.ask(ctx, name, []*permitAsk{a})
			}
		}
	}
	for _, a := range list {
		switch {
		case a.err != nil || !a.replaces():
		case a.answer == core.PermitFull: // others are faster: its message comes again
			a.err = errNoPermit
		case a.answer == core.PermitWaits && a.ends != 0:
			later, err := b.d.finish.Replace(ctx, name, a.ends, a.run)
			if a.err = err; later {
				a.answer = core.PermitSkips
			}
		}
	}
}

// askAllOf asks for all that come together. Where the job of a run has another limit by
// now than that under which the run was made, the run goes by what that one was.
func (b *batch) askAllOf(p *core.Permits, list []*permitAsk) (changed bool) {
	for _, a := range list {
		o, is := a.overlap(p.Name)
		replaces := o.Full == core.FullReplace
		if !is {
			o = core.Overlap{Limit: max(p.Limit, 1), Max: core.MaxQueue}
		}
		asked := core.Asked{First: a.run.First, Until: b.claimed(a.it).Until, Limit: o.Limit, Max: o.Max,
			Skips: o.Full == core.FullSkip, Stored: a.put != nil, Anew: a.put != nil && a.put.Was.Permit == ""}
		ofApp := core.IsPermitOfApp(p.Name)
		if is && ofApp {
			asked.PerSecond, asked.Attempt, asked.Now = a.it.app.Limits.PerSecond, a.run.Attempt, core.InstantOf(b.now())
		}
		if replaces {
			if asked.Max = core.MaxQueue; a.replaces() {
				asked.Max = asked.Limit
			}
		}
		if a.put != nil && a.put.To.MaybeSent { // it may be at work: it is neither skipped nor does it go
			asked.Max, asked.Skips = core.MaxQueue+1, false
		}
		answer, noted := p.Ask(asked)
		if a.beside = ofApp && answer == core.PermitFull; a.beside {
			answer = core.PermitWaits
		}
		a.answer, changed, a.from = answer, changed || noted, 0
		if answer == core.PermitLater {
			a.from = p.From(a.run.First)
		}
		a.ends, a.held, a.waiting = 0, len(p.Holders), len(p.Queue)
		switch i := slices.Index(p.Queue, a.run.First); {
		case answer == core.PermitFull && len(p.Queue) > 0:
			a.ends = p.Queue[0]
		case answer == core.PermitWaits && i >= 0 && i < len(p.Holders):
			a.ends = p.Holders[i].First
		}
	}
	return changed
}
