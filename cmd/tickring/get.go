package main

import (
	"slices"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/manifest"
)

type getCmd struct {
	What  string   `arg:"" optional:"" placeholder:"APP|JOB" help:"App or job to show (default: all jobs). To list channels: 'tickring get channels'."`
	Label []string `short:"l" placeholder:"KEY=VALUE" help:"${label}"`
	Set   *string  `placeholder:"SET" help:"Only objects of this manifest set; \"\" selects objects without a set."`
	findFlags
	Sort    string `default:"" enum:"number,name,next,last," placeholder:"ORDER" help:"Sort order: number, name, next (scheduled time of the next run) or last (scheduled time of the last run)."`
	Reverse bool   `help:"Reverse the sort order."`
	watchFlags
}

type findFlags struct {
	Status []string `placeholder:"STATUS" enum:"${standings}" help:"Only jobs with this status: ${standings}."`
	Text   string   `placeholder:"TEXT" help:"Only jobs with this text in their name, title, author, handler, params or schedule."`
}

func (f *findFlags) given() bool { return len(f.Status) > 0 || f.Text != "" }

func (c *getCmd) Run(e *conn) error { return c.watchFlags.run(e, c.once) }

func (c *getCmd) once(e *conn) error {
	if c.What == channelsWord && len(c.Label) == 0 && !c.given() {
		return e.listChannels()
	}
	var notify *client.Notify
	var channels []client.Channel
	var apps []client.App
	var jobs []client.Job
	var failed []client.UnreadableJob
	var short bool
	var err error
	of := client.ListJobsParams{Label: c.Label, Last: e.Output != "yaml", Status: c.Status, Text: c.Text, Sort: c.Sort, Reverse: c.Reverse}
	chosen := len(c.Label) > 0 || c.given()
	switch {
	case chosen && c.What != "" && kindOf(c.What) != appKind:
		return usagef("-l, --status and --text select jobs: with these flags, name at most one app")
	case c.What == "":
		if apps, short, err = e.apps(); err == nil {
			jobs, failed, err = e.jobs(of)
		}
		if err == nil && e.Output != "text" && !chosen {
			var all client.ChannelList
			all, err = e.ListChannels(e.Ctx)
			channels = all.Channels
			if err == nil {
				var status client.Status
				status, err = e.GetStatus(e.Ctx)
				notify = status.Notify
			}
		}
	case kindOf(c.What) == jobKind:
		var j client.Job
		j, err = e.job(c.What)
		if err == nil && e.json() {
			return e.printJSON(j)
		}
		jobs = []client.Job{j}
	case kindOf(c.What) == runKind:
		return (&runCmd{Name: c.What}).Run(e)
	default:
		var a client.App
		if a, err = e.app(c.What); err == nil {
			apps = []client.App{a}
			of.App = c.What
			jobs, failed, err = e.jobs(of)
		}
		if err == nil && e.Output == "yaml" && a.Set != "" { // else a prune of the set by this file deletes them
			var all client.ChannelList
			all, err = e.ListChannels(e.Ctx)
			channels = slices.DeleteFunc(all.Channels, func(ch client.Channel) bool { return ch.Set != a.Set })
		}
	}
	if err != nil {
		return err
	}
	if chosen {
		apps = slices.DeleteFunc(apps, func(a client.App) bool {
			return !slices.ContainsFunc(jobs, func(j client.Job) bool { return j.App == a.Name })
		})
	}
	if c.Set != nil {
		notify = nil
		channels = slices.DeleteFunc(channels, func(x client.Channel) bool { return x.Set != *c.Set })
		apps = slices.DeleteFunc(apps, func(x client.App) bool { return x.Set != *c.Set })
		jobs = slices.DeleteFunc(jobs, func(x client.Job) bool { return x.Set != *c.Set })
	}
	if err := c.print(e, notify, channels, apps, jobs, failed); err != nil || len(failed) == 0 && !short {
		return err
	}
	for _, f := range failed {
		e.notef("job %d cannot be read: %s\n", f.Number, oneLine(f.Message))
	}
	return exitWith(exitFailed)
}

func (c *getCmd) print(e *conn, notify *client.Notify, channels []client.Channel, apps []client.App, jobs []client.Job,
	failed []client.UnreadableJob) error {
	switch {
	case e.json():
		if apps == nil {
			apps = []client.App{}
		}
		all := map[string]any{"apps": apps, "jobs": jobs}
		if len(failed) > 0 {
			all["failed"] = failed
		}
		if len(channels) > 0 {
			all["channels"] = channels
		}
		if notify != nil {
			all["notify"] = notify
		}
		return e.printJSON(all)
	case e.Output == "yaml":
		if err := e.sources(jobs); err != nil {
			return err
		}
		return e.export(notify, channels, apps, jobs)
	case len(jobs) > 0:
		return e.printJobs(jobs)
	case len(failed) == 0 && len(c.Label) > 0:
		return noLabel(c.Label)
	case len(failed) == 0 && (c.given() || c.Set != nil):
		e.printf("no matching jobs\n")
	case len(failed) == 0 && c.What != "":
		e.printf("app %s has no jobs   deleted jobs: tickring changes %s   to create one: tickring create %s/NAME --help\n", c.What, c.What,
			c.What)
	case len(failed) == 0:
		e.printf("no jobs yet: tickring create --help, or tickring apply -f FILE\n")
	}
	return nil
}

func (e *Env) export(notify *client.Notify, channels []client.Channel, apps []client.App, jobs []client.Job) error {
	for _, a := range apps {
		if a.HasToken {
			e.notef("warning: app %s has a token; the file does not contain it\n", a.Name)
		}
	}
	data, err := manifest.ExportAll(notify, channels, apps, jobs)
	if err != nil {
		return err
	}
	_, err = e.Stdout.Write(data)
	return err
}

func (e *conn) printJobs(jobs []client.Job) error {
	status, err := e.GetStatus(e.Ctx)
	if err != nil {
		return err
	}
	now := status.Now
	if now.IsZero() {
		now = time.Now()
	}
	if covers(status.Pause, now) {
		e.notef("everything is paused%s   to resume: tickring resume --all\n", why(status.Pause))
	}
	rows := [][]string{{"APP/JOB", "SCHEDULE", "NEXT", "LAST", "STATE"}}
	var colors paints
	for i := range jobs {
		j := &jobs[i]
		next, last, state := "-", "-", j.State
		if len(j.Next) > 0 {
			next = e.soon(j.Next[0], now, j.Schedule.Timezone)
		}
		if j.Last != nil {
			last = j.Last.State
			colors = append(colors, paint{len(rows), 3, "", stateColor(last)})
		}
		switch {
		case j.Problem != "":
			state = "cannot be planned: " + j.Problem
			colors = append(colors, paint{len(rows), 4, "", red})
		case j.Pause != nil:
			state = "paused" + pausedWith[j.Pause.Of]
			if !j.Pause.Until.IsZero() {
				state += " until " + e.short(j.Pause.Until, now, j.Schedule.Timezone)
			}
		}
		rows = append(rows, []string{j.App + "/" + j.Name, scheduleText(j), next, last, state})
	}
	table(e.Stdout, rows, e.paints(colors)...)
	return nil
}

var pausedWith = map[string]string{"app": " with its app", "everything": " with everything"}

func why(p *client.Pause) string {
	text := ""
	if p.By != "" {
		text += " by " + oneLine(p.By)
	}
	if p.Reason != "" {
		text += ": " + oneLine(p.Reason)
	}
	return text
}
