package main

import (
	"strings"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	questions "github.com/tickring/tickring/core/query"
)

// color is a terminal color code; output uses it only for meaning.
type color string

const (
	red    color = "31" // it went wrong
	yellow color = "33" // it is late, or may go wrong
	cyan   color = "36" // running
)

func (c color) on(text string) string {
	if c == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// colors reports whether text for people is colored: as --color sets it, otherwise on a terminal that supports colors, unless the
// user sets NO_COLOR.
func (e *Env) colors() bool {
	switch {
	case e.Output != "text" || e.Color == "never":
		return false
	case e.Color == "always":
		return true
	}
	return terminal(e.Stdout) && e.env("NO_COLOR") == "" && e.env("TERM") != "dumb"
}

func stateColor(state string) color {
	switch s := core.State(state); {
	case s.Failure():
		return red
	case s == core.Running:
		return cyan
	}
	return ""
}

// lateColor returns the color for a run that was sent later than an audit counts as on time.
func lateColor(r *client.Run) color {
	if r.LatenessMs != nil && *r.LatenessMs > questions.OnTime.Milliseconds() {
		return yellow
	}
	return ""
}

// paint colors a text in a cell of a table.
type paint struct {
	row, col int
	text     string // empty: all of it
	color    color
}

type paints []paint

func (e *Env) paints(list paints) paints {
	if !e.colors() {
		return nil
	}
	return list
}

// on colors a line of a table, in which only spaces stand between the cells.
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
				cell = cell[:at] + p.color.on(text) + cell[at+len(text):]
			}
		}
		b.WriteString(cell)
	}
	return b.String() + line
}
