package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

const (
	maxRows        = 1000                   // of a transaction
	fairRows       = 300                    // of them reserved for writes that are not urgent
	fullEnough     = 250                    // rows that start a transaction at once
	busyGap        = 4 * time.Millisecond   // more frequent commits gather writes
	idleAfter      = 500 * time.Millisecond // then the write-ahead log is emptied
	walFrames      = 8000                   // above this the log is forced to restart
	busyTimeout    = 10 * time.Second       // of a connection, for others
	checkpointWait = 20 * time.Millisecond  // for readers
	checkEvery     = 256                    // commits between two checks of the log
)

// writer is the queue in front of the one connection that writes.
type writer struct {
	mu             sync.Mutex
	urgent, normal []*op
	rows           int
	starved        bool // no normal op was taken, because there was no room
	closed         bool
	closeErr       error // of the connection; read after the end
	wake           chan struct{}
}

// op is one write.
type op struct {
	rows  int
	do    func(*tx)
	err   error
	begun atomic.Bool // by the writer, or given up by the caller
	done  chan struct{}
}

// tx is the transaction as an op sees it. Its do may run again after a rollback, so changes to memory belong into after.
type tx struct {
	*conn
	s      *Store
	most   int          // rows of runs that it can make
	edits  []edit       // jobs that change
	row    int64        // the number of the last row of runs that it made
	made   []madeRun    // runs that it makes
	closed []core.RunID // runs that it ends
	after  []func()     // called after the commit, before any op gets its answer
}

// write queues do and waits for its commit. If ctx ends before do starts, do does not run. An error of the transaction is
// unexpected: it undoes do alone.
func (s *Store) write(ctx context.Context, urgent bool, rows int, do func(*tx)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := &op{rows: rows, do: do, done: make(chan struct{})}
	if !s.w.put(o, urgent) {
		return errClosed
	}
	select {
	case <-o.done:
	case <-ctx.Done():
		if o.begun.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		<-o.done
	}
	return o.err
}

// batch writes items in transactions of at most maxRows. The function do returns the answer for one item, which stays alone
// without effect if it is an error.
func batch[T any](ctx context.Context, s *Store, urgent bool, items []T, do func(tx *tx, item *T) error) []error {
	answers := make([]error, len(items))
	for lo := 0; lo < len(items); lo += maxRows {
		hi := min(lo+maxRows, len(items))
		if err := s.write(ctx, urgent, hi-lo, func(tx *tx) {
			for i := lo; i < hi && tx.err == nil; i++ {
				answers[i] = do(tx, &items[i])
			}
		}); err != nil {
			for i := lo; i < hi; i++ {
				answers[i] = err
			}
		}
	}
	return answers
}

func (w *writer) put(o *op, urgent bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	list := &w.normal
	if urgent {
		list = &w.urgent
	}
	*list = append(*list, o)
	w.rows += o.rows
	w.rouse()
	return true
}

func (w *writer) rouse() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.rouse()
}

func (w *writer) waitingRows() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows
}

// take takes ops with at most maxRows rows (or one larger op), urgent ones first, but reserves some room for the others.
func (w *writer) take(into []*op) (ops []*op, closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rows := 0
	from := func(list []*op, most int) []*op {
		i := 0
		for ; i < len(list); i++ {
			o := list[i]
			if len(into) > 0 && rows+o.rows > most {
				break
			}
			w.rows -= o.rows
			if o.begun.CompareAndSwap(false, true) {
				rows += o.rows
				into = append(into, o)
			}
		}
		return slices.Delete(list, 0, i)
	}
	if n := len(w.normal); n > 0 {
		if !w.starved { // the last call took normal ops
			w.urgent = from(w.urgent, maxRows-fairRows)
		}
		w.normal = from(w.normal, maxRows)
		w.starved = len(w.normal) == n
	}
	w.urgent = from(w.urgent, maxRows)
	return into, w.closed
}

