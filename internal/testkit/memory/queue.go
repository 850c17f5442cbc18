package memory

import (
	"container/heap"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/ring"
	"github.com/tickring/tickring/engine"
)

// message is one entry of a queue.
type message struct {
	id       int64
	due      time.Time // NotBefore as enqueued
	at       time.Time // of a ready one when it may be received, of one in flight when it comes back
	released time.Time // when it was to come again, by the last release
	receives int
	inFlight bool
	index    int // in its heap
	body     ring.Message
}

// seen returns the time from which a message is visible: its due time, or a later one to which
// it was released.
func (m *message) seen() time.Time {
	if m.released.After(m.due) {
		return m.released
	}
	return m.due
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

// lanes are the queues of fires.
var lanes = []ring.Kind{ring.KindFires, ring.KindSlow}

type queue struct {
	messages map[int64]*message
	ready    byTime
	flight   byTime
	wake     chan struct{} // closed when waiters must check again; nil without waiters
}

func newQueue() *queue { return &queue{messages: map[int64]*message{}} }

// rouse makes the waiters check again.
func (q *queue) rouse() {
	if q.wake != nil {
		close(q.wake)
		q.wake = nil
	}
}

// comeBack makes messages ready again that were in flight for too long.
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

// Enqueue implements engine.Ring.
func (s *Store) Enqueue(ctx context.Context, out []ring.Out) []error {
	return each(ctx, s, out, func(o *ring.Out) error {
		q := s.queueOf(o.Message.Queue())
		s.lastMsg++
		m := &message{id: s.lastMsg, due: o.NotBefore, at: o.NotBefore, body: copyMessage(o.Message)}
		q.messages[m.id] = m
		heap.Push(&q.ready, m)
		if m.index == 0 {
			q.rouse()
		}
		return nil
	})
}

// Bury implements engine.Ring by moving a message to the dead-letter list.
func (s *Store) Bury(ctx context.Context, m ring.Message, reason string) error {
	return s.one(ctx, func() error {
		s.lastMsg++
		s.dead = append(s.dead, DeadLetter{s.now(), copyMessage(m), reason, s.lastMsg})
		return nil
	})
}

// Lose removes messages of fires, in flight or not, as a purge does, and returns them.
func (s *Store) Lose(lost func(m *ring.Message) bool) (list []engine.Delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range lanes {
		q := s.queueOf(kind)
		for id, m := range q.messages {
			if lost(&m.body) {
				q.unlink(m)
				delete(q.messages, id)
				list = append(list, engine.Delivery{ID: id, Message: copyMessage(m.body)})
			}
		}
	}
	return list
}

// DeadLetter is a message in the dead-letter list.
type DeadLetter struct {
	At      time.Time
	Message ring.Message
	Reason  string
	id      int64
}

// Letters implements dispatch.DeadLetters.
func (s *Store) Letters(ctx context.Context, after string, limit int) (list []core.Letter, err error) {
	err = s.one(ctx, func() error {
		for i := len(s.dead) - 1; i >= 0 && len(list) < limit; i-- {
			d := &s.dead[i]
			id := strconv.FormatInt(d.id, 10)
			if after != "" {
				if n, err := strconv.ParseInt(after, 10, 64); err != nil || d.id >= n {
					continue
				}
			}
			list = append(list, core.Letter{ID: id, At: d.At, Reason: d.Reason, Body: string(ring.Encode(d.Message))})
		}
		return nil
	})
	return list, err
}

// DropLetter implements dispatch.DeadLetters.
func (s *Store) DropLetter(ctx context.Context, id string) error {
	return s.one(ctx, func() error {
		s.dead = slices.DeleteFunc(s.dead, func(d DeadLetter) bool { return strconv.FormatInt(d.id, 10) == id })
		return nil
	})
}

// DeadLetters returns all dead-letter messages, oldest first.
func (s *Store) DeadLetters() []DeadLetter {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.dead)
	for i := range list {
		list[i].Message = copyMessage(list[i].Message)
	}
	return list
}

func (s *Store) queueOf(kind ring.Kind) *queue {
	q := s.queues[kind]
	if q == nil {
		q = newQueue()
		s.queues[kind] = q
	}
	return q
}

// Receive implements engine.Queue. It checks before it waits: visible messages are returned
// even if ctx has ended.
func (s *Store) Receive(ctx context.Context, kind ring.Kind, limit int) ([]engine.Delivery, error) {
	for {
		got, next, wake := s.receive(kind, limit)
		if len(got) > 0 {
			return got, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
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

// receive takes visible messages, or returns how long to wait and the channel to wait on; next
// is negative if no time is known.
func (s *Store) receive(kind ring.Kind, limit int) (got []engine.Delivery, next time.Duration, wake <-chan struct{}) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queueOf(kind)
	q.comeBack(now)
	for len(got) < limit && len(q.ready) > 0 && !now.Before(q.ready[0].at) {
		m := heap.Pop(&q.ready).(*message)
		m.receives++
		m.at, m.inFlight = now.Add(s.visibility), true
		heap.Push(&q.flight, m)
		got = append(got, engine.Delivery{ID: m.id, Receives: m.receives, Message: copyMessage(m.body)})
	}
	if len(got) > 0 {
		return got, 0, nil
	}
	next = -1
	for _, h := range []byTime{q.ready, q.flight} {
		if len(h) > 0 {
			if d := max(h[0].at.Sub(now), time.Microsecond); next < 0 || d < next {
				next = d
			}
		}
	}
	if q.wake == nil {
		q.wake = make(chan struct{})
	}
	return nil, next, q.wake
}

// Ack implements engine.Queue. A missing message is not an error.
func (s *Store) Ack(ctx context.Context, done []engine.Delivery) []error {
	return each(ctx, s, done, func(d *engine.Delivery) error {
		q := s.queueOf(d.Message.Queue())
		if m := q.messages[d.ID]; m != nil {
			q.unlink(m)
			delete(q.messages, d.ID)
		}
		return nil
	})
}

// Release implements engine.Queue. A delivery that has come again since belongs to its new
// receiver, and stays unchanged.
func (s *Store) Release(ctx context.Context, back []engine.Delivery, at time.Time) []error {
	return each(ctx, s, back, func(d *engine.Delivery) error {
		q := s.queueOf(d.Message.Queue())
		m := q.messages[d.ID]
		if m == nil || !m.inFlight || m.receives != d.Receives {
			return nil
		}
		q.unlink(m)
		m.at, m.released, m.inFlight = at, at, false
		heap.Push(&q.ready, m)
		if m.index == 0 {
			q.rouse()
		}
		return nil
	})
}

// Depth implements engine.Queue.
func (s *Store) Depth(ctx context.Context, kind ring.Kind) (due, waiting, inFlight int, err error) {
	now := s.now()
	err = s.one(ctx, func() error {
		q := s.queueOf(kind)
		q.comeBack(now)
		inFlight = len(q.flight)
		for _, m := range q.ready {
			if now.Before(m.at) {
				waiting++
			} else {
				due++
			}
		}
		return nil
	})
	return due, waiting, inFlight, err
}

// OldestMessage implements finish.Watch. It reads all unacked messages of fires: those in
// flight, delayed, requeued or released included.
func (s *Store) OldestMessage(ctx context.Context) (oldest ring.Oldest, err error) {
	now := s.now()
	err = s.one(ctx, func() error {
		for _, kind := range lanes {
			for _, m := range s.queueOf(kind).messages {
				oldest.Note(now, m.seen(), m.body.Slot)
			}
		}
		return nil
	})
	oldest.Sort()
	return oldest, err
}
