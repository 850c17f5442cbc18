package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tickring/tickring/core"
)

// In a world with Limits some jobs have a limit of overlap, of their own or of a group. The checks here see only the outside: the
// unfinished arrivals at executors, and each write of the items, with its holders of permits and its waiting runs.

// group is the one of every world, which groupLimit bounds.
const (
	group      = "db"
	groupLimit = 2
)

// overlap is a job's limit, or none.
func (w *World) overlap(d *dice, def *core.Def, utc bool) {
	if !w.cfg.Limits || d.n(3) > 0 {
		return
	}
	def.Overlap = core.Overlap{Limit: 1 + d.n(2), Full: core.Fulls[d.n(3)], Max: 1 + d.n(20)}
	if def.Overlap.Full == core.FullReplace {
		def.Overlap.Max = 0
	}
	if d.n(2) == 0 {
		def.Overlap.Limit, def.Overlap.Group = groupLimit, group
	}
	if utc && d.n(3) > 0 {
		def.Overlap.Key, def.Template, def.Params = tenantKey, true, tenantParams
	}
}

// A limit with a key holds for each tenant; the tenants of a schedule are named by the minute.
const (
	tenantKey    = "/for/1/tenant"
	tenantParams = `{"for": ["x", {"tenant": "{{scheduledAt mm}}"}], "at": "{{runId}}"}`
)

// tenant are params of a trigger by hand, of one of a few tenants or of none.
func (d *dice) tenant() string {
	list := []string{`{"for":["y",{"tenant":"a","n":` + strconv.Itoa(d.n(1000)) + `}]}`, `{"n": 1, "for": [0, {"tenant": "a"}]}`,
		`{"for":[0,{"tenant":"b"}]}`, `{"for":[{"tenant":"b"}]}`, "b"}
	return list[d.n(len(list))]
}

// tenantOf returns the tenant of a run of a job with a key, from its text alone.
func tenantOf(r *core.Run) string {
	if r.Params == nil {
		return r.At.Time().UTC().Format("04")
	}
	if !strings.Contains(*r.Params, ",{") && !strings.Contains(*r.Params, ", {") {
		return "nobody"
	}
	_, rest, _ := strings.Cut(*r.Params, `"tenant"`)
	return strings.Split(rest, `"`)[1]
}

// limited holds the checker's knowledge of jobs that share a limit.
type limited struct {
	permit  string // as in its runs; empty: no run has one
	limit   int
	jobs    map[core.JobID]bool
	open    map[core.RunID]bool  // chains that are not over, by their first run
	work    map[core.RunID]bool  // runs that arrived
	crowded []trouble            // when there were more than the limit
	begun   map[core.Instant]int // attempts that begin in a second
	later   []trouble            // when some had to wait for theirs
}

// hasLimit reports whether one counts the runs of a job. Callers hold mu.
func (t *truth) hasLimit(job core.JobID) bool {
	revs := t.jobs[job]
	return len(revs) > 0 && (t.w.overlapOf(&revs[len(revs)-1].def).Limit > 0 || t.w.appLimits[revs[len(revs)-1].def.App] != core.Limits{})
}

// overlapOf is a job's limit; no edit changes it.
func (w *World) overlapOf(def *core.Def) core.Overlap {
	o := def.Overlap
	if o.Limit == 0 {
		o = w.appOverlap[def.App]
	}
	if o.Full == core.FullReplace && def.Route == core.RouteBroadcast {
		o.Full = core.FullQueue
	}
	return o
}

// limitsOf finds the limits that count a run. Callers hold mu.
func (t *truth) limitsOf(r *core.Run) (list []*limited) {
	job := r.ID.Job()
	revs := t.jobs[job]
	if len(revs) == 0 {
		return nil
	}
	def := &revs[len(revs)-1].def
	find := func(name string, limit int) {
		l := t.limits[name]
		if l == nil {
			l = &limited{limit: limit, jobs: map[core.JobID]bool{}, open: map[core.RunID]bool{}, work: map[core.RunID]bool{},
				begun: map[core.Instant]int{}}
			t.limits[name] = l
		}
		l.jobs[job] = true
		list = append(list, l)
	}
	if o := t.w.overlapOf(def); o.Limit > 0 {
		name := job.String()
		if o.Group != "" {
			name = o.Group
		}
		if o.Key != "" {
			name += " for " + tenantOf(r)
			t.w.count("counted by a key", 1)
		}
		find(name, o.Limit)
	}
	if limits := t.w.appLimits[def.App]; limits != (core.Limits{}) {
		find(appPermit+def.App, limits.InFlight)
	}
	return list
}

const appPermit = "app/"

