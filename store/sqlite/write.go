package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
)

const (
	maxRows        = 1000                  // of a transaction, beyond which it takes no further op
	fairRows       = 300                   // of them reserved for writes that are not urgent
	fullEnough     = 250                   // rows that start a transaction at once
	busyGap        = 4 * time.Millisecond  // more frequent commits gather writes
	walFrames      = 8000                  // above this the write-ahead log is forced to restart
	busyTimeout    = 10 * time.Second      // of a connection, for others
	checkpointWait = 20 * time.Millisecond // for readers
	checkEvery     = 20_000                // written rows between two checkpoints
	maxWaiting     = 4096                  // ops that wait without blocking their callers
)

// writer is the one goroutine that writes, with the ops that wait for it.
type writer struct {
	urgent, normal chan *op
	closing        chan struct{}
	closeErr       error // of the connection; read after the end

	// The next transaction. Only the writer touches it.
	ops  []*op
	rows int
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
	edits  []edit       // jobs that change
	row    int64        // the number of the last row of runs that it made
	made   []madeRun    // runs that it makes
	closed []core.RunID // runs that it ends
	after  []func()     // called after the commit, before any op gets its answer
}

// write queues do and waits for its commit. If ctx ends before do starts, do does not run. An error of the transaction is
// unexpected: it undoes do alone.
func (s *Store) write(ctx context.Context, urgent bool, rows int, do func(*tx)) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	o, queue := &op{rows: rows, do: do, done: make(chan struct{})}, s.w.normal
	if urgent {
		queue = s.w.urgent
	}
	select {
	case queue <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopped:
		return errClosed
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.stopped:
		err = errClosed
	}
	if !o.begun.CompareAndSwap(false, true) { // a transaction has it
		<-o.done
		err = o.err
	}
	return err
}

// batch writes items in transactions of at most maxRows. The function do writes an item and returns its answer; an item with
// an error is not written.
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

// add adds an op to the next transaction, unless its caller gave up.
func (w *writer) add(o *op) {
	if o.begun.CompareAndSwap(false, true) {
		w.ops, w.rows = append(w.ops, o), w.rows+o.rows
	}
}

// addWaiting adds the ops that wait in a queue until the transaction has some number of rows.
func (w *writer) addWaiting(queue chan *op, upTo int) {
	for w.rows < upTo {
		select {
		case o := <-queue:
			w.add(o)
		default:
			return
		}
	}
}

// gather adds ops for some time, or until there are enough for a transaction.
func (w *writer) gather(wait time.Duration) {
	for end := time.After(wait); w.rows < fullEnough; {
		select {
		case o := <-w.urgent:
			w.add(o)
		case o := <-w.normal:
			w.add(o)
		case <-end:
			return
		}
	}
}

// writeLoop runs transactions until the store is closed and no op waits.
func (s *Store) writeLoop(c *sqlite.Conn) {
	defer close(s.stopped)
	w, rows, last := &s.w, 0, time.Time{} // last is the time of the last commit
	for closing := false; !closing || len(w.ops) > 0; {
		clear(w.ops)
		w.ops, w.rows = w.ops[:0], 0
		select {
		case o := <-w.urgent:
			w.add(o)
		case o := <-w.normal:
			w.add(o)
		case <-w.closing:
			closing = true
		}
		if s.o.Gather > 0 && len(w.ops) > 0 && time.Since(last) < busyGap {
			w.gather(s.o.Gather)
		}
		w.addWaiting(w.urgent, maxRows-fairRows)
		w.addWaiting(w.normal, max(maxRows, w.rows+fairRows))
		w.addWaiting(w.urgent, maxRows)
		if len(w.ops) == 0 {
			continue
		}
		s.commit(c, w.ops)
		if s.o.Lock == nil { // no log, and no disk to gather writes for
			continue
		}
		last = time.Now()
		if rows += w.rows; rows >= checkEvery { // not in a commit, whose runs would wait for it
			if rows = 0; s.checkpoint(c, "PASSIVE") > walFrames {
				s.checkpoint(c, "RESTART")
			}
		}
	}
	if s.o.Lock != nil {
		s.w.closeErr = c.Close()
	}
}

