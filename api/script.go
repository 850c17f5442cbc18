package api

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"

	"github.com/aymanbagabas/go-udiff"

	"github.com/tickring/tickring/api/client"
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
)

// scriptOf converts a version of a script to the API; nil becomes the zero value.
func scriptOf(s *core.Script, source string) client.Script {
	if s == nil {
		return client.Script{}
	}
	return client.Script{Kind: string(s.Kind), Note: s.Note, Hash: s.Hash, Size: s.Size, Version: s.Version, At: core.FromMillis(s.Rev),
		By: s.By, Source: source}
}

// coreScript converts a script from the API; an empty script is nil. Its errors name the field.
func coreScript(s client.ScriptSpec) (*core.Script, error) {
	if s == (client.ScriptSpec{}) {
		return nil, nil
	}
	if s.Source == "" && s.Hash != "" {
		return &core.Script{Kind: core.ScriptKind(s.Kind), Note: s.Note, Hash: s.Hash}, nil
	}
	if err := core.CheckSource("script.source", s.Source); err != nil {
		return nil, err
	}
	out := core.ScriptOf(core.ScriptKind(s.Kind), s.Note, s.Source)
	if s.Hash != "" && s.Hash != out.Hash {
		return nil, core.Invalid("script.hash", s.Hash, "the hash is not the SHA-256 of the source: leave out the hash or the "+
			"source")
	}
	return out, nil
}

func (s *server) PutScript(r *http.Request, app, name string, body client.ScriptChange) (any, error) {
	err := core.CheckSource("source", body.Source)
	switch {
	case body.Source == "" && body.Version > 0:
		err = nil
	case body.Version < 0:
		err = core.Invalid("version", fmt.Sprint(body.Version), "version numbers start at 1")
	case body.Version > 0:
		err = core.Invalid("version", fmt.Sprint(body.Version), "expected a source or an earlier version, not both")
	}
	if err != nil {
		return nil, err
	}
	res, err := s.m.SaveScript(r.Context(), actor(r), app+"/"+name, manage.ScriptSpec{Kind: core.ScriptKind(body.Kind), Note: body.Note,
		Source: body.Source, Version: body.Version, IfRev: body.IfRev})
	return jobResult(res), err
}

func (s *server) ListScripts(r *http.Request, app, name string) (any, error) {
	j, err := s.m.Job(r.Context(), app+"/"+name)
	if err != nil {
		return nil, err
	}
	list, err := s.m.ScriptVersions(r.Context(), &j)
	return client.ScriptList{Versions: each(list, func(s *core.Script) client.Script { return scriptOf(s, "") })}, err
}

// number parses a version number in a path.
func number(version string) (int, error) {
	n, err := strconv.ParseUint(version, 10, 31)
	if err != nil {
		return 0, core.Invalid("version", version, "version numbers start at 1")
	}
	return int(n), nil
}

// version reads a version of a job's script, with its source.
func (s *server) version(r *http.Request, j *core.Job, version int) (client.Script, error) {
	v, err := s.m.ScriptVersion(r.Context(), j, version)
	if err != nil {
		return client.Script{}, err
	}
	source, err := s.m.ScriptSource(r.Context(), j, &v)
	return scriptOf(&v, source), err
}

func (s *server) GetScript(r *http.Request, app, name string, version client.PathVersion) (any, error) {
	j, err := s.m.Job(r.Context(), app+"/"+name)
	if err != nil {
		return nil, err
	}
	n, err := number(version)
	var out client.Script
	if err == nil {
		out, err = s.version(r, &j, n)
	}
	return out, err
}

func (s *server) DiffScripts(r *http.Request, app, name string, version client.PathVersion,
	params client.DiffScriptsParams) (any, error) {
	j, err := s.m.Job(r.Context(), app+"/"+name)
	if err != nil {
		return nil, err
	}
	n, err := number(version)
	var from, to client.Script
	if err == nil {
		to, err = s.version(r, &j, n)
	}
	if err == nil && params.From == 0 {
		params.From, err = s.before(r, &j, to.Version)
	}
	if err == nil {
		from, err = s.version(r, &j, params.From)
	}
	if err != nil {
		return nil, err
	}
	label := func(v client.Script) string { return fmt.Sprintf("%s/%s version %d", app, name, v.Version) }
	return client.ScriptDiff{From: from.Version, To: to.Version, Text: udiff.Unified(label(from), label(to), from.Source,
		to.Source)}, nil
}

// before returns the newest stored version of a script before another.
func (s *server) before(r *http.Request, j *core.Job, version int) (int, error) {
	list, err := s.m.ScriptVersions(r.Context(), j)
	for _, v := range list {
		if v.Version < version {
			return v.Version, nil
		}
	}
	return 0, cmp.Or(err, error(core.Errorf(core.CodeNotFound, "the script of %s/%s has no stored version before version %d", j.Def.App,
		j.Def.Name,
		version)))
}
