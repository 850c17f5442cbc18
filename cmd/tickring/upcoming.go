package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	questions "github.com/tickring/tickring/core/query"
	"github.com/tickring/tickring/internal/paging"
)

type upcomeCmd struct {
	What      string `arg:"" optional:"" placeholder:"JOB|APP" help:"Job or app (default: all)."`
	For       string `placeholder:"SPAN" help:"Length of the period, such as 10m or 7d (default: 1h; 24h with --histogram)."`
	From      string `placeholder:"TIME" help:"Start of the period, such as 18:00, 10m or 2026-12-24 (default: now)."`
	To        string `placeholder:"TIME" help:"End of the period, instead of --for."`
	Limit     int    `default:"100" help:"Maximum number of lines; consecutive runs of a job share a line."`
	Histogram bool   `help:"Show the number of runs over time, with one line for each app, and the seconds in which most jobs fire. The period is at most 7d."`
}

func (c *upcomeCmd) Run(e *conn) error {
	if c.Limit < 1 {
		return core.Invalid("limit", fmt.Sprint(c.Limit), "at least 1")
	}
	if c.For = cmp.Or(c.For, map[bool]string{true: "24h", false: "1h"}[c.Histogram]); c.Histogram {
		return c.shape(e)
	}
	now, zone := time.Now(), ""
	params := client.ListUpcomingParams{App: c.What, Limit: questions.MaxPage}
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
	res := client.Upcoming{Upcoming: []client.Coming{}}
	_, err = pages(e, "", paging.Pages[client.Upcoming]{
		Ask: func(string) (client.Upcoming, error) {
			return e.ListUpcoming(e.Ctx, params)
		},
		Add: func(page *client.Upcoming) string {
			paging.AddUpcoming(&res, page, questions.MaxPage)
			params.After = page.Next
			return behind(page.Next)
		},
		Progress: func() string { return fmt.Sprintf("scanned the jobs up to number %d", params.After) },
	})
	if err == nil && len(res.Upcoming) == 0 && params.App != "" {
		_, err = e.app(c.What) // an empty list can mean that the app does not exist
	}
	if err != nil {
		return err
	}
	if n := len(res.Upcoming); res.Partial && n > 0 { // times after the last one were not computed
		to = res.Upcoming[n-1].ScheduledAt
	}
	return e.show(res, nil, func() { c.print(e.Env, &res, now, to) })
}

func (e *Env) spanAhead(c *upcomeCmd, zone string, now time.Time, params *client.ListUpcomingParams) (to time.Time, err error) {
	span, err := api.ParseDuration(c.For)
	if err != nil {
		return to, core.Invalid("for", c.For, "%v", err)
	}
	if span <= 0 {
		return to, core.Invalid("for", c.For, "allowed values: 1s to 366d")
	}
	from := now
	if c.From != "" {
		if from, err = parseTime("from", c.From, e.zone(zone), now, false); err != nil {
			return to, err
		}
		params.From = from.Add(-time.Second) // the answer begins after From
	}
	if to = from.Add(span); c.To != "" {
		if to, err = parseTime("to", c.To, e.zone(zone), from, false); err != nil {
			return to, err
		}
	}
	if !to.After(from) || !to.After(now) {
		return to, core.Invalid("to", to.Format(time.RFC3339), "the end of the period must be in the future and after --from")
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
		return to, core.Invalid(name, value, "allowed values: 1s to 366d")
	}
	params.For = core.FormatDuration(ahead)
	return to, nil
}

const shapeMarks = 48

func (c *upcomeCmd) shape(e *conn) error {
	if c.What != "" && kindOf(c.What) != appKind {
		return usagef("--histogram covers one app or all apps; for one job: tickring upcoming %s", c.What)
	}
	now, list := time.Now(), client.ListUpcomingParams{}
	to, err := e.spanAhead(c, "", now, &list)
	if err != nil {
		return err
	}
	params := client.GetUpcomingHistogramParams{App: c.What, For: list.For, Buckets: shapeMarks}
	if c.From != "" { // a second of list.For lies before it
		params.From = list.From.Add(time.Second)
		params.For = core.FormatDuration(to.Sub(params.From).Round(time.Second))
	}
	if e.Output != "text" {
		params.Buckets = 0
	}
	s, err := e.GetUpcomingHistogram(e.Ctx, params)
	if err == nil && len(s.Apps) == 0 && c.What != "" {
		_, err = e.app(c.What)
	}
	return e.show(s, err, func() {
		most := 1
		for _, a := range s.Apps {
			most = max(most, slices.Max(a.Fires))
		}
		rows := [][]string{{"APP", "JOBS", "FIRES", "EACH MARK " + s.Width, "OFTEN"}}
		for _, a := range s.Apps {
			sum, often := 0, ""
			for _, n := range a.Fires {
				sum += n
			}
			if b := a.Frequent; b != nil {
				often = fmt.Sprintf("%d more runs of %s: %s", b.Fires, plural(b.Jobs, "job"), strings.Join(b.Names, ", "))
			}
			rows = append(rows, []string{a.App, fmt.Sprint(a.Jobs), fmt.Sprint(sum), heights(a.Fires, most), often})
		}
		if len(s.Apps) > 0 {
			table(e.Stdout, rows)
		}
		for _, p := range s.Peaks {
			e.printf("%s   %d jobs at once: %s\n", e.full(p.At, ""), p.Jobs, strings.Join(p.Names, ", "))
		}
		e.printf("%d jobs fire from %s to %s\n", s.Jobs, e.full(s.From, ""), e.full(s.To, ""))
		if s.MoreApps > 0 {
			e.printf("%d more apps are not listed: to show an app, name the app\n", s.MoreApps)
		}
		if s.Partial {
			e.printf("only some jobs were scanned: name an app\n")
		}
	})
}

func heights(list []int, most int) string {
	marks := []rune("·▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, n := range list {
		b.WriteRune(marks[(n*(len(marks)-1)+most-1)/most])
	}
	return b.String()
}

// folded is as many fires of a job in a row as are shown one by one.
const folded = 3

// print shows times in the one zone of all that is shown, else in UTC, and the fires
// of a job that has many as one line.
func (c *upcomeCmd) print(e *Env, res *client.Upcoming, now, to time.Time) {
	zone, fires := "", map[string][]client.Coming{}
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
			text += fmt.Sprintf("   %d runs until %s", len(all), e.full(all[len(all)-1].ScheduledAt, zone))
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
		e.printf("no runs%s until %s", of(c.What), until)
	}
	if res.Partial { // the page is full, so later times were not computed
		e.printf("   for later runs of one job: tickring upcoming JOB\n")
	} else {
		e.printf("   for a longer period: --for 7d\n")
	}
	if more {
		e.printf("more upcoming runs exist: --limit %d\n", c.Limit*5)
	}
}