// writeLoop is the one goroutine that writes.
func (s *Store) writeLoop(c *sqlite.Conn) {
	defer close(s.stopped)
	var (
		ops     []*op
		last    time.Time // of the last commit
		commits int
		dirty   bool
	)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	for {
		if s.o.Gather > 0 && s.w.waitingRows() > 0 && time.Since(last) < busyGap {
			timer.Reset(s.o.Gather)
			for over := false; !over && s.w.waitingRows() < fullEnough; {
				select {
				case <-s.w.wake:
				case <-timer.C:
					over = true
				}
			}
		}
		var closed bool
		ops, closed = s.w.take(ops[:0])
		if len(ops) == 0 {
			if closed {
				break
			}
			if s.w.waitingRows() > 0 { // every op taken had been dropped
				continue
			}
			if !dirty {
				<-s.w.wake
				continue
			}
			timer.Reset(idleAfter)
			select {
			case <-s.w.wake:
			case <-timer.C:
				s.checkpoint(c, "TRUNCATE")
				dirty, commits = false, 0
			}
			continue
		}
		s.commit(c, ops)
		clear(ops)
		if s.o.Lock == nil { // no log to empty, and no disk to gather writes for
			continue
		}
		dirty, last = true, time.Now()
		if commits++; commits >= checkEvery {
			commits = 0
			if s.checkpoint(c, "PASSIVE") > walFrames {
				s.checkpoint(c, "RESTART")
			}
		}
	}
	if s.o.Lock != nil {
		s.w.closeErr = c.Close()
	}
}

// checkpoint moves the log into the file as far as readers allow, and returns how many frames the log has. A failure only
// leaves the log longer. It does not wait for readers such as a page, because runs wait for the writer.
func (s *Store) checkpoint(c *sqlite.Conn, mode string) (frames int) {
	c.SetBusyTimeout(checkpointWait)
	defer c.SetBusyTimeout(busyTimeout)
	for st := range (&conn{Conn: c}).rows("PRAGMA wal_checkpoint(" + mode + ")") {
		frames = st.ColumnInt(1)
	}
	return frames
}

// commit runs ops in one transaction and answers them. If one fails unexpectedly, each runs in its own transaction.
func (s *Store) commit(c *sqlite.Conn, ops []*op) {
	if s.o.Lock == nil {
		<-s.pool
		defer func() { s.pool <- c }()
	}
	err := s.transact(c, ops)
	for i, o := range ops {
		if o.err = err; err != nil && len(ops) > 1 {
			o.err = s.transact(c, ops[i:i+1])
		}
	}
	for _, o := range ops {
		close(o.done)
	}
	if s.recent.due() { // after a failure the mark stays
		_ = s.transact(c, []*op{{do: s.recent.file}})
	}
}

func (s *Store) transact(c *sqlite.Conn, ops []*op) error {
	t := &tx{conn: &conn{Conn: c}, s: s}
	defer t.rollback()
	for _, o := range ops {
		t.most += o.rows
	}
	t.exec("BEGIN IMMEDIATE")
	for i := 0; i < len(ops) && t.err == nil; i++ {
		ops[i].do(t)
	}
	if t.err == nil && c.AutocommitEnabled() { // a full disk can end a transaction in a statement
		t.fail(errors.New("the transaction ended before its commit"))
	}
	if t.err != nil {
		return answer("write", t.err)
	}
	old := s.cache.block(t.edits)
	t.exec("COMMIT")
	if s.cache.unblock(t.edits, old, t.err == nil); t.err != nil {
		return answer("commit", t.err)
	}
	s.writes.Add(1)
	s.recent.add(t.made, t.closed)
	for _, f := range t.after {
		f()
	}
	return nil
}

// answer returns the result of a write that an unexpected error rolled back.
func answer(step string, err error) error {
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultFull:
		return fmt.Errorf("the disk is full: %w (%w)", core.ErrThrottled, err)
	case sqlite.ResultBusy, sqlite.ResultNoMem:
		return fmt.Errorf("%w (%w)", core.ErrThrottled, err)
	}
	return fmt.Errorf("%s: %w", step, err)
}
