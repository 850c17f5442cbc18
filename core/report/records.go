package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/store"
)

// A recordKey identifies a stored record of a report by its list, its time, and its first job.
type recordKey struct {
	list  string
	at    core.Instant
	first core.JobID
}

// A record is a part of a report that is stored as one item, of at most 400 KB. Each record is written and removed
// independently.
type record struct {
	recordKey
	body []byte
}

// writesAtOnce is how many records one write has: a record is long.
const writesAtOnce = 25

// recordName sorts by time, then by the first job in descending order, so that one read finds the highest first job up to a
// job.
func recordName(at core.Instant, first int64) string {
	return fmt.Sprintf("%010d#%010d", at, math.MaxInt32-first)
}

func recordKind(list string) string { return "report#" + list }

// list reads the records of a list whose names are between two names.
func (r *Reports) list(ctx context.Context, list, after, before string, limit int) ([]record, error) {
	page, err := r.s.Records.List(ctx, recordKind(list), after, before, limit)
	records := make([]record, len(page))
	for i := range page {
		var at, first int64
		if _, bad := fmt.Sscanf(page[i].Name, "%d#%d", &at, &first); bad != nil {
			return nil, fmt.Errorf("read the name of a report from %q: %w", page[i].Name, bad)
		}
		records[i] = record{recordKey{list, core.Instant(at), core.JobID(math.MaxInt32 - first)}, page[i].Body}
	}
	return records, err
}

// records reads the records of a list at or after from and before to, sorted by time and first job.
func (r *Reports) records(ctx context.Context, list string, from, to core.Instant) ([]record, error) {
	found, err := r.list(ctx, list, fmt.Sprintf("%010d", max(from, 0)), fmt.Sprintf("%010d", max(to, 0)), math.MaxInt32)
	slices.SortFunc(found, func(a, b record) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.first, b.first)) })
	return found, err
}

// recordsOf reads one record of a list for each time in at: the record with the highest first job that is not higher than
// job. Times without a record are omitted.
func (r *Reports) recordsOf(ctx context.Context, list string, job core.JobID, at []core.Instant) ([]record, error) {
	found, errs := make([][]record, len(at)), make([]error, len(at))
	store.AtOnce(len(at), func(i int) {
		found[i], errs[i] = r.list(ctx, list, recordName(at[i], int64(job)+1), fmt.Sprintf("%010d$", at[i]), 1)
	})
	return slices.Concat(found...), errors.Join(errs...)
}

// write stores or removes records.
func (r *Reports) write(ctx context.Context, records []record, drop bool) error {
	for some := range slices.Chunk(records, writesAtOnce) {
		list := make([]store.Record, len(some))
		for i, x := range some {
			list[i] = store.Record{Key: store.Key{Kind: recordKind(x.list), Name: recordName(x.at, int64(x.first))}, V: 1, Body: x.body}
		}
		if err := r.s.WriteAny(ctx, list, drop); err != nil {
			return err
		}
	}
	return nil
}
