package manage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/budget"
	"github.com/tickring/tickring/store"
)

// A ScriptSpec is a request to store a new version of a job's script.
type ScriptSpec struct {
	Kind core.ScriptKind // empty: the kind does not change
	Note string
	// Source is the source of the script. If Source is empty, the source and the kind of the earlier version Version are used.
	Source  string
	Version int
	IfRev   *int64 // revision that the stored job must have; nil allows all revisions
}

// SaveScript stores a new version of the script of a job that has a script. If only the note differs, SaveScript
// changes the note of the current version.
func (m *Manage) SaveScript(ctx context.Context, actor core.Actor, ref string, want ScriptSpec) (SaveResult, error) {
	if err := actor.Validate(); err != nil {
		return SaveResult{}, err
	}
	j, err := m.ask.Job(ctx, ref)
	if err != nil {
		return SaveResult{}, err
	}
	if j.Def.Script == nil {
		return SaveResult{}, core.Errorf(core.CodeRefused, "job %s has a handler and no script: save the job with a script instead of the "+
			"handler",
			j.Name())
	}
	if err := revIs(&j, want.IfRev); err != nil {
		return SaveResult{}, err
	}
	spec := JobSpec{Def: j.Def, Source: want.Source, Schedule: j.Sched.Schedule, Misfire: j.Sched.Misfire, Grace: j.Sched.Grace,
		Deadline: j.Sched.Deadline, IfRev: &j.Sched.Rev}
	script := core.Script{Kind: cmp.Or(want.Kind, j.Def.Script.Kind), Note: want.Note}
	if want.Source == "" && want.Version != 0 {
		old, err := m.ask.ScriptVersion(ctx, &j, want.Version)
		if err != nil {
			return SaveResult{}, err
		}
		script.Kind, script.Hash = old.Kind, old.Hash
	}
	spec.Def.Script = &script
	res := m.Save(ctx, actor, []JobSpec{spec})[0]
	return res, res.Err
}

// script sets the wanted job's script, with the hash of its source.
func (s *saving) script() error {
	want := s.job.Def.Script
	switch {
	case want == nil && s.spec.Source != "":
		return core.Invalid("script.kind", "", "required: the language of the script")
	case want == nil:
		return nil
	case s.spec.Source == "" && want.Hash != "":
		s.job.Def.Script = &core.Script{Kind: want.Kind, Note: want.Note, Hash: want.Hash}
		return nil
	}
	s.job.Def.Script = core.ScriptOf(want.Kind, want.Note, s.spec.Source)
	return core.CheckSource("script.source", s.spec.Source)
}

// script makes the source a new version of the wanted job's script; putScript numbers it.
func (e *edit) script(source string) {
	s := *e.want.Def.Script
	s.Rev, s.By, s.Version = e.want.Sched.Rev, e.by.Name, 0
	e.want.Def.Script, e.source = &s, source
}

// versions returns the version that an edit replaces and the one that it creates, each nil if none.
func (e *edit) versions() (replaced, made *core.Script) {
	var was *core.Script
	if e.old != nil {
		was = e.old.Def.Script
	}
	is := e.want.Def.Script
	if was != nil && is != nil && was.Rev == is.Rev {
		return nil, nil
	}
	return was, is
}

// savingFor is longer than any save takes. An older stored source that no version names is not part of a save in progress.
const savingFor = time.Hour

// putScripts stores the scripts of edits before the edits. An edit whose script cannot be stored is not stored.
func (m *Manage) putScripts(ctx context.Context, edits []*edit, out []error) {
	store.AtOnce(len(edits), func(i int) {
		if replaced, made := edits[i].versions(); out[i] == nil && (replaced != nil || made != nil) {
			out[i] = m.putScript(ctx, edits[i])
		}
	})
}

// putScript stores the record of a job's scripts with the replaced version, then the new
// version's source. Sources that no version names are deleted.
func (m *Manage) putScript(ctx context.Context, e *edit) error {
	replaced, made := e.versions()
	job := e.want.Def.ID
	for range budget.Tries {
		rec, err := m.store.Scripts(ctx, job)
		if err != nil {
			return err
		}
		if replaced != nil && rec.Last() > replaced.Version {
			return core.ErrRefused // the job changed after it was read
		}
		rec = rec.Clone()
		rec.Job, rec.Old = job, rec.All(replaced)
		now := m.ask.Stamp()
		since := now.Add(-savingFor)
		hash := ""
		if made != nil {
			hash = made.Hash
			if e.source == "" {
				var found bool
				if e.source, found, err = m.store.Source(ctx, job, hash); err != nil {
					return err
				} else if !found {
					return core.Invalid("script.hash", hash, "no stored version of the script has this hash: send "+
						"`script.source`")
				}
			}
			made.Version, made.Size = rec.Last()+1, len(e.source)
			rec.Stored[hash] = core.Millis(now)
		}
		unnamed := rec.Unnamed(core.Millis(since), hash) // as stored: the sources of versions trimmed now are deleted next time
		if rec.Trims() {
			var revs []int64
			if _, err := m.store.OpenRuns(ctx, job, nil, func(r *core.Run) bool {
				if rev := r.RevSent(); r.InProgress() && !slices.Contains(revs, rev) {
					revs = append(revs, rev)
				}
				return true
			}); err == nil {
				rec.Trim(core.Millis(since), revs)
			}
		}
		if len(rec.Old) >= core.MostVersions || len(rec.Stored)-len(unnamed) > core.MostVersions+core.KeepVersions {
			return core.Errorf(core.CodeRefused, "the script of %s has the maximum of %d versions, and versions from the last "+
				"hour or of open runs are never deleted: try again later",
				e.want.Name(), core.MostVersions)
		}
		for _, hash := range unnamed {
			if m.store.DropSource(ctx, job, hash, since) == nil {
				delete(rec.Stored, hash)
			}
		}
		rec.V++
		switch err := m.store.PutScripts(ctx, rec); {
		case errors.Is(err, core.ErrThrottled):
			return err
		case err != nil: // a conflict or a lost answer: read again
			continue
		case made == nil:
			return nil
		}
		return budget.RetryUntilCertain(ctx, func() error { return m.store.PutSource(ctx, job, e.source, now) })
	}
	return fmt.Errorf("the record of the scripts of job %d was changed by others each time", job)
}

// forGood reports whether an edit was rejected for good, for its script or its size.
func forGood(err error) bool {
	e, is := errors.AsType[*core.Error](err)
	return is && (e.Code == core.CodeInvalid || e.Code == core.CodeRefused || e.Code == core.CodeTooLarge)
}

// dropScripts deletes the scripts of a deleted job. After an error, unread leftovers stay:
// SQLite's sweep deletes them with the tombstone.
func (m *Manage) dropScripts(ctx context.Context, job core.JobID) {
	ctx, cancel := context.WithTimeout(ctx, m.ask.PageFor())
	defer cancel()
	rec, err := m.store.Scripts(ctx, job)
	if err != nil || rec.V == 0 {
		return
	}
	rest := core.Scripts{Job: job, V: rec.V + 1, Stored: rec.Stored}
	for hash := range rest.Stored {
		if m.store.DropSource(ctx, job, hash, m.ask.Stamp().Add(savingFor)) == nil {
			delete(rest.Stored, hash)
		}
	}
	_ = m.store.PutScripts(ctx, rest)
}
