package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
	"github.com/tickring/tickring/store"
)

// reportWrites is how many records one call of Write writes: a record is long.
const reportWrites = 25

func reportKind(list string) string { return "report#" + list }

// reportName sorts by time, then by the first job in descending order, so that one read finds the greatest First up to a job.
func reportName(at core.Instant, first core.JobID) string {
	return fmt.Sprintf("%010d#%010d", at, math.MaxInt32-int64(first))
}

// listReports reads the records of a list whose names are between two names.
func (n *Nouns) listReports(ctx context.Context, list, after, before string, limit int) ([]report.Record, error) {
	page, err := n.Records.List(ctx, reportKind(list), after, before, limit)
	records := make([]report.Record, len(page))
	for i := range page {
		var at, first int64
		if _, bad := fmt.Sscanf(page[i].Name, "%d#%d", &at, &first); bad != nil {
			return nil, fmt.Errorf("read the name of a report from %q: %w", page[i].Name, bad)
		}
		records[i] = report.Record{Body: page[i].Body,
			Key: report.Key{List: list, At: core.Instant(at), First: core.JobID(math.MaxInt32 - first)}}
	}
	return records, err
}

func (n *Nouns) Reports(ctx context.Context, list string, from, to core.Instant) ([]report.Record, error) {
	records, err := n.listReports(ctx, list, fmt.Sprintf("%010d", max(from, 0)), fmt.Sprintf("%010d", max(to, 0)), math.MaxInt32)
	slices.SortFunc(records, func(a, b report.Record) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.First, b.First)) })
	return records, err
}

func (n *Nouns) ReportsOf(ctx context.Context, list string, job core.JobID, at []core.Instant) ([]report.Record, error) {
	found, errs := make([][]report.Record, len(at)), make([]error, len(at))
	store.AtOnce(len(at), func(i int) {
		after := fmt.Sprintf("%010d#%010d", at[i], math.MaxInt32-int64(job)-1)
		found[i], errs[i] = n.listReports(ctx, list, after, fmt.Sprintf("%010d$", at[i]), 1)
	})
	return slices.Concat(found...), errors.Join(errs...)
}

func (n *Nouns) writeReports(ctx context.Context, reports []report.Record, drop bool) error {
	for some := range slices.Chunk(reports, reportWrites) {
		records := make([]store.Record, len(some))
		for i, r := range some {
			records[i] = store.Record{Key: store.Key{Kind: reportKind(r.List), Name: reportName(r.At, r.First)}, V: 1, Body: r.Body}
		}
		if err := n.WriteAny(ctx, records, drop); err != nil {
			return err
		}
	}
	return nil
}

func (n *Nouns) PutReports(ctx context.Context, records []report.Record) error {
	return n.writeReports(ctx, records, false)
}

func (n *Nouns) DropReports(ctx context.Context, keys []report.Key) error {
	records := make([]report.Record, len(keys))
	for i, k := range keys {
		records[i].Key = k
	}
	return n.writeReports(ctx, records, true)
}

// reportState identifies the record of how far reports were made.
var reportState = store.Key{Kind: "report", Name: "state"}

func (n *Nouns) ReportState(ctx context.Context) (v int64, body []byte, err error) {
	r, err := n.Read(ctx, reportState)
	return r.V, r.Body, err
}

func (n *Nouns) PutReportState(ctx context.Context, seen int64, body []byte) error {
	return n.Write(ctx, store.Write{Record: store.Record{Key: reportState, V: seen + 1, Body: body}, Was: seen})
}
