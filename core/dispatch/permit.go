package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// permitWait is how long a run without a deadline waits for a permit.
const permitWait = 366 * 24 * time.Hour

var errNoPermit = errors.New("the limit of concurrent runs is reached")

// A permitAsk is a write that claims a run which counts against limits.
type permitAsk struct {
	*write
	run    *core.Run
	name   string   // limit that it asks now
	names  []string // limits to ask later
	answer core.PermitResult
	from   core.Instant // for core.PermitLater: when the attempt may start
	beside bool         // the app's queue was full: the run is retried without a place in it
	named  bool         // its stored record names the limit
	claims bool         // it waits first for a slot that may be freed because its claim was never stored
	ends   core.RunID   // first run of the retry chain that this run replaces; 0: none
	err    error
	// Number of runs that hold a permit and that wait, at the last answer.
	held, waiting int
}

// overlap returns the current limit of the job or app; false: the name belongs to an older limit.
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

// replaces reports whether a waiting run replaces another run.
func (a *permitAsk) replaces() bool {
	o, is := a.overlap(a.name)
	return a.put != nil && !a.put.To.MaybeSent && o.Full == core.FullReplace && is
}

// limited removes the items that count against a limit and groups them by limit. Asking may take a while, and other
// items must not wait. Items of an app with limits form one group: separate requests would conflict.
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

// permit returns the names of the limits that the run counts against, or "". A run whose record has names, or that was sent
// before, keeps them; otherwise the current job and app decide.
func (it *item) permit() string {
	switch r := it.run; {
	case r.Permit != "" || it.job == nil || it.of != nil:
		return r.Permit
	case r.ID == 0:
		return it.job.Permit(it.app, &core.Run{At: it.fire.At})
	case r.State == core.Planned || r.State == core.Queued:
		return it.job.Permit(it.app, r)
	}
	return ""
}

// permits asks for the permits of the claims in a list (docs/internals/limits.md). Claims that get none become writes of
// waiting or skipped runs. A run without a stored record does not enter the queue: its message would be the only trace that
// it waits. permits returns the writes to do now.
func (b *batch) permits(ctx context.Context, list []*write) []*write {
	var asks []*permitAsk
	for _, w := range list {
		run, was := w.claim()
		if run == nil || run.Permit == "" {
			continue
		}
		if w.put != nil {
			stored := *was
			stored.Permit = run.Permit
			run = &stored
		}
		asks = append(asks, &permitAsk{write: w, run: run, names: core.PermitNames(run.Permit)})
	}
	for b.askNext(ctx, asks) {
	}
	for _, a := range asks {
		a.dropped = !b.answered(a)
	}
	return kept(list)
}

// askNext asks for the next permit of each run that got all previous ones; it returns false when nothing is left to ask.
func (b *batch) askNext(ctx context.Context, asks []*permitAsk) bool {
	byName := map[string][]*permitAsk{}
	for _, a := range asks {
		if len(a.names) > 0 && a.err == nil && a.answer == core.PermitGranted {
			a.name, a.names = a.names[0], a.names[1:]
			byName[a.name] = append(byName[a.name], a)
		}
	}
	names := slices.Collect(maps.Keys(byName))
	store.AtOnce(len(names), func(i int) {
		b.ask(ctx, names[i], byName[names[i]])
		b.replace(ctx, names[i], byName[names[i]])
	})
	return len(byName) > 0
}

// answered changes the write of a claim to match its answer; false: nothing is written now.
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
		case a.create != nil: // after this write it is checked and enters the queue
			*a.create = b.recorded(a.it, b.now(), core.Queued)
			return true
		case a.put.To.MaybeSent: // its old owner keeps it until it is claimed again
			a.it.phase = passing{why: errNoPermit}
			return false
		}
		until := b.now().Add(permitWait)
		// A run triggered after its deadline waits without one, not with a check each second.
		if end := a.it.fire.Slot.Time().Add(a.it.job.Sched.Deadline); end.After(b.now()) {
			until = end
		}
		p := passing{waits: until, at: a.from, why: errNoPermit}
		switch {
		case a.replaces() || a.claims:
			p.most = waitLook
		case a.beside:
			p.most = besideMost
		}
		a.it.phase = p
		*a.put = b.listed(a.it.run.Wait()).Counted(a.run.Permit)
		if a.answer == core.PermitWaits && !a.named { // after this write it enters the queue
			a.it.phase = undecided{}
			return true
		}
		return a.run.State != core.Queued || !a.named
	}
	if a.it.reason = reason; a.create != nil {
		*a.create = b.recorded(a.it, b.now(), core.Skipped)
	} else {
		*a.put = b.listed(a.it.run.SkipUnsent(reason, b.now())).Owing(a.it.tellsSkip()).Counted(a.run.Permit)
	}
	a.tell()
	return true
}

