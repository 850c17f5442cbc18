// Package manifest reads and writes the file for `tickring apply`: YAML (or JSON, which is YAML) in, the specs of package manage
// out, and back. Every error has a position, a path, and the allowed values. It makes no requests: it reads files and the
// environment through [Options].
//
// A job has one external form: the form in the API. The document of the API, api/openapi.yaml, defines the kind, limits and values
// of each field, and whether it is for a later version. The reader, the nearest-name hints, [Export], the differences and the JSON
// [Schema] all use the document's components Manifest….
package manifest

import (
	"github.com/tickring/tickring/core"
	"github.com/tickring/tickring/core/manage"
)

// Bounds of a manifest.
const (
	MaxFile     = 32 << 20 // bytes of one file
	MaxDocument = 4 << 20  // bytes of one document in a file: reading it takes up to 100 times as much memory
	MaxJobs     = 100_000  // jobs of all files together
	MaxApps     = 10_000   // apps of all files together
	MaxErrors   = 50       // reported at once
)

// Pos is a place in a file. Lines and columns count from 1, columns in characters.
type Pos struct {
	File         string
	Line, Column int
}

// Document is the content of one or several manifests.
type Document struct {
	Set string
	// Notify sets the recipients of notifications without a job: notify of `defaults`, if that has a to or is empty. The first of
	// several documents applies. Nil: not set.
	Notify   *core.Notify
	NotifyAt Pos
	Channels []Channel
	Apps     []App
	Jobs     []Job
	// Warnings are not errors; one reports, for example, a secret in plain text.
	Warnings []*Error
}

type Channel struct {
	Spec manage.ChannelSpec
	Pos  Pos
}

type App struct {
	Spec manage.AppSpec
	Pos  Pos
}

// Job is one entry of jobs, with the values of its app and `defaults` filled in. Spec.Def.Set is the set of the document.
type Job struct {
	Spec manage.JobSpec
	Pos  Pos
}

// Options are the functions by which the parser reads external data. A nil function finds nothing.
type Options struct {
	// Getenv looks up a secret written as {env: NAME}, like os.LookupEnv.
	Getenv func(name string) (string, bool)
	// ReadFile reads a secret written as {file: PATH}, and the file of a script. Load joins a
	// relative path to the manifest's folder first.
	ReadFile func(path string) ([]byte, error)
	// Parameter reads a secret written as {ssm: NAME}.
	Parameter func(name string) (string, error)
	// Small bounds the memory for the text of one job, as from a form of the console: at most 40,000 lines and marks, and
	// aliases that stand for at most 1 MB. A file has only the limit of aliases, 32 MB.
	Small bool
}
