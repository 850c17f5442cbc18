package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/paging"
)

// progress shows the user how far a command is: on one updated line on a terminal, otherwise as a line now and then.
type progress struct {
	e    *Env
	last time.Time
	line bool // there is one on the terminal
}

// sayEvery is the time between lines for a program that reads stderr.
const sayEvery = 10 * time.Second

func (e *Env) progress() *progress {
	return &progress{e: e, last: time.Now()}
}

func (p *progress) say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if terminal(p.e.Stderr) {
		fmt.Fprintf(p.e.Stderr, "\r\x1b[K%s", oneLine(text))
		p.line = true
		return
	}
	if now := time.Now(); now.Sub(p.last) >= sayEvery {
		p.e.notef("%s\n", text)
		p.last = now
	}
}

// end removes the line.
func (p *progress) end() {
	if p.line {
		fmt.Fprint(p.e.Stderr, "\r\x1b[K")
		p.line = false
	}
}

// interrupted returns the error of an interrupted command: the work done, and the command that continues with the rest.
func (e *Env) interrupted(err error, done string, command ...string) error {
	why := err.Error()
	if e.Ctx.Err() != nil {
		why = "interrupted"
	}
	return &exitError{exitOf(err), fmt.Errorf("%s\n%s\nto continue: %s", why, done, strings.Join(command, " "))}
}

// pages reads all pages after the page token after, and shows the progress.
func pages[T any](e *conn, after string, p paging.Pages[T]) (next string, err error) {
	tell := e.progress()
	defer tell.end()
	return p.From(e.Ctx, after, func(text string) { tell.say("%s", text) })
}

// runPage reads at most limit runs over several pages; more reports whether further runs exist.
func (e *conn) runPage(params client.ListRunsParams, limit int) (sum client.RunPage, more bool, err error) {
	sum.Runs = []client.Run{}
	_, err = pages(e, params.After, paging.Pages[client.RunPage]{
		Ask: func(after string) (client.RunPage, error) {
			params.After, params.Limit = after, min(limit-len(sum.Runs), 1000)
			return e.ListRuns(e.Ctx, params)
		},
		Add: func(page *client.RunPage) string {
			sum.NoWaiting = page.NoWaiting
			sum.Runs, sum.Skips, sum.Next = append(sum.Runs, page.Runs...), append(sum.Skips, page.Skips...), page.Next
			if len(sum.Runs) >= limit {
				return ""
			}
			return page.Next
		},
		Progress: func() string { return plural(len(sum.Runs), "run") + " found" },
	})
	// A record that spans two pages is in both.
	slices.SortStableFunc(sum.Skips, func(a, b client.Skip) int { return b.FirstAt.Compare(a.FirstAt) })
	sum.Skips = slices.Compact(sum.Skips)
	more = sum.Next != ""
	if len(sum.Runs) > limit || len(sum.Skips) > limit { // a store may answer some more than it was asked for
		sum.Runs, sum.Skips, sum.Next, more = sum.Runs[:min(limit, len(sum.Runs))], sum.Skips[:min(limit, len(sum.Skips))], "", true
	}
	return sum, more, err
}
