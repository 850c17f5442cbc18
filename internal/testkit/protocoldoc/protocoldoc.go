// Package protocoldoc reads the tables of docs/internals/claim-protocol.md. A test compares each row of a table with the code's
// result, so that the page and the code agree. The calling test must be in a package two directories below the root.
package protocoldoc

import (
	"os"
	"strings"
	"testing"
)

// Table is a table of the page. The first cell of each row is the row's key.
type Table struct {
	t     *testing.T
	rows  map[string][]string
	asked map[string]bool
}

// After returns the first table after the line of the page that begins with the given text. At the end of the test,
// each row that was not checked fails the test.
func After(t *testing.T, line string) *Table {
	t.Helper()
	b, err := os.ReadFile("../../docs/internals/claim-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, is := strings.Cut(string(b), "\n"+line)
	_, text, more := strings.Cut(text, "\n|---|")
	if !is || !more {
		t.Fatalf("the page has no table after %q", line)
	}
	_, text, _ = strings.Cut(text, "\n")
	p := &Table{t, map[string][]string{}, map[string]bool{}}
	for row := range strings.Lines(text) {
		if !strings.HasPrefix(row, "| ") {
			break
		}
		cells := strings.Split(strings.Trim(row, "| \n"), " | ")
		for i := range cells {
			if i > 1 && cells[i] == "same" {
				cells[i] = cells[i-1]
			}
		}
		if p.rows[cells[0]] != nil {
			t.Errorf("the page has %q twice", cells[0])
		}
		p.rows[cells[0]] = cells[1:]
	}
	t.Cleanup(func() {
		for row := range p.rows {
			if !p.asked[row] {
				t.Errorf("of the page's table, nothing answers %q", row)
			}
		}
	})
	return p
}

// Beside marks a row as checked, for a row that describes an action and not the result of a function.
func (p *Table) Beside(row string) {
	p.t.Helper()
	p.Says(row, p.rows[row]...)
}

// Says fails the test if the cells of the page's row are not equal to the code's answers.
func (p *Table) Says(row string, answers ...string) {
	p.t.Helper()
	cells, is := p.rows[row]
	if p.asked[row] = true; !is {
		p.t.Errorf("the page has no row %q", row)
	} else if got, want := strings.Join(answers, " | "), strings.Join(cells, " | "); got != want {
		p.t.Errorf("%s: the code answers %q, the page has %q", row, got, want)
	}
}
