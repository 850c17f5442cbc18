package memory

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/operate"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/engine"
)

// Runs implements tick.Store, dispatch.Store and others.
func (s *Store) Runs(ctx context.Context, runs []core.RunID) (map[core.RunID]core.Run, []core.RunID, error) {
	found, err := pick(ctx, s, runs, s.runs, func(r *record) core.Run { return copyRun(&r.run) })
	return found, nil, err
}

// Create implements dispatch.Store and finish.Store.
func (s *Store) Create(ctx context.Context, runs []core.Run) []error {
	made := s.now().UnixMilli()
	return each(ctx, s, runs, func(r *core.Run) error { return s.create(r, made) })
}

func (s *Store) create(r *core.Run, made int64) error {
	if s.runs[r.ID] != nil {
		return core.ErrRefused
	}
	s.runs[r.ID] = &record{copyRun(r), made}
	s.runIDs.insert(r.ID)
	s.made.insert(madeRun{made, r.ID})
	return nil
}

// PutTriggered implements operate.Store.
func (s *Store) PutTriggered(ctx context.Context, run core.Run, entry core.DueItem) error {
	made := s.now().UnixMilli()
	return s.one(ctx, func() error {
		if err := s.create(&run, made); err != nil {
			return err
		}
		s.putEntry(entry)
		return nil
	})
}

// ChangeTriggered implements operate.Store.
func (s *Store) ChangeTriggered(ctx context.Context, c operate.Triggered) error {
	return s.one(ctx, func() error {
		if err := s.putRun(&c.Put); err != nil {
			return err
		}
		for _, d := range c.Drop {
			s.dropEntry(d)
		}
		s.putEntry(c.Entry)
		s.change(c.Change)
		return nil
	})
}

// open is the stored run if it is open.
func (s *Store) open(id core.RunID) *core.Run {
	if rec := s.runs[id]; rec != nil && rec.run.State.Open() {
		return &rec.run
	}
	return nil
}

// PutRuns implements dispatch.Store, finish.Store and others.
func (s *Store) PutRuns(ctx context.Context, puts []core.RunPut) []error {
	return each(ctx, s, puts, s.putRun)
}

func (s *Store) putRun(p *core.RunPut) error {
	rec := s.runs[p.ID]
	if rec == nil || !p.Holds(&rec.run) {
		return core.ErrRefused
	}
	if p.Ends() && p.Seen == nil {
		was := copyRun(&rec.run)
		p.Seen = &was
	}
	p.Apply(&rec.run)
	rec.run = copyRun(&rec.run)
	return nil
}

// RunsByID implements query.Store.
func (s *Store) RunsByID(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	var list []core.Run
	err := s.one(ctx, func() error {
		walk, lo, hi := s.runIDs.up(first), first, last
		if last < first {
			walk, lo, hi = s.runIDs.down(first), last, first
		}
		for id := range walk {
			if len(list) >= limit || id < lo || id > hi {
				break
			}
			list = append(list, copyRun(&s.runs[id].run))
		}
		return nil
	})
	return list, err
}

// LastRuns implements query.Store.
func (s *Store) LastRuns(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error) {
	found := map[core.JobID][]core.Run{}
	err := s.one(ctx, func() error {
		for _, job := range jobs {
			var list []core.Run
			for id := range s.runIDs.up(core.RunID(int64(job) << 32)) {
				if id.Job() != job {
					break
				}
				if r := &s.runs[id].run; r.Slot <= upTo {
					list = append(list, copyRun(r))
				}
			}
			slices.SortFunc(list, func(a, b core.Run) int { return cmp.Or(cmp.Compare(b.Slot, a.Slot), cmp.Compare(b.ID, a.ID)) })
			if len(list) > 0 {
				found[job] = list[:min(n, len(list))]
			}
		}
		return nil
	})
	return found, err
}

// RecentRuns implements query.Store.
func (s *Store) RecentRuns(ctx context.Context, of query.Recent, from query.RunPlace, limit int) (
	runs []core.Run, next query.RunPlace, err error,
) {
	first := madeRun{math.MaxInt64, math.MaxInt64}
	if from.Row > 0 {
		first = madeRun{from.Before - 1, core.RunID(from.Row) - 1}
	} else if from.Before > 0 {
		first.ms = from.Before - 1
	}
	err = s.one(ctx, func() error {
		for m := range s.made.down(first) {
			if len(runs) >= limit {
				return nil
			}
			next = query.RunPlace{Before: m.ms + 1, Row: int64(m.run)}
			if r := &s.runs[m.run].run; (of.App == "" || r.App == of.App) && (len(of.States) == 0 || slices.Contains(of.States, r.State)) {
				runs = append(runs, copyRun(r))
			}
		}
		next = query.RunPlace{}
		return nil
	})
	return runs, next, err
}

// Waiting implements operate.Store.
func (s *Store) Waiting(ctx context.Context, job core.JobID, below core.RunID, limit int) ([]core.Run, error) {
	var list []core.Run
	err := s.one(ctx, func() error {
		for id := range s.runIDs.down(below - 1) {
			if id.Job() != job || len(list) == limit {
				break
			}
			if r := s.open(id); r != nil && r.Owner == "" {
				list = append(list, copyRun(r))
			}
		}
		return nil
	})
	return list, err
}

