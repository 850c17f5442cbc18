package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/core/glance"
	"github.com/tickring/tickring/core/route"
	"github.com/tickring/tickring/core/schedule"
	"github.com/tickring/tickring/store"
)

// known is the data read for a batch.
type known struct {
	jobs       map[core.JobID]store.Got[*core.Job]
	stones     map[core.JobID]core.Tombstone // of deleted jobs
	names      []string                      // of apps
	apps       map[string]store.Value[core.App]
	global     core.Global
	executors  map[string][]core.Executor
	runs       map[core.RunID]store.Got[*core.Run] // with their own record
	broadcasts map[core.RunID]store.Got[*core.Run] // of shards
	unmade     map[core.RunID]bool                 // shards with pending follow-ups, their own or the broadcast's, that failed
}

// read is step 2 and evaluates each run (step 3). All reads come after the hold; if they fail, all items become passing.
func (b *batch) read(ctx context.Context) {
	k, err := b.known(ctx)
	if err != nil {
		for _, it := range b.items {
			if it.phase = (passing{why: err}); core.CodeOf(err) == core.CodeRefused { // fenced: the messages belong to another deployment
				it.phase = notDone{why: err}
			}
		}
		return
	}
	now := b.now()
	b.outage = !k.global.UpSince.IsZero() && now.Before(k.global.UpSince.Add(b.d.o.Expiry))
	b.live, b.silent = make(map[string][]string, len(k.names)), map[at]bool{}
	b.dialects = map[at]string{}
	apps, calls := make(map[string]*core.App, len(k.names)), map[string]bool{} // all items of an app share one App
	for _, name := range k.names {
		app := k.apps[name].Is
		app.Name = name
		apps[name] = &app
		for _, e := range app.Candidates(k.executors[name], k.global, now, b.d.o.Expiry) {
			b.live[name] = append(b.live[name], e.Address)
			if strings.HasPrefix(e.Address, "queue:") && e.Silent(k.global, now, b.d.o.Expiry) {
				b.silent[at{name, e.Address}] = true
			}
			if e.Dialect != "" {
				b.dialects[at{name, e.Address}] = e.Dialect
			}
		}
		calls[name] = hasCall(b.live[name])
	}
	for _, s := range k.stones {
		if apps[s.App] == nil {
			apps[s.App] = &core.App{Name: s.App}
		}
	}
	b.d.uses.read(ctx, k.byUse(), now)
	next := b.d.plans.next
	for _, it := range b.items {
		if it.phase = k.meet(it, apps); it.phase != (undecided{}) {
			continue
		}
		if it.job.Def.Command == nil && calls[it.job.Def.App] || hasCall(it.run.Addresses) || it.of != nil && hasCall(it.of.Addresses) {
			it.awaited = true
			b.longest = max(b.longest, cmp.Or(it.job.Def.Timeout, b.d.o.CallTimeout))
		}
		_, gone := k.stones[it.job.Def.ID]
		pauses := [2]stops{{&k.global.Pause, &k.global.Past}, {&it.app.Pause, &it.app.Past}}
		if it.of != nil {
			it.falls, it.reason = judgeShard(&it.fire, it.of, &it.job.Sched, gone, pauses, now)
		} else {
			it.falls, it.reason = judge(&it.fire, &it.job.Sched, gone, pauses, now, next)
		}
		if it.falls == fallsSilently {
			it.phase = settled(core.Left)
		}
	}
	b.templates(ctx)
}

// reachable returns the executors of apps. The first read may be of an older state, as if it had been made earlier. Apps that have
// no executor in it are read strongly: one may just have registered.
func (b *batch) reachable(ctx context.Context, k *known) (map[string][]core.Executor, error) {
	found, err := b.d.store.Executors(glance.First(ctx), k.names)
	if err != nil {
		return nil, err
	}
	now := b.now()
	none := slices.DeleteFunc(slices.Clone(k.names), func(name string) bool {
		app := k.apps[name].Is
		return len(app.Candidates(found[name], k.global, now, b.d.o.Expiry)) > 0
	})
	if len(none) == 0 {
		return found, nil
	}
	again, err := b.d.store.Executors(ctx, none)
	maps.Copy(found, again)
	return found, err
}

