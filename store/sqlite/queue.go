package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/store"
)

// kinds are the queues. The table ring has the position of a queue in this list.
var kinds = [...]ring.Kind{ring.KindFires, ring.KindCheck, ring.KindSlow, ring.KindPostRun}

const (
	// ofRuns selects the messages of runs.
	ofRuns = "kind IN (0, 2)"
	// moved selects the messages of runs that are not visible at their due time.
	moved = ofRuns + " AND visible_at <> slot * 1000"
)

func (s *Store) queueOf(k ring.Kind) (*queue, error) {
	if i := slices.Index(kinds[:], k); i >= 0 {
		return &s.queues[i], nil
	}
	return nil, core.Errorf(core.CodeInvalid, "the delay queue has no messages of the kind %q", k)
}

// queue is the part of a queue in memory: its received messages. A receive that wrote to the table would cost a commit.
type queue struct {
	kind int

	mu   sync.Mutex
	out  map[int64]*received // by ID
	next time.Time           // receivers wait for a message of this time, or for wake
	wake chan struct{}
}

// received is a message from its first receipt to its ack.
type received struct {
	at       time.Time // when it becomes visible again
	released time.Time // the time of the last release
	receives int
	inFlight bool // received since the last release
}

// ceilMillis is the first millisecond at or after t: never early.
func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// rouse makes the waiting receivers check again.
func (q *queue) rouse() {
	close(q.wake)
	q.wake = make(chan struct{})
}

// add makes receivers find a message that becomes visible at a time.
func (q *queue) add(visible time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !visible.After(q.next) {
		q.rouse()
	}
}

// bury stores a dead-letter message as the newest one, also if the clock was set back: dispatch.Dead reads the messages
// that are newer than the last one it read.
func (tx *tx) bury(body []byte, reason string) {
	l := store.NewLetter(tx.s.o.Now(), body, reason)
	for st := range tx.rows("SELECT min(name) FROM records WHERE kind = ? || ''", store.KindLetter) {
		l.ID = store.NewerLetterID(l.ID, st.ColumnText(0))
	}
	w, err := store.LetterWrite(l)
	tx.fail(err)
	tx.writeRecord(&w)
}

func (s *Store) Bury(ctx context.Context, m ring.Message, reason string) error {
	return s.write(ctx, false, 1, func(tx *tx) { tx.bury(ring.Encode(m), reason) })
}

// Enqueue implements store.Queue. A message over ring.MaxBytes fails with a core.Error.
func (s *Store) Enqueue(ctx context.Context, out []ring.Out) []error {
	answers := batch(ctx, s, true, out, func(tx *tx, o *ring.Out) error {
		q, err := s.queueOf(o.Message.Queue())
		body := ring.Encode(o.Message)
		switch {
		case err != nil:
			return err
		case len(body) > ring.MaxBytes:
			return core.Errorf(core.CodeTooLarge, "a message of %d bytes, at most %d are allowed", len(body), ring.MaxBytes)
		}
		s.lastMsg++
		tx.exec("INSERT INTO ring (id, kind, visible_at, slot, body) VALUES (?, ?, ?, ?, ?)", s.lastMsg, q.kind,
			ceilMillis(o.NotBefore), o.Message.Slot, body)
		return nil
	})
	for i := range out {
		if q, err := s.queueOf(out[i].Message.Queue()); err == nil && answers[i] == nil {
			q.add(time.UnixMilli(ceilMillis(out[i].NotBefore)))
		}
	}
	return answers
}