// hasPermit asserts that a run that waits for a permit, or arrived, is counted by its own limit and no other. Callers hold mu.
func (t *truth) hasPermit(r *core.Run) {
	list := t.limitsOf(r)
	names := core.PermitNames(r.Permit)
	if len(names) != len(list) {
		t.fail(r.ID, "run %d has permit %q, and %d limits count it", r.ID, r.Permit, len(list))
		return
	}
	for i, l := range list {
		if l.open[r.First] {
			t.isPermit(r, l, names[i])
		}
	}
}

func (t *truth) isPermit(r *core.Run, l *limited, name string) {
	if l.permit == "" {
		l.permit = name
		for _, of := range t.limits {
			if of != l && of.permit == l.permit {
				t.fail(r.ID, "run %d has permit %q of another group", r.ID, r.Permit)
			}
		}
	}
	if name != l.permit {
		t.fail(r.ID, "run %d has permit %q, others of its limit have %q", r.ID, r.Permit, l.permit)
	}
}

// goesOn reports whether a chain that a limit counts is open.
func (t *truth) goesOn(first core.RunID) bool {
	for _, l := range t.limits {
		if l.open[first] {
			return true
		}
	}
	return false
}

// joins records a run that is stored and open, leaves the end of a run's chain.
func (t *truth) joins(r *core.Run) {
	if !r.State.Open() || r.Shard.Of != 0 {
		return
	}
	for _, l := range t.limitsOf(r) {
		l.open[r.First] = true
		t.crowd(l)
	}
}

// crowd records whether more chains run than the limit allows. Runs that wait without an
// executor leave their places to others, and each may want one back once its wait is over.
func (t *truth) crowd(l *limited) {
	n, now := len(l.open), time.Now()
	if n > l.limit && t.isNobody() {
		idle := 0
		for first := range l.open {
			if t.idles(first) {
				idle++
			}
		}
		n -= max(0, idle-1)
	}
	switch last := len(l.crowded) - 1; {
	case n > l.limit && (last < 0 || !l.crowded[last].until.After(now)):
		l.crowded = append(l.crowded, trouble{now, now.Add(1000 * time.Hour)})
	case n <= l.limit && last >= 0 && l.crowded[last].until.After(now):
		l.crowded[last].until = now
	}
}

// idles reports whether the first run of a chain waits in an app without an executor.
func (t *truth) idles(first core.RunID) bool {
	r, _ := t.run(first)
	return r.App == come && r.State == core.Queued && len(t.story(first).arrivals) == 0 && len(r.Addresses) == 0
}

func (t *truth) leaves(p *core.RunPut) {
	if !t.hasLimit(p.ID.Job()) || p.GoesOn() {
		return
	}
	r, _ := t.run(p.ID)
	for _, l := range t.limits { // a changed trigger may have asked by its old params
		if !l.open[r.First] || r.Shard.Of != 0 {
			continue
		}
		delete(l.open, r.First)
		delete(l.work, r.First)
		t.crowd(l)
	}
}

// atWork asserts promise 8 of section 9 when a run arrives.
func (t *truth) atWork(r *core.Run) {
	of, first := r, t.chainOf(r)
	if r.Shard.Of != 0 { // its broadcast is counted
		whole, _ := t.run(first)
		of = &whole
	}
	if !t.hasLimit(r.ID.Job()) || of.ID == 0 {
		return
	}
	for _, l := range t.limitsOf(of) {
		if !l.open[first] {
			continue
		}
		t.hasPermit(of)
		l.work[first] = true
		t.w.count("running under a limit", 1)
		if len(l.work) > l.limit {
			t.fail(r.ID, "run %d arrived, and %d are running, but %d may be: %v", r.ID, len(l.work), l.limit, slices.Sorted(maps.Keys(l.work)))
		}
	}
	t.begins(of, first)
}

// begins asserts that an attempt that is counted by the second does not come before its own.
func (t *truth) begins(r *core.Run, first core.RunID) {
	if t.w.appLimits[r.App].PerSecond == 0 {
		return
	}
	found, err := t.store.Permits(bg, []string{appPermit + r.App})
	p := found[appPermit+r.App]
	if from := p.From(first); err == nil && from != 0 && from <= p.Second && time.Now().Add(t.w.slack()).Before(from.Time()) {
		t.fail(r.ID, "run %d arrived, and begins at %s", r.ID, from)
	}
}

