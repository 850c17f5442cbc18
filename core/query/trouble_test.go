package query_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/testkit/check"
	"github.com/tickring/tickring/internal/testkit/golden"
	"github.com/tickring/tickring/internal/testkit/hook"
	"github.com/tickring/tickring/internal/testkit/usecasetest"
)

// past stores runs of a job, oldest first. Letters: s succeeded, f failed without retry, t failed and is retried
// next, S skipped retry, x skipped, k killed, p waiting since due, l in the future.
func (f *fixture) past(job core.JobID, story string) {
	f.T.Helper()
	for i, c := range story {
		at := core.InstantOf(start) - core.Instant(60*(len(story)-i))
		r := newRun(planned(job, at), "", at)
		if r.EndedAt = at.Time(); i > 0 && story[i-1] == 't' {
			r.ID, r.Attempt, r.Cause = core.NumberedRun(job, uint32(i)), 2, core.CauseRetry
		}
		switch c {
		case 's':
			r.State = core.Succeeded
		case 'f':
			r.State, r.Reason = core.Failed, core.ReasonHandler
		case 't':
			r.State, r.Reason, r.Then = core.Lost, core.ReasonGone, core.NumberedRun(job, uint32(i+1))
		case 'S', 'x':
			r.State, r.Reason = core.Skipped, core.ReasonDeadline
		case 'k':
			r.State, r.Reason = core.Killed, core.ReasonPerson
		case 'p':
			r.State, r.EndedAt = core.Queued, time.Time{}
		case 'l':
			r.ID, r.Slot, r.State, r.EndedAt = core.NumberedRun(job, uint32(i)), core.InstantOf(start)+60, core.Planned, time.Time{}
		}
		f.Put(r)
	}
}

// TestTrouble checks that a job is failing if its last three chains failed, or all chains. Retried, skipped and open
// runs do not count, and the oldest waiting run is reported.
func TestTrouble(t *testing.T) {
	for _, c := range []struct {
		story   string
		times   int // failures; 0: not failing
		pending int // minutes that the oldest waits; 0: none waits
	}{
		{"", 0, 0}, {"s", 0, 0}, {"f", 1, 0}, {"sff", 0, 0}, {"sfff", 3, 0}, {"sfffffff", 3, 0}, {"ffffs", 0, 0},
		{"tf", 1, 0}, {"ts", 0, 0}, {"tttftttfttS", 3, 0}, {"xxxx", 0, 0}, {"sfxfxfx", 3, 0}, {"ffk", 0, 0}, {"sffkf", 0, 0},
		{"sfffppl", 3, 3}, {"l", 0, 0}, {"st", 0, 0}, {"pf", 1, 2},
	} {
		t.Run(c.story, func(t *testing.T) {
			f := newFixture(t)
			j := f.Create(spec("sweep", every(time.Minute)))
			f.past(j.Def.ID, c.story)
			got, err := f.M.Trouble(ctx, nil)
			if err != nil || got.Looked != 1 || got.More || (got.Fail == 1) != (c.times > 0) || len(got.Failing) != got.Fail {
				t.Fatalf("%+v %v", got, err)
			}
			if c.times > 0 && (got.Failing[0].Times != c.times || !got.Failing[0].Last.FailedForGood() ||
				got.Named[got.Failing[0].Last.ID.Job()].Name() != "shop/sweep") {
				t.Errorf("%+v", got.Failing)
			}
			if (got.Pending != nil) != (c.pending > 0) ||
				c.pending > 0 && got.Pending.Slot != core.InstantOf(start)-core.Instant(60*c.pending) {
				t.Errorf("%+v waits, want %d min", got.Pending, c.pending)
			}
		})
	}
}

// TestTroubleNamesUnreadableJobs checks that an unreadable job is listed with the fate of its runs, for users who see
// all apps.
func TestTroubleNamesUnreadableJobs(t *testing.T) {
	f := newFixture(t)
	f.Create(spec("good", every(time.Minute)))
	bad := f.Create(spec("bad", every(time.Minute))).Def.ID
	m := f.Fresh(&usecasetest.Faults{Bad: []core.JobID{bad}})
	got, err := m.Trouble(ctx, nil)
	if err != nil || len(got.Locked) != 1 || got.Locked[0].Job != bad.String() {
		t.Fatalf("%+v, %v", got.Locked, err)
	}
	golden.New(t).Equal(t, "an unreadable job", got.Locked[0].Why.Reason.String())
	if got, err = m.Trouble(ctx, func(string) bool { return true }); err != nil || len(got.Locked) != 0 {
		t.Errorf("to a user who sees some apps: %+v, %v", got.Locked, err)
	}
}

