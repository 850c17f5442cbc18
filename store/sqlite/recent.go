package sqlite

import (
	"cmp"
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

// rowsPerMilli is how many row numbers of runs each millisecond since firstMilli (2000) has. More rows take the numbers of the next
// milliseconds. Until 2069 a number has 6 bytes.
const (
	rowsPerMilli = 64
	firstMilli   = 946684800000
	clockSlack   = 60000 * rowsPerMilli // if the clock is set back by less, numbers still grow
)

// rowsBefore returns the last row number before a millisecond.
func rowsBefore(ms int64) int64 { return min(max(ms-firstMilli, 0), 1<<50)*rowsPerMilli - 1 }

// madeAt returns the millisecond of a row number.
func madeAt(n int64) int64 { return n/rowsPerMilli + firstMilli }

// newRows numbers n new rows by the present time, and returns the first number.
func (tx *tx) newRows(n int) (first int64, err error) {
	s := tx.s
	switch first = max(rowsBefore(s.now().UnixMilli())+1, 1); {
	case first > s.lastRow:
	case first > s.lastRow-clockSlack:
		first = s.lastRow + 1
	default: // behind the rows in the way
		for last := first; last >= first; {
			if last, err = integer(tx.Conn, -1, "SELECT n FROM runs WHERE n < ? ORDER BY n DESC LIMIT 1", first+int64(n)); err != nil {
				return 0, err
			}
			if last >= first {
				first, last = last+1, last+1
			}
		}
	}
	s.lastRow = max(s.lastRow, first+int64(n)-1)
	if first > s.recent.mark {
		return first, nil
	}
	tx.after = append(tx.after, func() { s.recent.mark = min(s.recent.mark, first-1) })
	mark, err := getState(tx.Conn, "mark") // another write of the transaction can have lowered it
	if err != nil {
		return 0, err
	}
	return first, setState(tx.Conn, "mark", min(mark, first-1))
}

const (
	// A generation of rows enters the history when as many newer rows were made.
	generation = 50000
	// historySlice is how many of them enter it after one commit.
	historySlice = 1000
)

// recent holds, for the newest rows of runs, two facts without an index in the file: the runs in the order of their IDs, and
// which runs are open. In the file, the table history has the first. It is written a generation at a time, so that one page takes
// many. The table lingering has the runs that stay open for long. Both cover the rows up to a mark; Open reads the later rows.
//
// An index by job in place of both lists costs 67 % more bytes of the log for each run, and 96 % of the p99 of a commit (decision
// 051). An index of open runs costs 6 µs of processor time for each end of a run, which takes 8 µs without, and 3 µs for each claim.
type recent struct {
	mu   sync.Mutex
	rows []madeRun           // not in the history, in the order of their commits
	open map[core.RunID]bool // the open runs; true: in lingering

	// Only the writer touches these.
	mark  int64
	ended []core.RunID // in lingering, and closed since
	young []madeRun    // rows of the generation that must still enter the history
	size  int          // of the generation; differs from generation only in tests
}

type madeRun struct {
	n    int64
	id   core.RunID
	open bool // when it was made
}

// load reads the rows after the mark.
func (o *recent) load(c *sqlite.Conn) (err error) {
	o.open, o.size = map[core.RunID]bool{}, generation
	if o.mark, err = getState(c, "mark"); err != nil {
		return err
	}
	if err := execute(c, "SELECT id, EXISTS (SELECT 1 FROM runs WHERE key = ((id & 4294967295) << 31) | (id >> 32) AND state <= 3) "+
		"FROM lingering", nil, func(st *sqlite.Stmt) error {
		if id := core.RunID(st.ColumnInt64(0)); st.ColumnBool(1) {
			o.open[id] = true
		} else {
			o.ended = append(o.ended, id)
		}
		return nil
	}); err != nil {
		return err
	}
	return execute(c, "SELECT n, key, state <= 3 FROM runs WHERE n > ? ORDER BY n", values(o.mark), func(st *sqlite.Stmt) error {
		r := madeRun{st.ColumnInt64(0), runOf(st.ColumnInt64(1)), st.ColumnBool(2)}
		o.rows = append(o.rows, r)
		if _, known := o.open[r.id]; r.open && !known {
			o.open[r.id] = false
		}
		return nil
	})
}

// add adds the runs that a committed transaction made, and removes the closed ones from the open runs.
func (o *recent) add(made []madeRun, closed []core.RunID) {
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

// openRuns returns the open runs of a job, or of all jobs if job is 0, newest first.
func (o *recent) openRuns(job core.JobID) (ids []core.RunID) {
	o.mu.Lock()
	for id := range o.open {
		if job == 0 || id.Job() == job {
			ids = append(ids, id)
		}
	}
	o.mu.Unlock()
	slices.SortFunc(ids, func(a, b core.RunID) int { return cmp.Compare(b, a) })
	return ids
}

// someOpen reports whether a run of these is open.
func (o *recent) someOpen(entries []core.Entry) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(entries, func(e core.Entry) bool { _, open := o.open[e.Run]; return open })
}

// between returns the recent runs with lo <= ID <= hi, in no order.
func (o *recent) between(lo, hi core.RunID) (list []core.RunID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.rows {
		if lo <= r.id && r.id <= hi {
			list = append(list, r.id)
		}
	}
	return list
}

// of returns the recent runs of some jobs, in no order.
func (o *recent) of(jobs map[core.JobID]bool) map[core.JobID][]core.RunID {
	list := map[core.JobID][]core.RunID{}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.rows {
		if job := r.id.Job(); jobs[job] {
			list[job] = append(list[job], r.id)
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
		o.young = slices.Clone(o.rows[:o.size])
		slices.SortFunc(o.young, func(a, b madeRun) int { return cmp.Compare(a.id, b.id) })
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
	listed := []core.RunID{} // the JSON of nil is null
	o.mu.Lock()
	for _, r := range o.rows[:o.size] {
		if is, open := o.open[r.id]; open && !is {
			listed = append(listed, r.id)
		}
	}
	o.mu.Unlock()
	rest := slices.Clone(o.rows[o.size:])
	mark := slices.MinFunc(rest, func(a, b madeRun) int { return cmp.Compare(a.n, b.n) }).n - 1
	tx.after = append(tx.after, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.rows, o.young, o.ended, o.mark = rest, nil, nil, mark
		for _, id := range listed {
			o.open[id] = true
		}
	})
	if err := execute(tx.Conn, "INSERT INTO lingering (id) SELECT value FROM json_each(?) WHERE 1 ON CONFLICT DO NOTHING",
		values(jsonText(listed)), nil); err != nil {
		return err
	}
	if err := execute(tx.Conn, "DELETE FROM lingering WHERE id IN (SELECT value FROM json_each(?))",
		values(jsonText(o.ended)), nil); err != nil {
		return err
	}
	return setState(tx.Conn, "mark", mark)
}
