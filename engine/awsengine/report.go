package awsengine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/report"
)

// Began reads beganJobs jobs at a time and reports up to beganTold runs at a time. It reads up to few runs of a job by ID,
// a hundred in each request. It reads more runs as a span of IDs, at a tenth of the cost of each, if the span can hold
// less than sparse times their number.
const (
	beganJobs = 64
	beganTold = 500
	few       = 2
	sparse    = 4
)

// Began implements report.Source, in the order of jobs. The journals of the span name the runs that were claimed or
// recorded in it. If it reads a span of a job's IDs, it also reports runs that no journal names.
func (s *Store) Began(ctx context.Context, from, to core.Instant, behind core.JobID, tell func([]core.Run)) (until core.JobID, err error) {
	first, end := int64(from)/60, (int64(to)+59)/60
	of := map[core.JobID][]core.RunID{}
	read := max(first-core.EndedWithin, 0) // a run without a claim counts in the minute of its end
	for hour := read / 60; hour <= (end-1)/60; hour++ {
		e := equal("of", text(journalsOf(hour*60)))
		e.conds = append(e.conds, e.name("key")+" BETWEEN "+e.value("lo", text(strconv.FormatInt(read, 10)+"."))+" AND "+
			e.value("hi", text(strconv.FormatInt(end-1, 10)+"/")))
		if err := s.query(ctx, e.query(s.o.Names.State), func(it item) (bool, error) {
			j, err := decodeJournal(it)
			for _, entry := range j.Entries {
				job := entry.Run.Job()
				if job > behind && (j.Key.Minute >= first || entry.Outcome == core.Recorded) {
					of[job] = append(of[job], entry.Run)
				}
			}
			return true, err
		}); err != nil {
			return 0, err
		}
	}
	in := func(r *core.Run) bool {
		if !r.SentAt.IsZero() && !r.Journal.IsZero() {
			return r.Journal.Minute >= first && r.Journal.Minute < end
		}
		return !r.State.Open() && !r.EndedAt.Before(from.Time()) && r.EndedAt.Before(to.Time())
	}
	for jobs := range slices.Chunk(slices.Sorted(maps.Keys(of)), beganJobs) {
		err := s.beganOf(ctx, jobs, of, from, to, in, tell)
		switch {
		case err != nil && ctx.Err() != nil && until != 0:
			return until, nil
		case err != nil:
			return 0, err
		}
		until = jobs[len(jobs)-1]
	}
	return 0, nil
}

// beganOf reports those runs of some jobs that in accepts.
func (s *Store) beganOf(ctx context.Context, jobs []core.JobID, of map[core.JobID][]core.RunID, from, to core.Instant,
	in func(*core.Run) bool, tell func([]core.Run)) error {
	var mu sync.Mutex
	give := func(list []core.Run) {
		if list = slices.DeleteFunc(list, func(r core.Run) bool { return !in(&r) }); len(list) > 0 {
			mu.Lock()
			defer mu.Unlock()
			tell(list)
		}
	}
	var alone []core.RunID
	var spans [][2]core.RunID
	for _, job := range jobs {
		ids := slices.Compact(slices.Sorted(slices.Values(of[job])))
		low, high := core.RunRange(job, from, to-1)
		var planned, numbered []core.RunID
		for _, id := range ids {
			_, byNumber := id.Number()
			switch {
			case byNumber:
				numbered = append(numbered, id)
			case id >= low && id <= high:
				planned = append(planned, id)
			default: // a planned run with a scheduled time outside the span
				alone = append(alone, id)
			}
		}
		if len(planned) > few {
			spans = append(spans, [2]core.RunID{low, high})
		} else {
			alone = append(alone, planned...)
		}
		if n := len(numbered); n > few && int64(numbered[n-1]-numbered[0]) < int64(sparse*n) {
			spans = append(spans, [2]core.RunID{numbered[0], numbered[n-1]})
		} else {
			alone = append(alone, numbered...)
		}
	}
	errs := make([]error, len(spans)+1)
	s.parallel(len(errs), func(i int) {
		if i == len(spans) {
			errs[i] = s.beganAlone(ctx, alone, give)
			return
		}
		var list []core.Run
		errs[i] = s.query(ctx, s.between(spans[i][0], spans[i][1]), func(it item) (bool, error) {
			r, _, err := decodeRun(it)
			if list = append(list, r); len(list) == beganTold {
				give(list)
				list = nil
			}
			return true, err
		})
		give(list)
	})
	return errors.Join(errs...)
}

