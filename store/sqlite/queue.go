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
	early = 50 // a message of runs is received this many milliseconds before its due time, so that no run waits for the decoding
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

	mu      sync.Mutex
	out     map[int64]*received
	soonest time.Time // no message of out becomes visible earlier
	from    place     // all rows up to here are in out
	until   int64     // receivers wait for a message of this millisecond, or for wake
	wake    chan struct{}
}

// received is a message from its first receipt to its ack.
type received struct {
	place
	at       time.Time // when it becomes visible again
	released time.Time // the time of the last release
	receives int
	inFlight bool // received since the last release
}

// place is the position of a message in its queue.
type place struct {
	ms   int64
	slot core.Instant
	id   int64
}

func (p place) compare(o place) int {
	return cmp.Or(cmp.Compare(p.ms, o.ms), cmp.Compare(p.slot, o.slot), cmp.Compare(p.id, o.id))
}

// rouse makes the waiting receivers check again.
func (q *queue) rouse() {
	close(q.wake)
	q.wake = make(chan struct{})
}

// hide makes a received message visible at a time.
func (q *queue) hide(m *received, at time.Time) {
	if m.at = at; at.Before(q.soonest) {
		q.soonest = at
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

// outgoing is a message to store.
type outgoing struct {
	place
	q    *queue
	body []byte
	err  error
}

// Enqueue implements store.Queue. A message over ring.MaxBytes fails with a core.Error.
func (s *Store) Enqueue(ctx context.Context, out []ring.Out) []error {
	list := make([]outgoing, len(out))
	for i := range out {
		m, o := &out[i].Message, &list[i]
		o.place = place{ms: out[i].NotBefore.Add(time.Millisecond - 1).UnixMilli(), slot: m.Slot} // rounded up: never early
		o.q, o.err = s.queueOf(m.Queue())
		if o.body = ring.Encode(*m); o.err == nil && len(o.body) > ring.MaxBytes {
			o.err = core.Errorf(core.CodeTooLarge, "a message of %d bytes, at most %d are allowed", len(o.body), ring.MaxBytes)
		}
	}
	answers := batch(ctx, s, true, list, func(tx *tx, o *outgoing) error {
		if o.err != nil {
			return o.err
		}
		s.lastMsg++
		o.id = s.lastMsg
		tx.exec("INSERT INTO ring (id, kind, visible_at, slot, body) VALUES (?, ?, ?, ?, ?)", o.id, o.q.kind, o.ms, o.slot, o.body)
		return nil
	})
	for i := range list {
		if answers[i] == nil {
			list[i].q.add(list[i].place)
		}
	}
	return answers
}

// add makes receivers find a new row.
func (q *queue) add(p place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lower(p)
	if p.ms-early <= q.until {
		q.rouse()
	}
}

// lower makes the next receive read a row.
func (q *queue) lower(p place) {
	if p.compare(q.from) <= 0 {
		q.from = place{p.ms, p.slot, p.id - 1}
	}
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
		case <-s.stopped:
			err = errClosed
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return nil, err
}

// candidate is a visible message.
type candidate struct {
	*received           // without receives: not received before
	since     time.Time // when it became visible
	body      []byte
}

// longest is how long a receiver waits at most, so that a clock that was set forward delays no message by more.
const longest = 10 * time.Second

// receive takes the visible messages. If there are none, wait is the time until the next one, unless wake is closed before.
// The lock keeps the table and the messages in out consistent: an acked message leaves the table first.
func (s *Store) receive(ctx context.Context, q *queue, limit int) (
	got []store.Delivery, wait time.Duration, wake <-chan struct{}, err error,
) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := s.o.Now()
	var list []candidate
	if wait = q.soonest.Sub(now); wait <= 0 {
		list = q.again(now)
		q.first(&list, limit, now)
		wait = q.soonest.Sub(now)
	}
	err = s.read(ctx, func(c *conn) {
		next := q.look(c, now, limit, &list)
		if c.err == nil {
			q.until = next
		}
		wait = max(min(wait, time.UnixMilli(next).Sub(now)), time.Microsecond)
	})
	if err != nil {
		q.soonest = now
		return nil, 0, nil, fmt.Errorf("read the delay queue: %w", err)
	}
	q.first(&list, limit, now)
	var bad []candidate
	for _, x := range list {
		wait = 0
		if x.receives == 0 {
			q.from = x.place
		} else if x.body == nil {
			delete(q.out, x.id)
			continue
		}
		message, err := q.decode(x.body)
		if errors.Is(err, ring.ErrNewer) {
			continue
		} else if err != nil {
			bad = append(bad, x)
			continue
		}
		q.out[x.id] = x.received
		x.receives++
		x.inFlight = true
		q.hide(x.received, now.Add(s.o.Visibility))
		got = append(got, store.Delivery{ID: x.id, Receives: x.receives, Message: message})
	}
	if err = s.buryRows(ctx, q, bad); len(got) > 0 {
		err = nil // the next receive moves them to the dead letters
	}
	return got, wait, q.wake, err
}

// first sorts a list and cuts it to the first messages. The next receive reads the rest.
func (q *queue) first(list *[]candidate, limit int, now time.Time) {
	slices.SortFunc(*list, func(a, b candidate) int { return cmp.Or(a.since.Compare(b.since), a.compare(b.place)) })
	if len(*list) > limit {
		*list, q.soonest = (*list)[:limit], now
	}
}

// again returns the received messages that are visible again.
func (q *queue) again(now time.Time) (list []candidate) {
	q.soonest = now.Add(longest)
	for _, m := range q.out {
		switch {
		case m.at.After(now):
			q.hide(m, m.at)
		case m.inFlight:
			list = append(list, candidate{received: m, since: time.UnixMilli(m.ms)})
		default:
			list = append(list, candidate{received: m, since: m.at})
		}
	}
	return list
}

// look reads the bodies of the received messages in list, and adds the next visible ones. It returns the millisecond of the
// next message that is not visible.
func (q *queue) look(c *conn, now time.Time, limit int, list *[]candidate) (next int64) {
	again := *list
	for i := range again {
		for st := range c.rows("SELECT body FROM ring WHERE id = ?", again[i].id) {
			again[i].body = columnBytes(st, 0)
		}
	}
	from, fresh := q.from, 0
	// With a plain parameter of kind, SQLite would compile the statement again for each call.
	for st := range c.rows("SELECT visible_at, slot, id, body, visible_at - ? * (kind = 0 AND visible_at = slot * 1000) FROM ring WHERE "+
		"kind = ? + 0 AND (visible_at, slot, id) > (?, ?, ?) ORDER BY visible_at, slot, id", early, q.kind, from.ms, from.slot, from.id) {
		p := place{st.ColumnInt64(0), core.Instant(st.ColumnInt64(1)), st.ColumnInt64(2)}
		switch visible := st.ColumnInt64(4); {
		case fresh == limit || visible > now.UnixMilli():
			return visible
		case q.out[p.id] == nil:
			*list = append(*list, candidate{&received{place: p}, time.UnixMilli(p.ms), columnBytes(st, 3)})
			fresh++
		case fresh == 0:
			q.from = p
		}
	}
	return now.Add(longest).UnixMilli()
}

func (q *queue) decode(body []byte) (ring.Message, error) {
	m, err := ring.Decode(body)
	m.Slow = kinds[q.kind] == ring.KindSlow
	if err == nil && m.Queue() != kinds[q.kind] {
		err = errors.New("the kind of the message does not match its queue")
	}
	return m, err
}

// buryRows moves rows to the dead-letter queue.
func (s *Store) buryRows(ctx context.Context, q *queue, bad []candidate) error {
	if len(bad) == 0 {
		return nil
	}
	err := s.write(ctx, false, len(bad), func(tx *tx) {
		for _, x := range bad {
			_, reason := q.decode(x.body)
			tx.bury(x.body, reason.Error())
			tx.exec(deleteMessage, x.id)
		}
	})
	if err != nil {
		q.lower(bad[0].place)
	}
	return err
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
			m.released, m.inFlight = at, false
			if q.hide(m, at); at.Before(time.UnixMilli(q.until)) {
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
	released := map[int64]bool{}
	for i, k := range kinds {
		if k != ring.KindFires && k != ring.KindSlow {
			continue
		}
		q := &s.queues[i]
		q.mu.Lock()
		for id, m := range q.out {
			if m.released.UnixMilli() > m.ms {
				released[id] = true
				oldest.Note(now, m.released, m.slot)
			}
		}
		q.mu.Unlock()
	}
	// The due time of a requeued message is earlier than its delivery.
	for st := range s.rows(ctx, &err, "SELECT slot, visible_at, id FROM ring WHERE "+ofRuns) {
		if !released[st.ColumnInt64(2)] {
			oldest.Note(now, time.UnixMilli(st.ColumnInt64(1)), core.Instant(st.ColumnInt64(0)))
		}
	}
	oldest.Sort()
	return oldest, err
}

// resize records that runs were added to a queue, or removed.
func (tx *tx) resize(q store.PullQueue, by int) {
	tx.exec("INSERT INTO pulled_size (app, queue, runs) VALUES (?1, ?2, ?3) ON CONFLICT (app, queue) DO UPDATE SET runs = runs + ?3",
		q.App, q.Name, by)
}

func (s *Store) PutPulled(ctx context.Context, it store.PullItem, most int) error {
	full, q := false, it.Queue
	err := s.write(ctx, true, 1, func(tx *tx) {
		// A queue that has the run accepts it also if it is full.
		full = tx.integer("SELECT runs FROM pulled_size WHERE app = ? AND queue = ?", q.App, q.Name) >= int64(most) &&
			tx.integer("SELECT 1 FROM pulled WHERE app = ? AND queue = ? AND run = ?", q.App, q.Name, it.Run) == 0
		if !full && tx.exec("INSERT INTO pulled (app, queue, run, visible, receives, body) VALUES (?, ?, ?, ?, 0, ?) ON CONFLICT DO NOTHING",
			q.App, q.Name, it.Run, s.o.Now().UnixMilli(), it.Body) > 0 {
			tx.resize(q, 1)
		}
	})
	if err == nil && full {
		err = store.ErrFull
	}
	return err
}

// TakePulled implements store.Pull. If it finds nothing, it writes nothing.
func (s *Store) TakePulled(ctx context.Context, q store.PullQueue, now, until time.Time, limit int) (held []store.Held, next time.Time,
	err error) {
	var ids []int64
	look := func(c *conn) {
		ids, held, next = nil, nil, time.Time{}
		for st := range c.rows("SELECT id, run, visible, receives, body FROM pulled WHERE app = ?1 || '' AND queue = ?2 || '' "+
			"ORDER BY visible, id LIMIT ?3 + 0", q.App, q.Name, limit+1) {
			if visible := st.ColumnInt64(2); visible > now.UnixMilli() || len(held) == limit {
				next = core.FromMillis(visible)
				break
			}
			ids = append(ids, st.ColumnInt64(0))
			held = append(held, store.Held{Receipt: store.Receipt{Run: core.RunID(st.ColumnInt64(1)), N: st.ColumnInt(3) + 1},
				Body: columnBytes(st, 4)})
		}
	}
	if err = s.read(ctx, look); err == nil && len(held) > 0 {
		err = s.write(ctx, true, limit, func(tx *tx) {
			look(tx.conn)
			tx.exec("UPDATE pulled SET visible = ?, receives = receives + 1 WHERE id IN (SELECT value FROM json_each(?))",
				until.UnixMilli(), jsonText(ids))
		})
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return held, next, nil
}

// byReceipt runs a statement on the row of a receipt; its parameters from the fifth on are more. It returns ErrRefused if
// there is no row. by is how many runs the statement adds to the queue.
func (s *Store) byReceipt(ctx context.Context, statement string, by int, q store.PullQueue, r store.Receipt, more ...any) error {
	changed := 0
	err := s.write(ctx, true, 1, func(tx *tx) {
		changed = tx.exec(statement+" WHERE app = ?1 AND queue = ?2 AND run = ?3 AND receives = ?4",
			append([]any{q.App, q.Name, r.Run, r.N}, more...)...)
		if changed > 0 && by != 0 {
			tx.resize(q, by)
		}
	})
	return cmp.Or(err, refused(changed))
}

func (s *Store) HidePulled(ctx context.Context, q store.PullQueue, r store.Receipt, until time.Time, n int) error {
	return s.byReceipt(ctx, "UPDATE pulled SET visible = ?5, receives = ?6", 0, q, r, until.UnixMilli(), n)
}

func (s *Store) DropPulled(ctx context.Context, q store.PullQueue, r store.Receipt) error {
	return s.byReceipt(ctx, "DELETE FROM pulled", -1, q, r)
}

func (s *Store) RemovePulled(ctx context.Context, ids []int64) error {
	return s.write(ctx, false, len(ids), func(tx *tx) {
		for _, id := range ids {
			for st := range tx.rows("DELETE FROM pulled WHERE id = ? RETURNING app, queue", id) {
				tx.resize(store.PullQueue{App: st.ColumnText(0), Name: st.ColumnText(1)}, -1)
			}
		}
	})
}

func (s *Store) HasPulled(ctx context.Context, q store.PullQueue, job core.JobID) (has bool, err error) {
	for range s.rows(ctx, &err, "SELECT 1 FROM pulled WHERE app = ?1 AND queue = ?2 AND run >= ?3 AND run < ?4 LIMIT 1",
		q.App, q.Name, int64(job)<<32, (int64(job)+1)<<32) {
		has = true
	}
	return has, err
}

func (s *Store) ListPulled(ctx context.Context, after int64, limit int) (list []store.Listed, err error) {
	const q = "SELECT id, app, queue, run, receives FROM pulled WHERE id > ?1 ORDER BY id LIMIT ?2 + 0"
	for st := range s.rows(ctx, &err, q, after, limit) {
		list = append(list, store.Listed{ID: st.ColumnInt64(0), Queue: store.PullQueue{App: st.ColumnText(1), Name: st.ColumnText(2)},
			Run: core.RunID(st.ColumnInt64(3)), N: st.ColumnInt(4)})
	}
	return list, err
}
