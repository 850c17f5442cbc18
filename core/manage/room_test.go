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
	"github.com/tickring/tickring/store"
)

// crowded are jobs of a store that accepts a few jobs of each call, after it was full for a time.
type crowded struct {
	store.Jobs
	s       *store.Store
	perCall int
	from    time.Time
	calls   map[string]int
	deletes string // an app to delete before the first job is created
}

func (c *crowded) full(call string) bool {
	c.calls[call]++
	return time.Now().Before(c.from)
}

func (c *crowded) Put(ctx context.Context, puts []store.JobPut) []error {
	full := c.full("create")
	if app := c.deletes; app != "" {
		c.deletes = ""
		found, _ := c.s.Apps(ctx, app)
		if err := c.s.DeleteApp(ctx, found[app].Is.Rev, app, core.Change{ID: 1, App: app}); err != nil {
			return []error{err}
		}
	}
	errs := make([]error, len(puts))
	for i := range puts {
		if errs[i] = core.ErrThrottled; !full && i < c.perCall {
			errs[i] = c.Jobs.Put(ctx, puts[i:i+1])[0]
		}
	}
	return errs
}

func (c *crowded) Named(ctx context.Context, app string, names []string) (map[string]core.JobID, error) {
	if c.full("read") {
		return nil, core.ErrThrottled
	}
	return c.Jobs.Named(ctx, app, names)
}

func (c *crowded) Numbers(ctx context.Context, job core.JobID, n int) (int64, error) {
	if c.full("number") {
		return 0, core.ErrThrottled
	}
	return c.Jobs.Numbers(ctx, job, n)
}

func newCrowded(t *testing.T) (*crowded, *people.People) {
	t.Helper()
	e := memory.Open(t, memory.Options{})
	s := *e
	c := &crowded{Jobs: s.Jobs, s: e, calls: map[string]int{}}
	s.Jobs = c
	m := people.New(&s, finish.New(e, finish.Options{Plan: plan.Local()}), nil, people.Options{Plan: plan.Local()})
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
				crowded, m := newCrowded(t)
				crowded.from = time.Now().Add(time.Hour)
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
				if jobs, _, err := crowded.List(t.Context(), "", 0, 100); err != nil || len(jobs) > 0 {
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
		c, m := newCrowded(t)
		c.perCall = 1
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
		if jobs, _, err := c.List(t.Context(), "", 0, 5000); err != nil || len(jobs) != made || made < 100 {
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
		if jobs, _, err := c.List(t.Context(), "", 0, 100); err != nil || len(jobs) > 0 {
			t.Errorf("%d jobs are there, %v", len(jobs), err)
		}
	})
}
