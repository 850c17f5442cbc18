package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

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
	err = s.read(ctx, func(c *conn) {
		w.walks(c, &s.recent)
		list, next = w.page(c)
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
func (w *made) walk(c *conn, where string, args ...any) {
	seen, took := 0, 0
	for st := range c.rows("SELECT n, state, slot, ? IN ('', app) FROM runs "+where+" ORDER BY n DESC", append([]any{w.app}, args...)...) {
		n, slot := st.ColumnInt64(0), core.Instant(st.ColumnInt64(2))
		if seen++; took == w.limit || seen > recentScan {
			w.stop = max(w.stop, n)
			break
		}
		if w.from <= slot && slot <= w.to && st.ColumnBool(3) && (len(w.states) == 0 || slices.Contains(w.states, st.ColumnInt64(1))) {
			w.found = append(w.found, n)
			took++
		}
	}
}

// walks makes walks that together contain every match. For a span of due times they end at rows made near the span, unless
// many rows were made long before or after their due time.
func (w *made) walks(c *conn, r *recent) {
	after, upTo := int64(0), w.row
	if w.from != 0 || w.to != core.Horizon {
		const apart = "INDEXED BY runs_apart WHERE " + madeApart + " AND slot BETWEEN ? AND ?"
		many := c.integer("SELECT count(*) FROM (SELECT 1 FROM runs "+apart+" LIMIT ? + 0)", w.from, w.to, recentScan+1)
		if many <= recentScan {
			after, upTo = rowsBefore((int64(w.from)-near)*1000), min(rowsBefore((int64(w.to)+near)*1000+1), w.row)
			w.walk(c, apart+" AND n <= ?", w.from, w.to, w.row)
		}
	}
	const span = "n > ? AND n <= ?"
	switch {
	case len(w.states) > 0 && slices.Max(w.states) <= running:
		w.walk(c, "WHERE n IN (SELECT r.n FROM json_each(?) JOIN runs AS r ON "+
			"r.key = ((value & 4294967295) << 31) | (value >> 32)) AND "+span, jsonText(r.openRuns(0)), after, upTo)
	case len(w.states) > 0 && slices.Min(w.states) > running+1:
		for _, state := range w.states {
			w.walk(c, fmt.Sprintf("INDEXED BY runs_ended_so WHERE state > 4 AND state = %d AND ", state)+span, after, upTo)
		}
	case w.app != "":
		w.walk(c, "INDEXED BY runs_app WHERE app = ? || '' AND "+span, w.app, after, upTo)
	default:
		w.walk(c, "WHERE "+span, after, upTo)
	}
}

// page reads the highest of the rows that were found, as far as every walk came.
func (w *made) page(c *conn) (list []core.Run, next store.RunPlace) {
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
	list, _ = c.runs(selectRuns+"WHERE n IN (SELECT value FROM json_each(?)) ORDER BY n DESC", jsonText(found))
	return list, next
}
