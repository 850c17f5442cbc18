package main

import (
	"fmt"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/internal/parts"
)

type upcomeCmd struct {
	App   string `arg:"" optional:"" placeholder:"APP" help:"Of one app."`
	For   string `default:"1h" placeholder:"SPAN" help:"How far: 10m, 1h, 7d."`
	Limit int    `default:"100" help:"At most so many."`
}

func (c *upcomeCmd) Run(e *conn) error {
	res := api.Upcoming{Upcoming: []api.Coming{}}
	params := api.ListUpcomingParams{App: c.App, For: c.For, Limit: c.Limit}
	_, err := pages(e, "", parts.Pages[api.Upcoming]{
		Ask: func(string) (api.Upcoming, error) {
			return e.ListUpcoming(e.Ctx, params)
		},
		Add: func(page *api.Upcoming) string {
			parts.AddUpcoming(&res, page, c.Limit)
			params.After = page.Next
			return behind(page.Next)
		},
		Progress: func() string { return fmt.Sprintf("looked at the jobs up to number %d", params.After) },
	})
	if err == nil && len(res.Upcoming) == 0 && c.App != "" {
		_, err = e.app(c.App) // nothing comes of what is not there
	}
	if err != nil {
		return err
	}
	return e.show(res, func() {
		if len(res.Upcoming) == 0 {
			e.printf("nothing within %s   further: --for 7d\n", c.For)
			return
		}
		now := time.Now()
		rows := [][]string{{"SCHEDULED", "", "APP/JOB", "CAUSE"}}
		for _, u := range res.Upcoming {
			rows = append(rows, []string{e.full(u.ScheduledAt, u.Timezone), "in " + span(max(0, u.ScheduledAt.Sub(now))), u.Job, u.Cause})
		}
		table(e.Stdout, rows)
		if res.Partial {
			e.printf("there is more: --limit %d\n", min(c.Limit*5, 1000))
		}
	})
}
