package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
)

// Began implements report.Source.
func (s *Store) Began(ctx context.Context, from, to core.Instant, behind core.JobID, tell func([]core.Run)) (core.JobID, error) {
	var list []core.Run
	err := s.one(ctx, func() error {
		for id := range s.runIDs.up(core.RunID(int64(behind+1) << 32)) {
			r := &s.runs[id].run
			var at core.Instant
			switch {
			case !r.SentAt.IsZero() && !r.Journal.IsZero():
				at = core.Instant(r.Journal.Minute * 60)
			case !r.State.Open():
				at = core.InstantOf(r.EndedAt)
			}
			if at >= from && at < to {
				list = append(list, copyRun(r))
			}
		}
		return nil
	})
	if err == nil {
		tell(list)
	}
	return 0, err
}

// DropRuns implements operate.Store.
func (s *Store) DropRuns(ctx context.Context, runs []core.Run) []error {
	return each(ctx, s, runs, func(r *core.Run) error {
		rec := s.runs[r.ID]
		switch {
		case rec == nil:
			return nil
		case rec.run.State.Open() || rec.run.Owing():
			return core.ErrRefused
		}
		s.made.remove(madeRun{rec.made, r.ID})
		s.runIDs.remove(r.ID)
		delete(s.runs, r.ID)
		delete(s.logs, r.ID)
		return nil
	})
}

// ReportState implements report.Store.
func (s *Store) ReportState(ctx context.Context) (v int64, body []byte, err error) {
	err = s.one(ctx, func() error {
		v, body = s.reportV, bytes.Clone(s.reported)
		return nil
	})
	return v, body, err
}

// PutReportState implements report.Store.
func (s *Store) PutReportState(ctx context.Context, seen int64, body []byte) error {
	return s.one(ctx, func() error {
		if s.reportV != seen {
			return core.ErrRefused
		}
		s.reportV, s.reported = seen+1, bytes.Clone(body)
		return nil
	})
}

// Reports implements report.Records.
func (s *Store) Reports(ctx context.Context, list string, from, to core.Instant) (records []report.Record, err error) {
	err = s.one(ctx, func() error {
		for k, body := range s.reports {
			if k.List == list && k.At >= from && k.At < to {
				records = append(records, report.Record{Key: k, Body: bytes.Clone(body)})
			}
		}
		return nil
	})
	slices.SortFunc(records, func(a, b report.Record) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.First, b.First)) })
	return records, err
}

// ReportsOf implements report.Records.
func (s *Store) ReportsOf(ctx context.Context, list string, job core.JobID, at []core.Instant) (records []report.Record, err error) {
	for _, one := range at {
		all, err := s.Reports(ctx, list, one, one+1)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(r report.Record) bool { return r.First > job })
		if len(all) > 0 {
			records = append(records, all[len(all)-1])
		}
	}
	return records, nil
}

// PutReports implements report.Records.
func (s *Store) PutReports(ctx context.Context, records []report.Record) error {
	return s.one(ctx, func() error {
		for _, r := range records {
			s.reports[r.Key] = bytes.Clone(r.Body)
		}
		return nil
	})
}

// DropReports implements report.Records.
func (s *Store) DropReports(ctx context.Context, keys []report.Key) error {
	return s.one(ctx, func() error {
		for _, k := range keys {
			delete(s.reports, k)
		}
		return nil
	})
}
