package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing wrong with a manifest, or one warning.
type Error struct {
	File         string
	Line, Column int    // from 1; 0 the file as a whole
	Path         string // such as jobs[3].schedule.cron; empty the file as a whole
	Message      string // what is wrong; what is allowed
}

// Error is file:line:column: path: message.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
	}
	if e.Path != "" {
		b.WriteString(": " + e.Path)
	}
	b.WriteString(": " + e.Message)
	return b.String()
}

// Errors are all that is wrong, in the order of files and positions, at most
// MaxErrors and one that says that there are more.
type Errors []*Error

// Error is one line for each.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