// checkpoint moves the log into the file without a wait for readers, because runs wait for the writer. A failure only leaves the
// log longer. It returns how many frames the log has.
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
	if r := &s.recent; r.left > 0 || len(r.rows) >= 2*r.size { // only the writer adds rows; after a failure the mark stays
		_ = s.transact(c, []*op{{do: s.recent.file}})
	}
}

func (s *Store) transact(c *sqlite.Conn, ops []*op) error {
	t := &tx{conn: &conn{Conn: c}, s: s}
	defer t.rollback()
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
	s.cache.follow(t.edits, func() bool {
		t.exec("COMMIT")
		return t.err == nil
	})
	if t.err != nil {
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

// conn is a connection in a transaction. After the first error its methods do nothing and return zero values, and the
// transaction fails. So only the end of the transaction checks err.
type conn struct {
	*sqlite.Conn
	err error
}

// fail makes the transaction fail.
func (c *conn) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// prepare returns a cached statement, nil after an error.
func (c *conn) prepare(q string) (st *sqlite.Stmt) {
	if c.err == nil {
		st, c.err = c.Prepare(q)
	}
	return st
}

// step reports whether a bound statement has a further row.
func (c *conn) step(st *sqlite.Stmt) (more bool) {
	if c.err == nil {
		more, c.err = st.Step()
	}
	return more
}

// rows runs a cached statement with values for its parameters. The loop over its rows may end early.
func (c *conn) rows(q string, args ...any) iter.Seq[*sqlite.Stmt] {
	return func(yield func(*sqlite.Stmt) bool) {
		st := c.prepare(q)
		if st == nil {
			return
		}
		bind(st, args)
		for c.step(st) && yield(st) {
		}
		c.fail(st.Reset())
	}
}

// exec runs a cached statement and returns how many rows it changed.
func (c *conn) exec(q string, args ...any) (changed int) {
	if st := c.prepare(q); st != nil {
		bind(st, args)
		changed = c.run(st)
	}
	return changed
}

// run runs a bound statement and returns how many rows it changed.
func (c *conn) run(st *sqlite.Stmt) (changed int) {
	for c.step(st) {
	}
	if c.fail(st.Reset()); c.err == nil {
		changed = c.Changes()
	}
	return changed
}

// integer returns the number that a query returns, and 0 if it returns no row.
func (c *conn) integer(q string, args ...any) (n int64) {
	for st := range c.rows(q, args...) {
		n = st.ColumnInt64(0)
	}
	return n
}

// rollback ends a transaction that failed.
func (c *conn) rollback() {
	if !c.AutocommitEnabled() {
		(&conn{Conn: c.Conn}).exec("ROLLBACK")
	}
}

// bind binds values in their order, from the first parameter on. Statements of every run bind their own, for speed.
func bind(st *sqlite.Stmt, args []any) {
	for i, arg := range args {
		switch v := reflect.ValueOf(arg); v.Kind() {
		case reflect.String:
			st.BindText(i+1, v.String())
		case reflect.Slice:
			st.BindBytes(i+1, v.Bytes())
		default:
			st.BindInt64(i+1, v.Int())
		}
	}
}

// jsonText returns a list for SQLite's json_each.
func jsonText[T ~int32 | ~int64 | ~string](list []T) string {
	text, _ := json.Marshal(append([]T{}, list...)) // the JSON of nil is null, which json_each returns as a row
	return string(text)
}

func columnBytes(st *sqlite.Stmt, at int) []byte {
	b := make([]byte, st.ColumnLen(at))
	return b[:st.ColumnBytes(at, b)]
}

// setState sets a number of the state table.
func (c *conn) setState(name string, v int64) {
	c.exec("INSERT INTO state (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2", name, v)
}
