package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

const (
	// recentScan is how many rows of a walk Recent reads before it returns.
	recentScan = 20000
	// near is how many seconds before or after its due time a run is normally made. madeApart selects the exceptions.
	near      = 60
	madeApart = "n NOT BETWEEN (slot - 946684860) * 64000 AND (slot - 946684740) * 64000 + 63"
)

// Recent implements store.Runs. It may return fewer runs than limit if few of many rows match.
//
// Rows lie in the order in which they were made, many of them in one millisecond; a place names the last row returned.
// Runs of an app, and of each rare final state, have an index in that order, and the open runs are in memory. For a span of
// due times it reads only the rows made around that time, and the exceptions from their index.
func (s runs) Recent(ctx context.Context, of store.Recent, from store.RunPlace, limit int) (
	list []core.Run, next store.RunPlace, err error,
) {
	w := made{limit: limit, app: of.App, from: of.From, to: cmp.Or(of.To, core.Horizon), row: math.MaxInt64}
	switch {
	case from.Row > 0:
		w.row = from.Row - 1
	case from.Before > 0:
		w.row = rowsBefore(from.Before)
	}
	for _, state := range of.States {
		w.states = append(w.states, int64(slices.Index(states, state)+1))
	}
	var open []core.RunID
	if len(w.states) > 0 && slices.Max(w.states) <= running {
		open = s.recent.openRuns(0)
	}
	err = s.read(ctx, func(c *sqlite.Conn) error {
		err := w.walks(c, open)
		if err == nil {
			list, next, err = w.page(c)
		}
		return err
	})
	return list, next, err
}

// made collects rows that match, from walks over rows in descending order.
type made struct {
	row      int64   // the highest row to take
	app      string  // empty: any
	states   []int64 // empty: any
	from, to core.Instant
	limit    int
	found    []int64 // at most limit rows of each walk
	stop     int64   // the highest row before which a walk stopped; 0: all have ended
}

// walk reads rows until it has enough that match, or has read enough.
func (w *made) walk(c *sqlite.Conn, where string, args ...any) error {
	seen, took, errEnough := 0, 0, errors.New("enough")
	err := execute(c, "SELECT n, state, slot, ? IN ('', app) FROM runs "+where+" ORDER BY n DESC",
		values(append([]any{w.app}, args...)...), func(st *sqlite.Stmt) error {
			n := st.ColumnInt64(0)
			if seen++; took == w.limit || seen > recentScan {
				w.stop = max(w.stop, n)
				return errEnough
			}
			if slot := core.Instant(st.ColumnInt64(2)); w.from <= slot && slot <= w.to && st.ColumnBool(3) &&
				(len(w.states) == 0 || slices.Contains(w.states, st.ColumnInt64(1))) {
				w.found = append(w.found, n)
				took++
			}
			return nil
		})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// walks makes walks that together contain every match. For a span of due times they end at rows made near the span, unless
// many rows were made long before or after their due time. open has all open runs if only these match.
func (w *made) walks(c *sqlite.Conn, open []core.RunID) error {
	after, upTo := int64(0), w.row
	if w.from != 0 || w.to != core.Horizon {
		const apart = "INDEXED BY runs_apart WHERE " + madeApart + " AND slot BETWEEN ? AND ?"
		many, err := integer(c, 0, "SELECT count(*) FROM (SELECT 1 FROM runs "+apart+" LIMIT ? + 0)", w.from, w.to, recentScan+1)
		if err != nil {
			return err
		}
		if many <= recentScan {
			after, upTo = rowsBefore((int64(w.from)-near)*1000), min(rowsBefore((int64(w.to)+near)*1000+1), w.row)
			if err := w.walk(c, apart+" AND n <= ?", w.from, w.to, w.row); err != nil {
				return err
			}
		}
	}
	const span = "n > ? AND n <= ?"
	switch {
	case len(w.states) > 0 && slices.Max(w.states) <= running:
		return w.walk(c, "WHERE n IN (SELECT r.n FROM json_each(?) JOIN runs AS r ON "+
			"r.key = ((value & 4294967295) << 31) | (value >> 32)) AND "+span, jsonText(open), after, upTo)
	case len(w.states) > 0 && slices.Min(w.states) > running+1:
		for _, state := range w.states {
			q := fmt.Sprintf("INDEXED BY runs_ended_so WHERE state > 4 AND state = %d AND ", state)
			if err := w.walk(c, q+span, after, upTo); err != nil {
				return err
			}
		}
		return nil
	case w.app != "":
		return w.walk(c, "INDEXED BY runs_app WHERE app = ? || '' AND "+span, w.app, after, upTo)
	}
	return w.walk(c, "WHERE "+span, after, upTo)
}

// page reads the highest of the rows that were found, as far as every walk came.
func (w *made) page(c *sqlite.Conn) (list []core.Run, next store.RunPlace, err error) {
	found := slices.DeleteFunc(w.found, func(n int64) bool { return n <= w.stop })
	slices.SortFunc(found, func(a, b int64) int { return cmp.Compare(b, a) })
	found = slices.Compact(found) // an exception may be in two walks
	if w.stop > 0 {
		next = store.RunPlace{Before: madeAt(w.stop) + 1, Row: w.stop + 1}
	}
	if len(found) > w.limit {
		found = found[:w.limit]
		last := found[w.limit-1]
		next = store.RunPlace{Before: madeAt(last) + 1, Row: last}
	}
	for i := 0; i < len(found) && err == nil; i++ {
		err = execute(c, selectRuns+"WHERE n = ?", values(found[i]), func(st *sqlite.Stmt) error {
			list = append(list, core.Run{})
			return scanRun(st, &list[len(list)-1])
		})
	}
	return list, next, err
}
