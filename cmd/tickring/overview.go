package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
)

type overviewCmd struct{ watchFlags }

func (c *overviewCmd) Run(e *conn) error { return c.watchFlags.run(e, c.once) }

func (c *overviewCmd) once(e *conn) error {
	h, err := e.GetOverview(e.Ctx)
	return e.show(h, err, func() {
		rows := [][]string{}
		add := func(what string, n int, of string) { rows = append(rows, []string{what, fmt.Sprint(n), of}) }
		jobs := func(l *client.OverviewJobs) string {
			var names []string
			for _, j := range l.Jobs {
				names = append(names, j.Job)
			}
			if len(names) > 3 {
				names = append(names[:3], "…")
			}
			return strings.Join(names, ", ")
		}
		add("failing", h.Failing.Count, jobs(&h.Failing))
		add("late", h.Late.Count, jobs(&h.Late))
		of := ""
		if len(h.Long.Runs) > 0 {
			r := &h.Long.Runs[0]
			of = fmt.Sprintf("%s, run %s for %s", r.Job, r.Run, span(h.Now.Sub(r.SentAt).Truncate(time.Second)))
		}
		add("running long", h.Long.Count, of)
		if of = ""; len(h.AppsWithoutExecutor) > 0 {
			of = h.AppsWithoutExecutor[0].App
		}
		add("apps without an executor", h.AppsWithoutExecutorCount, of)
		if of = ""; len(h.Coming.First) > 0 {
			of = h.Coming.First[0].Job + " at " + e.full(h.Coming.First[0].ScheduledAt, h.Coming.First[0].Timezone)
		}
		add("jobs that fire in 15 minutes", h.Coming.Jobs, of)
		table(e.Stdout, rows)
		if h.Partial {
			e.printf("the status of some jobs is not known: try again\n")
		}
	})
}
