package manifest

import (
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
)

// Bounds of a manifest.
const (
	MaxFile   = 32 << 20 // bytes of one file
	MaxJobs   = 100_000  // of all files together
	MaxApps   = 10_000   // of all files together
	MaxErrors = 50       // reported at once
)

// Pos is a place in a file. Lines and columns count from 1, columns in characters.
type Pos struct {
	File         string
	Line, Column int
}

// Document is what one or several manifests say.
type Document struct {
	Set  string
	Apps []App
	Jobs []Job
	// Warnings are no errors: a secret written out, for one.
	Warnings []*Error
}

// App is one entry of apps. Spec.Set is the document's.
type App struct {
	Spec manage.AppSpec
	Pos  Pos
}

// Job is one entry of jobs, with what its app and `defaults` say filled in.
// Spec.Def.Set is the document's.
type Job struct {
	Spec manage.JobSpec
	Pos  Pos
}

// Options are the parser's way to the world. A nil function finds nothing.
type Options struct {
	// Getenv looks up a secret written as {env: NAME}; os.LookupEnv fits.
	Getenv func(name string) (string, bool)
	// ReadFile reads a secret written as {file: PATH}. Load joins a relative
	// path to the manifest's folder first.
	ReadFile func(path string) ([]byte, error)
}

// JobOf is the job that a save of spec makes of old; nil: there is none yet.
// It is normalized; number, revision and live state are old's.
func JobOf(spec manage.JobSpec, old *core.Job) core.Job {
	j := core.Job{Def: spec.Def, Sched: core.Sched{Schedule: spec.Schedule, Misfire: spec.Misfire, Grace: spec.Grace, Deadline: spec.Deadline}}
	if old != nil {
		j.Sched = old.Sched
		j.Sched.Schedule, j.Sched.Misfire, j.Sched.Grace, j.Sched.Deadline = spec.Schedule, spec.Misfire, spec.Grace, spec.Deadline
		j.Def.ID, j.Def.Created = old.Def.ID, old.Def.Created
		if j.Def.Set == "" {
			j.Def.Set = old.Def.Set
		}
	}
	if spec.Paused != nil {
		switch {
		case *spec.Paused:
			j.Sched.State = core.Paused
		case j.Sched.State == core.Paused:
			j.Sched.State = core.Started
		}
	}
	j.Normalize()
	return j
}

// AppOf is the app that a save of spec makes of old; nil: there is none yet.
func AppOf(spec manage.AppSpec, old *core.App) core.App {
	a := core.App{Name: spec.Name, Title: spec.Title, Set: spec.Set, Executors: spec.Executors}
	if old != nil {
		a.Rev, a.Pause, a.Created, a.Token = old.Rev, old.Pause, old.Created, old.Token
		if a.Set == "" {
			a.Set = old.Set
		}
	}
	if spec.Token != nil {
		a.Token = *spec.Token
	}
	for _, text := range spec.Allow {
		if p, ok := rangeOf(text); ok {
			a.Allow = append(a.Allow, p)
		}
	}
	return a
}
