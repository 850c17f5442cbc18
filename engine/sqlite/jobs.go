package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
	"github.com/tickring/tickring/engine"
	"github.com/tickring/tickring/internal/secretbox"
)

var jobStates = []core.JobState{core.Started, core.Paused, core.Ended}

// spec is the part of a job that planning reads and only an edit changes.
type spec struct {
	Schedule core.Schedule `json:"schedule"`
	Misfire  core.Misfire  `json:"misfire"`
	Grace    time.Duration `json:"grace"`
	Deadline time.Duration `json:"deadline,omitempty"`
}

const schedColumns = `sched.id, app, state, rev, rev_at, next, plan_at, partition, seq, tail, spec, pause_until, pause_by, pause_why, plan_error, compared`

func scanSched(st *sqlite.Stmt, c *core.Sched) error {
	c.ID = core.JobID(st.ColumnInt64(0))
	c.App = st.ColumnText(1)
	c.State = columnWord(st, 2, jobStates)
	c.Rev = st.ColumnInt64(3)
	c.RevAt = core.FromMillis(st.ColumnInt64(4))
	c.Next = core.Instant(st.ColumnInt64(5))
	c.PlanAt = core.Instant(st.ColumnInt64(6))
	c.Partition = st.ColumnInt(7)
	c.Seq = st.ColumnInt64(8)
	c.Tail = core.RunID(st.ColumnInt64(9))
	c.PauseUntil = core.Instant(st.ColumnInt64(11))
	c.PauseBy = columnText(st, 12)
	c.PauseWhy = columnText(st, 13)
	c.PlanError = columnText(st, 14)
	c.Compared = core.Instant(st.ColumnInt64(15))
	var x spec
	if err := json.Unmarshal(columnBytes(st, 10), &x); err != nil {
		return fmt.Errorf("job %d: %w", c.ID, err)
	}
	c.Schedule, c.Misfire, c.Grace, c.Deadline = x.Schedule, x.Misfire, x.Grace, x.Deadline
	return nil
}

const jobQuery = "SELECT " + schedColumns + ", body FROM sched JOIN def USING (id) WHERE "

func (s *Store) scanJob(st *sqlite.Stmt) (*core.Job, error) {
	j := new(core.Job)
	if err := scanSched(st, &j.Sched); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(columnBytes(st, 16), &j.Def); err != nil {
		return nil, fmt.Errorf("job %d: %w", j.Sched.ID, err)
	}
	var err error
	if j.Def, err = secretbox.Open(s.secrets, j.Def); err != nil {
		return nil, j.Locked(err)
	}
	return j, nil
}

func (s *Store) Jobs(ctx context.Context, ids []core.JobID) (map[core.JobID]*core.Job, []core.JobID, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	found := make(map[core.JobID]*core.Job, len(ids))
	err := s.jobs(ctx, ids, func(id core.JobID, j *core.Job) { found[id] = j })
	return found, nil, err
}

