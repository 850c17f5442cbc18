// Package hook lets tests stand in for calls of a store.
package hook

import (
	"context"
	"errors"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

type (
	// JobMap and RunMap are the results of a read by ID.
	JobMap = map[core.JobID]store.Got[*core.Job]
	RunMap = map[core.RunID]store.Got[*core.Run]
)

// Call is a call of a store. Its operation sets one field, and what belongs to it. A write takes its items from the field, so
// that Do may make it item by item.
type Call struct {
	Get    []store.Key // of records
	List   string      // the kind of the listed records
	Write  []store.Group
	Jobs   []core.JobID // that are read
	Part   store.Part   // of Jobs
	Listed bool         // jobs are listed
	Due    core.JobID   // entries of this job are read
	Put    []store.JobPut
	Number core.JobID // numbers of this job are allocated
	Runs   []core.RunID
	Span   bool          // runs between two are read
	Ends   [2]core.RunID // of the span
	Open   bool          // open runs are read
	Recent bool          // the latest runs are read
	Last   []core.JobID  // of which the last runs are read
	Limit  int           // of Last, for each job
	PutRun []store.RunPut
	Out    []ring.Out
	Bury   string // why a message moves to the dead-letter queue
	Oldest bool   // the age of the oldest message is read

	// These are the results of a read, and are set once it is made.
	GotRecords map[store.Key]store.Record
	GotJobs    JobMap
	GotList    []store.Got[*core.Job]
	GotRuns    RunMap
	InSpan     []core.Run
	GotOldest  ring.Oldest
}

// Do stands in for calls: next makes the call and returns its errors, one for each written item. The call fails with the
// returned errors. A read has one.
type Do func(ctx context.Context, c *Call, next func() []error) []error

// Over returns a copy of a store whose calls go through do.
func Over(s *store.Store, do Do) *store.Store {
	c := *s
	c.Records, c.Jobs, c.Runs, c.Queue = overRecords{s.Records, do}, overJobs{s.Jobs, do}, overRuns{s.Runs, do}, overQueue{s.Queue, do}
	return &c
}

// Fail returns err for each of n items.
func Fail(err error, n int) []error { return slices.Repeat([]error{err}, n) }

// read makes a call with one error.
func (do Do) one(ctx context.Context, c *Call, call func() error) error {
	return do(ctx, c, func() []error { return []error{call()} })[0]
}

type (
	overRecords struct {
		store.Records
		do Do
	}
	overJobs struct {
		store.Jobs
		do Do
	}
	overRuns struct {
		store.Runs
		do Do
	}
	overQueue struct {
		store.Queue
		do Do
	}
)

func (o overRecords) Get(ctx context.Context, keys ...store.Key) (map[store.Key]store.Record, error) {
	c := &Call{Get: keys}
	err := o.do.one(ctx, c, func() (err error) {
		c.GotRecords, err = o.Records.Get(ctx, keys...)
		return err
	})
	return c.GotRecords, err
}

func (o overRecords) List(ctx context.Context, kind, after, before string, limit int) (list []store.Record, err error) {
	err = o.do.one(ctx, &Call{List: kind}, func() error {
		list, err = o.Records.List(ctx, kind, after, before, limit)
		return err
	})
	return list, err
}

func (o overRecords) Write(ctx context.Context, groups ...store.Group) []error {
	c := &Call{Write: groups}
	return o.do(ctx, c, func() []error { return o.Records.Write(ctx, c.Write...) })
}

func (o overJobs) Get(ctx context.Context, part store.Part, ids []core.JobID) (JobMap, error) {
	c := &Call{Jobs: ids, Part: part}
	err := o.do.one(ctx, c, func() (err error) {
		c.GotJobs, err = o.Jobs.Get(ctx, part, ids)
		return err
	})
	return c.GotJobs, err
}

func (o overJobs) List(ctx context.Context, app string, after core.JobID, limit int) (
	_ []store.Got[*core.Job], next core.JobID, err error,
) {
	c := &Call{Listed: true}
	err = o.do.one(ctx, c, func() error {
		c.GotList, next, err = o.Jobs.List(ctx, app, after, limit)
		return err
	})
	return c.GotList, next, err
}

func (o overJobs) Entries(ctx context.Context, job core.JobID) (list []core.DueItem, err error) {
	err = o.do.one(ctx, &Call{Due: job}, func() error {
		list, err = o.Jobs.Entries(ctx, job)
		return err
	})
	return list, err
}

func (o overJobs) Put(ctx context.Context, puts []store.JobPut) []error {
	c := &Call{Put: puts}
	return o.do(ctx, c, func() []error { return o.Jobs.Put(ctx, c.Put) })
}

func (o overJobs) Numbers(ctx context.Context, job core.JobID, n int) (first int64, err error) {
	err = o.do.one(ctx, &Call{Number: job}, func() error {
		first, err = o.Jobs.Numbers(ctx, job, n)
		return err
	})
	return first, err
}

func (o overRuns) Get(ctx context.Context, ids []core.RunID) (RunMap, error) {
	c := &Call{Runs: ids}
	err := o.do.one(ctx, c, func() (err error) {
		c.GotRuns, err = o.Runs.Get(ctx, ids)
		return err
	})
	return c.GotRuns, err
}

func (o overRuns) Put(ctx context.Context, puts []store.RunPut) []error {
	c := &Call{PutRun: puts}
	return o.do(ctx, c, func() []error { return o.Runs.Put(ctx, c.PutRun) })
}

func (o overRuns) Span(ctx context.Context, first, last core.RunID, limit int) ([]core.Run, error) {
	c := &Call{Span: true, Ends: [2]core.RunID{first, last}}
	err := o.do.one(ctx, c, func() (err error) {
		c.InSpan, err = o.Runs.Span(ctx, first, last, limit)
		return err
	})
	return c.InSpan, err
}

func (o overRuns) Open(ctx context.Context, first, last core.RunID, waiting bool, limit int) (
	list []core.Run, next core.RunID, err error,
) {
	err = o.do.one(ctx, &Call{Open: true}, func() error {
		list, next, err = o.Runs.Open(ctx, first, last, waiting, limit)
		return err
	})
	return list, next, err
}

func (o overRuns) Recent(ctx context.Context, of store.Recent, from store.RunPlace, limit int) (
	list []core.Run, next store.RunPlace, err error,
) {
	err = o.do.one(ctx, &Call{Recent: true}, func() error {
		list, next, err = o.Runs.Recent(ctx, of, from, limit)
		return err
	})
	return list, next, err
}

func (o overRuns) Last(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (found map[core.JobID][]core.Run, err error) {
	err = o.do.one(ctx, &Call{Last: jobs, Limit: n}, func() error {
		found, err = o.Runs.Last(ctx, jobs, upTo, n)
		return err
	})
	return found, err
}

func (o overQueue) Enqueue(ctx context.Context, out []ring.Out) []error {
	c := &Call{Out: out}
	return o.do(ctx, c, func() []error { return o.Queue.Enqueue(ctx, c.Out) })
}

func (o overQueue) Bury(ctx context.Context, m ring.Message, why string) error {
	return o.do.one(ctx, &Call{Bury: why}, func() error { return o.Queue.Bury(ctx, m, why) })
}

func (o overQueue) Oldest(ctx context.Context) (ring.Oldest, error) {
	c := &Call{Oldest: true}
	err := o.do.one(ctx, c, func() (err error) {
		c.GotOldest, err = o.Queue.Oldest(ctx)
		return err
	})
	return c.GotOldest, err
}

// UnreadableJobs returns a copy of a store of which some jobs cannot be decoded.
func UnreadableJobs(s *store.Store, bad func(core.JobID) bool) *store.Store {
	of := func(id core.JobID, g store.Got[*core.Job]) store.Got[*core.Job] {
		if bad(id) {
			return store.Got[*core.Job]{Is: &core.Job{Def: core.Def{ID: id}}, Err: errors.New("no JSON")}
		}
		return g
	}
	return Over(s, func(_ context.Context, c *Call, next func() []error) []error {
		errs := next()
		for id, g := range c.GotJobs {
			c.GotJobs[id] = of(id, g)
		}
		for i, g := range c.GotList {
			c.GotList[i] = of(g.Is.Def.ID, g)
		}
		return errs
	})
}

// Unreadable returns a copy of a store of which one run cannot be decoded.
func Unreadable(s *store.Store, bad core.RunID) *store.Store {
	return Over(s, func(_ context.Context, c *Call, next func() []error) []error {
		errs := next()
		if _, is := c.GotRuns[bad]; is {
			c.GotRuns[bad] = store.Got[*core.Run]{Err: errors.New("written by a newer version")}
		}
		return errs
	})
}
