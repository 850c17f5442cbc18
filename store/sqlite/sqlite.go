// Package sqlite is the engine of one machine. It keeps everything in one file, tickring.db, in a directory that one
// process at a time locks. A write that returned nil is on the disk (with the default synchronous=FULL also after a power
// loss), and every later read sees it. In-flight state of the queues is not durable: after a restart those messages are
// visible again.
//
// All writes go through one goroutine, which joins waiting writes into one transaction; each succeeds or fails alone.
// Reads have their own connections.
package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
	"github.com/tickring/tickring/store"
)

// Options of Open and OpenMemory. Open needs only Lock. OpenMemory ignores Lock, Synchronous and Gather.
type Options struct {
	// Lock is the held lock of the directory. Close of the engine releases it.
	Lock *FileLock
	// Visibility is how long a received message is invisible to others; 60 s if 0.
	Visibility time.Duration
	// Synchronous is SQLite's: FULL (if empty) survives a power loss, NORMAL only the end of the process.
	Synchronous string
	// Gather is how long small writes wait for others if commits come more often than every 4 ms; 2 ms if 0, none if negative.
	Gather time.Duration
	// Secrets encrypts the secrets of apps, jobs and channels; nil stores them as they are.
	Secrets *secretbox.Box
	// Now is the clock of the queue and of the store's own timestamps; time.Now if nil.
	Now func() time.Time
}

const readers = 4

type Store struct {
	*store.Store
	o Options // Lock is nil in memory

	w       writer
	pool    chan *sqlite.Conn // connections of readers; in memory, the one connection of all
	cache   jobCache
	recent  recent
	queues  [len(kinds)]queue
	stopped chan struct{} // closed when the writer has ended
	closing sync.Once
	writes  atomic.Uint64 // commits

	// Only the writer touches these.
	putStmts  map[putForm]*sqlite.Stmt
	lastMsg   int64
	lastRow   int64
	sweepFrom int64
	sweepID   int64
}

var errClosed = core.Errorf(core.CodeUnavailable, "the storage engine is closed")

// newStore returns a store that has no connection yet.
func newStore(o Options, connections int) *Store {
	o.Gather = cmp.Or(o.Gather, 2*time.Millisecond)
	o.Visibility = cmp.Or(o.Visibility, time.Minute)
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{o: o, pool: make(chan *sqlite.Conn, connections), stopped: make(chan struct{}), putStmts: map[putForm]*sqlite.Stmt{},
		cache: jobCache{most: 64_000, jobs: map[core.JobID]*core.Job{}, held: map[core.JobID]bool{}}}
	s.Store = &store.Store{Records: s, Jobs: jobs{s}, Runs: runs{s}, Queue: s, Pull: s, Box: o.Secrets, Now: o.Now, Keep: s.keep,
		Writes: s.writes.Load, Defs: jobs{s}, Sweep: s.Sweep, Close: s.Close}
	s.w = writer{urgent: make(chan *op, maxWaiting), normal: make(chan *op, maxWaiting), closing: make(chan struct{})}
	for i := range s.queues {
		s.queues[i] = queue{kind: i, out: map[int64]*received{}, from: place{ms: -1 << 62}, wake: make(chan struct{})}
	}
	return s
}

// Open opens the file in the locked directory, creates or migrates it if necessary, and starts the writer. It returns a
// core.Error for a file of a newer or a development version, a foreign file, or a directory that cannot be written; the
// caller then keeps the lock.
func Open(ctx context.Context, o Options) (_ *store.Store, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if o.Lock == nil || o.Lock.file == nil {
		return nil, core.Errorf(core.CodeRefused, "the data directory was opened without its lock")
	}
	o.Synchronous = cmp.Or(o.Synchronous, "FULL")
	if !slices.Contains([]string{"FULL", "NORMAL", "EXTRA", "OFF"}, o.Synchronous) {
		return nil, core.Invalid("synchronous", o.Synchronous, "allowed values: FULL, NORMAL, EXTRA, OFF")
	}
	s, path := newStore(o, readers), filepath.Join(o.Lock.dir, "tickring.db")
	c, err := openFile(path, o.Synchronous)
	if err != nil {
		return nil, refusal(o.Lock.dir, err)
	}
	defer func() {
		if err != nil {
			err = refusal(o.Lock.dir, err)
			c.Close()
			for range len(s.pool) {
				(<-s.pool).Close()
			}
		}
	}()
	if err := migrate(c, migrations); err != nil {
		return nil, err
	}
	if err := s.load(c); err != nil {
		return nil, fmt.Errorf("read the stored item: %w", err)
	}
	for range readers {
		r, err := connect(path, "query_only=1", "cache_size=-4000")
		if err != nil {
			return nil, fmt.Errorf("open a reader: %w", err)
		}
		s.pool <- r
	}
	go s.writeLoop(c)
	return s.Store, nil
}

