package awsengine

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
)

// DynamoDB removes what says that its time is over, and asks nobody. So what is
// open says nothing of the kind, and the write that ends a run does.

// runExpiry returns the second from which on DynamoDB may remove a run. It is 0, which means never, while
// the run is open or owes something, while another attempt follows, and of a shard: letGo says it when the
// chain, or the broadcast, is over.
func (s *Store) runExpiry(ctx context.Context, r *core.Run) int64 {
	if r.State.Open() || len(r.Owes) > 0 || r.Then != 0 || r.Shard.Of != 0 {
		return 0
	}
	return s.expiry(ctx, r.ID.Job())
}

// messageLife is longer than a queue keeps a message: the record of a run must be
// there when its message comes once more.
const messageLife = 15 * 24 * time.Hour

// learn reads the definitions of jobs that are not known, together.
func (s *Store) learn(ctx context.Context, jobs []core.JobID) {
	var unknown []core.JobID
	for _, job := range jobs {
		if _, is := s.defs.of(job); !is {
			unknown = append(unknown, job)
		}
	}
	if len(unknown) == 0 {
		return
	}
	found, unread, err := s.Jobs(ctx, unknown)
	bad, err := core.Besides(err)
	if err != nil {
		return
	}
	for _, job := range unknown {
		if _, is := found[job]; !is && bad[job] == nil && !slices.Contains(unread, job) {
			s.defs.note(job, known{}) // gone: not to be asked for again
		}
	}
}

// expiry is the second from which on DynamoDB may remove what job left; 0 is never.
func (s *Store) expiry(ctx context.Context, job core.JobID) int64 {
	s.learn(ctx, []core.JobID{job})
	k, _ := s.defs.of(job)
	for_ := s.o.KeepRuns
	switch {
	case k.days < 0:
		return 0
	case k.days > 0:
		for_ = core.Keep{Days: k.days}.For()
	}
	return s.o.Now().Add(max(for_, messageLife)).Unix()
}

// letGo gives what hangs on runs that have ended for good its time too: what is
// long of them, their earlier attempts, the shards of a broadcast, and their keys;
// runs are as they were while they were open. It comes after the end, for a run whose end was refused
// may stay open for as long as it likes. Where it does not come to it these
// items stay, and nobody is harmed.
func (s *Store) letGo(ctx context.Context, runs []core.Run) {
	var list []statement
	var keyed []core.Run
	for i := range runs {
		if runs[i].Shard.Of != 0 { // its broadcast needs it, and lets it go
			continue
		}
		for _, r := range slices.Concat(s.earlier(ctx, &runs[i]), s.shards(ctx, &runs[i]), runs[i:i+1]) {
			at := s.expiry(ctx, r.ID.Job())
			if r.ID != runs[i].ID && at != 0 {
				list = append(list, s.expire(runKey(r.ID), number(at)))
			}
			if hasRest(&r) && at != 0 {
				list = append(list, s.expire(restKey(r.ID), number(at)))
			}
			if r.Key != "" {
				keyed = append(keyed, r)
			}
		}
	}
	s.execute(ctx, list)
	s.parallel(len(keyed), func(i int) { s.letKeyGo(ctx, &keyed[i]) })
}

// expire is the statement that says until when an item of the runs table stays.
func (s *Store) expire(key item, at types.AttributeValue) statement {
	w := &writer{table: s.o.Names.Runs}
	w.where(`"job" = ?`, key["job"])
	w.where(`"run" = ?`, key["run"])
	w.set("expires", at)
	return w.statement(keyText([]string{"run"}, key))
}

// earlier are the attempts before a run, as far as they can be read.
func (s *Store) earlier(ctx context.Context, r *core.Run) []core.Run {
	var list []core.Run
	for id := r.First; id != 0 && id != r.ID && len(list) <= core.MaxRetries; {
		found, _, err := s.Runs(ctx, []core.RunID{id})
		one, is := found[id]
		if err != nil || !is || one.State.Open() {
			break
		}
		list, id = append(list, one), one.Then
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
		found, _, err := s.Runs(ctx, ids)
		if ids = ids[:0]; err != nil {
			break
		}
		for _, r := range found {
			if list = append(list, r); r.Then != 0 {
				ids = append(ids, r.Then)
			}
		}
	}
	return list
}

// letKeyGo says until when the key of a run that has ended binds at the longest; also
// where the run itself is kept for ever.
func (s *Store) letKeyGo(ctx context.Context, r *core.Run) {
	if ctx.Err() != nil {
		return
	}
	e := equal("run", number(r.ID)) // it may be bound anew
	at := cmp.Or(s.expiry(ctx, r.ID.Job()), s.o.Now().Add(max(s.o.KeepRuns, messageLife)).Unix())
	e.set("expires", number(at))
	_, _ = s.db.UpdateItem(ctx, e.alone(s.o.Names.State, stateKey("key#"+r.ID.Job().String(), r.Key)))
}
