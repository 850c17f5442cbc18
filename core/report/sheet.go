package report

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// A Row counts the runs that began in one time span. A Row is about one job, about one app if Job is 0, or about all apps if
// App is empty.
type Row struct {
	At   core.Instant // start of the span
	App  string
	Job  core.JobID
	Open int64 // number of runs that have not ended
	Ends []End // sorted by state and reason; an End without runs is omitted
}

// An End counts the runs of a Row that ended in one state with one reason.
type End struct {
	State  core.State
	Reason core.Reason
	N      int64
	// Took has the times from send to end, for runs that were sent. Late has the times from due time to send, for runs whose
	// lateness is known.
	Took, Late Histogram
}

// Runs returns the number of ended runs in the row.
func (r *Row) Runs() (n int64) {
	for i := range r.Ends {
		n += r.Ends[i].N
	}
	return n
}

func (r *Row) end(state core.State, reason core.Reason) *End {
	i, is := slices.BinarySearchFunc(r.Ends, End{State: state, Reason: reason}, func(a, b End) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason))
	})
	if !is {
		r.Ends = slices.Insert(r.Ends, i, End{State: state, Reason: reason})
	}
	return &r.Ends[i]
}

// count adds a run that has ended.
func (r *Row) count(run *core.Run) {
	e := r.end(run.State, run.Reason)
	e.N++
	if run.Sent() && run.EndedAt.After(run.SentAt) {
		e.Took.Add(run.EndedAt.Sub(run.SentAt))
	}
	if run.HasLateness() {
		e.Late.Add(run.Lateness())
	}
}

// Merge adds the counts of o to r. The subject of o must be the subject of r, or a part of it.
func (r *Row) Merge(o *Row) {
	r.Open += o.Open
	for i := range o.Ends {
		e := r.end(o.Ends[i].State, o.Ends[i].Reason)
		e.N += o.Ends[i].N
		e.Took.Merge(o.Ends[i].Took)
		e.Late.Merge(o.Ends[i].Late)
	}
}

// open is a run that was open when its span was summed, and is checked again by its ID.
type open struct {
	run core.RunID
	at  core.Instant // its span
	app string
}

// sheet is a number of rows that are stored as one record, by job and span, with their open runs, which
// Open counts too.
type sheet struct {
	rows []Row
	open []open
}

type place struct {
	at  core.Instant
	app string
	job core.JobID
}

func (r *Row) place() place { return place{r.At, r.App, r.Job} }

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.job, o.job), cmp.Compare(p.app, o.app), cmp.Compare(p.at, o.at))
}

// table sums rows.
type table map[place]*Row

func (t table) row(p place) *Row {
	r := t[p]
	if r == nil {
		r = &Row{At: p.at, App: p.app, Job: p.job}
		t[p] = r
	}
	return r
}

func (t table) add(p place, r *Row) { t.row(p).Merge(r) }

// rows returns all rows by job, app and span.
func (t table) rows() []Row {
	list := make([]Row, 0, len(t))
	for _, r := range t {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Row) int { return a.place().compare(b.place()) })
	return list
}

// rawSheet is the size of a sheet before compression to about a third; rows of one job share a sheet.
// mostOpen limits the open runs of a job and span that are checked again; further ones are only counted as
// open.
const (
	rawSheet = 32 << 10
	mostOpen = 10_000
)

// sheets splits rows and their open runs into sheets.
func sheets(rows []Row, opens []open) (list []sheet) {
	slices.SortFunc(opens, func(a, b open) int { return cmp.Compare(a.run, b.run) })
	size := 0
	for i := range rows {
		r := &rows[i]
		own := 16 + len(r.App)/8
		for k := range r.Ends {
			own += 8 + 3*len(r.Ends[k].Took.Buckets) + 3*len(r.Ends[k].Late.Buckets)
		}
		if len(list) == 0 || size > rawSheet && (r.Job == 0 || r.Job != rows[i-1].Job) {
			list, size = append(list, sheet{}), 0
		}
		s := &list[len(list)-1]
		s.rows = append(s.rows, *r)
		for len(opens) > 0 && opens[0].run.Job() <= r.Job {
			s.open, opens, own = append(s.open, opens[0]), opens[1:], own+6
		}
		size += own
	}
	return list
}

// Compressors and decompressors are larger than a sheet, so they are reused.
var (
	deflaters = sync.Pool{New: func() any {
		w, err := flate.NewWriter(io.Discard, flate.DefaultCompression)
		if err != nil {
			panic("report: " + err.Error()) // the level exists
		}
		return w
	}}
	inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}
)

// formed is the first byte of a stored sheet.
const formed = 1

