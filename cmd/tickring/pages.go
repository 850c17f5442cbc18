package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api"
	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
)

// progress tells whoever waits how far a command has come: in a line of its own
// on a terminal, else now and then.
type progress struct {
	e    *Env
	last time.Time
	line bool // there is one on the terminal
}

// toldEvery is how often a program that reads stderr is told.
const toldEvery = 10 * time.Second

func (e *Env) progress() *progress {
	return &progress{e: e, last: time.Now()}
}

func (p *progress) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if terminal(p.e.Stderr) {
		p.e.notef("\r\x1b[K%s", oneLine(text))
		p.line = true
		return
	}
	if now := time.Now(); now.Sub(p.last) >= toldEvery {
		p.e.notef("%s\n", text)
		p.last = now
	}
}

// end takes the line away.
func (p *progress) end() {
	if p.line {
		p.e.notef("\r\x1b[K")
		p.line = false
	}
}

// triesOfPart bounds how often a part is asked for that the server could not do
// just now, once another was done.
const triesOfPart = 4

// part asks for one part of something long. Where others were done before it is
// asked for again if the server, or the way to it, fails for a moment: to ask twice
// must do no harm.
func part[T any](e *Env, first bool, ask func() (T, error)) (T, error) {
	for try := 1; ; try++ {
		v, err := ask()
		if err == nil || first || try == triesOfPart || !passes(err) || !e.wait(time.Duration(try)*time.Second) {
			return v, err
		}
	}
}

// passes reports whether the same may work in a moment. What stands before a server
// and answers in its place says that it asked too much, or waited too long.
func passes(err error) bool {
	if r, ok := errors.AsType[*client.Error](err); ok {
		return r.Code == string(core.CodeUnavailable) || r.Code == string(core.CodeInternal)
	}
	return errors.Is(err, client.ErrNoAnswer)
}

// cutOff is the error of what ended before its end: what was done, and the
// command that goes on with the rest.
func (e *Env) cutOff(err error, done string, command ...string) error {
	why := err.Error()
	if e.Ctx.Err() != nil {
		why = "interrupted"
	}
	return &exitError{exitOf(err), fmt.Errorf("%s\n%s\ngo on with: %s", why, done, strings.Join(command, " "))}
}

// pageOf keeps the pages of an answer apart from what was summed of them.
type pageOf[T any] struct {
	ask  func(after string) (T, error)
	add  func(page *T) (next string)
	told func() string // how far it has come
}

// pages asks for one page after another, from after on. Where that fails after
// answers to where the pages before went on.
func pages[T any](e *Env, after string, p pageOf[T]) (next string, err error) {
	tell := e.progress()
	defer tell.end()
	for first := true; ; first = false {
		page, err := part(e, first, func() (T, error) { return p.ask(after) })
		if err != nil {
			return after, err
		}
		if after = p.add(&page); after == "" {
			return "", nil
		}
		tell.say("%s", p.told())
	}
}

// addAudit adds a page to the sum of those before it.
func addAudit(sum, page *api.Audit) (next string) {
	sum.Jobs += page.Jobs
	sum.Demanded += page.Demanded
	sum.OnTime += page.OnTime
	sum.Late += page.Late
	sum.WorstMs = max(sum.WorstMs, page.WorstMs)
	sum.NotSent += page.NotSent
	sum.Pending += page.Pending
	sum.Overdue += page.Overdue
	sum.OutOfReach += page.OutOfReach
	sum.Unaccounted += page.Unaccounted
	for reason, n := range page.Skipped {
		sum.Skipped[reason] += n
	}
	sum.Missing = named(sum.Missing, page.Missing)
	if !page.Behind.IsZero() {
		sum.Behind = page.Behind
	}
	sum.Failed = named(sum.Failed, page.Failed)
	sum.Partial = sum.Partial || page.Partial
	sum.From, sum.To, sum.Next = page.From, page.To, page.Next
	return page.Next
}

// shownJobs bounds how many jobs with missing instants, or that failed, are named.
const shownJobs = 100

func named[T any](sum, page []T) []T {
	return append(sum, page[:min(len(page), shownJobs-len(sum))]...)
}

// addReplan adds a page to the sum of those before it.
func addReplan(sum, page *api.ReplanResult) (next string) {
	sum.Jobs += page.Jobs
	sum.Demanded += page.Demanded
	sum.Missing += page.Missing
	sum.Sent += page.Sent
	sum.OutOfReach += page.OutOfReach
	sum.Failed = named(sum.Failed, page.Failed)
	sum.Partial = sum.Partial || page.Partial
	sum.From, sum.To, sum.Next = page.From, page.To, page.Next
	return page.Next
}

// addUpcoming puts the instants of further jobs among those of the jobs before them.
func addUpcoming(sum, page *api.Upcoming, limit int) {
	sum.Upcoming = append(sum.Upcoming, page.Upcoming...)
	slices.SortStableFunc(sum.Upcoming, func(a, b api.Coming) int { return a.ScheduledAt.Compare(b.ScheduledAt) })
	sum.Partial = sum.Partial || page.Partial || len(sum.Upcoming) > limit
	sum.Upcoming = sum.Upcoming[:min(len(sum.Upcoming), limit)]
}

// addStop adds a page of a kill: a run that one page marked and another told of is one.
func addStop(sum, page *api.StopResult) (next string) {
	sum.Changed, sum.Partial = sum.Changed || page.Changed, sum.Partial || page.Partial
	sum.Job = page.Job
	sum.Cancelled, sum.Sent = append(sum.Cancelled, page.Cancelled...), append(sum.Sent, page.Sent...)
	there := make(map[string]bool, len(sum.Killed))
	for _, id := range sum.Killed {
		there[id] = true
	}
	for _, id := range page.Killed {
		if !there[id] {
			sum.Killed = append(sum.Killed, id)
		}
	}
	return page.Next
}

// runPage reads at most limit runs, from page to page.
func (e *Env) runPage(cl *client.Client, params api.ListRunsParams, limit int) (api.RunPage, error) {
	sum := api.RunPage{Runs: []api.Run{}}
	_, err := pages(e, params.After, pageOf[api.RunPage]{
		ask: func(after string) (api.RunPage, error) {
			params.After, params.Limit = after, min(limit-len(sum.Runs), 1000)
			return cl.ListRuns(e.Ctx, params)
		},
		add: func(page *api.RunPage) string {
			sum.Runs, sum.Skips = append(sum.Runs, page.Runs...), append(sum.Skips, page.Skips...)
			if sum.Next = page.Next; len(sum.Runs) >= limit {
				return ""
			}
			return page.Next
		},
		told: func() string { return plural(len(sum.Runs), "run") + " found" },
	})
	return sum, err
}

// replanAll asks for all pages of a replan; what was done is in the sum also where it
// fails.
func (e *Env) replanAll(cl *client.Client, body api.ReplanRequest) (sum api.ReplanResult, err error) {
	sum.Next, err = pages(e, body.After, pageOf[api.ReplanResult]{
		ask: func(after string) (api.ReplanResult, error) {
			body.After = after
			return cl.Replan(e.Ctx, body)
		},
		add:  func(page *api.ReplanResult) string { return addReplan(&sum, page) },
		told: func() string { return fmt.Sprintf("%s looked at, %d sent again", plural(sum.Jobs, "job"), sum.Sent) },
	})
	return sum, err
}
