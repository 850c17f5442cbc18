package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/internal/secretbox"
)

// Table ties a kind of record to the type of its values. A new kind needs no code in an engine.
type Table[T any] struct {
	// List reads one Kind, so a list for each app or job needs a Table for each (executorsOf).
	Kind string
	// Spread gives each value a partition of DynamoDB of its own. Such values cannot be listed.
	Spread bool
	// Name and Version return the name and the version of a value.
	Name    func(*T) string
	Version func(*T) int64
	// Encode returns the body of a value, and Decode the value of a record; nil means JSON.
	Encode func(*T) ([]byte, error)
	Decode func(*Record) (T, error)
	// Fill sets the fields of a decoded value that only the name and the version of its record have; nil: there are none.
	Fill func(*T, *Record)
	// Seal and Open encrypt and decrypt the secrets of a value; nil means that it has none.
	Seal, Open func(*secretbox.Box, T) (T, error)
}

// Value is a stored value, or why it could not be read. If Err is a *core.Locked, its secrets cannot be decrypted, and Is has the rest.
type Value[T any] struct {
	Got[T]
	Name string
	V    int64 // version of the record
}

// Sealed returns t with its secrets encrypted in the store.
func Sealed[T secretbox.Record[T]](t Table[T]) Table[T] {
	t.Seal, t.Open = secretbox.Seal[T], secretbox.Open[T]
	return t
}

// Key identifies the record of a value.
func (t Table[T]) Key(name string) Key {
	if t.Spread {
		return Key{t.Kind + "#" + name, "-"}
	}
	return Key{t.Kind, name}
}

// Get reads values by name. A value that does not exist is not in the map.
func (t Table[T]) Get(ctx context.Context, s *Store, names ...string) (map[string]Value[T], error) {
	keys := each(names, func(name *string) Key { return t.Key(*name) })
	found, err := s.Records.Get(ctx, keys...)
	values := make(map[string]Value[T], len(found))
	for i, name := range names {
		if rec, is := found[keys[i]]; is {
			rec.Name = name
			values[name] = t.Value(&rec, s.Box)
		}
	}
	return values, err
}

// pageSize is how many records All reads at once.
const pageSize = 500

// All reads all values, in the order of their names.
func (t Table[T]) All(ctx context.Context, s *Store) (list []Value[T], err error) {
	for after := ""; ; {
		page, err := t.List(ctx, s, after, pageSize)
		if list = append(list, page...); err != nil || len(page) < pageSize {
			return list, err
		}
		after = page[len(page)-1].Name
	}
}

// List reads at most limit values after a name, in the order of their names.
func (t Table[T]) List(ctx context.Context, s *Store, after string, limit int) ([]Value[T], error) {
	page, err := s.Records.List(ctx, t.Kind, after, "", limit)
	list := make([]Value[T], len(page))
	for i := range page {
		list[i] = t.Value(&page[i], s.Box)
	}
	return list, err
}

// Read reads values by name. A value that cannot be used fails the read.
func (t Table[T]) Read(ctx context.Context, s *Store, names ...string) (map[string]T, error) {
	values, err := t.Get(ctx, s, names...)
	found := make(map[string]T, len(values))
	for name, v := range values {
		if err == nil {
			err = t.usable(&v)
		}
		found[name] = v.Is
	}
	return found, err
}

// ReadAll reads all values, in the order of their names. A value that cannot be used fails the read.
func (t Table[T]) ReadAll(ctx context.Context, s *Store) ([]T, error) { return t.good(t.All(ctx, s)) }

// decoded returns a function that decodes a page of records, as far as it can be read.
func decoded[T any](decode func(*Record) (T, error)) func([]Record, error) ([]T, error) {
	return func(page []Record, err error) ([]T, error) {
		list := make([]T, len(page))
		for i := 0; i < len(page) && err == nil; i++ {
			list[i], err = decode(&page[i])
		}
		return list, err
	}
}

// good returns the values of a list, or the error of the first value that cannot be used.
func (t Table[T]) good(values []Value[T], err error) (list []T, _ error) {
	for i := range values {
		if err == nil {
			err = t.usable(&values[i])
		}
		list = append(list, values[i].Is)
	}
	return list, err
}

// usable returns why a value cannot be used.
func (t Table[T]) usable(v *Value[T]) error {
	if err := v.Usable(); err != nil {
		return fmt.Errorf("read the %s %q: %w", t.Kind, v.Name, err)
	}
	return nil
}

// Save writes a value if the stored version equals seen; 0: if no value is stored. The version of the value must be higher,
// or a later write with the same condition succeeds too, as for a renewed lease.
func (t Table[T]) Save(ctx context.Context, s *Store, seen int64, value T, changes ...core.Change) error {
	w, err := t.Put(s.Box, value, seen)
	if err != nil {
		return err
	}
	return s.Write(ctx, w, changes...)
}

// SaveAll writes each value with the condition and the expiry that `on` returns for it.
func (t Table[T]) SaveAll(ctx context.Context, s *Store, list []T, on func(*T) (was int64, expires time.Time)) []error {
	groups := make([]Group, len(list))
	for i := range list {
		was, expires := on(&list[i])
		w, err := t.Put(s.Box, list[i], was)
		if err != nil {
			return slices.Repeat([]error{err}, len(list))
		}
		w.Expires = expires
		groups[i].Writes = []Write{w}
	}
	return s.Records.Write(ctx, groups...)
}

// Value decodes a record.
func (t Table[T]) Value(rec *Record, box *secretbox.Box) (v Value[T]) {
	v.Name, v.V, v.Err = rec.Name, rec.V, rec.Err
	switch {
	case v.Err != nil:
		return v
	case t.Decode != nil:
		v.Is, v.Err = t.Decode(rec)
	default:
		v.Err = json.Unmarshal(rec.Body, &v.Is)
	}
	if t.Fill != nil {
		t.Fill(&v.Is, rec)
	}
	if v.Err == nil && t.Open != nil {
		v.Is, v.Err = t.Open(box, v.Is)
	}
	return v
}

// Put returns the write of a value. The condition is as in Write.Was.
func (t Table[T]) Put(box *secretbox.Box, value T, was int64) (w Write, err error) {
	if t.Seal != nil {
		if value, err = t.Seal(box, value); err != nil {
			return w, err
		}
	}
	w = Write{Record: Record{Key: t.Key(t.Name(&value)), V: t.Version(&value)}, Was: was}
	if t.Encode != nil {
		w.Body, err = t.Encode(&value)
	} else {
		w.Body, err = json.Marshal(&value)
	}
	if err != nil {
		return w, fmt.Errorf("write the %s %q: %w", t.Kind, t.Name(&value), err)
	}
	return w, nil
}

// Delete returns the write that deletes a value of version was.
func (t Table[T]) Delete(name string, was int64) Write {
	return Write{Record: Record{Key: t.Key(name)}, Was: was, Delete: true}
}

// milli rounds times down to milliseconds, as stores keep them.
func milli(times ...*time.Time) {
	for _, t := range times {
		*t = core.FromMillis(core.Millis(*t))
	}
}

// EncodeHead writes a value as JSON, with a text behind it: JSON would make the text longer.
func EncodeHead(head any, text []byte) ([]byte, error) {
	b, err := json.Marshal(head)
	return append(b, text...), err
}

// DecodeHead reads a value, and returns the text behind it.
func DecodeHead(b []byte, head any) (text []byte, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	err = d.Decode(head)
	return b[d.InputOffset():], err
}
