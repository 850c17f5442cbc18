package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/words"
)

// Error is one problem of a manifest, or one warning: a *core.Error with a place in a file.
type Error struct {
	File         string
	Line, Column int       // position, from 1; 0: the file as a whole
	Path         string    // path such as jobs[3].schedule.cron; empty: the file as a whole
	Reason       core.Text // the problem and the allowed values
}

// Error returns "file:line:column: path: reason".
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

// Errors lists problems in the order of files and positions: at most MaxErrors, and one that counts the rest.
type Errors []*Error

// Error returns one line for each problem.
func (e Errors) Error() string { return e.In(words.English) }

func (e Errors) In(l words.Language) string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].In(l)
	}
	return strings.Join(lines, "\n")
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
