package store

import (
	"cmp"
	"context"
	"errors"

	"github.com/tickring/tickring/core"
)

// Got is the result of a read for one key. A key that does not exist has no Got.
type Got[T any] struct {
	Is  T
	Err error // core.ErrThrottled: read again later; otherwise the stored value cannot be used
}

// Usable returns nil if only the secrets of the value cannot be decrypted, else its error.
func (g Got[T]) Usable() error {
	if _, is := errors.AsType[*core.Locked](g.Err); is {
		return nil
	}
	return g.Err
}

// Unlocked returns the results of a read for users. They can view and change a value with secrets that cannot be decrypted.
func Unlocked[K comparable, T any](got map[K]Got[T], err error) (map[K]Got[T], error) {
	all := make(map[K]Got[T], len(got))
	for key, g := range got {
		all[key] = Got[T]{Is: g.Is, Err: g.Usable()}
	}
	return all, err
}

func (g Got[T]) result() (T, error) { return g.Is, g.Err }

// Split returns the good values of a read, and the errors of the other ones. Its error is core.ErrThrottled if a value must
// be read again later.
func Split[K comparable, T any, R interface{ result() (T, error) }](got map[K]R, err error) (good map[K]T, bad map[K]error, _ error) {
	good = make(map[K]T, len(got))
	for key, r := range got {
		switch v, why := r.result(); {
		case why == nil:
			good[key] = v
		case errors.Is(why, core.ErrThrottled):
			err = cmp.Or(err, why)
		case bad == nil:
			bad = map[K]error{key: why}
		default:
			bad[key] = why
		}
	}
	return good, bad, err
}

// Complete returns the values of a read, or the error of a value that could not be read.
func Complete[K comparable, T any](got map[K]Got[T], err error) (map[K]T, error) {
	good, bad, err := Split(got, err)
	for _, why := range bad {
		err = cmp.Or(err, why)
	}
	return good, err
}

// Part selects what Jobs.Get reads of a job.
type Part int

const (
	Whole    Part = iota
	Planning      // only core.Sched, which is cheaper on DynamoDB; Def is zero
)

// Jobs stores jobs, and the due index of jobs and of waiting runs.
type Jobs interface {
	// Get reads jobs, strongly consistent. Callers must not change the jobs, because other callers can share them. If only
	// the secrets of a job cannot be decrypted, Err is a *core.Locked, and Is has the rest.
	Get(ctx context.Context, part Part, ids []core.JobID) (map[core.JobID]Got[*core.Job], error)
	// Named maps the names of an app's jobs to job IDs. Names without a job are not in the result.
	Named(ctx context.Context, app string, names []string) (map[string]core.JobID, error)
	// List reads jobs of one app, or of all apps if app is empty, in the order of job IDs. next is the ID after which the
	// caller continues; 0 means the end. Before the end, List can return fewer than limit jobs, or no jobs. A job that cannot be
	// used has at least its ID.
	List(ctx context.Context, app string, after core.JobID, limit int) (jobs []Got[*core.Job], next core.JobID, err error)
	// Due returns at most limit items of a partition's due index, in order: the items after the item `after` whose PlanAt is
	// not later than upTo. The result can be slightly out of date. Only an empty result means that no items follow.
	Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error)
	// Entries reads the due-index entries of a job's waiting runs, in the order of the due index.
	Entries(ctx context.Context, job core.JobID) ([]core.DueItem, error)
	// Put makes each write completely or not at all, and returns an error for each: nil, core.ErrRefused if its condition is
	// not met, core.ErrThrottled, or an unknown result.
	Put(ctx context.Context, puts []JobPut) []error
	// Numbers allocates n consecutive run numbers of a job, or job IDs if job is 0, and returns the first. The first number
	// of all is 1.
	Numbers(ctx context.Context, job core.JobID, n int) (first int64, err error)
}

// JobPut is one write. Exactly one field is set, beside Changes.
type JobPut struct {
	// Create stores a new job. Its app must be stored, its name must be free, and its ID must never have been used. Each
	// parent must be stored and have fewer than core.MaxChildren children; the job becomes a child of its parents. If its app
	// is deleted at the same time, one of the writes fails.
	Create *core.Job
	Update *JobUpdate
	Delete *JobDelete
	// Advance updates the planning fields of a job. The stored Rev, Next and Tail must equal its fields.
	Advance *core.Advance
	// Enter adds an entry to the due index, and Leave removes one. Adding an existing entry, or removing a missing one, is
	// not an error.
	Enter, Leave *core.DueItem
	// Changes are change records that are stored if, and only if, the write is made.
	Changes []core.Change
}

// JobUpdate replaces a job. The stored Rev and Tail must equal Seen and SeenTail: a core.Advance changes Tail without
// changing Rev. Parents follow the rules of JobPut.Create. Seq never decreases, and Def.Children does not change.
type JobUpdate struct {
	Seen     int64
	SeenTail core.RunID
	// Edges is set if the update gives a parent to a job with children. It is then the counter of such updates, as read
	// before: the update is refused if the counter has changed, and otherwise increments it.
	Edges int64
	Job   core.Job
}

// JobDelete replaces a job with a tombstone, and removes the job from the children of its parents. The stored Rev must equal
// Seen, and the job must have no children.
type JobDelete struct {
	Seen int64
	core.Tombstone
}
