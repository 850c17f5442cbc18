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

// span is the rows behind lo up to hi.
type span struct{ lo, hi int64 }

// spans returns the rows that were made from one millisecond on and before another, in order. They form one span, or one
// more for each time the clock was set back.
func spans(c *sqlite.Conn, from, to int64) (list []span, err error) {
	var ends []int64
	if err := execute(c, "SELECT n FROM steps UNION ALL SELECT max(n) FROM runs", nil, func(st *sqlite.Stmt) error {
		ends = append(ends, st.ColumnInt64(0))
		return nil
	}); err != nil {
		return nil, err
	}
	slices.Sort(ends)
	lo, err := integer(c, 0, "SELECT n - 1 FROM runs ORDER BY n LIMIT 1")
	if err != nil {
		return nil, err
	}
	for _, end := range ends {
		first, err := lastBefore(c, span{lo, end}, from)
		if err != nil {
			return nil, err
		}
		last, err := lastBefore(c, span{first, end}, to)
		if err != nil {
			return nil, err
		}
		if last > first {
			list = append(list, span{first, last})
		}
		lo = max(lo, end)
	}
	return list, nil
}

// lastBefore returns the last row of a span, in which times grow, that was made before a millisecond.
func lastBefore(c *sqlite.Conn, in span, before int64) (row int64, err error) {
	lo, hi := in.lo, in.hi
	for lo < hi { // the result is between lo and hi
		mid := lo + (hi-lo+1)/2
		made, at := int64(math.MinInt64), mid
		if err := execute(c, "SELECT n, made FROM runs WHERE n <= ? AND n > ? ORDER BY n DESC LIMIT 1", values(mid, in.lo),
			func(st *sqlite.Stmt) error {
				at, made = st.ColumnInt64(0), st.ColumnInt64(1)
				return nil
			}); err != nil {
			return 0, err
		}
		if made < before {
			lo = mid
		} else {
			hi = min(at, mid) - 1
		}
	}
	return lo, nil
}

const (
	// recentScan is how many rows of a walk Recent reads before it returns.
	recentScan = 20000
	// near is how many seconds before or after its due time a run is normally made. madeApart selects the exceptions.
	near      = 60
	madeApart = "made NOT BETWEEN (slot - 60) * 1000 AND (slot + 60) * 1000"
	// fewOpen is up to how many open runs are read by ID if only open ones are requested.
	fewOpen = 10_000
)

// Recent implements store.Runs. It may return fewer runs than limit if few of many rows match.
//
// Rows lie in the order in which they were made, many of them in one millisecond; a place names the last row returned.
// Runs of an app, and of each rare final state, have an index in that order, and the open runs are in memory. For a span
// of due times it reads only the rows made around that time, and the exceptions from their index.
func (s runs) Recent(ctx context.Context, of store.Recent, from store.RunPlace, limit int) (
	list []core.Run, next store.RunPlace, err error,
) {
	w := made{limit: limit, from: of.From, to: cmp.Or(of.To, core.Horizon), row: math.MaxInt64}
	rare, byOpen := len(of.States) > 0, len(of.States) > 0
	for _, state := range of.States {
		n := int64(slices.Index(states, state) + 1)
		w.states = append(w.states, n)
		rare, byOpen = rare && n > running+1, byOpen && n <= running
	}
	if of.App != "" {
		var ok bool
		if w.app, ok = s.names.lookup(of.App); !ok {
			return nil, next, ctx.Err()
		}
	}
	var open []core.RunID
	if byOpen {
		open, byOpen = s.recent.allOpen(fewOpen)
	}
	err = s.read(ctx, func(c *sqlite.Conn) (err error) {
		switch {
		case from.Row > 0:
			w.row = from.Row - 1
		case from.Before > 0:
			before, err := spans(c, math.MinInt64, from.Before)
			if err != nil {
				return err
			}
			if w.row = 0; len(before) > 0 {
				w.row = before[len(before)-1].hi
			}
		}
		if byOpen {
			for i := 0; i < len(open) && err == nil; i++ {
				err = w.walk(c, "WHERE key = ?", key(open[i]))
			}
		} else {
			err = w.walks(c, rare)
		}
		if err == nil {
			list, next, err = w.page(c, s.Store)
		}
		return err
	})
	return list, next, err
}

