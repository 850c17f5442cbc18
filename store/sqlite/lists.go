package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

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

// Last implements store.Runs. It reads the ends of a job's two ranges of IDs, for all jobs from one state of the file.
func (s runs) Last(ctx context.Context, jobs []core.JobID, upTo core.Instant, n int) (map[core.JobID][]core.Run, error) {
	jobs = slices.Compact(slices.Sorted(slices.Values(jobs)))
	young := map[core.JobID][]core.RunID{}
	for _, id := range s.recent.among(func(id core.RunID) bool { // they may enter the history during the read
		_, asked := slices.BinarySearch(jobs, id.Job())
		return asked
	}) {
		young[id.Job()] = append(young[id.Job()], id)
	}
	found := make(map[core.JobID][]core.Run, len(jobs))
	err := s.read(ctx, func(c *conn) {
		for _, job := range jobs {
			low, high := core.RunRange(job, 0, upTo)
			nlow, nhigh := core.NumberedRange(job)
			var list []core.Run
			for _, ends := range [][2]core.RunID{{high, low}, {nhigh, nlow}} {
				seen, took := 0, 0
				for r := range c.span(ends[0], ends[1], 2*n, young[job]) {
					if r.Slot <= upTo {
						list = append(list, *r)
						took++
					}
					if seen++; took == n || seen == 2*n {
						break
					}
				}
			}
			slices.SortFunc(list, func(a, b core.Run) int { return cmp.Or(cmp.Compare(b.Slot, a.Slot), cmp.Compare(b.ID, a.ID)) })
			if len(list) > 0 {
				found[job] = list[:min(n, len(list))]
			}
		}
	})
	return found, err
}

// Began implements store.Runs, in no order of jobs. Rows lie in the order in which they were made, and almost every run
// is made with its claim or its end; the few others have their own indexes. A run that was made in the minute of its
// claim, or later, counts as begun when it was made.
func (s runs) Began(ctx context.Context, from, to core.Instant, _ core.JobID, tell func([]core.Run)) (_ core.JobID, err error) {
	const atOnce = 2000 // runs in one transaction
	scan := func(q string, args ...any) (n int, last int64) {
		var list []core.Run
		if err == nil {
			err = s.read(ctx, func(c *conn) { list, last = c.runs(q, args...) })
		}
		if err == nil {
			tell(list)
		}
		return len(list), last
	}
	after, upTo := rowsBefore(int64(from)*1000), rowsBefore(int64(to)*1000)
	for n := atOnce; n == atOnce; {
		n, after = scan(selectRuns+"WHERE n > ? AND n <= ? AND (jminute > 0 OR state > 3) AND NOT coalesce("+claimedLater+", 0) "+
			"AND NOT coalesce("+endedLater+", 0) ORDER BY n LIMIT ? + 0", after, upTo, atOnce)
	}
	scan(selectRuns+"INDEXED BY runs_claimed_later WHERE jminute >= ? AND jminute < ? AND "+claimedLater, (from+59)/60, (to+59)/60)
	scan(selectRuns+"INDEXED BY runs_ended_later WHERE ended >= ? AND ended < ? AND "+endedLater, int64(from)*1000, int64(to)*1000)
	return 0, err
}

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
	// generation is how many rows enter the history when twice as many wait.
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
	rows []madeRun                          // not in the history, in the order of their commits, but sorted by ID where the next ones enter it
	open map[core.JobID]map[core.RunID]bool // the open runs

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
	o.open, o.size, o.mark = map[core.JobID]map[core.RunID]bool{}, generation, c.integer("SELECT value FROM state WHERE name = 'mark'")
	for st := range c.rows("SELECT id FROM lingering JOIN runs ON key = ((id & 4294967295) << 31) | (id >> 32) WHERE state <= 3") {
		o.opened(core.RunID(st.ColumnInt64(0)))
	}
	for st := range c.rows("SELECT n, key, state <= 3 FROM runs WHERE n > ? ORDER BY n", o.mark) {
		r := madeRun{st.ColumnInt64(0), runOf(st.ColumnInt64(1)), st.ColumnBool(2)}
		if o.rows = append(o.rows, r); r.open {
			o.opened(r.id)
		}
	}
}

// add adds the runs that a committed transaction made, and removes the closed ones from the open runs.
func (o *recent) add(made []madeRun, closed []core.RunID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows = append(o.rows, made...)
	for _, r := range made {
		if r.open {
			o.opened(r.id)
		}
	}
	for _, id := range closed {
		if delete(o.open[id.Job()], id); len(o.open[id.Job()]) == 0 {
			delete(o.open, id.Job())
		}
	}
}

func (o *recent) opened(id core.RunID) {
	if o.open[id.Job()] == nil {
		o.open[id.Job()] = map[core.RunID]bool{}
	}
	o.open[id.Job()][id] = true
}

// openRuns returns the open runs of a job, or of all jobs if job is 0, newest first.
func (o *recent) openRuns(job core.JobID) (ids []core.RunID) {
	o.mu.Lock()
	if ids = slices.Collect(maps.Keys(o.open[job])); job == 0 {
		for _, of := range o.open {
			ids = slices.AppendSeq(ids, maps.Keys(of))
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
