package api

import (
	"net/http"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/query"
)

func (s *server) GetUpcomingHistogram(r *http.Request, params client.GetUpcomingHistogramParams) (any, error) {
	a := query.ComingAsk{From: params.From, For: 24 * time.Hour, Buckets: params.Buckets, JobFilter: query.JobFilter{App: params.App}}
	var err error
	if params.For != "" {
		a.For, err = parseDuration("for", params.For)
		if err == nil && (a.For < time.Second || a.For > query.MaxComing) {
			err = core.Invalid("for", params.For, "allowed values: 1s to 7d")
		}
	}
	if err == nil {
		a.Sees, err = s.sift(r, "", params.App)
	}
	if err != nil {
		return nil, err
	}
	c, err := s.m.ComingShape(r.Context(), a)
	if err != nil {
		return nil, err
	}
	out := client.UpcomingHistogram{From: c.From.Time(), To: c.To.Time(), Width: core.FormatDuration(time.Duration(c.Width) * time.Second),
		Jobs: c.Jobs, Apps: []client.UpcomingApp{}, MoreApps: c.MoreApps, Peaks: []client.UpcomingPeak{}, Partial: c.Partial}
	for i := range c.Apps {
		from := &c.Apps[i]
		app := client.UpcomingApp{App: from.App, Jobs: from.Jobs, Fires: from.Fires}
		if b := &from.Band; b.Jobs > 0 {
			app.Frequent = &client.FrequentJobs{Jobs: b.Jobs, Fires: int64(b.Fires), About: b.About, Names: b.Names}
		}
		out.Apps = append(out.Apps, app)
	}
	for _, p := range c.Piles {
		out.Peaks = append(out.Peaks, client.UpcomingPeak{At: p.At.Time(), Jobs: p.Jobs, Names: p.Names})
	}
	return out, nil
}
