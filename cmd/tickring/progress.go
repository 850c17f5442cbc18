package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/internal/parts"
)

// progress tells whoever waits how far a command has come: in a line of its own
// on a terminal, else now and then.
type progress struct {
	e    *Env
	last time.Time
	line bool // there is one on the terminal
}

// sayEvery is how often a program that reads stderr is given a line.
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

// end takes the line away.
func (p *progress) end() {
	if p.line {
		fmt.Fprint(p.e.Stderr, "\r\x1b[K")
		p.line = false
	}
}

// interrupted is the error of what ended before its end: what was done, and the
// command that goes on with the rest.
func (e *Env) interrupted(err error, done string, command ...string) error {
	why := err.Error()
	if e.Ctx.Err() != nil {
		why = "interrupted"
	}
	return &exitError{exitOf(err), fmt.Errorf("%s\n%s\ngo on with: %s", why, done, strings.Join(command, " "))}
}

// pages asks for one page after another, from after on, and tells how far it has come.
func pages[T any](e *conn, after string, p parts.Pages[T]) (next string, err error) {
	tell := e.progress()
	defer tell.end()
	return p.From(e.Ctx, after, func(text string) { tell.say("%s", text) })
}

// runPage reads at most limit runs, from page to page, and says whether there are more.
func (e *conn) runPage(params client.ListRunsParams, limit int) (sum client.RunPage, more bool, err error) {
	sum.Runs = []client.Run{}
	_, err = pages(e, params.After, parts.Pages[client.RunPage]{
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
	// A record that reaches over two pages comes with both.
	slices.SortStableFunc(sum.Skips, func(a, b client.Skip) int { return b.FirstAt.Compare(a.FirstAt) })
	sum.Skips = slices.Compact(sum.Skips)
	more = sum.Next != ""
	if len(sum.Runs) > limit || len(sum.Skips) > limit { // a store may answer some more than it was asked for
		sum.Runs, sum.Skips, sum.Next, more = sum.Runs[:min(limit, len(sum.Runs))], sum.Skips[:min(limit, len(sum.Skips))], "", true
	}
	return sum, more, err
}
