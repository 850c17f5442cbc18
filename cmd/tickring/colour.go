package main

import (
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	questions "github.com/tickring/tickring/core/ask"
)

// colour is a terminal color code; output uses it only for meaning.
type colour string

const (
	red    colour = "31" // it went wrong
	yellow colour = "33" // it is late, or may go wrong
	cyan   colour = "36" // running
)

func (c colour) on(text string) string {
	if c == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// colours reports whether text for people is colored: as --color sets it, otherwise on a terminal that supports colors, unless the
// user sets NO_COLOR.
func (e *Env) colours() bool {
	switch {
	case e.Output != "text" || e.Color == "never":
		return false
	case e.Color == "always":
		return true
	}
	return terminal(e.Stdout) && e.env("NO_COLOR") == "" && e.env("TERM") != "dumb"
}

func stateColour(state string) colour {
	switch s := core.State(state); {
	case s.Failure():
		return red
	case s == core.Running:
		return cyan
	}
	return ""
}

// lateColour returns the color for a run that was sent later than an audit counts as on time.
func lateColour(r *client.Run) colour {
	if r.LatenessMs != nil && *r.LatenessMs > questions.OnTime.Milliseconds() {
		return yellow
	}
	return ""
}

// paint colours a text in a cell of a table.
type paint struct {
	row, col int
	text     string // empty: all of it
	colour   colour
}

type paints []paint

func (e *Env) paints(list paints) paints {
	if !e.colours() {
		return nil
	}
	return list
}

// on colours a line of a table, in which only spaces stand between the cells.
func (ps paints) on(row int, cells []string, line string) string {
	var b strings.Builder
	for col, cell := range cells {
		cell = strings.TrimRight(cell, " ")
		before, behind, _ := strings.Cut(line, cell)
		b.WriteString(before)
		line = behind
		for _, p := range ps {
			text := oneLine(p.text)
			if text == "" {
				text = cell
			}
			if at := strings.LastIndex(cell, text); p.row == row && p.col == col && at >= 0 {
				cell = cell[:at] + p.colour.on(text) + cell[at+len(text):]
			}
		}
		b.WriteString(cell)
	}
	return b.String() + line
}