// beginsIn asserts that at most as many attempts of an app begin in a second as its limit allows.
func (t *truth) beginsIn(was, is *core.Permits) {
	app, ofApp := strings.CutPrefix(is.Name, appPermit)
	l := t.limits[is.Name]
	if !ofApp || l == nil || t.w.appLimits[app].PerSecond == 0 {
		return
	}
	given := slices.DeleteFunc(slices.Clone(is.Holders), func(h core.Holder) bool {
		i := slices.IndexFunc(was.Holders, func(o core.Holder) bool { return o.First == h.First })
		return h.Attempt == 0 || i >= 0 && was.Holders[i].Attempt == h.Attempt && was.Holders[i].From == h.From
	})
	// If clocks differ, or were set, a process cannot know which runs began in a second that is over by its clock.
	if t.w.cfg.Skew && slices.ContainsFunc(given, func(h core.Holder) bool { return h.From < was.Second }) {
		clear(l.begun)
		for _, h := range was.Holders {
			l.begun[h.From]++
		}
	}
	for _, h := range was.Holders {
		if h.From.Time().After(time.Now()) && is.From(h.First) != h.From { // it is over before it began, or begins at another
			l.begun[h.From]--
		}
	}
	for _, h := range given {
		t.w.count("begins in a second of its app", 1)
		if l.begun[h.From]++; l.begun[h.From] > t.w.appLimits[app].PerSecond {
			t.fail(h.First, "in the second %s %d attempts begin of app %s", h.From, l.begun[h.From], app)
		}
		if h.From.Time().After(time.Now()) {
			l.later = append(l.later, trouble{time.Now(), h.From.Time().Add(t.w.slack())})
		}
	}
}

// permitsWritten checks the rules for a write of a limit's item. No run loses a permit before its retry chain has ended.
// No run gets a permit above the limit, or before another run that waits longer.
func (t *truth) permitsWritten(was, is core.Permits) {
	if is.V != was.V+1 {
		t.fail(0, "permits %s were at %d and are at %d", is.Name, was.V, is.V)
	}
	of := func(p *core.Permits) (list []core.RunID) {
		for _, h := range p.Holders {
			list = append(list, h.First)
		}
		return list
	}
	t.noted(was.Join, is.Join)
	t.beginsIn(&was, &is)
	had, has := of(&was), of(&is)
	if len(has) > max(is.Limit, len(had)) {
		t.fail(0, "permits %s: %d are held of %d", is.Name, len(has), is.Limit)
	}
	for k, h := range was.Holders {
		r, stored := t.run(h.First)
		switch {
		case slices.Contains(has, had[k]), !t.hasLimit(h.First.Job()):
		case stored && t.handsBack(&r):
			t.w.count("permit handed back", 1)
		case stored && t.doubts(is.Name, &h, &r):
			t.w.count("doubtful permit freed", 1)
		case stored && t.goesOn(h.First):
			t.fail(h.First, "permits %s: the permit of run %d (%s) is freed, but its chain has not ended", is.Name, h.First, r.State)
		case !stored && time.Now().Add(t.w.slack()).Before(h.Until):
			t.fail(h.First, "permits %s: the permit of run %d is freed before its until", is.Name, h.First)
		}
	}
	for k, first := range was.Queue {
		if slices.Contains(has, first) {
			t.w.count("waited for a permit", 1)
			for _, other := range was.Queue[:k] {
				if slices.Contains(is.Queue, other) {
					t.fail(first, "permits %s: run %d waits longer than run %d, which gets one", is.Name, other, first)
				}
			}
		}
	}
	for i, first := range is.Queue {
		r, stored := t.run(first)
		switch {
		case slices.Contains(was.Queue, first):
		case !stored:
			t.fail(first, "permits %s: run %d waits, and is not stored", is.Name, first)
		case !core.IsPermitOfApp(is.Name) && !r.MayHaveBeenSent() && i >= t.mayWait(first.Job()):
			t.fail(first, "permits %s: run %d waits behind %d others, and %d may wait", is.Name, first, i, t.mayWait(first.Job()))
		}
	}
}

// doubts reports whether the claim that a permit was asked for is not stored in time, and another process may free the
// permit: the record of the run does not name it, or it is the second one and the chain has lost the first.
func (t *truth) doubts(name string, h *core.Holder, r *core.Run) bool {
	if h.Until.IsZero() || time.Now().Add(t.w.slack()).Before(h.Until) {
		return false
	}
	names := core.PermitNames(r.Permit)
	if !slices.Contains(names, name) {
		return true
	}
	found, err := t.store.Permits(bg, names[:1])
	first := found[names[0]]
	return err == nil && names[0] != name && !first.Holds(h.First)
}

// handsBack reports whether a run may lose its permit though it goes on: it is unowned, and it
// waits for an executor, or was given another time.
func (t *truth) handsBack(r *core.Run) bool {
	until, _ := t.waitsUntil(r.ID, r.Slot.Time())
	waits := r.State == core.Queued && until.After(r.Slot.Time())
	return r.First == r.ID && !r.MayHaveBeenSent() && len(t.story(r.ID).arrivals) == 0 && (waits || r.State == core.Planned && t.moved[r.ID])
}