func (b *batch) known(ctx context.Context) (k *known, err error) {
	k = &known{}
	ids := make([]core.JobID, 0, len(b.items))
	var own []core.RunID
	for _, it := range b.items {
		ids = append(ids, it.fire.Run.Job())
		if it.recorded {
			own = append(own, it.fire.Run)
		}
	}
	ids = distinct(ids)
	if k.jobs, err = readJobs(ctx, b.d.store, ids); err != nil {
		return nil, err
	}
	var gone []core.JobID
	for _, id := range ids {
		if j, is := k.jobs[id]; !is {
			gone = append(gone, id)
		} else if j.Err == nil {
			k.names = append(k.names, j.Is.Def.App)
		}
	}
	k.names = distinct(k.names)
	if k.apps, err = readAll(ctx, k.names, func(ctx context.Context, names []string) (map[string]store.Value[core.App], error) {
		return b.d.store.Apps(ctx, names...)
	}); err != nil {
		return nil, err
	}
	if k.global, err = b.d.store.Global(ctx); err != nil {
		return nil, err
	}
	if k.executors, err = b.reachable(ctx, k); err != nil {
		return nil, err
	}
	if len(gone) > 0 {
		if k.stones, err = b.d.store.Tombstones(ctx, gone); err != nil {
			return nil, err
		}
	}
	for id, s := range k.stones {
		k.jobs[id] = store.Got[*core.Job]{Is: &core.Job{Def: core.Def{ID: id, App: s.App, Name: s.Name},
			Sched: core.Sched{ID: id, App: s.App, Rev: s.Rev, RevAt: s.RevAt}}}
	}
	if k.runs, err = readAll(ctx, own, b.d.store.Runs.Get); err != nil {
		return nil, err
	}
	if k.broadcasts, k.unmade, err = b.broadcasts(ctx, k.runs); err != nil {
		return nil, err
	}
	for _, list := range []map[core.RunID]store.Got[*core.Run]{k.runs, k.broadcasts} {
		for id, run := range list {
			if run.Err != nil && !errors.Is(run.Err, core.ErrThrottled) {
				b.d.o.Log.Error("run put back: it cannot be read", "job", id.Job(), "run", id, "err", run.Err)
			}
		}
	}
	return k, nil
}

// byUse returns the jobs whose route depends on how often addresses were used.
func (k *known) byUse() (ids []core.JobID) {
	for id, j := range k.jobs {
		if j.Err == nil && route.Used(j.Is.Def.Route) {
			ids = append(ids, id)
		}
	}
	return ids
}

// meet sets job, app and record of an item; it returns undecided if it has them all.
func (k *known) meet(it *item, apps map[string]*core.App) phase {
	id := it.fire.Run.Job()
	job, is := k.jobs[id]
	switch {
	case !is:
		return undeliverable{why: "job " + id.String() + " has neither an item nor a tombstone"}
	case job.Err != nil:
		return damaged(it, fmt.Errorf("job %d cannot be read: %w", id, job.Err))
	}
	app := job.Is.Def.App
	if err := k.apps[app].Err; err != nil {
		return damaged(it, fmt.Errorf("app %s cannot be read: %w", app, err))
	}
	it.job, it.app = job.Is, apps[app]
	it.tell = tellOf(it.job, it.app, &k.global)
	if !it.recorded {
		return k.shard(it)
	}
	run, is := k.runs[it.fire.Run]
	switch {
	case !is:
		return it.unrecorded()
	case run.Err != nil:
		return passing{why: run.Err}
	}
	if it.ofSlot(run.Is); moved(run.Is, &it.fire) {
		return done{}
	}
	it.run = run.Is
	return k.shard(it)
}

// damaged returns the phase of an item whose job or app was throttled or cannot be decoded.
func damaged(it *item, why error) phase {
	switch {
	case errors.Is(why, core.ErrThrottled):
		return passing{why: why}
	case it.unread < budget.UnreadTries:
		return passing{unread: true, why: why}
	}
	return undeliverable{why: why.Error()}
}

func (it *item) unrecorded() phase {
	return undeliverable{why: "no record exists of run " + it.fire.Run.String()}
}

// readAll reads keys, and rereads throttled keys up to three times.
func readAll[K comparable, V interface{ Usable() error }](ctx context.Context, keys []K,
	read func(context.Context, []K) (map[K]V, error)) (map[K]V, error) {
	if len(keys) == 0 {
		return map[K]V{}, nil
	}
	found, err := read(ctx, keys)
	for try := 0; try < 3 && err == nil; try++ {
		var again []K
		for k, v := range found {
			if errors.Is(v.Usable(), core.ErrThrottled) {
				again = append(again, k)
				delete(found, k)
			}
		}
		if len(again) == 0 {
			break
		}
		var more map[K]V
		more, err = read(ctx, again)
		maps.Copy(found, more)
	}
	return found, err
}

func readJobs(ctx context.Context, s *store.Store, ids []core.JobID) (map[core.JobID]store.Got[*core.Job], error) {
	return readAll(ctx, ids, func(ctx context.Context, ids []core.JobID) (map[core.JobID]store.Got[*core.Job], error) {
		return s.Jobs.Get(ctx, store.Whole, ids)
	})
}

// schedules caches the compiled schedules of late jobs. Only late jobs need their next scheduled time, and after an
// outage they need it often.
type schedules struct {
	mu   sync.Mutex
	seen map[scheduleKey]*schedule.Schedule
}

type scheduleKey struct {
	job core.JobID
	rev int64
}

const maxSchedules = 4096

// next returns the job's first scheduled time after at; 0 if there is none.
func (c *schedules) next(s *core.Sched, at core.Instant) core.Instant {
	key := scheduleKey{s.ID, s.Rev}
	c.mu.Lock()
	sch, seen := c.seen[key]
	if !seen {
		// Saving rejects schedules that do not compile. A nil schedule has no next time, so its run counts as the newest.
		sch, _ = schedule.Compile(s.Schedule, s.ID)
		if len(c.seen) >= maxSchedules {
			clear(c.seen)
		}
		c.seen[key] = sch
	}
	c.mu.Unlock()
	if sch == nil {
		return 0
	}
	next, _ := sch.Next(at)
	return next
}
