// Package manifest reads and writes manifests, the YAML or JSON files of `tickring apply`. It converts a manifest to
// the objects of the API, and back. Every error has a position, a path, and the allowed values. The package sends
// no requests. It reads files and the environment through [Options].
//
// The fields of a job in a manifest are the fields of a job in the API. api/openapi.yaml defines the type, limits and
// values of each field, and whether a later version supports the field. The components in api/openapi.yaml whose names
// begin with Manifest define the format. The parser, the hints about misspelled names, [Export], the differences and
// the JSON [Schema] use these components.
package manifest

import "github.com/tickring/tickring/api/client"

// Limits of a manifest.
const (
	MaxFile = 32 << 20 // maximum size of one file in bytes
	// MaxDocument is the maximum size of one document in a file, in bytes; reading a document takes up to 100 times
	// this size in memory.
	MaxDocument = 4 << 20
	MaxJobs     = 100_000 // maximum number of jobs in all files together
	MaxApps     = 10_000  // maximum number of apps in all files together
	MaxErrors   = 50      // maximum number of errors that are reported at once
)

// Pos is a position in a file. Lines and columns are counted from 1. A column is a number of characters.
type Pos struct {
	File         string
	Line, Column int
}

// Document is the content of one or more manifests, as the API takes it. Missing fields of a job are filled in from its
// app and from `defaults`. The set of each object is the set of the document.
type Document struct {
	Set string
	// Notify sets the recipients of notifications that belong to no job. The value is the field `notify` under
	// `defaults`, if this field has a `to` or is empty. If several documents have the field, the first document
	// applies. nil: not set.
	Notify   *client.Notify
	NotifyAt Pos
	Channels []client.ChannelSpec
	Apps     []client.AppSpec
	Jobs     []client.JobSpec
	// ChannelsAt, AppsAt and JobsAt have the positions of the objects.
	ChannelsAt, AppsAt, JobsAt []Pos
	// Warnings are problems that are not errors, such as a secret in plain text.
	Warnings []*Error
}

// Options has the functions with which the parser reads external data. A nil function finds nothing.
type Options struct {
	// Getenv returns the environment variable of a secret that is written as {env: NAME}. Its results are
	// the results of os.LookupEnv.
	Getenv func(name string) (string, bool)
	// ReadFile reads the file of a secret that is written as {file: PATH}, or the file of a script. Load first
	// makes a relative path relative to the manifest's directory.
	ReadFile func(path string) ([]byte, error)
	// Parameter reads the SSM parameter of a secret that is written as {ssm: NAME}.
	Parameter func(name string) (string, error)
	// Small limits the memory for a manifest with one job, for example from a form of the console. The limits
	// are 40,000 lines and symbols, and aliases that expand to at most 1 MB. Without Small, only aliases are
	// limited, to 32 MB.
	Small bool
}
