package manage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/finish"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/people"
	"github.com/tickring/tickring/core/plan"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/memory"
)

// crowded is a store that accepts a few jobs of each call, after it was full for a time.
type crowded struct {
	*memory.Store
	perCall int
	from    time.Time
	calls   map[string]int
	deletes string // an app to delete before the first job is created
}

func (c *crowded) full(call string) bool {
	c.calls[call]++
	return time.Now().Before(c.from)
}

func (c *crowded) CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error {
	full := c.full("create")
	if app := c.deletes; app != "" {
		c.deletes = ""
		found, _, _ := c.Apps(ctx, []string{app})
		if err := c.DeleteApp(ctx, found[app].Rev, app, core.Change{ID: 1, App: app}); err != nil {
			return []error{err}
		}
	}
	errs := make([]error, len(jobs))
	for i := range jobs {
		if errs[i] = core.ErrThrottled; !full && i < c.perCall {
			errs[i] = c.Store.CreateJobs(ctx, jobs[i:i+1], changes[i:i+1])[0]
		}
	}
	return errs
}

func (c *crowded) JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error) {
	if c.full("read") {
		return nil, core.ErrThrottled
	}
	return c.Store.JobIDs(ctx, app, names)
}

func (c *crowded) NewJobIDs(ctx context.Context, n int) (core.JobID, error) {
	if c.full("number") {
		return 0, core.ErrThrottled
	}
	return c.Store.NewJobIDs(ctx, n)
}

func newCrowded(t *testing.T) (*crowded, *people.People) {
	t.Helper()
	c := &crowded{Store: memory.New(t, memory.Options{}), calls: map[string]int{}}
	m := people.New(c, c.Store, finish.New(c.Store.Store, finish.Options{Plan: plan.Local()}), nil, people.Options{Plan: plan.Local()})
	check.Call(t)(m.SaveApp(t.Context(), ann, manage.AppSpec{Name: "shop"}))
	return c, m
}

func many(n int) []manage.JobSpec {
	specs := make([]manage.JobSpec, n)
	for i := range specs {
		specs[i] = spec(fmt.Sprint("j", i), every(time.Hour))
	}
	return specs
}

// TestSaveWaitsForRoom: throttled jobs are tried again while other jobs of the save are stored,
// and for a while if none is.
func TestSaveWaitsForRoom(t *testing.T) {
	for name, at := range map[string]struct {
		perCall int
		from    time.Duration
	}{"a few at a time": {perCall: 7}, "none for a while": {perCall: 100, from: 8 * time.Second},
		"none for a while, then few": {perCall: 7, from: 8 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, m := newCrowded(t)
				c.perCall, c.from = at.perCall, time.Now().Add(at.from)
				for _, r := range m.Save(t.Context(), ann, many(100)) {
					if r.Err != nil || r.Change != manage.Created {
						t.Errorf("%s: %s, %v", r.Name, r.Change, r.Err)
					}
				}
				if n := c.calls["create"] + c.calls["read"] + c.calls["number"]; n > 100 {
					t.Errorf("the store was asked %d times: %v", n, c.calls)
				}
			})
		})
	}
}

// TestSaveWithoutRoom: a save ends when the store stays full or its caller stops waiting. Its
// jobs are not stored, and their errors report that.
func TestSaveWithoutRoom(t *testing.T) {
	texts := golden.New(t)
	for name, c := range map[string]struct{ waits, most time.Duration }{"for long": {time.Hour, 15 * time.Second},
		"longer than the caller waits": {3 * time.Second, 3 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, m := newCrowded(t)
				store.from = time.Now().Add(time.Hour)
				ctx, cancel := context.WithTimeout(t.Context(), c.waits)
				defer cancel()
				began := time.Now()
				results := m.Save(ctx, ann, many(10))
				if took := time.Since(began); took > c.most || took < time.Second {
					t.Errorf("it took %s", took)
				}
				for _, r := range results {
					if core.CodeOf(r.Err) != core.CodeUnavailable || !errors.Is(r.Err, core.ErrThrottled) {
						t.Errorf("%s: %v", r.Name, r.Err)
					}
					texts.Equal(t, "not stored", fmt.Sprint(r.Err))
				}
				if jobs, _, err := store.ListJobs(t.Context(), "", 0, 100); err != nil || len(jobs) > 0 {
					t.Errorf("%d jobs are there, %v", len(jobs), err)
				}
			})
		})
	}
}

// TestSaveWithLittleRoom: a save ends even if the store accepts a job now and then. The results
// match the stored jobs.
func TestSaveWithLittleRoom(t *testing.T) {
	texts := golden.New(t)
	synctest.Test(t, func(t *testing.T) {
		store, m := newCrowded(t)
		store.perCall = 1
		began := time.Now()
		made := 0
		for _, r := range m.Save(t.Context(), ann, many(600)) {
			if r.Err == nil {
				made++
			} else if texts.Equal(t, "perhaps stored", r.Err.Error()); !errors.Is(r.Err, core.ErrThrottled) {
				t.Errorf("%s: %v", r.Name, r.Err)
			}
		}
		if took := time.Since(began); took > 25*time.Second {
			t.Errorf("it took %s", took)
		}
		if jobs, _, err := store.ListJobs(t.Context(), "", 0, 5000); err != nil || len(jobs) != made || made < 100 {
			t.Errorf("%d jobs exist, %d are reported; %v", len(jobs), made, err)
		}
	})
}

// TestSaveIntoAnAppThatGoes: if an app is deleted after a save has read it, all its jobs are
// rejected as not found.
func TestSaveIntoAnAppThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, m := newCrowded(t)
		c.perCall, c.deletes = 100, "shop"
		for _, r := range m.Save(t.Context(), ann, many(3)) {
			check.Equal(t, core.CodeOf(r.Err), core.CodeNotFound, "%s: %s, %v", r.Name, r.Change, r.Err)
		}
		if jobs, _, err := c.ListJobs(t.Context(), "", 0, 100); err != nil || len(jobs) > 0 {
			t.Errorf("%d jobs are there, %v", len(jobs), err)
		}
	})
}
