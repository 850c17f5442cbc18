package sqlite

import (
	"context"
	"errors"
	"io"
	"math"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
)

// beganAtOnce is how many runs Began reads in one transaction.
const beganAtOnce = 2000

// Began implements report.Source, in no order of jobs. Rows lie in the order in which they were made, and almost every run
// is made with its claim or its end; the few others have their own indexes. A run that was made in the minute of its
// claim, or later, counts as begun when it was made.
func (s *Store) Began(ctx context.Context, from, to core.Instant, _ core.JobID, tell func([]core.Run)) (core.JobID, error) {
	scan := func(q string, bind func(*sqlite.Stmt), last *int64) (n int, err error) {
		var list []core.Run
		err = s.read(ctx, func(c *sqlite.Conn) error {
			list = list[:0]
			return execute(c, q, bind, func(st *sqlite.Stmt) error {
				if last != nil {
					*last = st.ColumnInt64(st.ColumnCount() - 1)
				}
				list = append(list, core.Run{})
				return s.scanRun(st, &list[len(list)-1])
			})
		})
		if err == nil {
			tell(list)
		}
		return len(list), err
	}
	var made []span
	err := s.read(ctx, func(c *sqlite.Conn) (err error) {
		made, err = spans(c, int64(from)*1000, int64(to)*1000)
		return err
	})
	for _, in := range made {
		for n := beganAtOnce; err == nil && n == beganAtOnce; {
			n, err = scan("SELECT "+runColumns+`, n FROM runs WHERE n > ? AND n <= ? AND (jkey IS NOT NULL OR state > 3) AND NOT
(jkey IS NOT NULL AND jkey >= (made / 60000 + 1) * 16 OR jkey IS NULL AND ended >= (made / 60000 + 1) * 60000) ORDER BY n LIMIT ?`,
				values(in.lo, in.hi, int64(beganAtOnce)), &in.lo)
		}
	}
	first, end := (int64(from)+59)/60*core.JournalSuffixes, (int64(to)+59)/60*core.JournalSuffixes
	for _, later := range []struct {
		q    string
		bind func(*sqlite.Stmt)
	}{
		{"SELECT " + runColumns + ` FROM runs INDEXED BY runs_claimed_later WHERE jkey >= ? AND jkey < ? AND jkey >= (made / 60000 + 1) * 16`,
			values(first, end)},
		{"SELECT " + runColumns + ` FROM runs INDEXED BY runs_ended_later WHERE ended >= ? AND ended < ? AND jkey IS NULL AND state > 3
AND ended >= (made / 60000 + 1) * 60000`, values(int64(from)*1000, int64(to)*1000)},
	} {
		if err == nil {
			_, err = scan(later.q, later.bind, nil)
		}
	}
	return 0, err
}

// stateOfReports is the list with the progress of reports, by a counter of its updates.
const stateOfReports = "state"

func (s *Store) ReportState(ctx context.Context) (v int64, body []byte, err error) {
	records, err := s.Reports(ctx, stateOfReports, 0, math.MaxInt64)
	if err != nil || len(records) == 0 {
		return 0, nil, err
	}
	return int64(records[0].At), records[0].Body, nil
}

func (s *Store) PutReportState(ctx context.Context, seen int64, body []byte) error {
	return s.write(ctx, false, 1, func(tx *tx) error {
		var is int64
		err := execute(tx.Conn, "SELECT at FROM reports WHERE list = ?", values(stateOfReports), func(st *sqlite.Stmt) error {
			is = st.ColumnInt64(0)
			return nil
		})
		switch {
		case err != nil:
			return err
		case is != seen:
			return core.ErrRefused
		}
		if err := execute(tx.Conn, "DELETE FROM reports WHERE list = ?", values(stateOfReports), nil); err != nil {
			return err
		}
		return putReport(tx, report.Record{Key: report.Key{List: stateOfReports, At: core.Instant(seen + 1)}, Body: body})
	})
}

func putReport(tx *tx, r report.Record) error {
	return execute(tx.Conn, "INSERT INTO reports (list, at, first, body) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET body = excluded.body",
		func(st *sqlite.Stmt) {
			st.BindText(1, r.List)
			st.BindInt64(2, int64(r.At))
			st.BindInt64(3, int64(r.First))
			st.BindBytes(4, r.Body)
		}, nil)
}

func scanReports(list *[]report.Record) func(*sqlite.Stmt) error {
	return func(st *sqlite.Stmt) error {
		body, err := io.ReadAll(st.ColumnReader(3))
		*list = append(*list, report.Record{Key: report.Key{List: st.ColumnText(0), At: core.Instant(st.ColumnInt64(1)),
			First: core.JobID(st.ColumnInt64(2))}, Body: body})
		return err
	}
}

func (s *Store) Reports(ctx context.Context, list string, from, to core.Instant) (records []report.Record, err error) {
	err = s.query(ctx, "SELECT list, at, first, body FROM reports WHERE list = ? AND at >= ? AND at < ? ORDER BY at, first",
		values(list, int64(from), int64(to)), scanReports(&records))
	return records, err
}

func (s *Store) ReportsOf(ctx context.Context, list string, job core.JobID, at []core.Instant) (records []report.Record, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		for _, one := range at {
			if err := execute(c, "SELECT list, at, first, body FROM reports WHERE list = ? AND at = ? AND first <= ? ORDER BY first DESC LIMIT 1",
				values(list, int64(one), int64(job)), scanReports(&records)); err != nil {
				return err
			}
		}
		return nil
	})
	return records, err
}

// reportsAtOnce is how many records are written in one transaction: they are long.
const reportsAtOnce = 20

func (s *Store) PutReports(ctx context.Context, records []report.Record) error {
	for len(records) > 0 {
		some := records[:min(len(records), reportsAtOnce)]
		if err := s.write(ctx, false, len(some), func(tx *tx) error {
			var errs []error
			for _, r := range some {
				errs = append(errs, putReport(tx, r))
			}
			return errors.Join(errs...)
		}); err != nil {
			return err
		}
		records = records[len(some):]
	}
	return nil
}

func (s *Store) DropReports(ctx context.Context, keys []report.Key) error {
	for len(keys) > 0 {
		some := keys[:min(len(keys), sweepSlice)]
		if err := s.write(ctx, false, len(some), func(tx *tx) error {
			for _, k := range some {
				if err := execute(tx.Conn, "DELETE FROM reports WHERE list = ? AND at = ? AND first = ?",
					values(k.List, int64(k.At), int64(k.First)), nil); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		keys = keys[len(some):]
	}
	return nil
}
