package sqlite

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"github.com/tickring/tickring/store"
	"maps"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
)

// The kinds of messages, as stored.
const (
	fires = iota
	checks
	slow
	postRuns
	kinds
)

// lanes are the queues of runs.
var lanes = [...]int{fires, slow}

func kindOf(k ring.Kind) (int, error) {
	switch k {
	case ring.KindFires:
		return fires, nil
	case ring.KindCheck:
		return checks, nil
	case ring.KindSlow:
		return slow, nil
	case ring.KindPostRun:
		return postRuns, nil
	}
	return 0, core.Errorf(core.CodeInvalid, "the delay queue has no messages of the kind %q", k)
}

type message struct {
	id       int64
	due      time.Time // NotBefore as enqueued
	at       time.Time // when a ready message may be received, or one in flight becomes visible again
	released time.Time // when it becomes visible again, by the last release
	receives int
	inFlight bool
	index    int // in its heap
	body     ring.Message
}

// seen returns when a message becomes visible: at its time, or at the later time until which it was released.
func (m *message) seen() time.Time {
	if m.released.After(m.due) {
		return m.released
	}
	return m.due
}

// place is the position of a message in the order of the table.
type place struct{ ms, id int64 }

func (p place) before(o place) bool { return p.ms < o.ms || p.ms == o.ms && p.id < o.id }

func (m *message) place() place { return place{ceilMillis(m.due), m.id} }

// ceilMillis is the first millisecond at or after t: never early.
func ceilMillis(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// byTime is a heap of messages in the order of at, then ID.
type byTime []*message

func (h byTime) Len() int { return len(h) }
func (h byTime) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].id < h[j].id
}
func (h byTime) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *byTime) Push(x any) {
	m := x.(*message)
	m.index = len(*h)
	*h = append(*h, m)
}
func (h *byTime) Pop() any {
	old := *h
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return m
}

// queue holds the messages of one kind that are in memory: all before far, and those in flight or released.
type queue struct {
	kind int
	most int

	mu       sync.Mutex
	messages map[int64]*message
	ready    byTime
	flight   byTime
	far      *place // from here on messages may be only in the table; nil: none are
	total    int    // rows in the table
	wake     chan struct{}
	closed   bool
	// slots are the due times of all messages on the queue since a sweep began; nil if no sweep is running.
	slots map[core.Instant]bool
}

func newQueue(kind, most int) *queue {
	return &queue{kind: kind, most: most, messages: map[int64]*message{}}
}

// rouse makes the waiting receivers check again.
func (q *queue) rouse() {
	if q.wake != nil {
		close(q.wake)
		q.wake = nil
	}
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.rouse()
}

// comeBack makes messages visible again that were in flight for too long.
func (q *queue) comeBack(now time.Time) {
	for len(q.flight) > 0 && !now.Before(q.flight[0].at) {
		m := heap.Pop(&q.flight).(*message)
		m.at, m.inFlight = m.due, false
		heap.Push(&q.ready, m)
	}
}

func (q *queue) unlink(m *message) {
	if m.inFlight {
		heap.Remove(&q.flight, m.index)
	} else {
		heap.Remove(&q.ready, m.index)
	}
}

// add adds a message from the table.
func (q *queue) add(m *message) {
	if q.far != nil && !m.place().before(*q.far) { // waiters wait for far at the latest
		return
	}
	q.messages[m.id] = m
	heap.Push(&q.ready, m)
	if m.index == 0 {
		q.rouse()
	}
	if len(q.ready) > q.most {
		q.shrink()
	}
}

// shrink drops the later half of the ready messages from memory; they stay in the table.
func (q *queue) shrink() {
	slices.SortFunc(q.ready, func(a, b *message) int {
		if a.place().before(b.place()) {
			return -1
		}
		return 1
	})
	keep := q.most / 2
	if far := q.ready[keep].place(); q.far == nil || far.before(*q.far) {
		q.far = &far
	}
	for _, m := range q.ready[keep:] {
		if m.receives == 0 && !m.place().before(*q.far) { // the others are put off: the table does not know until when
			delete(q.messages, m.id)
		}
	}
	q.ready = slices.DeleteFunc(q.ready, func(m *message) bool { return q.messages[m.id] == nil })
	for i, m := range q.ready {
		m.index = i
	}
	heap.Init(&q.ready)
}