// openFile opens the writer's connection. The order of the pragmas counts: the first two only work on an empty file.
func openFile(path, synchronous string) (*sqlite.Conn, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // SQLite uses the same permissions for -wal and -shm
	if err != nil {
		return nil, err
	}
	f.Close()
	c, err := connect(path, "auto_vacuum=INCREMENTAL", "page_size=4096", "journal_mode=WAL", "synchronous="+synchronous,
		"wal_autocheckpoint=8000", "journal_size_limit=67108864", "cache_size=-32000", "temp_store=MEMORY")
	if err == nil {
		err = pinMemory(c)
	}
	return c, err
}

// connect opens a connection to a file that exists, and sets pragmas.
func connect(path string, pragmas ...string) (*sqlite.Conn, error) {
	c, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	c.SetBusyTimeout(busyTimeout)
	set := conn{Conn: c}
	for _, p := range pragmas {
		set.exec("PRAGMA " + p)
	}
	if set.err != nil {
		c.Close()
	}
	return c, set.err
}

// pinMemory binds a value of each size to a statement that never runs. SQLite's allocator returns a page to the kernel
// when its last value is freed. Without this, each short use of work space costs three system calls, a tenth of the cost
// of inserts.
func pinMemory(c *sqlite.Conn) error {
	st, err := c.Prepare("SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? /* pinned */")
	if err != nil {
		return err
	}
	for i := 1; i <= 11; i++ { // 16 bytes … 16 KB
		st.BindBytes(i, make([]byte, 8<<i))
	}
	return nil
}

// refusal explains to users why a file could not be opened.
func refusal(dir string, err error) error {
	if _, known := errors.AsType[*core.Error](err); known {
		return err
	}
	code := sqlite.ErrCode(err).ToPrimary()
	reason, is := map[sqlite.ResultCode]core.Text{
		sqlite.ResultFull:    core.Say("the disk is full: some free space is needed to open the data"),
		sqlite.ResultNotADB:  core.Say("tickring.db is not a file of tickring: use an empty directory or one that tickring wrote"),
		sqlite.ResultCorrupt: core.Say("tickring.db is damaged: restore it from a copy"),
	}[code]
	switch {
	case is:
		return &core.Error{Code: core.CodeRefused, Field: "data", Value: dir, Reason: reason, Err: err}
	case notWritable(code) || errors.Is(err, os.ErrPermission):
		return unwritable(dir, err)
	}
	return fmt.Errorf("open tickring.db: %w", err)
}

func (s *Store) load(db *sqlite.Conn) error {
	c := &conn{Conn: db}
	s.lastRow, s.lastMsg = c.integer("SELECT max(n) FROM runs"), c.integer("SELECT max(id) FROM ring")
	s.recent.load(c)
	return c.err
}

// Close stops the writer after the writes that it has accepted, closes the file and releases the lock. Later calls fail.
func (s *Store) Close() (err error) {
	s.closing.Do(func() {
		close(s.w.closing)
		<-s.stopped
		err = s.w.closeErr
		for range cap(s.pool) {
			err = cmp.Or(err, (<-s.pool).Close())
		}
		if s.o.Lock != nil {
			err = cmp.Or(err, s.o.Lock.Release())
		}
	})
	return err
}

// read runs do on a read connection, all of it on one state of the file.
func (s *Store) read(ctx context.Context, do func(c *conn)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var c conn
	select {
	case c.Conn = <-s.pool:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopped:
		return errClosed
	}
	defer func() { s.pool <- c.Conn }()
	c.exec("BEGIN")
	do(&c)
	c.exec("COMMIT")
	c.rollback()
	return c.err
}

// rows reads the rows of one query on a read connection. The loop may end early. Afterwards err has the error.
func (s *Store) rows(ctx context.Context, err *error, q string, args ...any) iter.Seq[*sqlite.Stmt] {
	return func(yield func(*sqlite.Stmt) bool) {
		*err = s.read(ctx, func(c *conn) { c.rows(q, args...)(yield) })
	}
}

// OpenMemory opens a store in memory. Close discards its data. It is for tests: it does the same as a store of a file,
// except that nothing in it waits for real time, so that it also runs in a testing/synctest bubble. The writer and
// all readers take turns on one connection.
func OpenMemory(o Options) (*Store, error) {
	o.Lock = nil
	s := newStore(o, 1)
	data, err := empty()
	if err != nil {
		return nil, fmt.Errorf("create a database in memory: %w", err)
	}
	c, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
	if err != nil {
		return nil, fmt.Errorf("open a database in memory: %w", err)
	}
	if err := errors.Join(c.Deserialize("main", data), s.load(c)); err != nil {
		c.Close()
		return nil, fmt.Errorf("read a database in memory: %w", err)
	}
	s.pool <- c
	go s.writeLoop(c)
	return s, nil
}

// empty returns a database with the schema. A copy of it is made twenty times faster than the schema is created.
var empty = sync.OnceValues(func() ([]byte, error) {
	c, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(pinMemory(c), migrate(c, migrations)); err != nil {
		return nil, err
	}
	return c.Serialize("main") // c stays open: the memory stays pinned for all databases
})