// made collects rows that match, from walks over rows in descending order.
type made struct {
	row      int64   // the highest row to take
	app      int64   // 0: of all
	states   []int64 // empty: any
	from, to core.Instant
	limit    int
	found    []madeAt // at most limit of each walk
	stop     madeAt   // the highest row before which a walk stopped; 0: all have ended
}

type madeAt struct{ n, made int64 }

// walk reads rows until it has enough that match, or has read enough.
func (w *made) walk(c *sqlite.Conn, where string, args ...any) error {
	seen, took, errEnough := 0, 0, errors.New("enough")
	err := execute(c, "SELECT n, made, state, app, slot FROM runs "+where, values(args...), func(st *sqlite.Stmt) error {
		at := madeAt{st.ColumnInt64(0), st.ColumnInt64(1)}
		if seen++; took == w.limit || seen > recentScan {
			if at.n > w.stop.n {
				w.stop = at
			}
			return errEnough
		}
		if slot := core.Instant(st.ColumnInt64(4)); at.n <= w.row && w.from <= slot && slot <= w.to &&
			(w.app == 0 || st.ColumnInt64(3) == w.app) && (len(w.states) == 0 || slices.Contains(w.states, st.ColumnInt64(2))) {
			w.found = append(w.found, at)
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
// many rows were made long before or after their due time.
func (w *made) walks(c *sqlite.Conn, rare bool) error {
	all := []span{{0, w.row}}
	if w.from != 0 || w.to != core.Horizon {
		const apart = "INDEXED BY runs_apart WHERE " + madeApart + " AND slot BETWEEN ? AND ?"
		many, err := integer(c, 0, "SELECT count(*) FROM (SELECT 1 FROM runs "+apart+" LIMIT ?)", w.from, w.to, recentScan+1)
		if err != nil {
			return err
		}
		if many <= recentScan {
			if all, err = spans(c, (int64(w.from)-near)*1000, (int64(w.to)+near)*1000+1); err != nil {
				return err
			}
			if err := w.walk(c, apart+" AND n <= ? ORDER BY n DESC", w.from, w.to, w.row); err != nil {
				return err
			}
		}
	}
	for _, in := range all {
		where := []string{"WHERE "}
		switch {
		case rare:
			where = where[:0]
			for _, state := range w.states {
				where = append(where, fmt.Sprintf("INDEXED BY runs_ended_so WHERE state > 4 AND state = %d AND ", state))
			}
		case w.app != 0:
			where[0] = fmt.Sprintf("INDEXED BY runs_app WHERE app = %d AND ", w.app)
		}
		for _, q := range where {
			if err := w.walk(c, q+"n > ? AND n <= ? ORDER BY n DESC", in.lo, min(in.hi, w.row)); err != nil {
				return err
			}
		}
	}
	return nil
}

// page reads the highest of the rows that were found, as far as every walk came.
func (w *made) page(c *sqlite.Conn, s *Store) (list []core.Run, next store.RunPlace, err error) {
	found := slices.DeleteFunc(w.found, func(at madeAt) bool { return at.n <= w.stop.n })
	slices.SortFunc(found, func(a, b madeAt) int { return cmp.Compare(b.n, a.n) })
	found = slices.Compact(found) // an exception may be in two walks
	if w.stop.n > 0 {
		next = store.RunPlace{Before: w.stop.made + 1, Row: w.stop.n + 1}
	}
	if len(found) > w.limit {
		found = found[:w.limit]
		next = store.RunPlace{Before: found[w.limit-1].made + 1, Row: found[w.limit-1].n}
	}
	for i := 0; i < len(found) && err == nil; i++ {
		err = execute(c, selectRuns+"WHERE n = ?", func(st *sqlite.Stmt) { st.BindInt64(1, found[i].n) }, func(st *sqlite.Stmt) error {
			list = append(list, core.Run{})
			return s.scanRun(st, &list[len(list)-1])
		})
	}
	return list, next, err
}
