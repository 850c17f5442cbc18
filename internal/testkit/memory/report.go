package memory

import (
	"context"

	"github.com/tickring/tickring/core"
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
