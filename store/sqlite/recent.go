package sqlite

import (
	"cmp"
	"slices"
	"sync"

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

// newRow numbers a new row by the present time. If the clock was set back by more than clockSlack, it skips the rows that exist.
func (tx *tx) newRow() int64 {
	s, n := tx.s, tx.row+1
	if n == 1 {
		n = max(rowsBefore(s.o.Now().UnixMilli())+1, 1)
		if n > s.lastRow-clockSlack {
			n = max(n, s.lastRow+1)
		}
		if first := n; first <= s.recent.mark {
			tx.after = append(tx.after, func() { s.recent.mark = first - 1 })
			tx.setState("mark", first-1)
		}
	}
	for n <= s.lastRow && tx.integer("SELECT 1 FROM runs WHERE n = ?", n) > 0 {
		n++
	}
	tx.row, s.lastRow = n, max(s.lastRow, n)
	return n
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
	rows []madeRun           // not in the history, in the order of their commits, but sorted by ID where the next ones enter it
	open map[core.RunID]bool // the open runs

	// Only the writer touches these.
	mark int64
	left int // how many of the first rows must still enter the history
	size int // of a generation; differs from generation only in tests
}

type madeRun struct {
	n    int64
	id   core.RunID
	open bool // when it was made
}

// load reads the rows after the mark.
func (o *recent) load(c *conn) {
	o.open, o.size, o.mark = map[core.RunID]bool{}, generation, c.integer("SELECT value FROM state WHERE name = 'mark'")
	for st := range c.rows("SELECT id FROM lingering JOIN runs ON key = ((id & 4294967295) << 31) | (id >> 32) WHERE state <= 3") {
		o.open[core.RunID(st.ColumnInt64(0))] = true
	}
	for st := range c.rows("SELECT n, key, state <= 3 FROM runs WHERE n > ? ORDER BY n", o.mark) {
		r := madeRun{st.ColumnInt64(0), runOf(st.ColumnInt64(1)), st.ColumnBool(2)}
		if o.rows = append(o.rows, r); r.open {
			o.open[r.id] = true
		}
	}
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
			o.open[r.id] = true
		}
	}
	for _, id := range closed {
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

// among returns the recent runs that match, in no order.
func (o *recent) among(match func(core.RunID) bool) (list []core.RunID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.rows {
		if match(r.id) {
			list = append(list, r.id)
		}
	}
	return list
}

// due reports whether file has something to do. Only the writer adds rows.
func (o *recent) due() bool { return o.left > 0 || len(o.rows) >= 2*o.size }

// file enters the next slice of a generation into the history, and moves the mark after the last one. It has its own
// transaction.
func (o *recent) file(tx *tx) {
	if o.left == 0 {
		o.mu.Lock()
		slices.SortFunc(o.rows[:o.size], func(a, b madeRun) int { return cmp.Compare(a.id, b.id) })
		o.mu.Unlock()
		o.left = o.size
	}
	n := min(historySlice, o.left)
	st := tx.prepare("INSERT INTO history (id, n) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET n = ?2")
	for i := 0; i < n && tx.err == nil; i++ {
		st.BindInt64(1, int64(o.rows[i].id))
		st.BindInt64(2, o.rows[i].n)
		tx.run(st)
	}
	mark := o.mark
	if n == o.left {
		mark = slices.MinFunc(o.rows[n:], func(a, b madeRun) int { return cmp.Compare(a.n, b.n) }).n - 1
		open := jsonText(o.openRuns(0)) // a superset
		tx.exec("DELETE FROM lingering WHERE id NOT IN (SELECT value FROM json_each(?))", open)
		tx.exec("INSERT INTO lingering (id) SELECT value FROM json_each(?) WHERE true ON CONFLICT DO NOTHING", open)
		tx.setState("mark", mark)
	}
	tx.after = append(tx.after, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.rows, o.left, o.mark = o.rows[n:], o.left-n, mark
	})
}
