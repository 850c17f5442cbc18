package sqlite

import (
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// openLag is how many rows of runs may lie behind the mark.
const openLag = 50000

// openRuns knows which runs are open, without an index that every claim and
// every end would have to write. In the file are a mark and the table lingering:
// a run whose row lies before the mark is open only if it is listed there. What
// lies behind the mark is read once, at Open.
type openRuns struct {
	mu   sync.Mutex
	runs map[core.RunID]bool // true: listed in lingering

	// Only the writer touches these.
	recent []madeRow    // behind the mark, in order
	ended  []core.RunID // listed, and closed since
	mark   int64        // as stored
}

type madeRow struct {
	n  int64
	id core.RunID
}

// load reads the open runs of the file.
func (o *openRuns) load(c *sqlite.Conn) error {
	o.runs = map[core.RunID]bool{}
	var err error
	if o.mark, err = getState(c, "openMark"); err != nil {
		return err
	}
	if err := query(c, "SELECT id, EXISTS (SELECT 1 FROM runs WHERE runs.id = lingering.id AND state <= 3) FROM lingering", nil, func(st *sqlite.Stmt) error {
		id := core.RunID(st.ColumnInt64(0))
		if st.ColumnInt64(1) != 0 {
			o.runs[id] = true
		} else {
			o.ended = append(o.ended, id)
		}
		return nil
	}); err != nil {
		return err
	}
	return query(c, "SELECT n, id FROM runs WHERE n > ? AND state <= 3", func(st *sqlite.Stmt) { st.BindInt64(1, o.mark) }, func(st *sqlite.Stmt) error {
		r := madeRow{st.ColumnInt64(0), core.RunID(st.ColumnInt64(1))}
		if _, listed := o.runs[r.id]; !listed {
			o.runs[r.id] = false
			o.recent = append(o.recent, r)
		}
		return nil
	})
}

// apply notes what a committed transaction opened and closed.
func (o *openRuns) apply(opened []madeRow, closed []core.RunID) {
	if len(opened)+len(closed) == 0 {
		return
	}
	o.recent = append(o.recent, opened...)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range opened {
		o.runs[r.id] = false
	}
	for _, id := range closed {
		if o.runs[id] {
			o.ended = append(o.ended, id)
		}
		delete(o.runs, id)
	}
}

// of is the open runs of a job.
func (o *openRuns) of(job core.JobID) (ids []core.RunID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.runs {
		if id.Job() == job {
			ids = append(ids, id)
		}
	}
	return ids
}

// advance moves the mark on when enough lies behind it, listing what is still
// open there. It is a transaction of its own.
func (o *openRuns) advance(tx *tx) error {
	last := o.recent[len(o.recent)-1].n - openLag/2
	var listed []core.RunID
	rest := o.recent
	o.mu.Lock()
	for len(rest) > 0 && rest[0].n <= last {
		if is, open := o.runs[rest[0].id]; open && !is {
			listed = append(listed, rest[0].id)
		}
		rest = rest[1:]
	}
	o.mu.Unlock()
	for i, q := range []string{"INSERT INTO lingering (id) VALUES (?) ON CONFLICT DO NOTHING", "DELETE FROM lingering WHERE id = ?"} {
		st, err := tx.Prepare(q)
		if err != nil {
			return err
		}
		for _, id := range [][]core.RunID{listed, o.ended}[i] {
			st.BindInt64(1, int64(id))
			if err := rows(st, nil); err != nil {
				return err
			}
		}
	}
	if err := setState(tx.Conn, "openMark", last); err != nil {
		return err
	}
	tx.after = append(tx.after, func() {
		o.recent = append([]madeRow(nil), rest...)
		o.ended, o.mark = nil, last
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, id := range listed {
			o.runs[id] = true
		}
	})
	return nil
}

// due reports whether advance has something to do.
func (o *openRuns) due() bool {
	return len(o.recent) > 0 && o.recent[len(o.recent)-1].n-o.mark > openLag
}
