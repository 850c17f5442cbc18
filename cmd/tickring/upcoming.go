package main

import (
	"fmt"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/core"
	questions "github.com/tickring/tickring/core/ask"
	"github.com/tickring/tickring/internal/parts"
)

type upcomeCmd struct {
	What  string `arg:"" optional:"" placeholder:"JOB|APP" help:"Of one job or app; of all if left out."`
	For   string `default:"1h" placeholder:"SPAN" help:"How far: 10m, 1h, 7d."`
	From  string `placeholder:"TIME" help:"From: 18:00, 10m, 2026-12-24; now if left out."`
	To    string `placeholder:"TIME" help:"Up to, in place of --for."`
	Limit int    `default:"100" help:"At most so many lines; the fires of a job in a row are one."`
}

func (c *upcomeCmd) Run(e *conn) error {
	if c.Limit < 1 {
		return core.Invalid("limit", fmt.Sprint(c.Limit), "at least 1")
	}
	now, zone := time.Now(), ""
	params := api.ListUpcomingParams{App: c.What, Limit: questions.MaxPage}
	if c.What != "" && kindOf(c.What) != appKind {
		j, err := e.job(c.What)
		if err != nil {
			return err
		}
		params.App, params.Job, zone = "", j.App+"/"+j.Name, j.Schedule.Timezone
	}
	to, err := e.spanAhead(c, zone, now, &params)
	if err != nil {
		return err
	}
	res := api.Upcoming{Upcoming: []api.Coming{}}
	_, err = pages(e, "", parts.Pages[api.Upcoming]{
		Ask: func(string) (api.Upcoming, error) {
			return e.ListUpcoming(e.Ctx, params)
		},
		Add: func(page *api.Upcoming) string {
			parts.AddUpcoming(&res, page, questions.MaxPage)
			params.After = page.Next
			return behind(page.Next)
		},
		Progress: func() string { return fmt.Sprintf("looked at the jobs up to number %d", params.After) },
	})
	if err == nil && len(res.Upcoming) == 0 && params.App != "" {
		_, err = e.app(c.What) // nothing comes of what is not there
	}
	if err != nil {
		return err
	}
	if n := len(res.Upcoming); res.Partial && n > 0 { // behind the last one nobody has looked
		to = res.Upcoming[n-1].ScheduledAt
	}
	return e.show(res, func() { c.print(e.Env, &res, now, to) })
}

// spanAhead reads from when to when, and has params ask so far.
func (e *Env) spanAhead(c *upcomeCmd, zone string, now time.Time, params *api.ListUpcomingParams) (to time.Time, err error) {
	span, err := api.ParseDuration(c.For)
	if err != nil {
		return to, core.Invalid("for", c.For, "%v", err)
	}
	if span <= 0 {
		return to, core.Invalid("for", c.For, "allowed are 1s to 366d")
	}
	from := now
	if c.From != "" {
		if from, err = parseTime("from", c.From, e.zone(zone), now, false); err != nil {
			return to, err
		}
		params.From = from.Add(-time.Second) // what is asked for begins behind it
	}
	if to = from.Add(span); c.To != "" {
		if to, err = parseTime("to", c.To, e.zone(zone), from, false); err != nil {
			return to, err
		}
	}
	if !to.After(from) || !to.After(now) {
		return to, core.Invalid("to", to.Format(time.RFC3339), "what comes lies behind now, and behind --from")
	}
	ahead := (to.Sub(from) + time.Second - 1).Truncate(time.Second)
	if c.From != "" {
		ahead += time.Second
	}
	if ahead > questions.MaxUpcoming {
		name, value := "for", c.For
		if c.To != "" {
			name, value = "to", c.To
		}
		return to, core.Invalid(name, value, "allowed are 1s to 366d")
	}
	params.For = api.FormatDuration(ahead)
	return to, nil
}

// folded is as many fires of a job in a row as are shown one by one.
const folded = 3

// print shows times in the one zone of all that is shown, else in UTC, and the fires
// of a job that has many as one line.
func (c *upcomeCmd) print(e *Env, res *api.Upcoming, now, to time.Time) {
	zone, fires := "", map[string][]api.Coming{}
	for i, u := range res.Upcoming {
		if i == 0 {
			zone = u.Timezone
		}
		if u.Timezone != zone {
			zone = ""
		}
		fires[u.Job+" "+u.Cause] = append(fires[u.Job+" "+u.Cause], u)
	}
	rows := [][]string{{"SCHEDULED", "", "APP/JOB", "CAUSE"}}
	for _, u := range res.Upcoming {
		key := u.Job + " " + u.Cause
		text := u.Cause
		if all := fires[key]; len(all) > folded {
			if all[0] != u {
				continue
			}
			text += fmt.Sprintf("   %d fires until %s", len(all), e.full(all[len(all)-1].ScheduledAt, zone))
		}
		rows = append(rows, []string{e.full(u.ScheduledAt, zone), "in " + span(max(0, u.ScheduledAt.Sub(now))), u.Job, text})
	}
	more := len(rows) > c.Limit+1
	if more {
		rows = rows[:c.Limit+1]
	}
	until := e.full(to.Truncate(time.Second), zone)
	if len(rows) > 1 {
		table(e.Stdout, rows)
		e.printf("until %s", until)
	} else {
		e.printf("nothing%s until %s", of(c.What), until)
	}
	if res.Partial { // so many come before that nobody has looked behind it
		e.printf("   what comes later, of one job: tickring upcoming JOB\n")
	} else {
		e.printf("   further: --for 7d\n")
	}
	if more {
		e.printf("there is more: --limit %d\n", c.Limit*5)
	}
}