// encode returns the stored form of a sheet: varints, compressed.
func (s *sheet) encode() []byte {
	var b []byte
	put := func(n int64) { b = binary.AppendVarint(b, n) }
	words, number := []string{}, map[string]int64{}
	word := func(w string) int64 {
		n, is := number[w]
		if !is {
			n = int64(len(words))
			number[w], words = n, append(words, w)
		}
		return n
	}
	histogram := func(h *Histogram) {
		put(int64(len(h.Buckets)))
		last := 0
		for _, bucket := range h.Buckets {
			put(int64(bucket.At - last))
			put(bucket.N)
			last = bucket.At
		}
		if len(h.Buckets) > 0 {
			put(h.Most.Milliseconds())
		}
	}
	put(int64(len(s.rows)))
	var job core.JobID
	var at core.Instant
	for i := range s.rows {
		r := &s.rows[i]
		put(int64(r.Job - job))
		put(int64(r.At - at))
		job, at = r.Job, r.At
		put(word(r.App))
		put(r.Open)
		put(int64(len(r.Ends)))
		for k := range r.Ends {
			e := &r.Ends[k]
			put(word(string(e.State)))
			put(word(string(e.Reason)))
			put(e.N)
			histogram(&e.Took)
			histogram(&e.Late)
		}
	}
	put(int64(len(s.open)))
	var run core.RunID
	for _, o := range s.open {
		put(int64(o.run - run))
		put(int64(o.at))
		put(word(o.app))
		run = o.run
	}
	head := binary.AppendVarint(nil, int64(len(words)))
	for _, w := range words {
		head = append(binary.AppendVarint(head, int64(len(w))), w...)
	}
	var out bytes.Buffer
	out.WriteByte(formed)
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&out)
	_, _ = w.Write(head) // into memory
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// Limits for reading, so that damaged data takes no memory.
const (
	mostRaw  = 64 << 20
	mostWord = 200
)

var errDamaged = errors.New("it is damaged")

// decode reads the output of encode. If only is not 0, it reads only the rows of that job, in a tenth of
// the time.
func decode(stored []byte, only core.JobID) (s sheet, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read a sheet of reports: %w", err)
		}
	}()
	if len(stored) == 0 || stored[0] != formed {
		return s, errors.New("its form is none that this version knows")
	}
	in := inflaters.Get().(io.Reader)
	defer inflaters.Put(in)
	if err := in.(flate.Resetter).Reset(bytes.NewReader(stored[1:]), nil); err != nil {
		return s, err
	}
	raw, err := io.ReadAll(io.LimitReader(in, mostRaw))
	if err != nil {
		return s, err
	}
	bad := false
	get := func() int64 {
		n, size := binary.Varint(raw)
		if size <= 0 {
			bad = true
			return 0
		}
		raw = raw[size:]
		return n
	}
	count := func() int64 { // of items with at least a byte each
		n := get()
		if n < 0 || n > int64(len(raw)) {
			bad = true
			return 0
		}
		return n
	}
	words := make([]string, 0, 8)
	for range count() {
		n := count()
		if n > mostWord {
			return s, errDamaged
		}
		words, raw = append(words, string(raw[:n])), raw[n:]
	}
	word := func() string {
		n := get()
		if n < 0 || n >= int64(len(words)) {
			bad = true
			return ""
		}
		return words[n]
	}
	histogram := func(wanted bool) (h Histogram) {
		n := count()
		switch {
		case n == 0:
			return h
		case !wanted:
			for range 2*n + 1 {
				get()
			}
			return h
		}
		h.Buckets = make([]Bucket, n)
		last := 0
		for i := range h.Buckets {
			last += int(get())
			h.Buckets[i] = Bucket{At: last, N: get()}
		}
		h.Most = time.Duration(get()) * time.Millisecond
		return h
	}
	var job core.JobID
	var at core.Instant
	for range count() {
		job += core.JobID(get())
		at += core.Instant(get())
		wanted := only == 0 || job == only
		r := Row{At: at, Job: job, App: word(), Open: get()}
		ends := count()
		if wanted {
			r.Ends = make([]End, 0, ends)
		}
		for range ends {
			e := End{State: core.State(word()), Reason: core.Reason(word()), N: get(), Took: histogram(wanted), Late: histogram(wanted)}
			if wanted {
				r.Ends = append(r.Ends, e)
			}
		}
		if wanted {
			s.rows = append(s.rows, r)
		}
		if bad {
			return s, errDamaged
		}
	}
	var run core.RunID
	for range count() {
		run += core.RunID(get())
		s.open = append(s.open, open{run: run, at: core.Instant(get()), app: word()})
	}
	if bad {
		return s, errDamaged
	}
	return s, nil
}

// settle counts the ends of open runs. Runs that do not exist are not counted, and runs that could not be read stay open.
func (s *sheet) settle(found map[core.RunID]store.Got[*core.Run]) (changed bool) {
	rows := table{}
	for i := range s.rows {
		rows[s.rows[i].place()] = &s.rows[i]
	}
	left := s.open[:0:0]
	for _, o := range s.open {
		run, is := found[o.run]
		if is && (run.Err != nil || run.Is.State.Open()) {
			left = append(left, o)
			continue
		}
		changed = true
		r := rows[place{o.at, o.app, o.run.Job()}]
		if r == nil {
			continue
		}
		if r.Open--; is {
			r.count(run.Is)
		}
	}
	s.open = left
	return changed
}

// sum adds rows of jobs to the rows of their apps and of all.
func (t table) sum(rows []Row) {
	for i := range rows {
		r := &rows[i]
		if r.App != "" {
			t.add(place{at: r.At, app: r.App}, r)
		}
		t.add(place{at: r.At}, r)
	}
}

// sums returns the rows of each app and of all, by span.
func (t table) sums() (apps, all []Row) {
	list := t.rows()
	n := 0
	for n < len(list) && list[n].App == "" {
		n++
	}
	return list[n:], list[:n]
}

// sortRows sorts rows by span, app and job.
func sortRows(rows []Row) {
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.App, b.App), cmp.Compare(a.Job, b.Job))
	})
}

// asOne merges the rows of all spans into one span that begins at a time.
func asOne(rows []Row, at core.Instant) []Row {
	t := table{}
	for i := range rows {
		p := rows[i].place()
		p.at = at
		t.add(p, &rows[i])
	}
	return t.rows()
}
