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
)

// Row is what became of the runs of one job in one span, or of all of an app (no job), or
// of all (no app either).
type Row struct {
	At   core.Instant // the start of the span
	App  string
	Job  core.JobID
	Open int64 // those that had no end yet
	Ends []End // by state and reason, none without a run
}

// End is the runs that ended in one way.
type End struct {
	State  core.State
	Reason core.Reason
	N      int64
	// Took is from the send to the end, of those that were sent; Late from the slot to
	// the send, of those whose slot tells it (core.Run.HasLateness).
	Took, Late Histogram
}

// Runs is how many ended.
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

// Merge adds another row, of the same subject or a part of it.
func (r *Row) Merge(o *Row) {
	r.Open += o.Open
	for i := range o.Ends {
		e := r.end(o.Ends[i].State, o.Ends[i].Reason)
		e.N += o.Ends[i].N
		e.Took.Merge(o.Ends[i].Took)
		e.Late.Merge(o.Ends[i].Late)
	}
}

// open is a run that had no end when its span was summed: it is looked at again by its ID.
type open struct {
	run core.RunID
	at  core.Instant // the span that it belongs to
	app string
}

// sheet is some rows that are stored as one, by job and span, and their open runs, which
// are counted in Open too.
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

// table is rows that are being added up.
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

// rows are all, by job, app and span.
func (t table) rows() []Row {
	list := make([]Row, 0, len(t))
	for _, r := range t {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Row) int { return a.place().compare(b.place()) })
	return list
}

// rawSheet is how long a sheet becomes before it is compressed, to about a third; rows of
// one job are never in two. mostOpen bounds the open runs of a job and span whose IDs are
// kept: what is beyond is counted as open and not looked at again.
const (
	rawSheet = 32 << 10
	mostOpen = 10_000
)

// sheets cuts rows, and the open runs that belong to them, into sheets.
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

// What compresses and what reads it need more room than a sheet.
var (
	deflaters = sync.Pool{New: func() any {
		w, err := flate.NewWriter(io.Discard, flate.DefaultCompression)
		if err != nil {
			panic("report: " + err.Error()) // a level that there is
		}
		return w
	}}
	inflaters = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}
)

// formed is the first byte of what is stored.
const formed = 1

// encode is a sheet as it is stored: numbers of variable length, compressed.
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

// Bounds of what is read, so that what is damaged takes no memory.
const (
	mostRaw  = 64 << 20
	mostWord = 200
)

var errDamaged = errors.New("it is damaged")

// decode reads what encode wrote; only, if it is not 0, the rows of that job alone, which
// takes a tenth of the time.
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
	count := func() int64 { // of things that take a byte each at least
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

// settle takes the ends of open runs; what is gone is counted no more.
func (s *sheet) settle(found map[core.RunID]core.Run, read map[core.RunID]bool) (changed bool) {
	rows := table{}
	for i := range s.rows {
		rows[s.rows[i].place()] = &s.rows[i]
	}
	left := s.open[:0:0]
	for _, o := range s.open {
		run, is := found[o.run]
		if !read[o.run] || is && run.State.Open() {
			left = append(left, o)
			continue
		}
		changed = true
		r := rows[place{o.at, o.app, o.run.Job()}]
		if r == nil {
			continue
		}
		if r.Open--; is {
			r.count(&run)
		}
	}
	s.open = left
	return changed
}

// sum adds rows of jobs to those of their apps and of all.
func (t table) sum(rows []Row) {
	for i := range rows {
		r := &rows[i]
		if r.App != "" {
			t.add(place{at: r.At, app: r.App}, r)
		}
		t.add(place{at: r.At}, r)
	}
}

// sums are the rows of each app, and those of all, by span.
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

// asOne are the rows with one span, that begins at a moment, in place of each.
func asOne(rows []Row, at core.Instant) []Row {
	t := table{}
	for i := range rows {
		p := rows[i].place()
		p.at = at
		t.add(p, &rows[i])
	}
	return t.rows()
}
