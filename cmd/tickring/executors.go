package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

type execsCmd struct {
	List listExecsCmd `cmd:"" default:"withargs" help:"List the executors of an app, or of all apps."`
	Rm   rmExecCmd    `cmd:"" help:"Remove the registration of a stopped executor."`
}

type rmExecCmd struct {
	App     string `arg:"" placeholder:"APP" help:"App of the executor."`
	Address string `arg:"" placeholder:"ADDRESS" help:"Address of the executor, as listed by 'tickring executors'."`
}

func (c *rmExecCmd) Run(e *conn) error {
	res, err := e.RemoveExecutor(e.Ctx, c.App, client.ExecutorTestRequest{Address: c.Address})
	return e.show(res, err, func() { e.printf("removed %s from app %s\n", res.Address, c.App) })
}

type listExecsCmd struct {
	App  string `arg:"" optional:"" placeholder:"APP" help:"App to list (default: all apps)."`
	Test string `placeholder:"ADDRESS" help:"Check once whether this executor of the app is available."`
}

func (c *listExecsCmd) test(e *conn) error {
	if c.App == "" {
		return usagef("--test: the app of the executor is required")
	}
	res, err := e.TestExecutor(e.Ctx, c.App, client.ExecutorTestRequest{Address: c.Test})
	return e.result(res.Ok, res, err, func() {
		if res.Ok {
			e.printf("%s is available   answered in %d ms%s\n", res.Address, res.TookMs, clockText(res.ClockAheadMs))
		} else {
			e.printf("%s is not available: %s\n", res.Address, oneLine(res.Problem))
		}
	})
}

func (c *listExecsCmd) Run(e *conn) error {
	if c.Test != "" {
		return c.test(e)
	}
	names, short := []string{c.App}, false
	if c.App != "" {
		if err := core.CheckAppName("app", c.App); err != nil {
			return err
		}
	} else {
		var apps []client.App
		var err error
		apps, short, err = e.apps()
		if err != nil {
			return err
		}
		names = nil
		for _, a := range apps {
			names = append(names, a.Name)
		}
	}
	all := client.ExecutorList{Executors: []client.Executor{}}
	for _, name := range names {
		list, err := e.ListExecutors(e.Ctx, name)
		if err != nil {
			return err
		}
		all.Executors = append(all.Executors, list.Executors...)
		all.Refused = append(all.Refused, list.Refused...)
	}
	none := fmt.Sprintf("no executors%s: start an executor that registers, or set fixed addresses in the app", of(c.App))
	if err := e.list(all, nil, none, executorRows(e.Env, &all)); err != nil || !short {
		return err
	}
	return exitWith(exitFailed)
}

// executorRows returns a line for each address. It shows a rejection unless a heartbeat of the address followed.
func executorRows(e *Env, all *client.ExecutorList) [][]string {
	rows := [][]string{{"APP", "ADDRESS", "STATE"}}
	at := map[[2]string]int{}
	for i := range all.Executors {
		x := &all.Executors[i]
		at[[2]string{x.App, x.Address}] = i
		rows = append(rows, []string{x.App, x.Address, liveText(e, x) + clockText(x.ClockAheadMs)})
	}
	for _, r := range all.Refused {
		text := fmt.Sprintf("rejected, last %s ago from %s: %s", span(max(0, time.Since(r.At))), r.From,
			cmp.Or(oneLine(r.Why), "wrong token for the app"))
		switch i, ok := at[[2]string{r.App, r.Address}]; {
		case !ok:
			rows = append(rows, []string{r.App, oneLine(r.Address), text})
		case r.At.After(all.Executors[i].BeatAt):
			rows[i+1][2] += "; " + text
		}
	}
	return rows
}

// clockText formats the difference between a clock and the server's; it is empty if that is unknown or zero.
func clockText(aheadMs *int64) string {
	if aheadMs == nil || *aheadMs == 0 {
		return ""
	}
	ahead, where := time.Duration(*aheadMs)*time.Millisecond, " ahead"
	if ahead < 0 {
		where = " behind"
	}
	return ", its clock " + span(ahead.Abs()) + where
}

func liveText(e *Env, x *client.Executor) string {
	checked := span(max(0, time.Since(x.CheckedAt))) + " ago"
	switch {
	case !x.Used:
		return "registered, but not used because the app has fixed addresses"
	case !x.Fixed && !x.Live:
		text := "gone, "
		if x.Replaced {
			text = "gone, replaced, "
		}
		return text + "last heartbeat " + e.short(x.BeatAt, time.Now(), "")
	case x.Answers != nil && !*x.Answers && x.Fixed:
		return fmt.Sprintf("fixed, does not answer: %s, checked %s", oneLine(x.Problem), checked)
	case x.Answers != nil && !*x.Answers:
		return fmt.Sprintf("sends heartbeats, does not answer: %s, checked %s", oneLine(x.Problem), checked)
	case x.Fixed && x.Answers == nil:
		return "fixed, not checked"
	case x.Fixed:
		return "fixed, answered " + checked
	}
	return "live, last heartbeat " + span(max(0, time.Since(x.BeatAt))) + " ago"
}
