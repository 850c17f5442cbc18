package report_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/testkit/check"
)

// counts are the values of a bucket, added up from runs.
type counts struct {
	At              core.Instant
	App             string
	Ended, Open     int64
	Lost, Succeeded int64
}

func (w *world) shapeOf(s *report.Shape, q report.Question, when func(core.Run) core.Instant) (want, got []counts) {
	at := map[counts]*counts{}
	for _, r := range w.runs {
		moment := when(r)
		if moment < s.From || moment >= s.To || q.App != "" && r.App != q.App || q.Job != 0 && r.ID.Job() != q.Job {
			continue
		}
		key := counts{At: s.From + (moment-s.From)/s.Width*s.Width}
		if q.Each == report.EachApp {
			key.App = r.App
		}
		if at[key] == nil {
			at[key] = &counts{At: key.At, App: key.App}
		}
		switch c := at[key]; {
		case r.State.Open():
			c.Open++
		default:
			c.Ended++
			switch r.State {
			case core.Lost:
				c.Lost++
			case core.Succeeded:
				c.Succeeded++
			}
		}
	}
	for _, c := range at {
		want = append(want, *c)
	}
	slices.SortFunc(want, func(a, b counts) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.App, b.App)) })
	for i := range s.Rows {
		r := &s.Rows[i]
		got = append(got, counts{r.At, r.App, r.Runs(), r.Open, r.Ended(core.Lost), r.Ended(core.Succeeded)})
	}
	return want, got
}

// TestShape checks that each run is in one bucket, with long spans from reports and short ones from runs.
func TestShape(t *testing.T) {
	start := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	w := newWorld(t, start)
	r := w.reports(report.Options{})
	w.live(30*time.Hour, r)
	now := core.InstantOf(w.now)
	for name, q := range map[string]report.Question{
		"a day":        {From: now - 24*3600, To: now + 1},
		"all of it":    {From: core.InstantOf(start), To: now + 1, Buckets: 10},
		"of an app":    {From: now - 24*3600, To: now + 1, App: "shop"},
		"of each app":  {From: now - 24*3600, To: now + 1, Each: report.EachApp},
		"of a job":     {From: now - 24*3600, To: now + 1, Job: 5},
		"an hour":      {From: now - 3600, To: now + 1},
		"six hours":    {From: now - 6*3600, To: now, Buckets: 30},
		"hours before": {From: now - 9*3600, To: now - 5*3600, App: "pay", Buckets: 60},
		"by the app":   {From: now - 2*3600, To: now, Each: report.EachApp},
	} {
		q.For = time.Minute
		s, err := r.Shape(t.Context(), q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		when := func(r core.Run) core.Instant { return core.Instant(r.Journal.Minute * 60) }
		if s.Width < 3600 {
			when = func(r core.Run) core.Instant {
				if r.State == core.Skipped && r.Reason != core.ReasonOverlap {
					return core.InstantOf(r.EndedAt)
				}
				return core.InstantOf(r.SentAt)
			}
		}
		want, got := w.shapeOf(&s, q, when)
		if len(want) == 0 && q.Job == 0 {
			t.Errorf("%s: nothing is in it", name)
		}
		if s.Width >= 3600 { // ends since the last check are counted later
			for _, list := range [][]counts{want, got} {
				for i := range list {
					c := &list[i]
					c.Ended, c.Open, c.Lost, c.Succeeded = c.Ended+c.Open, 0, 0, 0
				}
			}
		}
		check.Equal(t, diff.Diff(want, got), "", "%s, by %d s (-want +got)", name, s.Width)
		if most := cmp.Or(q.Buckets, report.MaxBuckets); (s.To-s.From)/s.Width > core.Instant(most) {
			t.Errorf("%s: %d buckets", name, (s.To-s.From)/s.Width)
		}
		if s.CountedFrom > s.From || s.CountedTo < min(s.To, now) {
			t.Errorf("%s: counted from %s to %s of %s to %s", name, s.CountedFrom, s.CountedTo, s.From, s.To)
		}
	}
	for _, bad := range []report.Question{{From: now, To: now}, {From: 0, To: now, Buckets: 121}, {From: 0, To: now, Buckets: -1},
		{From: 0, To: core.Horizon + 100*366*24*3600}} {
		if _, err := r.Shape(t.Context(), bad); core.CodeOf(err) != core.CodeInvalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestShapeWithoutReports checks that runs are counted before the first hour is summed.
func TestShapeWithoutReports(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 28, 0, 10, 0, 0, time.UTC))
	w.began(1, false)
	r := w.reports(report.Options{})
	now := core.InstantOf(w.now)
	s, err := r.Shape(t.Context(), report.Question{From: now - 24*3600, To: now + 60})
	if err != nil || len(s.Rows) != 1 || s.Rows[0].Runs() != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestShapeOfTooMuch checks that CountedFrom excludes buckets that could not be read in time.
func TestShapeOfTooMuch(t *testing.T) {
	w := newWorld(t, time.Date(2026, 3, 28, 0, 10, 0, 0, time.UTC))
	r := w.reports(report.Options{})
	w.live(5*time.Hour, nil)
	now := core.InstantOf(w.now)
	s, err := r.Shape(t.Context(), report.Question{From: now - 4*3600, To: now, For: 1})
	if err != nil || s.CountedFrom != s.To || len(s.Rows) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
