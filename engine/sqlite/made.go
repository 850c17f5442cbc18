package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/query"
)

const (
	// recentScan is how many rows RecentRuns reads before it returns.
	recentScan = 20000
	// near is how many seconds before or after its due time a run is normally made. madeApart selects the exceptions.
	near      = 60
	madeApart = "made NOT BETWEEN (slot - 60) * 1000 AND (slot + 60) * 1000"
	// fewOpen is up to how many open runs are read by ID if only open ones are requested.
	fewOpen = 10_000
)

// RecentRuns implements query.Store. It may return fewer runs than limit if few of many rows match.
//
// Rows lie in the order in which they were made, many of them in one millisecond; a place names the last row returned.
// Runs of an app, and of each rare final state, have an index in that order, and the open runs are in memory. For a span
// of due times it reads only the rows made around that time, and the exceptions from their index.
func (s *Store) RecentRuns(ctx context.Context, of query.Recent, from query.RunPlace, limit int) (
	list []core.Run, next query.RunPlace, err error,
) {
	w := made{s: s, limit: limit, from: of.From, to: cmp.Or(of.To, core.Horizon)}
	for _, state := range of.States {
		if i := slices.Index(core.States, state); i >= 0 {
			w.states = append(w.states, state)
		}
	}
	if of.App != "" {
		var ok bool
		if w.app, ok = s.names.lookup(of.App); !ok {
			return nil, next, ctx.Err()
		}
	}
	var open []core.RunID
	byOpen := len(of.States) > 0 && !slices.ContainsFunc(of.States, func(state core.State) bool { return !state.Open() })
	if byOpen {
		open, byOpen = s.recent.allOpen(fewOpen)
	}
	err = s.read(ctx, func(c *sqlite.Conn) error {
		row := int64(math.MaxInt64)
		switch {
		case from.Row > 0:
			row = from.Row - 1
		case from.Before > 0:
			made, err := spans(c, math.MinInt64, from.Before)
			if err != nil {
				return err
			}
			row = 0
			if n := len(made); n > 0 {
				row = made[n-1].hi
			}
		}
		if byOpen {
			return w.opened(c, open, row)
		}
		return w.merge(c, row)
	})
	return w.list, w.next, err
}

// made reads rows downward in the order in which they were made.
type made struct {
	s        *Store
	app      int64        // 0: of all
	states   []core.State // empty: any
	from, to core.Instant // due times
	limit    int
	list     []core.Run
	next     query.RunPlace
}

const (
	ofMade  = 30 // the column of runColumns
	ofState = 1
	ofApp   = 2
	ofSlot  = 6
)

// fits reports whether the row at hand is asked for.
func (w *made) fits(st *sqlite.Stmt) bool {
	slot := core.Instant(st.ColumnInt64(ofSlot))
	return w.from <= slot && slot <= w.to && (w.app == 0 || st.ColumnInt64(ofApp) == w.app) &&
		(len(w.states) == 0 || slices.Contains(w.states, columnWord(st, ofState, states)))
}

func (w *made) take(st *sqlite.Stmt) error {
	w.list = append(w.list, core.Run{})
	return w.s.scanRun(st, &w.list[len(w.list)-1])
}

// walks returns the queries whose merged rows contain every match.
func (w *made) walks() (queries []string) {
	const columns = "SELECT " + runColumns + ", n FROM runs "
	rare := len(w.states) > 0
	for _, state := range w.states {
		rare = rare && slices.Index(states, state) > slices.Index(states, core.Succeeded)
	}
	switch {
	case rare:
		for _, state := range w.states {
			queries = append(queries, fmt.Sprintf(columns+"INDEXED BY runs_ended_so WHERE state > 4 AND state = %d AND n <= ? ORDER BY n DESC",
				slices.Index(states, state)+1))
		}
	case w.app != 0:
		queries = []string{columns + "INDEXED BY runs_app WHERE app = ?2 AND n <= ?1 ORDER BY n DESC"}
	default:
		queries = []string{columns + "WHERE n <= ? ORDER BY n DESC"}
	}
	return queries
}

// exceptions returns the rows, up to one, that were made long before or after their due time, highest first. few is false
// if there are too many.
func (w *made) exceptions(c *sqlite.Conn, row int64) (list []int64, few bool, err error) {
	st, err := c.Prepare("SELECT n FROM runs INDEXED BY runs_apart WHERE " + madeApart + " AND slot BETWEEN ? AND ? LIMIT ?")
	if err != nil {
		return nil, false, err
	}
	st.BindInt64(1, int64(w.from))
	st.BindInt64(2, int64(w.to))
	st.BindInt64(3, recentScan+1)
	seen := 0
	err = rows(st, func(st *sqlite.Stmt) error {
		if n := st.ColumnInt64(0); n <= row {
			list = append(list, n)
		}
		seen++
		return nil
	})
	slices.SortFunc(list, func(a, b int64) int { return cmp.Compare(b, a) })
	return list, seen <= recentScan, err
}

