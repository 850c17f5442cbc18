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

// runExpiry is the second from which on DynamoDB may remove a run in a state; 0
// is never: it is open, or goesOn says that it owes something or has another
// attempt behind it, and then letGo says it when its chain is over.
func (s *Store) runExpiry(ctx context.Context, job core.JobID, state core.State, goesOn bool) int64 {
	if state.Open() || goesOn {
		return 0
	}
	return s.expiry(ctx, job)
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
// long of them, their earlier attempts, and their keys; runs are as they were
// while they were open. It comes after the end, for a run whose end was refused
// may stay open for as long as it likes. Where it does not come to it these
// items stay, and nobody is harmed.
func (s *Store) letGo(ctx context.Context, runs []core.Run) {
	var list []statement
	var keyed []core.Run
	for i := range runs {
		for _, r := range append(s.earlier(ctx, &runs[i]), runs[i]) {
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