func (s *Store) Receive(ctx context.Context, kind ring.Kind, limit int) ([]store.Delivery, error) {
	q, err := s.queueOf(kind)
	for err == nil {
		var got []store.Delivery
		var wait time.Duration
		var wake <-chan struct{}
		if got, wait, wake, err = s.receive(ctx, q, limit); err != nil || len(got) > 0 {
			return got, err
		}
		select {
		case <-time.After(wait):
		case <-wake:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return nil, err
}

// damaged is a message that cannot be decoded.
type damaged struct {
	id     int64
	body   []byte
	reason string
}

// longest is how long a receiver waits at most, so that a clock that was set forward delays no message by more.
const longest = 10 * time.Second

// receive takes the visible messages. If there are none, wait is the time until the next one, unless wake is closed before.
// The lock makes the state of the table and the messages in out fit together: an acked message leaves the table first.
func (s *Store) receive(ctx context.Context, q *queue, limit int) (
	got []store.Delivery, wait time.Duration, wake <-chan struct{}, err error,
) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := s.o.Now()
	next := now.Add(longest)
	var bad []damaged
	take := func(id int64, body []byte) {
		m, err := q.decode(body)
		switch {
		case errors.Is(err, ring.ErrNewer):
			q.hide(id, now.Add(s.o.Visibility))
		case err != nil:
			bad = append(bad, damaged{id, body, err.Error()})
		default:
			got = append(got, store.Delivery{ID: id, Message: m})
		}
	}
	err = s.read(ctx, func(c *conn) {
		// The index has these columns. With a plain parameter of kind, SQLite would compile the statement again for each call.
		for st := range c.rows("SELECT id, visible_at FROM ring WHERE kind = ? + 0 ORDER BY visible_at, slot, id", q.kind) {
			id, at := st.ColumnInt64(0), time.UnixMilli(st.ColumnInt64(1))
			m := q.out[id]
			if m != nil {
				at = m.at
			}
			if hidden := at.After(now); hidden || len(got)+len(bad) == limit {
				if at.Before(next) {
					next = at
				}
				if hidden && m != nil {
					continue
				}
				return
			}
			for st := range c.rows("SELECT body FROM ring WHERE id = ?", id) {
				take(id, columnBytes(st, 0))
			}
		}
	})
	if err != nil {
		return nil, 0, nil, fmt.Errorf("read the delay queue: %w", err)
	}
	q.next = next
	for i := range got {
		m := q.hide(got[i].ID, now.Add(s.o.Visibility))
		m.receives++
		m.inFlight, got[i].Receives = true, m.receives
	}
	if len(bad) > 0 {
		next = now
		err = s.write(ctx, false, len(bad), func(tx *tx) {
			for _, m := range bad {
				tx.bury(m.body, m.reason)
				tx.exec(deleteMessage, m.id)
			}
		})
	}
	if len(got) > 0 {
		err = nil // the next receive moves them to the dead letters
	}
	return got, max(next.Sub(now), time.Microsecond), q.wake, err
}

// hide makes a message invisible until a time.
func (q *queue) hide(id int64, until time.Time) *received {
	m := cmp.Or(q.out[id], &received{})
	m.at, q.out[id] = until, m
	return m
}

func (q *queue) decode(body []byte) (ring.Message, error) {
	m, err := ring.Decode(body)
	m.Slow = kinds[q.kind] == ring.KindSlow
	if err == nil && m.Queue() != kinds[q.kind] {
		err = errors.New("the kind of the message does not match its queue")
	}
	return m, err
}

const deleteMessage = "DELETE FROM ring WHERE id = ?"

// Ack implements store.Queue. A missing message is not an error.
func (s *Store) Ack(ctx context.Context, done []store.Delivery) []error {
	answers := batch(ctx, s, true, done, func(tx *tx, d *store.Delivery) error {
		tx.exec(deleteMessage, d.ID)
		return nil
	})
	for i := range done {
		if q, err := s.queueOf(done[i].Message.Queue()); err == nil && answers[i] == nil {
			q.mu.Lock()
			delete(q.out, done[i].ID)
			q.mu.Unlock()
		}
	}
	return answers
}

// Release implements store.Queue. It is not durable: after a restart the message is visible at its own time. A delivery
// that another receiver has received since does not change.
func (s *Store) Release(ctx context.Context, back []store.Delivery, at time.Time) []error {
	answers := make([]error, len(back))
	for i, d := range back {
		q, err := s.queueOf(d.Message.Queue())
		if answers[i] = cmp.Or(err, ctx.Err()); answers[i] != nil {
			continue
		}
		q.mu.Lock()
		if m := q.out[d.ID]; m != nil && m.inFlight && m.receives == d.Receives {
			m.at, m.released, m.inFlight = at, at, false
			if at.Before(q.next) {
				q.rouse()
			}
		}
		q.mu.Unlock()
	}
	return answers
}

func (s *Store) Depth(ctx context.Context, kind ring.Kind) (due, waiting, inFlight int, err error) {
	q, err := s.queueOf(kind)
	if err != nil {
		return 0, 0, 0, err
	}
	now := s.o.Now()
	for st := range s.rows(ctx, &err, "SELECT count(*), count(*) FILTER (WHERE visible_at <= ?) FROM ring WHERE kind = ? + 0",
		now.UnixMilli(), q.kind) {
		due = st.ColumnInt(1)
		waiting = st.ColumnInt(0) - due
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.out {
		if !m.at.After(now) {
			continue
		}
		if due--; m.inFlight {
			inFlight++
		} else {
			waiting++
		}
	}
	return max(due, 0), waiting, inFlight, err
}

// Oldest implements store.Queue. It includes all messages of runs without an ack: also in flight, requeued or
// released.
func (s *Store) Oldest(ctx context.Context) (oldest ring.Oldest, err error) {
	now := s.o.Now()
	released := map[int64]time.Time{}
	for i := range s.queues {
		q := &s.queues[i]
		q.mu.Lock()
		for id, m := range q.out {
			released[id] = m.released
		}
		q.mu.Unlock()
	}
	// The due time of a requeued or released message is earlier than its delivery.
	for st := range s.rows(ctx, &err, "SELECT slot, visible_at, id FROM ring WHERE "+ofRuns) {
		at := time.UnixMilli(st.ColumnInt64(1))
		if again := released[st.ColumnInt64(2)]; again.After(at) {
			at = again
		}
		oldest.Note(now, at, core.Instant(st.ColumnInt64(0)))
	}
	oldest.Sort()
	return oldest, err
}
