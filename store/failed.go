package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
)

// FailedJobs is the list of the jobs that may be failing, for an engine in which reading the last runs of every job costs much. It
// has a record for each job with a run that failed for good. A success writes nothing: a page that finds the job recovered removes
// the record. A job that is not on the list is not failing, unless the engine could not write the list.
type FailedJobs struct {
	s     *Store
	noted sync.Map // when this process listed a job, by the name of its record
}

func NewFailedJobs(s *Store) *FailedJobs { return &FailedJobs{s: s} }

const kindFailed = "failed"

const (
	// listedFor is how long a process does not list a job again. A page keeps the job listed for longer, see Forget.
	listedFor = 5 * time.Minute
	// noteFor limits the time that a call spends on the list. Its runs are stored already.
	noteFor = time.Second
	// keepNotes is how long a record stays if it is not removed. It exceeds the time that a run may wait, a year.
	keepNotes = 400 * 24 * time.Hour
)

// Note lists the jobs of runs that failed for good by writes that were made. It returns no error: the next failure of a job lists it.
func (f *FailedJobs) Note(ctx context.Context, puts []RunPut, errs []error) {
	now := f.s.Now()
	due := map[string]bool{} // names of records
	for i := range puts {
		c, r := puts[i].Change, puts[i].Create
		if c != nil && c.Ends() {
			r = &core.Run{State: c.To.State, Then: c.To.Then}
			if c.Seen != nil {
				r.Attempt = c.Seen.Attempt
			}
		}
		if errs[i] != nil || r == nil || !r.FailedForGood() {
			continue
		}
		name := JobName(puts[i].ID().Job())
		if at, listed := f.noted.Load(name); !listed || now.Sub(at.(time.Time)).Abs() > listedFor {
			due[name] = true
		}
	}
	if len(due) == 0 {
		return
	}
	var list []Record
	for name := range due {
		list = append(list, Record{Key: Key{kindFailed, name}, V: core.Millis(now), Expires: now.Add(keepNotes)})
	}
	ctx, cancel := context.WithTimeout(ctx, noteFor)
	defer cancel()
	if f.s.WriteAny(ctx, list, false) == nil {
		for name := range due {
			f.noted.Store(name, now)
		}
	}
}

// List returns all jobs on the list, with the time at which each job was added.
func (f *FailedJobs) List(ctx context.Context) (map[core.JobID]time.Time, error) {
	list, err := f.s.Records.List(ctx, kindFailed, "", "", math.MaxInt32)
	found := make(map[core.JobID]time.Time, len(list))
	for i := range list {
		id, bad := strconv.ParseInt(list[i].Name, 10, 32)
		found[core.JobID(id)], err = core.FromMillis(list[i].V), cmp.Or(err, bad, list[i].Err)
	}
	return found, err
}

// Forget removes recovered jobs from the list. The argument jobs has the times from List, and a job that was added again after this
// time stays. Callers remove a job at the earliest ten minutes after it was added.
func (f *FailedJobs) Forget(ctx context.Context, jobs map[core.JobID]time.Time) error {
	var groups []Group
	for job, at := range jobs {
		w := Write{Record: Record{Key: Key{kindFailed, JobName(job)}}, Was: core.Millis(at), Delete: true}
		groups = append(groups, Group{Writes: []Write{w}})
	}
	errs := slices.DeleteFunc(f.s.Records.Write(ctx, groups...), func(err error) bool { return errors.Is(err, core.ErrRefused) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete the marks of failed jobs: %w", err)
	}
	return nil
}
