package dynamo

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/items"
	"github.com/tickring/tickring/store"
)

// DynamoDB removes each item whose expiry has passed, without asking. So open items have no expiry; the write that ends a
// run sets it.

// runExpiry returns the second from which DynamoDB may remove a run. It is 0, which means never, while the run is open,
// has a pending follow-up or another attempt follows, and for a shard. letGo sets it when the retry chain or the broadcast
// ends.
func (s *Store) runExpiry(ctx context.Context, r *core.Run) int64 {
	if r.State.Open() || len(r.Owes) > 0 || r.Then != 0 || r.Shard.Of != 0 {
		return 0
	}
	return s.expiry(ctx, r.ID.Job())
}

// keepJournals is how long journals stay.
const keepJournals = 20 * 24 * time.Hour

// messageLife is longer than a queue keeps a message: the record of a run must exist while its message may be redelivered.
const messageLife = 15 * 24 * time.Hour

// keepFor is how long a process uses the retention of a job without another read.
const keepFor = time.Minute

// learn reads the definitions of jobs that were not read within keepFor, together. If the read fails or the job is deleted, the
// definition of the last read applies for another keepFor.
func (s *Store) learn(ctx context.Context, ids []core.JobID) {
	now := s.o.Now()
	old := slices.DeleteFunc(slices.Clone(ids), func(job core.JobID) bool { return now.Sub(s.defs.of(job).at) < keepFor })
	if len(old) == 0 {
		return
	}
	found, err := jobs{s}.Get(ctx, store.Whole, old)
	for _, job := range old {
		_, is := found[job]
		if k := s.defs.of(job); k.at.Before(now) && (!k.at.IsZero() || !is && err == nil) {
			k.at = now
			s.defs.note(job, k)
		}
	}
}

// keep returns how long the run records of each job stay; 0 is forever. It is also 0 if the definition cannot be read and this process
// never read it, because the job may keep its runs forever. This costs the storage of these records, about 1 KB each.
func (s *Store) keep(ctx context.Context, jobs ...core.JobID) []time.Duration {
	s.learn(ctx, jobs)
	list := make([]time.Duration, len(jobs))
	for i, job := range jobs {
		if k := s.defs.of(job); !k.at.IsZero() && k.Is.Keep.Days >= 0 {
			list[i] = max(k.Is.Keep.For(), messageLife)
		}
	}
	return list
}

// expiry returns the second from which DynamoDB may remove a job's run records; 0 is never.
func (s *Store) expiry(ctx context.Context, job core.JobID) int64 {
	if keep := s.keep(ctx, job)[0]; keep > 0 {
		return s.o.Now().Add(keep).Unix()
	}
	return 0
}

// letGo also sets the expiry of everything that belongs to runs that have ended for good by writes that were made: long texts, earlier
// attempts, shards of a broadcast, and keys. It runs after the end is stored, because a run whose end was rejected may stay open. If
// letGo does not run, the items stay, which is harmless.
func (s *Store) letGo(ctx context.Context, puts []store.RunPut, errs []error) {
	var list []items.Write
	var keyed []core.Run
	for i := range puts {
		c := puts[i].Change
		if errs[i] != nil || c == nil || !c.Ends() || c.GoesOn() || c.Seen == nil || c.Seen.Shard.Of != 0 {
			continue // the broadcast of a shard needs it, and sets its expiry
		}
		last, at := *c.Seen, s.expiry(ctx, c.ID.Job())
		if hasRest(&c.To) { // its long texts got their expiry together with its end
			last.Params, last.Tries = nil, nil
		}
		for _, r := range append(s.others(ctx, &last), last) {
			if r.ID != last.ID && at != 0 {
				list = append(list, s.expire(runKey(r.ID), at))
			}
			if hasRest(&r) && at != 0 {
				list = append(list, s.expire(restKey(r.ID), at))
			}
			if r.Key != "" {
				keyed = append(keyed, r)
			}
		}
	}
	s.db.Execute(ctx, list)
	store.AtOnce(len(keyed), func(i int) { s.letKeyGo(ctx, &keyed[i]) })
}

// expire sets the expiry of an item of the runs table.
func (s *Store) expire(key item, at int64) items.Write {
	return (&items.Expr{}).Put("expires", items.Number(at)).To(items.Update, s.o.Names.Runs, key)
}

// others are the attempts before a run that has ended, and all attempts of the shards of a broadcast, as far as they can be read.
func (s *Store) others(ctx context.Context, r *core.Run) (list []core.Run) {
	var ids []core.RunID
	if r.First != 0 && r.First != r.ID {
		ids = append(ids, r.First)
	}
	for i := 0; r.IsBroadcast() && i < r.Shard.Total; i++ {
		ids = append(ids, r.Shard.IDOf(i))
	}
	for try := 0; len(ids) > 0 && try <= core.MaxRetries; try++ {
		found, _, _ := store.Split(runs{s}.Get(ctx, ids))
		ids = nil
		for _, one := range found {
			if one.Shard.Of == 0 && one.State.Open() {
				continue
			}
			if list = append(list, *one); one.Then != 0 && one.Then != r.ID {
				ids = append(ids, one.Then)
			}
		}
	}
	return list
}

// letKeyGo sets the latest expiry of the key of an ended run, even if the run itself is kept forever.
func (s *Store) letKeyGo(ctx context.Context, r *core.Run) {
	at := cmp.Or(s.expiry(ctx, r.ID.Job()), s.o.Now().Add(core.Keep{}.For()).Unix())
	e := items.Equal("v", items.Number(r.ID)).Put("expires", items.Number(at)) // the key may belong to another run by then
	_ = s.db.Transact(ctx, e.To(items.Update, s.o.Names.State, recordKey(store.IdempotencyKey(r.ID.Job(), r.Key))))
}