// OpenRuns implements finish.Watch, manage.Store and others.
func (s *Store) OpenRuns(ctx context.Context, first, last core.RunID, limit int) (list []core.Run, next core.RunID, err error) {
	err = s.one(ctx, func() error {
		for id := range s.runIDs.down(first) {
			if id < last {
				break
			}
			if r := s.open(id); r != nil && len(list) == limit {
				next = id
				break
			} else if r != nil {
				list = append(list, copyRun(r))
			}
		}
		return nil
	})
	return list, next, err
}

// PutJournal implements dispatch.Store, finish.Store and others.
func (s *Store) PutJournal(ctx context.Context, j core.Journal) error {
	return s.one(ctx, func() error {
		if old, ok := s.journals[j.Key]; ok && old.V >= j.V {
			return core.ErrRefused
		}
		s.journals[j.Key] = copyJournal(j)
		noteKey(s.minutes, j.Key.Minute, j.Key)
		return nil
	})
}

func noteKey(at map[int64]map[core.JournalKey]struct{}, minute int64, k core.JournalKey) {
	if at[minute] == nil {
		at[minute] = map[core.JournalKey]struct{}{}
	}
	at[minute][k] = struct{}{}
}

// keysAfter are the keys behind one, sorted, at most limit.
func keysAfter(of map[core.JournalKey]struct{}, after core.JournalKey, limit int) []core.JournalKey {
	order := func(a, b core.JournalKey) int {
		return cmp.Or(cmp.Compare(a.Minute, b.Minute), cmp.Compare(a.Suffix, b.Suffix), cmp.Compare(a.Nonce, b.Nonce))
	}
	keys := slices.SortedFunc(maps.Keys(of), order)
	for len(keys) > 0 && order(keys[0], after) <= 0 {
		keys = keys[1:]
	}
	return keys[:min(len(keys), limit)]
}

// AllJournals returns all stored journals, which no port does.
func (s *Store) AllJournals() []core.Journal {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]core.Journal, 0, len(s.journals))
	for _, j := range s.journals {
		list = append(list, copyJournal(j))
	}
	return list
}

// Journals implements dispatch.Store, finish.Watch and query.Store.
func (s *Store) Journals(ctx context.Context, keys []core.JournalKey) (map[core.JournalKey]core.Journal, error) {
	return pick(ctx, s, keys, s.journals, copyJournal)
}

// JournalsAt implements finish.Watch.
func (s *Store) JournalsAt(ctx context.Context, minute int64, after core.JournalKey, limit int) ([]core.Journal, error) {
	var list []core.Journal
	err := s.one(ctx, func() error {
		for _, k := range keysAfter(s.minutes[minute], after, limit) {
			list = append(list, copyJournal(s.journals[k]))
		}
		return nil
	})
	return list, err
}

// PutRevisits implements finish.Watch.
func (s *Store) PutRevisits(ctx context.Context, minute int64, keys []core.JournalKey) error {
	return s.one(ctx, func() error {
		for _, k := range keys {
			noteKey(s.revisits, minute, k)
		}
		return nil
	})
}

// Revisits implements finish.Watch.
func (s *Store) Revisits(ctx context.Context, minute int64, after core.JournalKey, limit int) (keys []core.JournalKey, err error) {
	err = s.one(ctx, func() error {
		keys = keysAfter(s.revisits[minute], after, limit)
		return nil
	})
	return keys, err
}

// DropRevisits implements finish.Watch.
func (s *Store) DropRevisits(ctx context.Context, minute int64) error {
	return s.one(ctx, func() error {
		delete(s.revisits, minute)
		return nil
	})
}

// keepKey is how long a key binds after its run has ended.
const keepKey = 24 * time.Hour

// bound reports whether the key of a run binds, however old it is.
func (s *Store) bound(run core.RunID, now time.Time) bool {
	rec := s.runs[run]
	return rec != nil && (rec.run.State.Open() || now.Sub(rec.run.EndedAt) <= keepKey)
}