// refill reads the next messages of the table into memory. It runs in the writer, so the queue does not change during the
// read. An unreadable row moves to the dead-letter queue; a row of a newer version stays in the table.
func (s *Store) refill(tx *tx, q *queue) error {
	q.mu.Lock()
	from := place{ms: -1 << 62}
	was := q.far
	if was != nil {
		from = *was
	}
	room := max(q.most/2-len(q.ready), 1)
	q.mu.Unlock()
	type row struct {
		place
		body []byte
	}
	var read []row
	if err := execute(tx.Conn, "SELECT id, not_before, body FROM ring WHERE kind = ?1 AND (not_before, id) >= (?2, ?3) ORDER BY not_before, "+
		"id LIMIT ?4", values(q.kind, from.ms, from.id, room+1), func(st *sqlite.Stmt) error {
		read = append(read, row{place{st.ColumnInt64(1), st.ColumnInt64(0)}, columnBytes(st, 2)})
		return nil
	}); err != nil {
		return err
	}
	var far *place
	if len(read) > room {
		far, read = &read[room].place, read[:room]
	}
	var loaded []*message
	buried := 0
	for _, r := range read {
		body, err := ring.Decode(r.body)
		body.Slow = q.kind == slow
		if err == nil {
			if k, e := kindOf(body.Queue()); e != nil || k != q.kind {
				err = errors.New("the kind of the message does not match its queue")
			}
		}
		switch {
		case errors.Is(err, ring.ErrNewer):
			continue
		case err != nil:
			if err := bury(tx, r.body, err.Error()); err != nil {
				return err
			}
			if err := execute(tx.Conn, "DELETE FROM ring WHERE id = ?", values(r.id), nil); err != nil {
				return err
			}
			buried++
			continue
		}
		at := time.UnixMilli(r.ms)
		loaded = append(loaded, &message{id: r.id, due: at, at: at, body: body})
	}
	tx.after = append(tx.after, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.total -= buried
		if q.far != nil && (was == nil || q.far.before(*was)) {
			// A message that was enqueued earlier in this transaction made the queue shrink, so the table has messages before the ones
			// just read.
			q.rouse()
			return
		}
		q.far = far
		for _, m := range loaded {
			if q.messages[m.id] == nil {
				q.messages[m.id] = m
				heap.Push(&q.ready, m)
			}
		}
		q.rouse()
	})
	return nil
}

// bury stores a dead-letter message as the newest one, also if the clock was set back: dispatch.Dead reads the messages
// that are newer than the last one it read.
func bury(tx *tx, body []byte, reason string) error {
	l := store.NewLetter(tx.s.now(), body, reason)
	if err := execute(tx.Conn, "SELECT min(name) FROM records WHERE kind = ?", values(store.KindLetter), func(st *sqlite.Stmt) error {
		l.ID = store.NewerLetterID(l.ID, st.ColumnText(0))
		return nil
	}); err != nil {
		return err
	}
	w, err := store.LetterWrite(l)
	if err != nil {
		return err
	}
	return writeRecord(tx, &w)
}

func (s *Store) Bury(ctx context.Context, m ring.Message, reason string) error {
	return s.write(ctx, false, 1, func(tx *tx) error { return bury(tx, ring.Encode(m), reason) })
}

type outgoing struct {
	kind int
	at   time.Time
	body []byte
	out  *ring.Out
}

// Enqueue implements engine.Ring. A message over ring.MaxBytes fails with a core.Error.
func (s *Store) Enqueue(ctx context.Context, out []ring.Out) []error {
	answers := make([]error, len(out))
	list := make([]outgoing, 0, len(out))
	places := make([]int, 0, len(out))
	for i := range out {
		kind, err := kindOf(out[i].Message.Queue())
		body := ring.Encode(out[i].Message)
		if err == nil && len(body) > ring.MaxBytes {
			err = core.Errorf(core.CodeTooLarge, "a message of %d bytes, at most %d are allowed", len(body), ring.MaxBytes)
		}
		if err != nil {
			answers[i] = err
			continue
		}
		list = append(list, outgoing{kind, out[i].NotBefore, body, &out[i]})
		places = append(places, i)
	}
	for i, err := range batch(ctx, s, true, list, s.enqueue) {
		answers[places[i]] = err
	}
	return answers
}

func (s *Store) enqueue(tx *tx, list []outgoing, _ []error) error {
	st, err := tx.Prepare("INSERT INTO ring (id, kind, not_before, body) VALUES (?, ?, ?, ?)")
	if err != nil {
		return err
	}
	messages := make([]*message, len(list))
	for i := range list {
		o := &list[i]
		s.lastMsg++
		st.BindInt64(1, s.lastMsg)
		st.BindInt64(2, int64(o.kind))
		st.BindInt64(3, ceilMillis(o.at))
		st.BindBytes(4, o.body)
		if err := rows(st, nil); err != nil {
			return err
		}
		messages[i] = &message{id: s.lastMsg, due: o.at, at: o.at, body: copyMessage(o.out.Message)}
	}
	tx.after = append(tx.after, func() {
		for i, m := range messages {
			q := s.queues[list[i].kind]
			q.mu.Lock()
			q.total++
			if q.slots != nil {
				q.slots[m.body.Slot] = true
			}
			q.add(m)
			q.mu.Unlock()
		}
	})
	return nil
}

