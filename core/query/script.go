package query

import (
	"context"
	"slices"
	"strconv"

	"github.com/tickring/tickring/core"
)

// ScriptVersions returns the kept versions of a job's script, newest first. The first version is the current version,
// unless the script was removed from the job.
func (q *Queries) ScriptVersions(ctx context.Context, j *core.Job) ([]core.Script, error) {
	rec, err := q.store.Scripts(ctx, j.Def.ID)
	if err != nil {
		return nil, core.Retryable(err)
	}
	list := rec.All(j.Def.Script)
	slices.Reverse(list)
	return list, nil
}

// ScriptVersion returns one version of a job's script. Version 0 means the current version.
func (q *Queries) ScriptVersion(ctx context.Context, j *core.Job, version int) (core.Script, error) {
	switch s := j.Def.Script; {
	case s != nil && (version == 0 || version == s.Version):
		return *s, nil
	case version == 0:
		return core.Script{}, core.Errorf(core.CodeNotFound, "job %s has a handler and no script", j.Name())
	}
	list, err := q.ScriptVersions(ctx, j)
	if err != nil {
		return core.Script{}, err
	}
	for _, s := range list {
		if s.Version == version {
			return s, nil
		}
	}
	return core.Script{}, &core.Error{Code: core.CodeNotFound, Field: "version", Value: strconv.Itoa(version),
		Reason: core.Say("this version of the script of %s is not stored", j.Name())}
}

func (q *Queries) ScriptSource(ctx context.Context, j *core.Job, s *core.Script) (string, error) {
	source, found, err := q.store.Source(ctx, j.Def.ID, s.Hash)
	switch {
	case err != nil:
		return "", core.Retryable(err)
	case !found:
		return "", core.Errorf(core.CodeNotFound, "the source of version %d of the script of %s is not stored", s.Version, j.Name())
	}
	return source, nil
}
