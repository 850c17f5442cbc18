package sqlite

import (
	"encoding/json"
	"iter"
	"reflect"

	"zombiezen.com/go/sqlite"
)

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