func copyMessage(m ring.Message) ring.Message {
	m.Fires = slices.Clone(m.Fires)
	if m.Check != nil {
		c := *m.Check
		c.Runs = slices.Clone(c.Runs)
		if c.Journal != nil {
			j := *c.Journal
			j.Entries = slices.Clone(j.Entries)
			c.Journal = &j
		}
		m.Check = &c
	}
	if m.PostRun != nil {
		a := *m.PostRun
		m.PostRun = &a
	}
	return m
}

func (s *Store) Receive(ctx context.Context, kind ring.Kind, limit int) ([]store.Delivery, error) {
	k, err := kindOf(kind)
	if err != nil {
		return nil, err
	}
	q := s.queues[k]
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		got, next, wake, err := s.receive(q, limit)
		if err != nil || len(got) > 0 {
			return got, err
		}
		if next == 0 {
			if err := s.write(ctx, true, q.most/2, func(tx *tx) error { return s.refill(tx, q) }); err != nil {
				return nil, fmt.Errorf("read the ring: %w", err)
			}
			continue
		}
		if next < 0 {
			select {
			case <-wake:
			case <-ctx.Done():
			}
			continue
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// receive takes the visible messages. If there are none, it returns how long to wait: negative if no time is known, 0 if
// the table must be read first.
func (s *Store) receive(q *queue, limit int) (got []store.Delivery, next time.Duration, wake <-chan struct{}, err error) {
	now := s.now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, 0, nil, errClosed
	}
	q.comeBack(now)
	for len(got) < limit && len(q.ready) > 0 && !now.Before(q.ready[0].at) {
		m := heap.Pop(&q.ready).(*message)
		m.receives++
		m.at, m.inFlight = now.Add(s.visibility), true
		heap.Push(&q.flight, m)
		got = append(got, store.Delivery{ID: m.id, Receives: m.receives, Message: copyMessage(m.body)})
	}
	if len(got) > 0 {
		return got, 0, nil, nil
	}
	next = -1
	for _, h := range []byTime{q.ready, q.flight} {
		if len(h) > 0 {
			next = sooner(next, h[0].at.Sub(now))
		}
	}
	if q.far != nil {
		d := time.UnixMilli(q.far.ms).Sub(now)
		if d <= 0 {
			return nil, 0, nil, nil
		}
		next = sooner(next, d)
	}
	if q.wake == nil {
		q.wake = make(chan struct{})
	}
	return nil, next, q.wake, nil
}

func sooner(a, b time.Duration) time.Duration {
	if b = max(b, time.Microsecond); a < 0 || b < a {
		return b
	}
	return a
}

// Ack implements store.Queue. A missing message is not an error.
func (s *Store) Ack(ctx context.Context, done []store.Delivery) []error {
	return batch(ctx, s, true, done, func(tx *tx, done []store.Delivery, answers []error) error {
		removed := make([]error, len(done))
		if err := eachRow(tx, "DELETE FROM ring WHERE id = ?", done, removed, func(st *sqlite.Stmt, d *store.Delivery) error {
			st.BindInt64(1, d.ID)
			return nil
		}); err != nil {
			return err
		}
		tx.after = append(tx.after, func() {
			for i := range done {
				k, err := kindOf(done[i].Message.Queue())
				if err != nil {
					continue
				}
				q := s.queues[k]
				q.mu.Lock()
				if removed[i] == nil {
					q.total--
				}
				if m := q.messages[done[i].ID]; m != nil {
					q.unlink(m)
					delete(q.messages, m.id)
				}
				q.mu.Unlock()
			}
		})
		return nil
	})
}

// Release implements store.Queue. It is not durable: after a restart the message is visible at its own time. A delivery
// that another receiver has received since does not change.
func (s *Store) Release(ctx context.Context, back []store.Delivery, at time.Time) []error {
	answers := make([]error, len(back))
	for i, d := range back {
		k, err := kindOf(d.Message.Queue())
		if err = errors.Join(err, ctx.Err()); err != nil {
			answers[i] = err
			continue
		}
		q := s.queues[k]
		q.mu.Lock()
		if m := q.messages[d.ID]; m != nil && m.inFlight && m.receives == d.Receives {
			q.unlink(m)
			m.at, m.released, m.inFlight = at, at, false
			heap.Push(&q.ready, m)
			if m.index == 0 {
				q.rouse()
			}
		}
		q.mu.Unlock()
	}
	return answers
}

func (s *Store) Depth(ctx context.Context, kind ring.Kind) (due, waiting, inFlight int, err error) {
	k, err := kindOf(kind)
	if err != nil {
		return 0, 0, 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, 0, err
	}
	q := s.queues[k]
	now := s.now()
	q.mu.Lock()
	q.comeBack(now)
	inFlight = len(q.flight)
	for _, m := range q.ready {
		if !now.Before(m.at) {
			due++
		}
	}
	total, far := q.total, q.far
	q.mu.Unlock()
	if far != nil && far.ms <= now.UnixMilli() {
		err = s.query(ctx, "SELECT count(*) FROM ring WHERE kind = ?1 AND (not_before, id) >= (?2, ?3) AND not_before <= ?4",
			values(k, far.ms, far.id, now.UnixMilli()), func(st *sqlite.Stmt) error {
				due += st.ColumnInt(0)
				return nil
			})
	}
	return due, max(total-due-inFlight, 0), inFlight, err
}

// Oldest implements store.Queue. It includes all messages of runs without an ack: also in flight, requeued or
// released.
func (s *Store) Oldest(ctx context.Context) (oldest ring.Oldest, err error) {
	now := s.now()
	err = s.onRing(ctx, func(due time.Time, slot core.Instant) { oldest.Note(now, due, slot) })
	oldest.Sort()
	return oldest, err
}

// noteSlots makes the queues of runs record the due times of their messages, including new ones until dropSlots. A
// requeue, and a planner pass that repeats an earlier one, enqueues its message first.
func (s *Store) noteSlots(ctx context.Context) error {
	for _, lane := range lanes {
		q, slots := s.queues[lane], map[core.Instant]bool{}
		q.mu.Lock()
		q.slots = map[core.Instant]bool{}
		q.mu.Unlock()
		if err := s.onLane(ctx, lane, func(_ time.Time, slot core.Instant) { slots[slot] = true }); err != nil {
			return err
		}
		q.mu.Lock()
		maps.Copy(q.slots, slots)
		q.mu.Unlock()
	}
	return nil
}

func (s *Store) dropSlots() {
	for _, lane := range lanes {
		q := s.queues[lane]
		q.mu.Lock()
		q.slots = nil
		q.mu.Unlock()
	}
}

// onRingAt reports whether a message with a due time is on the delay queue, or was since the sweep began.
func (s *Store) onRingAt(slot core.Instant) (is bool) {
	for _, lane := range lanes {
		q := s.queues[lane]
		q.mu.Lock()
		is = is || q.slots[slot]
		q.mu.Unlock()
	}
	return is
}

// jobsOnRing returns the jobs that have a run on the delay queue, or none unless asked.
func (s *Store) jobsOnRing(ctx context.Context, asked bool) (jobs map[core.JobID]bool, err error) {
	if !asked {
		return nil, nil
	}
	jobs = map[core.JobID]bool{}
	return jobs, s.query(ctx, `SELECT DISTINCT json_extract(f.value, '$.run') >> 32 FROM ring, json_each(CASE WHEN json_valid(CAST(body AS TEXT))
THEN CAST(body AS TEXT) ELSE '{}' END, '$.fires') AS f WHERE kind IN (?1, ?2)`, values(fires, slow), func(st *sqlite.Stmt) error {
		jobs[core.JobID(st.ColumnInt64(0))] = true
		return nil
	})
}

// onRing passes on the due times of messages of runs, each with its earliest and its latest time of delivery.
func (s *Store) onRing(ctx context.Context, tell func(due time.Time, slot core.Instant)) error {
	return cmp.Or(s.onLane(ctx, lanes[0], tell), s.onLane(ctx, lanes[1], tell))
}

func (s *Store) onLane(ctx context.Context, lane int, tell func(due time.Time, slot core.Instant)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q := s.queues[lane]
	q.mu.Lock()
	for _, m := range q.messages {
		tell(m.seen(), m.body.Slot)
	}
	far := q.far
	q.mu.Unlock()
	if far == nil {
		return nil
	}
	// The due time of a requeued message is earlier than its delivery.
	return s.query(ctx, `SELECT json_extract(CAST(body AS TEXT), '$.slot') slot, min(not_before), max(not_before) FROM ring
WHERE kind = ?1 AND (not_before, id) >= (?2, ?3) AND json_valid(CAST(body AS TEXT)) GROUP BY slot`, values(lane, far.ms, far.id), func(st *sqlite.Stmt) error {
		if !st.ColumnIsNull(0) {
			tell(time.UnixMilli(st.ColumnInt64(1)), core.Instant(st.ColumnInt64(0)))
			tell(time.UnixMilli(st.ColumnInt64(2)), core.Instant(st.ColumnInt64(0)))
		}
		return nil
	})
}
