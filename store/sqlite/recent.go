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

// rowsPerMilli is how many row numbers of runs each millisecond has.
const rowsPerMilli = 4096

// rowsBefore returns the last row number before a millisecond.
func rowsBefore(ms int64) int64 { return min(max(ms, 0), 1<<50)*rowsPerMilli - 1 }

// newRows numbers n new rows by the present time, and returns the first number.
func (tx *tx) newRows(n int) (first int64, err error) {
	s, ms := tx.s, tx.s.now().UnixMilli()
	if first = ms * rowsPerMilli; first <= s.lastRow {
		if first = s.lastRow + 1; (first+int64(n))/rowsPerMilli != ms { // the clock was set back, or the millisecond has many rows
			for ; ; ms++ {
				last, err := integer(tx.Conn, 0, "SELECT n FROM runs WHERE n < ? ORDER BY n DESC LIMIT 1", (ms+1)*rowsPerMilli)
				if err != nil {
					return 0, err
				}
				if first = max(ms*rowsPerMilli, last+1); (first+int64(n))/rowsPerMilli == ms {
					break
				}
			}
		}
	}
	s.lastRow = max(s.lastRow, first+int64(n)-1)
	if first > s.recent.mark {
		return first, nil
	}
	tx.after = append(tx.after, func() { s.recent.mark = min(s.recent.mark, first-1) })
	return first, setState(tx.Conn, "mark", first-1)
}

const (
	// A generation of rows enters the history when as many newer rows were made.
	generation = 50000
	// historySlice is how many of them enter it after one commit.
	historySlice = 1000
)

// recent lists the newest rows of runs. In the order of IDs, the runs are in the table history, which is written a generation
// at a time, so that one page takes many. Rows after the mark may be missing there; these are in memory, and Open reads them.
// An index by job in place of both costs 67 % more bytes of the log for each run, and 96 % of the p99 of a commit (decision 051).
type recent struct {
	mu   sync.Mutex
	rows []madeRun // not in the history, in the order of their commits

	// Only the writer touches these.
	mark  int64
	young []madeRun // rows of the generation that must still enter the history
	size  int       // of the generation; differs from generation only in tests
}

type madeRun struct {
	n  int64
	id core.RunID
}

// load reads the rows after the mark.
func (o *recent) load(c *sqlite.Conn) (err error) {
	o.size = generation
	if o.mark, err = getState(c, "mark"); err != nil {
		return err
	}
	return execute(c, "SELECT n, key FROM runs WHERE n > ? ORDER BY n", values(o.mark), func(st *sqlite.Stmt) error {
		o.rows = append(o.rows, madeRun{st.ColumnInt64(0), runOf(st.ColumnInt64(1))})
		return nil
	})
}

// add adds the runs that a committed transaction made.
func (o *recent) add(made []madeRun) {
	if len(made) > 0 {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.rows = append(o.rows, made...)
	}
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
	rest := slices.Clone(o.rows[o.size:])
	mark := slices.MinFunc(rest, func(a, b madeRun) int { return cmp.Compare(a.n, b.n) }).n - 1
	tx.after = append(tx.after, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.rows, o.young, o.mark = rest, nil, mark
	})
	return setState(tx.Conn, "mark", mark)
}