// walk reads the rows of a query downward, after one row; or a given list of rows.
type walk struct {
	st    *sqlite.Stmt
	n     int64 // of its row; 0: no rows are left
	after int64
	named bool
	names []int64 // the rows that follow
}

func (x *walk) step() error {
	x.n = 0
	if x.named {
		if err := x.st.Reset(); err != nil || len(x.names) == 0 {
			return err
		}
		x.st.BindInt64(1, x.names[0])
		x.names = x.names[1:]
	}
	more, err := x.st.Step()
	if err == nil && more {
		if n := x.st.ColumnInt64(x.st.ColumnCount() - 1); n > x.after {
			x.n = n
		}
	}
	return err
}

// begin starts the walks from a row down. For a span of due times, walks over many rows end at rows made near the span,
// and the exceptions have a walk of their own.
func (w *made) begin(c *sqlite.Conn, row int64) (all []*walk, err error) {
	made := []span{{0, row}}
	if w.from != 0 || w.to != core.Horizon {
		names, few, err := w.exceptions(c, row)
		if err != nil {
			return nil, err
		}
		if few {
			if made, err = spans(c, (int64(w.from)-near)*1000, (int64(w.to)+near)*1000+1); err != nil {
				return nil, err
			}
			st, err := c.Prepare("SELECT " + runColumns + ", n FROM runs WHERE n = ?")
			if err != nil {
				return nil, err
			}
			all = append(all, &walk{st: st, named: true, names: names})
		}
	}
	for i, in := range made {
		for _, q := range w.walks() {
			st, err := c.Prepare(q + strings.Repeat(" ", i)) // each span needs a statement of its own
			if err != nil {
				return all, err
			}
			all = append(all, &walk{st: st, after: in.lo})
			st.BindInt64(1, min(row, in.hi))
			if st.BindParamCount() > 1 {
				st.BindInt64(2, w.app)
			}
		}
	}
	return all, nil
}

// merge reads from a row down until it has enough runs or has read enough rows.
func (w *made) merge(c *sqlite.Conn, row int64) (err error) {
	all, err := w.begin(c, row)
	defer func() {
		for _, x := range all {
			if e := x.st.Reset(); err == nil {
				err = e
			}
		}
	}()
	if err != nil {
		return err
	}
	for _, x := range all {
		if err := x.step(); err != nil {
			return err
		}
	}
	for seen := 1; ; seen++ {
		x := slices.MaxFunc(all, func(a, b *walk) int { return cmp.Compare(a.n, b.n) })
		if x.n == 0 {
			w.next = query.RunPlace{}
			return nil
		}
		if len(w.list) >= w.limit || seen > recentScan {
			return nil
		}
		w.next = query.RunPlace{Before: x.st.ColumnInt64(ofMade) + 1, Row: x.n}
		if w.fits(x.st) {
			if err := w.take(x.st); err != nil {
				return err
			}
		}
		n := x.n
		for _, x := range all { // an exception may be in two walks
			if x.n != n {
				continue
			}
			if err := x.step(); err != nil {
				return err
			}
		}
	}
}

// opened reads the given open runs, except runs after the row.
func (w *made) opened(c *sqlite.Conn, ids []core.RunID, row int64) error {
	type place struct{ key, n, made int64 }
	var found []place
	st, err := c.Prepare("SELECT " + runColumns + ", n FROM runs WHERE key = ?")
	if err != nil {
		return err
	}
	for _, id := range ids {
		st.BindInt64(1, key(id))
		if err := rows(st, func(st *sqlite.Stmt) error {
			if n := st.ColumnInt64(st.ColumnCount() - 1); n <= row && w.fits(st) {
				found = append(found, place{key(id), n, st.ColumnInt64(ofMade)})
			}
			return nil
		}); err != nil {
			return err
		}
	}
	slices.SortFunc(found, func(a, b place) int { return cmp.Compare(b.n, a.n) })
	for _, p := range found {
		if len(w.list) >= w.limit {
			return nil
		}
		w.next = query.RunPlace{Before: p.made + 1, Row: p.n}
		st.BindInt64(1, p.key)
		if err := rows(st, w.take); err != nil {
			return err
		}
	}
	w.next = query.RunPlace{}
	return nil
}
