package dynamo

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
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

// learn reads the definitions of jobs that are not known, together.
func (s *Store) learn(ctx context.Context, ids []core.JobID) {
	unknown := s.defs.unknown(ids)
	if len(unknown) == 0 {
		return
	}
	found, err := jobs{s}.Get(ctx, store.Whole, unknown)
	for _, job := range unknown {
		if _, is := found[job]; !is && err == nil {
			s.defs.note(job, known{}) // deleted: do not read it again
		}
	}
}

// keep returns how long the run records of each job stay; 0 is forever.
func (s *Store) keep(ctx context.Context, jobs ...core.JobID) []time.Duration {
	s.learn(ctx, jobs)
	list := make([]time.Duration, len(jobs))
	for i, job := range jobs {
		if k, _ := s.defs.of(job); k.days >= 0 {
			list[i] = max(core.Keep{Days: k.days}.For(), messageLife)
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

// letGo also sets the expiry of everything that belongs to runs that have ended for good: long texts, earlier attempts,
// shards of a broadcast, and keys. runs are as they were while open. It runs after the end is stored, because a run whose
// end was rejected may stay open. If letGo does not run, the items stay, which is harmless.
func (s *Store) letGo(ctx context.Context, runs []core.Run) {
	var list []write
	var keyed []core.Run
	for i := range runs {
		if runs[i].Shard.Of != 0 { // its broadcast needs it and sets its expiry
			continue
		}
		for _, r := range slices.Concat(s.earlier(ctx, &runs[i]), s.shards(ctx, &runs[i]), runs[i:i+1]) {
			at := s.expiry(ctx, r.ID.Job())
			if r.ID != runs[i].ID && at != 0 {
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
	s.execute(ctx, list)
	store.AtOnce(len(keyed), func(i int) { s.letKeyGo(ctx, &keyed[i]) })
}

// expire sets the expiry of an item of the runs table.
func (s *Store) expire(key item, at int64) write {
	e := &expr{}
	e.set("expires", number(at))
	return e.to(updateItem, s.o.Names.Runs, key)
}

// earlier are the attempts before a run, as far as they can be read.
func (s *Store) earlier(ctx context.Context, r *core.Run) []core.Run {
	var list []core.Run
	for id := r.First; id != 0 && id != r.ID && len(list) <= core.MaxRetries; {
		found, _, _ := store.Split(runs{s}.Get(ctx, []core.RunID{id}))
		one := found[id]
		if one == nil || one.State.Open() {
			break
		}
		list, id = append(list, *one), one.Then
	}
	return list
}

// shards are all attempts of the shards of a broadcast that has ended, as far as they can be read.
func (s *Store) shards(ctx context.Context, whole *core.Run) (list []core.Run) {
	var ids []core.RunID
	for i := 0; whole.IsBroadcast() && i < whole.Shard.Total; i++ {
		ids = append(ids, whole.Shard.IDOf(i))
	}
	for try := 0; len(ids) > 0 && try <= core.MaxRetries; try++ {
		found, _, _ := store.Split(runs{s}.Get(ctx, ids))
		ids = ids[:0]
		for _, r := range found {
			if list = append(list, *r); r.Then != 0 {
				ids = append(ids, r.Then)
			}
		}
	}
	return list
}

// letKeyGo sets the latest expiry of the key of an ended run, even if the run itself is kept forever.
func (s *Store) letKeyGo(ctx context.Context, r *core.Run) {
	e := equal("v", number(r.ID)) // the key may belong to another run by then
	at := cmp.Or(s.expiry(ctx, r.ID.Job()), s.o.Now().Add(core.Keep{}.For()).Unix())
	e.set("expires", number(at))
	_ = s.transact(ctx, e.to(updateItem, s.o.Names.State, recordKey(store.IdempotencyKey(r.ID.Job(), r.Key))))
}