// permitsFree asserts at the end that no unfinished chain remains, and that no run holds or awaits a permit.
func (w *World) permitsFree() {
	t := w.truth
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, l := range t.limits {
		if len(l.open) > 0 {
			t.fail(0, "permits %s: in the end %v are not over", name, slices.Sorted(maps.Keys(l.open)))
		}
	}
}

// permitted returns the troubles that make a run wait for others of its limit, until its next
// check. Callers hold mu of the truth and of the world.
func (t *truth) permitted(job core.JobID, slot time.Time) (list []trouble) {
	if !t.hasLimit(job) {
		return nil
	}
	list = slices.Concat(t.w.faults.finishing, t.w.faults.planning)
	others := map[core.JobID]bool{}
	for _, l := range t.limits {
		if l.jobs[job] {
			list = slices.Concat(list, l.crowded, l.later)
			maps.Copy(others, l.jobs)
		}
	}
	for other := range others {
		list = append(list, t.w.faults.limited[other]...)
	}
	for i := range list {
		list[i].until = list[i].until.Add(nextLook(slot, list[i].until))
	}
	return list
}

// replaced asserts for a run recorded as killed for a newer run: the newer run waits for a permit of the same limit, its job is
// set to replace, and the killed run is due first. Callers hold mu.
func (t *truth) replaced(p *core.RunPut, was *core.Run) {
	by := core.Run{KillBy: p.To.KillBy}
	if !by.Replaced() {
		return
	}
	t.w.count("replaced by a newer run", 1)
	id, err := core.ParseRunID(strings.TrimPrefix(p.To.KillBy, "run "))
	newer, stored := t.run(id)
	revs := t.jobs[id.Job()]
	switch {
	case err != nil || !stored || len(revs) == 0:
		t.fail(was.ID, "run %d is killed for %q, which is no run", was.ID, p.To.KillBy)
	case was.Permit == "" || newer.Permit != "" && core.PermitNames(newer.Permit)[0] != core.PermitNames(was.Permit)[0] ||
		t.w.overlapOf(&revs[len(revs)-1].def).Full != core.FullReplace:
		t.fail(was.ID, "run %d of %q is killed for run %d of %q", was.ID, was.Permit, id, newer.Permit)
	case was.Attempt == 1 && was.Slot > newer.Slot:
		t.fail(was.ID, "run %d, due at %s, is killed for run %d, due at %s", was.ID, was.Slot, id, newer.Slot)
	case was.KillBy != "" || !was.KillAt.IsZero():
		t.fail(was.ID, "run %d is killed for run %d, and %q killed it before", was.ID, id, was.KillBy)
	}
}

// mayWait is how many runs may wait for a permit before one of a job is skipped. Callers hold mu.
func (t *truth) mayWait(job core.JobID) int {
	revs := t.jobs[job]
	o := t.w.overlapOf(&revs[len(revs)-1].def)
	if o.Full == core.FullReplace {
		return o.Limit
	}
	return cmp.Or(o.Max, core.QueueIfUnsaid)
}

// endsFor asserts that a run which is closed for a newer one has no owner, or was marked before so that its executor ends it, or
// that its executor reports that end. It also asserts that no attempt follows a killed run. Callers hold mu.
func (t *truth) endsFor(p *core.RunPut, was *core.Run) {
	superseded := p.To.State == core.Skipped && p.To.Reason == core.ReasonOverlap && p.If&core.RunOwner == 0
	switch {
	case was.MayHaveBeenSent() && (superseded || p.To.Reason == core.ReasonReplaced && was.KillBy == "" && !p.Had):
		t.fail(p.ID, "run %d of %q is closed as %s: %s, and its executor was not told", p.ID, was.Owner, p.To.State, p.To.Reason)
	case was.KillBy != "" && p.GoesOn():
		t.fail(p.ID, "run %d was killed by %q, and run %d follows it", p.ID, was.KillBy, p.To.Then)
	}
}

// inOrder asserts that a run which was closed for a newer one is another, due no later. Callers hold mu.
func (t *truth) inOrder(r *core.Run) {
	var by core.RunID
	if _, err := fmt.Sscanf(r.Message, "run %d", &by); err != nil || !strings.HasSuffix(r.Message, "replaced it") {
		return
	}
	first, is := t.run(r.First)
	newer, is2 := t.run(by)
	if by == r.ID || is && is2 && first.Slot > newer.Slot && !t.moved[r.First] && !t.moved[by] {
		t.fail(r.ID, "run %d, due at %s, is %s: %s for run %d, due at %s", r.ID, first.Slot, r.State, r.Reason, by, newer.Slot)
	}
}

// keyed reports whether the limit of a job has a key.
func (w *World) keyed(ref string) bool {
	job, err := w.people.Job(bg, ref)
	return err == nil && job.Def.Overlap.Key != ""
}
