package api_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/internal/testkit/check"
)

// withReports returns the API with reports over the fixture's store.
func (f *fixture) withReports() http.Handler {
	o := f.o
	o.Reports = report.New(f.e, report.Options{LiveFor: time.Minute}) // a slow machine needs the time to count everything
	return api.NewHandler(f.m, logs{}, o)
}

// TestShapeAndLateness: a run is in a bucket, with its result and lateness.
func TestShapeAndLateness(t *testing.T) {
	f := newFixture(t)
	f.shop()
	if _, err := f.c.GetHistogram(t.Context(), client.GetHistogramParams{}); err == nil {
		t.Error("a server without reports answers")
	}
	f.h = f.withReports()
	server := httptest.NewServer(f.h)
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, token, client.Config{})
	check.OK(t, err)
	job, err := f.c.GetJob(t.Context(), "shop", "report")
	check.OK(t, err)
	now := time.Now().UTC().Truncate(time.Second)
	at := core.InstantOf(now.Add(-10 * time.Minute).Truncate(time.Minute)) // all are in one hour
	for i, state := range []core.State{core.Succeeded, core.Failed, core.Running, core.Lost} {
		r := core.Run{ID: core.PlannedRun(core.JobID(job.ID), at+core.Instant(i)), App: "shop", State: state, Cause: core.CauseSchedule,
			At: at + core.Instant(i), Slot: at + core.Instant(i), Attempt: 1, Address: "http://a",
			Journal: core.JournalKey{Minute: now.Unix() / 60, Nonce: "n"},
			SentAt:  (at + core.Instant(i)).Time().Add(2 * time.Minute)}
		r.First = r.ID
		if !state.Open() {
			r.EndedAt, r.Reason = r.SentAt.Add(time.Second), append(core.Reasons[state], "")[0]
		}
		check.OK(t, f.e.CreateRuns(t.Context(), []core.Run{r})[0])
	}
	for _, span := range []time.Duration{time.Hour, 24 * time.Hour} {
		s, err := c.GetHistogram(t.Context(), client.GetHistogramParams{App: "shop", From: now.Add(-span), To: now.Add(time.Minute)})
		check.OK(t, err)
		var sum client.HistogramBucket
		for _, b := range s.Buckets {
			sum.Succeeded, sum.Failed = sum.Succeeded+b.Succeeded, sum.Failed+b.Failed
			sum.Running, sum.Late = sum.Running+b.Running, sum.Late+b.Late
		}
		if want := (client.HistogramBucket{Succeeded: 1, Failed: 2, Running: 1, Late: 3}); sum != want || s.Partial || len(s.Buckets) > 120 {
			t.Errorf("of %s: %+v, partial %t, %d buckets", span, sum, s.Partial, len(s.Buckets))
		}
	}
	l, err := c.GetLateness(t.Context(), client.GetLatenessParams{Each: "job"})
	if err != nil || len(l.Rows) != 1 || l.Rows[0].Job != "shop/report" || l.Rows[0].Cells[0].Late.P50Ms < 110_000 ||
		l.Rows[0].Cells[0].Lost != 1 {
		t.Errorf("%+v, %v", l, err)
	}
}
