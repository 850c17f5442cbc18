package sqlite

import (
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/internal/testkit/check"
)

// TestDueReadsOnlyDueItems: jobs and entries that are not due, or that an earlier page returned, cost Due nothing: it searches
// both indexes from the parameter after up to the parameter upTo, and merges them without sorting.
func TestDueReadsOnlyDueItems(t *testing.T) {
	s := testStore(t, t.TempDir(), Options{})
	explain := func(how string, each func(st *sqlite.Stmt)) {
		var err error
		for st := range s.rows(t.Context(), &err, how+dueItems, 0, 100, 5, 1, 0, 10) {
			each(st)
		}
		check.OK(t, err)
	}
	var plan []string
	explain("EXPLAIN QUERY PLAN ", func(st *sqlite.Stmt) { plan = append(plan, st.ColumnText(3)) })
	text := strings.Join(plan, "\n")
	for _, search := range []string{"plan_at=? AND id>?)", "plan_at>? AND plan_at<?)", "(plan_at,job,run)>(?,?,?) AND plan_at<?)"} {
		if strings.Count(text, "(partition=? AND "+search) != 1 || strings.Contains(text, "TEMP") || strings.Contains(text, "SCAN") {
			t.Errorf("the plan has no search with %s:\n%s", search, text)
		}
	}
	fixed := map[int]bool{} // registers with a number of the text of the query
	seeks := 0
	explain("EXPLAIN ", func(st *sqlite.Stmt) {
		op, p2, p3, p4 := st.ColumnText(1), st.ColumnInt(3), st.ColumnInt(4), st.ColumnInt(5)
		switch {
		case op == "Integer":
			fixed[p2] = true
		case op == "Variable" || op == "Copy" || op == "SCopy":
			delete(fixed, p2)
		case strings.HasPrefix(op, "Seek"):
			seeks++
			for i := range p4 {
				if fixed[p3+i] {
					t.Errorf("search %d begins at a fixed value, so that each page reads the pages before it again", seeks)
				}
			}
		}
	})
	if seeks != 3 {
		t.Errorf("%d searches", seeks)
	}
}
