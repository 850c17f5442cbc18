package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"zombiezen.com/go/sqlite"
)

// OpenMemory opens a store in memory. Close discards its data. It is for tests: it does the same as a store of a file,
// except that nothing in it waits for real time, so that it also runs in a testing/synctest bubble. The writer and
// all readers take turns on one connection.
func OpenMemory(o Options) (*Store, error) {
	o.Lock = nil
	s := newStore(o, 1)
	c, err := openMemory()
	if err != nil {
		return nil, fmt.Errorf("open a database in memory: %w", err)
	}
	if err := s.load(c); err != nil {
		c.Close()
		return nil, fmt.Errorf("read a database in memory: %w", err)
	}
	s.pool <- c
	go s.writeLoop(c)
	return s, nil
}

// empty opens a database in memory with the schema. A copy of it is made twenty times faster than the schema is created.
var (
	empty = sync.OnceValues(func() (*sqlite.Conn, error) {
		c, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
		if err != nil {
			return nil, err
		}
		return c, errors.Join(pinMemory(c), migrate(c, migrations)) // the memory stays pinned for all databases
	})
	copying sync.Mutex // held while the empty database is read
)

func openMemory() (*sqlite.Conn, error) {
	copying.Lock()
	defer copying.Unlock()
	from, err := empty()
	if err != nil {
		return nil, err
	}
	c, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
	if err != nil {
		return nil, err
	}
	b, err := sqlite.NewBackup(c, "main", from, "main")
	if err == nil {
		_, err = b.Step(-1)
		err = cmp.Or(err, b.Close())
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
