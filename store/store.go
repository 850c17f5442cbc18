// Package store defines where tickring keeps its state, and ties each kind of small record to its Go type. An engine (SQLite,
// DynamoDB) implements the interfaces; the package itself stores nothing and decides nothing about runs.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/tickring/tickring/core"
)

// Bounds of a write. Beyond: core.CodeTooLarge, and nothing is written. Test: storetest.Groups.
const (
	MaxName  = 1024      // bytes of a record's kind and of its name: the limit of a sort key of DynamoDB
	MaxBody  = 380 << 10 // bytes of a record's body: an item of DynamoDB has at most 400 KB
	MaxGroup = 45        // records and changes of a group: a transaction of DynamoDB has at most 100 items
)

// Records stores everything that is small and not written for each run.
type Records interface {
	// Get reads records, strongly consistent. A record that does not exist is not in the map. A record that was throttled
	// has Err; one throttled record fails no other.
	Get(ctx context.Context, keys ...Key) (map[Key]Record, error)
	// List reads at most limit records of a kind with after < name < before, in the order of names. An empty before means no
	// upper bound.
	List(ctx context.Context, kind, after, before string, limit int) ([]Record, error)
	// Write writes each group completely or not at all, and returns an error for each group: nil, core.ErrRefused if a
	// condition is not met, core.ErrThrottled, a *core.Error for a group beyond the bounds, or an unknown result. If two groups
	// write the same record, their order is undefined; if both have only that record and no condition, the last one counts.
	Write(ctx context.Context, groups ...Group) []error
}

// Key identifies a record.
type Key struct{ Kind, Name string }

// Record is a stored value.
type Record struct {
	Key
	// V is the version, a positive number, which conditions compare. A write that must fail earlier readers sets a higher V. The
	// caller never gives a new record a V that a deleted record of that name had while writes to it can still arrive
	// (core.NextRev).
	V    int64
	Body []byte
	// Expires is when the store may remove the record, in whole seconds; zero means never. Reads can return an expired record.
	Expires time.Time
	// Err is why Get could not read the record.
	Err error
}

// Conditions of a write, beside the version that the stored record must have.
const (
	Absent int64 = 0  // the record does not exist
	Any    int64 = -1 // no condition
	Lower  int64 = -2 // the record does not exist, or its version is lower than the new one
)

// Write stores or deletes one record.
type Write struct {
	Record
	Was    int64 // the version of the stored record, or Absent, Any or Lower
	Delete bool
}

// Group is written in one transaction: records, and the audit log's entries about them.
type Group struct {
	Writes  []Write
	Changes []core.Change
}

// Check returns an error for a group beyond the bounds.
func (g *Group) Check() error {
	if n := len(g.Writes) + len(g.Changes); n > MaxGroup {
		return core.Errorf(core.CodeTooLarge, "one change has %d records: at most %d are allowed", n, MaxGroup)
	}
	for i := range g.Writes {
		w := &g.Writes[i]
		for _, s := range []string{w.Kind, w.Name} {
			if s == "" || len(s) > MaxName {
				return core.Errorf(core.CodeTooLarge, "the name %q has %d bytes: 1 to %d are allowed", cut(s), len(s), MaxName)
			}
		}
		if w.V <= 0 && !w.Delete {
			return fmt.Errorf("write the record %q of kind %s: version %d is not positive", w.Name, w.Kind, w.V)
		}
		if len(w.Body) > MaxBody {
			return core.Errorf(core.CodeTooLarge, "the stored form of %s %q has %d bytes: at most %d are allowed", w.Kind, w.Name, len(w.Body),
				MaxBody)
		}
	}
	return nil
}

// cut returns the beginning of a name.
func cut(name string) string { return name[:min(len(name), 40)] }

// Meets reports whether a record of version v (Absent: no record) meets the condition of the write.
func (w *Write) Meets(v int64) bool {
	switch w.Was {
	case Any:
		return true
	case Lower:
		return v < w.V
	}
	return v == w.Was
}
