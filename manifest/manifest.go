package manifest

import (
	"errors"
	"io"

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

// Parse reads one file. Its error is Errors; the name is only for messages.
func Parse(name string, data []byte, o Options) (*Document, error) { return nil, errors.ErrUnsupported }

// Load reads files, folders (their *.yaml, *.yml and *.json, sorted, folders
// inside too; hidden ones are left out) and "-", which is stdin, and joins them.
// Its error is Errors, or what a file could not be opened for.
func Load(paths []string, stdin io.Reader, o Options) (*Document, error) {
	return nil, errors.ErrUnsupported
}

// JobOf is the job that a save of spec makes of old; nil: there is none yet.
// It is normalized; number and revision are old's.
func JobOf(spec manage.JobSpec, old *core.Job) core.Job { return core.Job{} }

// AppOf is the app that a save of spec makes of old; nil: there is none yet.
func AppOf(spec manage.AppSpec, old *core.App) core.App { return core.App{} }

// Export writes apps and jobs as a manifest that Parse takes and that means the
// same. What is as the default is left out. Tokens are never in it.
func Export(apps []core.App, jobs []core.Job) ([]byte, error) { return nil, errors.ErrUnsupported }

// FieldChange is one difference, in the notation of the manifest. Old or New is
// empty where the field is not written.
type FieldChange struct{ Path, Old, New string }

// Diff is how new differs from old, by fields in the order of the manifest. A
// nil job is none: all that the other writes is listed.
func Diff(old, new *core.Job) []FieldChange { return nil }

// DiffApp is Diff for apps. Of a token it says only that it changed.
func DiffApp(old, new *core.App) []FieldChange { return nil }

// Schema is the JSON Schema (draft 2020-12) of a manifest.
func Schema() []byte { return nil }