// tell sets the message that explains why a run was skipped.
func (a *permitAsk) tell() {
	of, value := core.SplitPermit(a.name)
	if of == "job/"+a.it.job.Def.ID.String() {
		of = "job/" + a.it.job.Name()
	}
	if of = strings.Replace(of, "/", " ", 1); value != "" {
		of += " with the same value"
	}
	are := "are"
	if a.held == 1 {
		are = "is"
	}
	text := fmt.Sprintf("%d of %s %s running, the maximum", a.held, of, are)
	switch {
	case a.answer == core.PermitFull:
		text = fmt.Sprintf("%d runs wait for %s, the maximum", a.waiting, of)
	case a.ends != 0:
		text = fmt.Sprintf("run %d, due later, replaced it", a.ends)
	}
	if a.create != nil {
		a.create.Message = text
	} else {
		a.put.To.Message = text
	}
}

// ask asks for one permit for each run in list.
func (b *batch) ask(ctx context.Context, name string, list []*permitAsk) {
	slices.SortFunc(list, func(x, y *permitAsk) int {
		return cmp.Or(cmp.Compare(x.run.Slot, y.run.Slot), cmp.Compare(x.run.First, y.run.First))
	})
	inHand := make([]core.RunID, len(list))
	for i, a := range list {
		inHand[i] = a.run.First
	}
	err := b.d.finish.PutPermits(ctx, name, inHand, func(p *core.Permits) (bool, error) {
		was := p.Clone()
		changed := b.askAllOf(p, list)
		refused := func(a *permitAsk) bool { return a.answer == core.PermitSkips || a.answer == core.PermitFull }
		waits := func(a *permitAsk) bool { return a.answer == core.PermitWaits || refused(a) }
		if !slices.ContainsFunc(list, waits) {
			return changed, nil
		}
		// No run waits because of a run that never claims its slot. No run is skipped because of a run that has ended.
		settled, err := b.d.finish.Settle(ctx, &was, slices.ContainsFunc(list, refused))
		if err != nil || !settled {
			return changed, err
		}
		b.askAllOf(&was, list)
		*p = was
		return true, nil
	})
	for _, a := range list {
		a.err = err
	}
}

// replaceTries limits how often a run asks again after it replaced a waiting run.
const replaceTries = 3

// replace ends the runs that new runs replace. The first in the queue replaces the run that has been running longest,
// the second the next, and so on. The queue holds the newest runs, as many as the limit.
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
		case a.answer == core.PermitFull: // other runs were faster: its message is retried
			a.err = errNoPermit
		case a.answer == core.PermitWaits && a.ends != 0:
			later, err := b.d.finish.Replace(ctx, name, a.ends, a.run)
			if a.err = err; later {
				a.answer = core.PermitSkips
			}
		}
	}
}

// askAllOf asks for all runs in list. If the limit of a job has changed since a run was made, the limit stored in p
// applies to that run.
func (b *batch) askAllOf(p *core.Permits, list []*permitAsk) (changed bool) {
	for _, a := range list {
		o, is := a.overlap(p.Name)
		replaces := o.Full == core.FullReplace
		if !is {
			o = core.Overlap{Limit: max(p.Limit, 1), Max: core.MaxQueue}
		}
		asked := core.PermitRequest{First: a.run.First, Until: b.claimed(a.it).Until, Limit: o.Limit, Max: o.Max,
			Skips: o.Full == core.FullSkip, Second: core.PermitNames(a.run.Permit)[0] != p.Name, Claimed: a.run.Attempt > 1}
		if a.put != nil {
			asked.Named = slices.Contains(core.PermitNames(a.put.Was.Permit), p.Name)
			asked.Claimed = asked.Claimed || a.put.Was.MayHaveBeenSent()
		}
		ofApp := core.IsPermitOfApp(p.Name)
		if is && ofApp {
			asked.PerSecond, asked.Attempt, asked.Now = a.it.app.Limits.PerSecond, a.run.Attempt, core.InstantOf(b.now())
		}
		if replaces {
			if asked.Max = core.MaxQueue; a.replaces() {
				asked.Max = asked.Limit
			}
		}
		if a.put != nil && a.put.To.MaybeSent { // it may be running, so it is neither skipped nor replaces a run
			asked.Max, asked.Skips = core.MaxQueue+1, false
		}
		answer, noted := p.Ask(asked)
		if a.beside = ofApp && answer == core.PermitFull; a.beside {
			answer = core.PermitWaits
		}
		a.answer, changed, a.from, a.named = answer, changed || noted, 0, asked.Named
		if answer == core.PermitLater {
			a.from = p.From(a.run.First)
		}
		a.ends, a.held, a.waiting = 0, len(p.Holders), len(p.Queue)
		i := slices.Index(p.Queue, a.run.First)
		a.claims = i == 0 && slices.ContainsFunc(p.Holders, func(h core.Holder) bool { return !h.Until.IsZero() })
		switch {
		case answer == core.PermitFull && len(p.Queue) > 0:
			a.ends = p.Queue[0]
		case answer == core.PermitWaits && i >= 0 && i < len(p.Holders):
			a.ends = p.Holders[i].First
		}
	}
	return changed
}
