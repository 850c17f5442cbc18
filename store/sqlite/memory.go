package sqlite

import (
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