// jobs passes jobs from the cache to found, and reads and caches the others.
func (s *Store) jobs(ctx context.Context, ids []core.JobID, found func(core.JobID, *core.Job)) error {
	missing, clock := s.cache.get(ids, found)
	if len(missing) == 0 {
		return nil
	}
	s.misses.Add(int64(len(missing)))
	read := make([]*core.Job, 0, len(missing))
	var bad core.Unreadable
	err := s.read(ctx, func(c *sqlite.Conn) error {
		for _, id := range missing {
			if err := execute(c, jobQuery+"sched.id = ?", values(id), func(st *sqlite.Stmt) error {
				j, err := s.scanJob(st)
				if err != nil {
					bad.Add(id, err)
					return nil
				}
				found(id, j)
				read = append(read, j)
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read jobs: %w", err)
	}
	s.cache.add(read, clock)
	return bad.Err()
}

// Scheds implements tick.Store and finish.Store. Dispatch needs a planned job within seconds, so Scheds reads and caches the
// whole job. A burst of runs then reads no job.
func (s *Store) Scheds(ctx context.Context, ids []core.JobID) (map[core.JobID]core.Sched, []core.JobID, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	found := make(map[core.JobID]core.Sched, len(ids))
	err := s.jobs(ctx, ids, func(id core.JobID, j *core.Job) {
		c := j.Sched
		c.Schedule.Any = slices.Clone(c.Schedule.Any)
		found[id] = c
	})
	return found, nil, err
}

func (s *Store) Tombstones(ctx context.Context, ids []core.JobID) (map[core.JobID]core.Tombstone, error) {
	found := map[core.JobID]core.Tombstone{}
	err := s.read(ctx, func(c *sqlite.Conn) error {
		for _, id := range ids {
			if err := execute(c, "SELECT app, name, rev, rev_at FROM tombs WHERE job = ?", values(id),
				func(st *sqlite.Stmt) error {
					found[id] = core.Tombstone{Job: id, App: st.ColumnText(0), Name: st.ColumnText(1), Rev: st.ColumnInt64(2),
						RevAt: core.FromMillis(st.ColumnInt64(3))}
					return nil
				}); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

func (s *Store) ListTombstones(ctx context.Context, after core.JobID, limit int) (list []core.Tombstone, err error) {
	err = s.read(ctx, func(c *sqlite.Conn) error {
		q := "SELECT job, app, name, rev, rev_at FROM tombs WHERE job > ?1 ORDER BY job LIMIT ?2"
		return execute(c, q, values(after, limit), func(st *sqlite.Stmt) error {
			list = append(list, core.Tombstone{Job: core.JobID(st.ColumnInt64(0)), App: st.ColumnText(1), Name: st.ColumnText(2),
				Rev: st.ColumnInt64(3), RevAt: core.FromMillis(st.ColumnInt64(4))})
			return nil
		})
	})
	return list, err
}

func (s *Store) JobIDs(ctx context.Context, app string, names []string) (map[string]core.JobID, error) {
	found := make(map[string]core.JobID, len(names))
	err := s.read(ctx, func(c *sqlite.Conn) error {
		for _, name := range names {
			if err := execute(c, "SELECT id FROM sched WHERE app = ? AND name = ?", values(app, name), func(st *sqlite.Stmt) error {
				found[name] = core.JobID(st.ColumnInt64(0))
				return nil
			}); err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

func (s *Store) ListJobs(ctx context.Context, app string, after core.JobID, limit int) (list []core.Job, next core.JobID, err error) {
	q, bound := "SELECT id FROM sched WHERE id > ?1 ORDER BY id LIMIT ?2", []any{after, limit}
	if app != "" {
		q, bound = "SELECT id FROM sched WHERE id > ?1 AND app = ?3 ORDER BY id LIMIT ?2", append(bound, app)
	}
	var ids []core.JobID
	if err := s.query(ctx, q, values(bound...), func(st *sqlite.Stmt) error {
		ids = append(ids, core.JobID(st.ColumnInt64(0)))
		return nil
	}); err != nil {
		return nil, 0, fmt.Errorf("list jobs: %w", err)
	}
	found := make(map[core.JobID]*core.Job, len(ids))
	err = s.jobs(ctx, ids, func(id core.JobID, j *core.Job) { found[id] = j })
	list = make([]core.Job, 0, len(found)) // a job is near a kilobyte
	for _, id := range ids {
		if j := found[id]; j != nil { // otherwise it was deleted since, or cannot be read
			list = append(list, *j)
		}
	}
	if len(ids) == limit {
		next = ids[len(ids)-1]
	}
	return list, next, err
}

func (s *Store) NewJobIDs(ctx context.Context, n int) (first core.JobID, err error) {
	err = s.write(ctx, false, 1, func(tx *tx) error {
		last, err := getState(tx.Conn, "lastJob")
		if err != nil {
			return err
		}
		first = core.JobID(last + 1)
		return setState(tx.Conn, "lastJob", last+int64(n))
	})
	return first, err
}

// Numbers implements finish.Store and operate.Store. The first number of a job is 1.
func (s *Store) Numbers(ctx context.Context, job core.JobID, n int) (first uint32, err error) {
	err = s.write(ctx, true, 1, func(tx *tx) error {
		return execute(tx.Conn,
			"INSERT INTO counters (job, last) VALUES (?1, ?2) ON CONFLICT (job) DO UPDATE SET last = last + ?2 RETURNING last",
			values(job, n), func(st *sqlite.Stmt) error {
				first = uint32(st.ColumnInt64(0) - int64(n) + 1)
				return nil
			})
	})
	return first, err
}

type encodedJob struct {
	job    *core.Job
	def    core.Def // with its secrets encrypted
	spec   []byte
	body   []byte
	change *core.Change // may be nil
	seen   int64
	tail   core.RunID // as seen
	edges  int64      // as seen
}

func (s *Store) encodeJob(j *core.Job) (encodedJob, error) {
	def, err := secretbox.Seal(s.secrets, j.Def)
	if err != nil {
		return encodedJob{}, err
	}
	def.Created, def.Children = milli(def.Created), nil
	body, err := json.Marshal(&def)
	if err != nil {
		return encodedJob{}, err
	}
	sp, err := json.Marshal(spec{j.Sched.Schedule, j.Sched.Misfire, j.Sched.Grace, j.Sched.Deadline})
	return encodedJob{job: j, def: def, spec: sp, body: body}, err
}

func bindJob(st *sqlite.Stmt, e *encodedJob) {
	c := &e.job.Sched
	st.BindInt64(1, int64(e.job.Def.ID))
	st.BindText(2, e.job.Def.App)
	st.BindText(3, e.job.Def.Name)
	bindWord(st, 4, c.State, jobStates)
	st.BindInt64(5, c.Rev)
	st.BindInt64(6, core.Millis(c.RevAt))
	st.BindInt64(7, int64(c.Next))
	st.BindInt64(8, int64(c.PlanAt))
	st.BindInt64(9, int64(c.Partition))
	st.BindInt64(10, c.Seq)
	st.BindInt64(11, int64(c.Tail))
	st.BindInt64(12, int64(e.job.Def.Keep.Days))
	st.BindBytes(13, e.spec)
	st.BindInt64(14, int64(c.PauseUntil))
	bindText(st, 15, c.PauseBy)
	bindText(st, 16, c.PauseWhy)
	bindText(st, 17, c.PlanError)
	st.BindInt64(18, int64(c.Compared))
}

// putJobs runs a conditional statement on sched and, if its condition held, stores the rest.
func (s *Store) putJobs(ctx context.Context, q string, jobs []encodedJob) []error {
	return batch(ctx, s, false, jobs, func(tx *tx, jobs []encodedJob, answers []error) error {
		st, err := tx.Prepare(q)
		if err != nil {
			return err
		}
		def, err := tx.Prepare("INSERT INTO def (id, body) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body")
		if err != nil {
			return err
		}
		for i := range jobs {
			e := &jobs[i]
			parents, edge, err := family(tx, e)
			if errors.Is(err, core.ErrRefused) {
				answers[i] = err
				continue
			} else if err != nil {
				return err
			}
			bindJob(st, e)
			if e.seen != 0 {
				st.BindInt64(19, e.seen)
				st.BindInt64(20, int64(e.tail))
			}
			if err := rows(st, nil); err != nil {
				return err
			}
			if answers[i] = judged(tx.Conn); answers[i] != nil {
				continue
			}
			def.BindInt64(1, int64(e.job.Def.ID))
			def.BindBytes(2, e.body)
			if err := rows(def, nil); err != nil {
				return err
			}
			if err := parents.put(tx); err != nil {
				return err
			}
			if edge {
				if err := setState(tx.Conn, "edges", e.edges); err != nil {
					return err
				}
			}
			if e.change != nil {
				if err := putChange(tx, e.change); err != nil {
					return err
				}
			}
			tx.edits = append(tx.edits, edit{job: e.job.Def.ID})
		}
		return nil
	})
}

func (s *Store) CreateJobs(ctx context.Context, jobs []core.Job, changes []core.Change) []error {
	list := make([]encodedJob, len(jobs))
	for i := range jobs {
		e, err := s.encodeJob(&jobs[i])
		if err != nil {
			return slices.Repeat([]error{err}, len(jobs))
		}
		if i < len(changes) {
			e.change = &changes[i]
		}
		list[i] = e
	}
	return s.putJobs(ctx, `INSERT INTO sched (id, app, name, state, rev, rev_at, next, plan_at, partition, seq, tail, keep, spec, pause_until, pause_by, pause_why, plan_error, compared)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18
WHERE EXISTS (SELECT 1 FROM records WHERE kind = 'app' AND name = ?2)
AND NOT EXISTS (SELECT 1 FROM tombs WHERE job = ?1) ON CONFLICT DO NOTHING`, list)
}

// UpdateJobs implements manage.Store. A name that another job has is a conflict too.
func (s *Store) UpdateJobs(ctx context.Context, updates []manage.Update) []error {
	list := make([]encodedJob, len(updates))
	for i := range updates {
		e, err := s.encodeJob(&updates[i].Job)
		if err != nil {
			return slices.Repeat([]error{err}, len(updates))
		}
		e.change, e.seen, e.tail, e.edges = &updates[i].Change, updates[i].Seen, updates[i].SeenTail, updates[i].Edges
		if e.seen == 0 { // a job has a revision: no job has this one
			e.seen = -1
		}
		list[i] = e
	}
	return s.putJobs(ctx, `UPDATE OR IGNORE sched SET app = ?2, name = ?3, state = ?4, rev = ?5, rev_at = ?6, next = ?7, plan_at = ?8, partition = ?9, seq = max(seq, ?10),
tail = ?11, keep = ?12, spec = ?13, pause_until = ?14, pause_by = ?15, pause_why = ?16, plan_error = ?17, compared = ?18 WHERE id = ?1 AND rev = ?19 AND tail = ?20`, list)
}

func (s *Store) DeleteJob(ctx context.Context, seen int64, t core.Tombstone, c core.Change) error {
	var parents lists
	before := func(tx *tx) error {
		old, err := defOf(tx, t.Job)
		switch {
		case err != nil || old == nil:
			return err
		case len(old.Children) > 0:
			return core.ErrRefused
		}
		parents, err = linked(tx, core.Links(t.Job, old.After, nil))
		return err
	}
	return s.judge(ctx, 4, before, "DELETE FROM sched WHERE id = ? AND rev = ?", values(t.Job, seen), func(tx *tx) error {
		if err := parents.put(tx); err != nil {
			return err
		}
		if err := execute(tx.Conn, "DELETE FROM def WHERE id = ?", values(t.Job), nil); err != nil {
			return err
		}
		if err := execute(tx.Conn, "INSERT OR REPLACE INTO tombs (job, app, name, rev, rev_at) VALUES (?, ?, ?, ?, ?)",
			values(t.Job, t.App, t.Name, t.Rev, core.Millis(t.RevAt)), nil); err != nil {
			return err
		}
		tx.edits = append(tx.edits, edit{job: t.Job})
		return putChange(tx, &c)
	})
}

// Advance implements tick.Store, finish.Store and manage.Store. Sched.Moved computes the new state.
func (s *Store) Advance(ctx context.Context, moves []core.Advance) []error {
	return batch(ctx, s, true, moves, func(tx *tx, moves []core.Advance, answers []error) error {
		var plain, change *sqlite.Stmt
		for i := range moves {
			a := &moves[i]
			st, q := &plain, `UPDATE sched SET next = ?1, plan_at = ?2, seq = ?3, partition = ?4, tail = ?5, plan_error = ?6, state = coalesce(?7, state), compared = coalesce(?14, compared)
WHERE id = ?8 AND rev = ?9 AND next = ?10 AND tail = ?11`
			if a.NewRev != 0 {
				st, q = &change, `UPDATE sched SET next = ?1, plan_at = ?2, seq = ?3, partition = ?4, tail = ?5, plan_error = ?6, state = coalesce(?7, state), compared = coalesce(?14, compared),
rev = ?12, rev_at = ?13, pause_until = 0, pause_by = ?15, pause_why = ?16
WHERE id = ?8 AND rev = ?9 AND next = ?10 AND tail = ?11`
			}
			if *st == nil {
				var err error
				if *st, err = tx.Prepare(q); err != nil {
					return err
				}
			}
			b := *st
			b.BindInt64(1, int64(a.NewNext))
			b.BindInt64(2, int64(a.NewPlanAt))
			b.BindInt64(3, a.NewSeq)
			b.BindInt64(4, int64(a.NewPartition))
			b.BindInt64(5, int64(a.NewTail))
			bindText(b, 6, a.PlanError)
			bindWord(b, 7, a.NewState, jobStates)
			b.BindInt64(8, int64(a.Job))
			b.BindInt64(9, a.Rev)
			b.BindInt64(10, int64(a.Next))
			b.BindInt64(11, int64(a.Tail))
			if a.NewCompared != 0 {
				b.BindInt64(14, int64(a.NewCompared))
			} else {
				b.BindNull(14)
			}
			if a.NewRev != 0 {
				b.BindInt64(12, a.NewRev)
				b.BindInt64(13, core.Millis(a.NewRevAt))
				bindText(b, 15, a.NewPauseBy)
				bindText(b, 16, a.NewPauseWhy)
			}
			if err := rows(b, nil); err != nil {
				return err
			}
			if answers[i] = judged(tx.Conn); answers[i] != nil {
				continue
			}
			tx.edits = append(tx.edits, edit{a.Job, a})
			if a.Change != nil {
				if err := putChange(tx, a.Change); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Due implements tick.Store; it always includes the latest writes. SQLite compiles a statement with ORDER BY again when a
// parameter changes that equals a column, or one in LIMIT. "+ 0" prevents it, which makes the statements 80 times faster.
func (s *Store) Due(ctx context.Context, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	var jobs, entries []core.DueItem
	err := s.read(ctx, func(c *sqlite.Conn) error {
		var err error
		if jobs, err = dueJobs(c, partition, upTo, after, limit); err != nil {
			return err
		}
		return execute(c, `SELECT plan_at, job, run FROM entries WHERE partition = ?1 + 0 AND plan_at <= ?2 AND (plan_at, job, run) > (?3, ?4, ?5)
ORDER BY plan_at, job, run LIMIT ?6 + 0`, values(partition, upTo, after.PlanAt, after.Job, after.Run, limit), func(st *sqlite.Stmt) error {
			entries = append(entries, core.DueItem{PlanAt: core.Instant(st.ColumnInt64(0)), Job: core.JobID(st.ColumnInt64(1)),
				Run: core.RunID(st.ColumnInt64(2)), Partition: partition})
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read the due index: %w", err)
	}
	if len(entries) == 0 {
		return jobs, nil
	}
	merged := make([]core.DueItem, 0, min(len(jobs)+len(entries), limit))
	for len(merged) < limit && len(jobs)+len(entries) > 0 {
		if len(entries) == 0 || len(jobs) > 0 && jobs[0].Less(entries[0]) {
			merged, jobs = append(merged, jobs[0]), jobs[1:]
		} else {
			merged, entries = append(merged, entries[0]), entries[1:]
		}
	}
	return merged, nil
}

// dueJobs reads only jobs: a job comes before its entries of the same second, so all jobs after (PlanAt, Job) follow
// after.
func dueJobs(c *sqlite.Conn, partition int, upTo core.Instant, after core.DueItem, limit int) ([]core.DueItem, error) {
	list := make([]core.DueItem, 0, min(limit, 1024))
	err := execute(c, `SELECT plan_at, id FROM sched INDEXED BY sched_due WHERE partition = ?1 + 0 AND plan_at > 0 AND plan_at <= ?2 AND (plan_at, id) > (?3, ?4)
ORDER BY plan_at, id LIMIT ?5 + 0`, values(partition, upTo, after.PlanAt, after.Job, limit), func(st *sqlite.Stmt) error {
		list = append(list, core.DueItem{PlanAt: core.Instant(st.ColumnInt64(0)), Job: core.JobID(st.ColumnInt64(1)), Partition: partition})
		return nil
	})
	return list, err
}

func (s *Store) PutEntries(ctx context.Context, entries []core.DueItem) []error {
	return batch(ctx, s, false, entries, putEntries)
}

func bindEntry(st *sqlite.Stmt, d *core.DueItem) error {
	st.BindInt64(1, int64(d.Partition))
	st.BindInt64(2, int64(d.PlanAt))
	st.BindInt64(3, int64(d.Job))
	st.BindInt64(4, int64(d.Run))
	return nil
}

func putEntries(tx *tx, entries []core.DueItem, answers []error) error {
	err := eachRow(tx, "INSERT INTO entries (partition, plan_at, job, run) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", entries, answers,
		bindEntry)
	clear(answers) // an existing entry is not an error
	return err
}

// RemoveEntries implements tick.Store, operate.Store and manage.Store. It removes exactly the given entries.
func (s *Store) RemoveEntries(ctx context.Context, entries []core.DueItem) []error {
	return batch(ctx, s, false, entries, removeEntries)
}

func removeEntries(tx *tx, entries []core.DueItem, answers []error) error {
	err := eachRow(tx, "DELETE FROM entries WHERE partition = ? AND plan_at = ? AND job = ? AND run = ?", entries, answers, bindEntry)
	clear(answers) // one that is not there is well
	return err
}

// Entries implements query.Store, in the order of the due index.
func (s *Store) Entries(ctx context.Context, job core.JobID) (list []core.DueItem, err error) {
	err = s.query(ctx, "SELECT plan_at, job, run, partition FROM entries WHERE run BETWEEN ?1 AND ?1 + 4294967295 ORDER BY plan_at, job, "+
		"run, partition",
		values(int64(job)<<32), func(st *sqlite.Stmt) error {
			list = append(list, core.DueItem{PlanAt: core.Instant(st.ColumnInt64(0)), Job: core.JobID(st.ColumnInt64(1)),
				Run: core.RunID(st.ColumnInt64(2)), Partition: st.ColumnInt(3)})
			return nil
		})
	return list, err
}

func (s *Store) PutSkips(ctx context.Context, skips []core.Skip) []error {
	return batch(ctx, s, false, skips, func(tx *tx, skips []core.Skip, answers []error) error {
		err := eachRow(tx, `INSERT INTO skips (job, first, reason, last, count, rev, made) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job, first, reason) DO UPDATE SET last = excluded.last, count = excluded.count, made = excluded.made WHERE last < excluded.last`, skips, answers, func(st *sqlite.Stmt, k *core.Skip) error {
			st.BindInt64(1, int64(k.Job))
			st.BindInt64(2, int64(k.First))
			st.BindText(3, string(k.Reason))
			st.BindInt64(4, int64(k.Last))
			st.BindInt64(5, k.Count)
			st.BindInt64(6, k.Rev)
			st.BindInt64(7, core.Millis(k.Made))
			return nil
		})
		clear(answers) // one that is as long is well
		return err
	})
}

// Skips implements query.Store, in the order of First.
func (s *Store) Skips(ctx context.Context, job core.JobID, from, to core.Instant) (list []core.Skip, err error) {
	err = s.query(ctx, "SELECT first, last, count, reason, rev, made FROM skips WHERE job = ? AND first <= ? AND last >= ? ORDER BY "+
		"first, reason", values(job, to, from), func(st *sqlite.Stmt) error {
		list = append(list, core.Skip{Job: job, First: core.Instant(st.ColumnInt64(0)), Last: core.Instant(st.ColumnInt64(1)),
			Count:  st.ColumnInt64(2),
			Reason: core.Reason(st.ColumnText(3)), Rev: st.ColumnInt64(4), Made: core.FromMillis(st.ColumnInt64(5))})
		return nil
	})
	return list, err
}

func putChange(tx *tx, c *core.Change) error {
	return execute(tx.Conn, `INSERT INTO changes (id, at, by, verb, app, job, name, why, old, new, act, source, via) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
  ?10, nullif(?11, ''), nullif(?12, ''), nullif(?13, '')
WHERE NOT EXISTS (SELECT 1 FROM changes WHERE job = ?6 AND id = ?1 AND app = ?5 AND verb = ?4 AND new = ?10 AND (job <> 0 OR name = ?7))`,
		values(c.ID, core.Millis(c.At), c.By, c.Verb, c.App, c.Job, c.Name, c.Why, c.Old, c.New, c.Act, c.From, c.Via), nil)
}

func (s *Store) PutChanges(ctx context.Context, changes []core.Change) error {
	return s.write(ctx, false, len(changes), func(tx *tx) error {
		for i := range changes {
			if err := putChange(tx, &changes[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Changes implements query.Store, in descending order of IDs.
func (s *Store) Changes(ctx context.Context, app string, job core.JobID, last int64, limit int) (list []core.Change, err error) {
	where, bound := "", []any{limit, last}
	switch {
	case job != 0:
		where, bound = " AND job = ?3", append(bound, job)
	case app != "":
		where, bound = " AND app = ?3", append(bound, app)
	}
	err = s.query(ctx, "SELECT id, at, by, verb, app, job, name, why, old, new, act, source, via FROM changes WHERE id <= ?2"+where+
		" ORDER BY id DESC, n DESC LIMIT ?1",
		values(bound...), func(st *sqlite.Stmt) error {
			list = append(list, core.Change{ID: st.ColumnInt64(0), At: core.FromMillis(st.ColumnInt64(1)), By: st.ColumnText(2),
				Verb: st.ColumnText(3),
				App:  st.ColumnText(4), Job: core.JobID(st.ColumnInt64(5)), Name: st.ColumnText(6), Why: st.ColumnText(7), Old: st.ColumnText(8),
				New: st.ColumnText(9), Act: columnText(st, 10), From: columnText(st, 11), Via: columnText(st, 12)})
			return nil
		})
	return list, err
}

// DeleteApp implements manage.Store. It also deletes the executors of the app.
func (s *Store) DeleteApp(ctx context.Context, seen int64, name string, c core.Change) error {
	return s.judge(ctx, 3, nil, "DELETE FROM records WHERE kind = ?3 AND name = ?1 AND v = ?2 AND NOT EXISTS "+
		"(SELECT 1 FROM sched WHERE app = ?1)",
		values(name, seen, engine.KindApp), func(tx *tx) error {
			if err := execute(tx.Conn, "DELETE FROM records WHERE kind = ?", values(engine.KindExecutors(name)), nil); err != nil {
				return err
			}
			return putChange(tx, &c)
		})
}

// judge runs one conditional statement and, if its condition held, the writes that belong to it.
func (s *Store) judge(ctx context.Context, rows int, before func(*tx) error, q string, bind func(*sqlite.Stmt),
	then func(tx *tx) error) error {
	var answer error
	err := s.write(ctx, false, rows, func(tx *tx) error {
		if before != nil {
			if answer = before(tx); answer != nil {
				if errors.Is(answer, core.ErrRefused) {
					return nil
				}
				return answer
			}
		}
		if err := execute(tx.Conn, q, bind, nil); err != nil {
			return err
		}
		if answer = judged(tx.Conn); answer != nil || then == nil {
			return nil
		}
		return then(tx)
	})
	return cmp.Or(err, answer)
}

func (s *Store) PutKey(ctx context.Context, job core.JobID, key string, run core.RunID) (bound core.RunID, err error) {
	at := core.Millis(s.now())
	err = s.write(ctx, false, 1, func(tx *tx) error {
		return execute(tx.Conn, "INSERT INTO keys (job, key, run, at) VALUES (?, ?, ?, ?) ON CONFLICT (job, key) DO UPDATE SET run = run "+
			"RETURNING run", values(job, key, run, at), func(st *sqlite.Stmt) error {
			bound = core.RunID(st.ColumnInt64(0))
			return nil
		})
	})
	return bound, err
}