// beganAlone reports runs that it reads by ID.
func (s *Store) beganAlone(ctx context.Context, ids []core.RunID, give func([]core.Run)) error {
	keys := make([]item, len(ids))
	for i, id := range ids {
		keys[i] = runKey(id)
	}
	var list []core.Run
	err := s.getAll(ctx, s.o.Names.Runs, keys, func(it item) error {
		r, _, err := decodeRun(it)
		list = append(list, r)
		return err
	})
	give(list)
	return err
}

func reportKey(k report.Key) item {
	return stateKey("report#"+k.List, fmt.Sprintf("%010d#%010d", k.At, k.First))
}

func decodeReport(list string, it item) (r report.Record, err error) {
	r.List = list
	if _, err := fmt.Sscanf(stringOf(it, "key"), "%d#%d", &r.At, &r.First); err != nil {
		return r, fmt.Errorf("read the key of a report: %w", err)
	}
	if b, ok := it["body"].(*types.AttributeValueMemberB); ok {
		r.Body = b.Value
	}
	return r, nil
}

func (s *Store) ReportState(ctx context.Context) (v int64, body []byte, err error) {
	it, err := s.one(ctx, stateKey("report", "state"))
	if err != nil || it == nil {
		return 0, nil, err
	}
	if b, ok := it["body"].(*types.AttributeValueMemberB); ok {
		body = b.Value
	}
	v, err = intOf(it, "v")
	return v, body, err
}

func (s *Store) PutReportState(ctx context.Context, seen int64, body []byte) error {
	it := stateKey("report", "state")
	it["v"], it["body"] = number(seen+1), &types.AttributeValueMemberB{Value: body}
	return s.putIf(ctx, it, was("v", seen))
}

func (s *Store) Reports(ctx context.Context, list string, from, to core.Instant) (records []report.Record, err error) {
	e := equal("of", text("report#"+list))
	e.conds = append(e.conds, e.name("key")+" BETWEEN "+e.value("lo", text(fmt.Sprintf("%010d#", max(from, 0))))+" AND "+
		e.value("hi", text(fmt.Sprintf("%010d$", max(to-1, 0)))))
	err = s.query(ctx, e.query(s.o.Names.State), func(it item) (bool, error) {
		r, err := decodeReport(list, it)
		records = append(records, r)
		return true, err
	})
	return records, err
}

// ReportsOf implements report.Records: one request for each time, in parallel.
func (s *Store) ReportsOf(ctx context.Context, list string, job core.JobID, at []core.Instant) (records []report.Record, err error) {
	found, errs := make([]*report.Record, len(at)), make([]error, len(at))
	s.parallel(len(at), func(i int) {
		e := equal("of", text("report#"+list))
		e.conds = append(e.conds, e.name("key")+" BETWEEN "+e.value("lo", text(fmt.Sprintf("%010d#", at[i])))+" AND "+
			e.value("hi", text(fmt.Sprintf("%010d#%010d", at[i], job))))
		errs[i] = s.query(ctx, e.newest(s.o.Names.State, 1), func(it item) (bool, error) {
			r, err := decodeReport(list, it)
			found[i] = &r
			return false, err
		})
	})
	for _, r := range found {
		if r != nil {
			records = append(records, *r)
		}
	}
	return records, errors.Join(errs...)
}

func (s *Store) PutReports(ctx context.Context, records []report.Record) error {
	writes, keys := make([]types.WriteRequest, len(records)), make([]item, len(records))
	for i, r := range records {
		it := reportKey(r.Key)
		it["body"] = &types.AttributeValueMemberB{Value: r.Body}
		writes[i], keys[i] = types.WriteRequest{PutRequest: &types.PutRequest{Item: it}}, it
	}
	return errors.Join(s.batchWrite(ctx, s.o.Names.State, writes, textsOf(keys))...)
}

func (s *Store) DropReports(ctx context.Context, keys []report.Key) error {
	writes, items := make([]types.WriteRequest, len(keys)), make([]item, len(keys))
	for i, k := range keys {
		items[i] = reportKey(k)
		writes[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: items[i]}}
	}
	return errors.Join(s.batchWrite(ctx, s.o.Names.State, writes, textsOf(items))...)
}