// Sweep implements engine.Maintenance. Age counts from when a thing was stored (of
// runs from their end, of journals from their minute, of tombstones from RevAt).
func (s *Store) Sweep(ctx context.Context, now time.Time, runs, journals time.Duration, limit int) (removed int, err error) {
	err = s.one(ctx, func() error {
		keep := func(job core.JobID) time.Duration {
			if runs > 0 {
				return runs
			}
			if j := s.jobs[job]; j != nil {
				return j.Def.Keep.For()
			}
			return core.Keep{}.For()
		}
		shortest := runs
		if runs <= 0 {
			shortest = 24 * time.Hour
		}
		slots, jobs := s.onRing()
		var gone []madeRun
		for m := range s.made.up(madeRun{}) {
			if removed >= limit || now.Sub(core.FromMillis(m.ms)) <= shortest {
				break
			}
			r := &s.runs[m.run].run
			if age := now.Sub(core.FromMillis(max(m.ms, core.Millis(r.EndedAt)))); age > keep(m.run.Job()) && !s.needed(r, slots) {
				gone = append(gone, m)
				removed++
			}
		}
		for _, m := range gone {
			s.made.remove(m)
			s.runIDs.remove(m.run)
			delete(s.runs, m.run)
			delete(s.logs, m.run)
		}
		for job, list := range s.skips {
			s.skips[job] = slices.DeleteFunc(list, func(k core.Skip) bool {
				old := removed < limit && now.Sub(k.Made) > keep(job)
				if old {
					removed++
				}
				return old
			})
			if len(s.skips[job]) == 0 {
				delete(s.skips, job)
			}
		}
		s.changes = slices.DeleteFunc(s.changes, func(c core.Change) bool {
			old := removed < limit && now.Sub(c.At) > keep(c.Job)
			if old {
				removed++
			}
			return old
		})
		again, cursor := map[core.JournalKey]bool{}, s.records[engine.CursorKey.Kind][engine.CursorKey.Name].V
		for minute, keys := range s.revisits {
			for k := range keys {
				switch {
				case minute > cursor:
					again[k] = true
				case minute < cursor && removed < limit: // at the cursor they may just be read
					delete(keys, k)
					removed++
				}
			}
			if len(keys) == 0 {
				delete(s.revisits, minute)
			}
		}
		for minute, keys := range s.minutes {
			old := now.Sub(time.Unix(minute*60, 0)) > journals
			for k := range keys {
				watched := minute > cursor || again[k]
				if removed < limit && (old && !watched || s.answered(k, watched)) {
					delete(s.journals, k)
					delete(keys, k)
					removed++
				}
			}
			if len(keys) == 0 {
				delete(s.minutes, minute)
			}
		}
		for job, t := range s.tombs {
			if now.Sub(t.RevAt) > journals && removed < limit && !jobs[job] && !s.asked(job) {
				delete(s.tombs, job)
				delete(s.records, engine.ScriptKind(job))
				delete(s.counters, job)
				removed++
			}
		}
		for _, of := range s.records {
			for name, r := range of {
				if !r.Expires.IsZero() && r.Expires.Before(now) && removed < limit {
					delete(of, name)
					removed++
				}
			}
		}
		for k, b := range s.keys {
			if removed < limit && now.Sub(b.at) > keepKey && !s.bound(b.run, now) {
				delete(s.keys, k)
				removed++
			}
		}
		for len(s.dead) > 0 && removed < limit && (now.Sub(s.dead[0].At) > journals || len(s.dead) > engine.KeepDead) {
			s.dead = s.dead[1:]
			removed++
		}
		return nil
	})
	return removed, err
}

// answered reports whether no reader can need a journal any more; watched: the watchdog still
// has to read it.
func (s *Store) answered(k core.JournalKey, watched bool) bool {
	j := s.journals[k]
	if watched && j.HasLeft() {
		return false
	}
	for _, e := range j.Entries {
		if rec := s.runs[e.Run]; rec != nil && (rec.run.State.Open() || rec.run.Owing() || s.broadcastOpen(&rec.run)) {
			return false
		}
	}
	return true
}

// onRing returns the slots and the jobs of the messages of fires, visible or not.
func (s *Store) onRing() (slots map[core.Instant]bool, jobs map[core.JobID]bool) {
	slots, jobs = map[core.Instant]bool{}, map[core.JobID]bool{}
	for _, kind := range lanes {
		for _, m := range s.queueOf(kind).messages {
			slots[m.body.Slot] = true
			for _, f := range m.body.Fires {
				jobs[f.Run.Job()] = true
			}
		}
	}
	return slots, jobs
}

// needed reports whether a run has to stay, however old it is.
func (s *Store) needed(r *core.Run, slots map[core.Instant]bool) bool {
	if slots[r.Slot] {
		return true
	}
	if j := s.jobs[r.ID.Job()]; j != nil && engine.Asks(j.Sched.Next, j.Sched.Tail, r.ID, r.First) {
		return true
	}
	if s.broadcastOpen(r) {
		return true
	}
	for !r.State.Open() && !r.Owing() {
		rec := s.runs[r.Then]
		if r.Then == 0 || rec == nil {
			return false
		}
		r = &rec.run
	}
	return true
}

// broadcastOpen reports whether a run is a shard of a broadcast that is open or has follow-ups.
func (s *Store) broadcastOpen(r *core.Run) bool {
	of := s.runs[r.Shard.Of]
	return of != nil && (of.run.State.Open() || of.run.Owing())
}

// asked reports whether a fire may still need the tombstone of a job.
func (s *Store) asked(job core.JobID) bool {
	if len(s.entries[job]) > 0 {
		return true
	}
	for id := range s.runIDs.up(core.RunID(int64(job) << 32)) {
		if id.Job() != job {
			break
		}
		if r := &s.runs[id].run; r.State.Open() || r.Owing() {
			return true
		}
	}
	return false
}
