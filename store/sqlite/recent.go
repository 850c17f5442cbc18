package sqlite

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

// key returns a run's ID with its halves swapped: time first, the job second. The only index that every claim and every
// end uses is in this order, so that current entries are close together. In the order of IDs each run would touch its own
// page.
func key(id core.RunID) int64 { return (int64(id)&(1<<32-1))<<31 | int64(id)>>32 }

// runOf is the ID of a key.
func runOf(key int64) core.RunID { return core.RunID(key&(1<<31-1)<<32 | key>>31) }

const (
	// A generation of rows enters the history when as many newer rows were made.
	generation = 50000
	// historySlice is how many of them enter it after one commit.
	historySlice = 1000
)

// recent holds, for the newest rows, two facts without an index in the file: the runs of a job in the order of their IDs,
// and which runs are open. In the file, the table history has the first. It is written a generation at a time in that
// order, so that one page takes many. The table lingering has the runs that stay open for long. Both tables cover the rows
// up to a mark; Open reads the later rows. Decision 051 compares them with indexes.
type recent struct {
	mu   sync.Mutex
	rows []madeRow           // made after the mark, in order
	open map[core.RunID]bool // the open runs; true: in lingering

	// Only the writer touches these.
	ended []core.RunID // in lingering, and closed since
	young []madeRow    // rows of the generation that must still enter the history
	until int64        // its last row
	size  int          // of the generation; differs from generation only in tests
}

type madeRow struct {
	n    int64
	id   core.RunID
	open bool // when it was made
}

// load reads the rows after the mark and returns the mark: no new row gets a number before it.
func (o *recent) load(c *sqlite.Conn) (mark int64, err error) {
	o.open, o.size = map[core.RunID]bool{}, generation
	if mark, err = getState(c, "mark"); err != nil {
		return 0, err
	}
	if err := execute(c, "SELECT id, (SELECT state <= 3 FROM runs WHERE key = ((id & 4294967295) << 31) | (id >> 32)) FROM lingering", nil,
		func(st *sqlite.Stmt) error {
			if id := core.RunID(st.ColumnInt64(0)); st.ColumnInt64(1) != 0 {
				o.open[id] = true
			} else {
				o.ended = append(o.ended, id)
			}
			return nil
		}); err != nil {
		return 0, err
	}
	return mark, execute(c, "SELECT n, key, state FROM runs WHERE n > ? ORDER BY n", func(st *sqlite.Stmt) { st.BindInt64(1, mark) },
		func(st *sqlite.Stmt) error {
			r := madeRow{st.ColumnInt64(0), runOf(st.ColumnInt64(1)), st.ColumnInt64(2) <= running}
			o.rows = append(o.rows, r)
			if _, listed := o.open[r.id]; r.open && !listed {
				o.open[r.id] = false
			}
			return nil
		})
}

// apply records the runs that a committed transaction made and closed.
func (o *recent) apply(made []madeRow, closed []core.RunID) {
	if len(made)+len(closed) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows = append(o.rows, made...)
	for _, r := range made {
		if r.open {
			o.open[r.id] = false
		}
	}
	for _, id := range closed {
		if o.open[id] {
			o.ended = append(o.ended, id)
		}
		delete(o.open, id)
	}
}

func (o *recent) openOf(job core.JobID) (ids []core.RunID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id := range o.open {
		if id.Job() == job {
			ids = append(ids, id)
		}
	}
	return ids
}

// allOpen is the open runs, as long as they are few.
func (o *recent) allOpen(most int) (ids []core.RunID, few bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.open) > most {
		return nil, false
	}
	return slices.Collect(maps.Keys(o.open)), true
}

// someOpen reports whether a run of these is open.
func (o *recent) someOpen(entries []core.Entry) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range entries {
		if _, open := o.open[e.Run]; open {
			return true
		}
	}
	return false
}

// span is the recent rows with lo <= ID <= hi, in no order.
func (o *recent) span(lo, hi core.RunID) (list []core.RunID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.rows {
		if lo <= r.id && r.id <= hi {
			list = append(list, r.id)
		}
	}
	return list
}

// due reports whether file has something to do. Only the writer adds rows.
func (o *recent) due() bool { return len(o.young) > 0 || len(o.rows) >= 2*o.size }

// file enters the next slice of a generation into the history, and moves the mark after the last one. It has its own
// transaction.
func (o *recent) file(tx *tx) error {
	if len(o.young) == 0 {
		o.young, o.until = slices.Clone(o.rows[:o.size]), o.rows[o.size-1].n
		slices.SortFunc(o.young, func(a, b madeRow) int { return cmp.Compare(a.id, b.id) })
	}
	slice := o.young[:min(historySlice, len(o.young))]
	st, err := tx.Prepare("INSERT INTO history (id, n) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET n = excluded.n")
	if err != nil {
		return err
	}
	for _, r := range slice {
		st.BindInt64(1, int64(r.id))
		st.BindInt64(2, r.n)
		if err := rows(st, nil); err != nil {
			return err
		}
	}
	if len(slice) < len(o.young) {
		tx.after = append(tx.after, func() { o.young = o.young[len(slice):] })
		return nil
	}
	var listed []core.RunID
	o.mu.Lock()
	for _, r := range o.rows[:o.size] {
		if is, open := o.open[r.id]; open && !is {
			listed = append(listed, r.id)
		}
	}
	o.mu.Unlock()
	for q, ids := range map[string][]core.RunID{
		"INSERT INTO lingering (id) SELECT value FROM json_each(?) WHERE 1 ON CONFLICT DO NOTHING": listed,
		"DELETE FROM lingering WHERE id IN (SELECT value FROM json_each(?))":                       o.ended,
	} {
		if len(ids) == 0 {
			continue
		}
		list, err := json.Marshal(ids)
		if err == nil {
			err = execute(tx.Conn, q, values(string(list)), nil)
		}
		if err != nil {
			return err
		}
	}
	if err := setState(tx.Conn, "mark", o.until); err != nil {
		return err
	}
	tx.after = append(tx.after, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.rows = slices.Clone(o.rows[o.size:])
		o.young, o.ended = nil, nil
		for _, id := range listed {
			o.open[id] = true
		}
	})
	return nil
}