// TestTroubleNamesTheWorst checks that with more failing jobs than fit, those with three failures are listed.
func TestTroubleNamesTheWorst(t *testing.T) {
	f := newFixture(t)
	for i := range 101 {
		f.past(f.Create(spec(fmt.Sprint("sweep", i), every(time.Minute))).Def.ID, map[bool]string{true: "fff", false: "f"}[i == 100])
	}
	got, err := f.M.Trouble(ctx, nil)
	if err != nil || got.Fail != 101 || len(got.Failing) != 100 ||
		!slices.ContainsFunc(got.Failing, func(x query.Failing) bool {
			return x.Times == 3 && got.Named[x.Last.ID.Job()].Def.Name == "sweep100"
		}) {
		t.Errorf("%d fail, %d are named, %v", got.Fail, len(got.Failing), err)
	}
}

// TestUntold checks that only apps and jobs with a missing channel are reported.
func TestUntold(t *testing.T) {
	f := newFixture(t)
	for i, name := range []string{"oncall", "gone"} {
		check.OK(t, f.E.PutChannel(ctx, 0, core.Channel{Name: name, Kind: core.ChannelWebhook, URL: "https://hooks.example.com/", Rev: 1},
			core.Change{ID: int64(i + 1)}))
	}
	f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "told", Notify: core.Notify{To: []string{"oncall"}}}))
	f.Must(f.M.SaveApp(ctx, ann, manage.AppSpec{Name: "untold", Notify: core.Notify{To: []string{"gone"}}}))
	s := spec("sweep", every(time.Minute))
	s.Def.Notify.To = []string{"oncall", "gone"}
	f.Create(s)
	f.Create(spec("nobody", every(time.Minute)))
	if got, err := f.M.Trouble(ctx, nil); err != nil || len(got.Untold) != 0 {
		t.Fatalf("%+v, %v", got.Untold, err)
	}
	// The store allows a deletion that the API rejects; an old backup has that result too.
	check.OK(t, f.E.DeleteChannel(ctx, 1, "gone", core.Change{ID: 3}))
	got, err := f.M.Trouble(ctx, nil)
	want := []query.MissingChannel{{Subject: "untold", Channel: "gone"}, {Subject: "shop/sweep", Channel: "gone"}}
	if err != nil || !slices.Equal(got.Untold, want) {
		t.Errorf("%+v, %v; want %+v", got.Untold, err, want)
	}
}

// TestTroubleIsBounded checks that a page scans at most 10,000 jobs and reports that more exist, also if its time is
// over.
func TestTroubleIsBounded(t *testing.T) {
	f := newFixture(t)
	specs := make([]manage.JobSpec, 500)
	for n := range 21 {
		for i := range specs {
			specs[i] = spec(fmt.Sprintf("sweep-%d-%d", n, i), every(24*time.Hour))
		}
		for _, r := range f.Save(specs...) {
			check.OK(t, r.Err)
		}
	}
	long := query.New(f.E, query.Options{Now: f.Now, PageFor: time.Hour})
	got, err := long.Trouble(ctx, nil)
	if err != nil || got.Looked != 10_000 || !got.More || got.Deserted[0].Jobs != 10_000 {
		t.Errorf("checked %d, more %v, %+v (%v)", got.Looked, got.More, got.Deserted, err)
	}
	short := query.New(f.E, query.Options{PageFor: time.Nanosecond})
	if got, err = short.Trouble(ctx, nil); err != nil || got.Looked == 0 || got.Looked > 500 || !got.More {
		t.Errorf("in no time: checked %d, more %v (%v)", got.Looked, got.More, err)
	}
}

// TestTroubleOfASlowStore checks that jobs whose runs could not be read in time do not count as scanned.
func TestTroubleOfASlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		for i := range 100 {
			f.Create(spec(fmt.Sprint("sweep-", i), every(time.Minute)))
		}
		s := hook.Over(f.E, func(_ context.Context, c *hook.Call, next func() []error) []error {
			if c.Last != nil {
				time.Sleep(4 * time.Second) // in the bubble
			}
			return next()
		})
		begun := time.Now()
		got, err := query.New(s, query.Options{}).Trouble(ctx, nil)
		if took := time.Since(begun); err != nil || got.Looked != 75 || !got.More || took > 20*time.Second {
			t.Errorf("after %s: checked %d, more %v (%v)", took, got.Looked, got.More, err)
		}
	})
}
