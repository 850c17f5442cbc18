package manifest

import (
	"fmt"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/words"
)

// Error is one error or warning about a manifest: a *core.Error with a position in a file.
type Error struct {
	File         string
	Line, Column int // the line in the file, counted from 1; 0: the error concerns the whole file
	// Path is the path of the field, such as jobs[3].schedule.cron; empty: the error concerns the whole file.
	Path   string
	Reason core.Text // the problem, and the allowed values
}

// Error returns the text "file:line:column: path: reason".
func (e *Error) Error() string { return e.In(words.English) }

func (e *Error) In(l words.Language) string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	if e.Path != "" {
		b.WriteString(": " + e.Path)
	}
	b.WriteString(": " + words.Say(l, e.Reason))
	return b.String()
}

// Errors is a list of errors, sorted by file and position. It has at most MaxErrors errors, and one more with the
// number of further errors.
type Errors []*Error

// Error returns one line for each error.
func (e Errors) Error() string { return e.In(words.English) }

func (e Errors) In(l words.Language) string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].In(l)
	}
	return strings.Join(lines, "\n")
}
