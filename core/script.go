package core

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

type ScriptKind string

const (
	ScriptShell      ScriptKind = "shell"
	ScriptPython     ScriptKind = "python"
	ScriptNodeJS     ScriptKind = "nodejs"
	ScriptPHP        ScriptKind = "php"
	ScriptPowerShell ScriptKind = "powershell"
	ScriptGroovy     ScriptKind = "groovy" // only executors in Java run this kind
)

var ScriptKinds = []ScriptKind{ScriptShell, ScriptPython, ScriptNodeJS, ScriptPHP, ScriptPowerShell, ScriptGroovy}

const (
	// MaxScript is the maximum length of a script's source in bytes. A DynamoDB item holds 400 KB, and executors
	// accept 5 MiB of JSON, in which one byte of source takes at most 6 bytes.
	MaxScript = 256 << 10
	MaxNote   = 256 // characters
	// KeepVersions is the number of versions of a job's script that are kept, including the current version. Versions
	// that an open run uses are kept in addition.
	KeepVersions = 30
	// MostVersions is the maximum number of earlier versions of a job's script. Saving another version fails if
	// MostVersions versions must be kept. Versions are kept if open runs use them, or if they are less than an hour
	// old.
	MostVersions = 100
)

// Script describes one version of the script that a job runs instead of a handler. The source is stored in a separate
// record.
type Script struct {
	Kind ScriptKind `json:"kind"`
	Note string     `json:"note,omitempty"`
	// Hash is the SHA-256 of the source, in hex. Size is the length of the source in bytes.
	Hash string `json:"hash"`
	Size int    `json:"size,omitempty"`
	// Version is the number of the version, counted from 1. A change of kind or source creates the next version. A
	// change of the note does not.
	Version int `json:"version,omitempty"`
	// Rev is the job revision that created the version, in milliseconds: glueUpdatetime in the xxl-job protocol.
	Rev int64  `json:"rev,omitempty"`
	By  string `json:"by,omitempty"` // user or client that created the version
}

// ScriptOf returns the Script for a source, without a version.
func ScriptOf(kind ScriptKind, note, source string) *Script {
	return &Script{Kind: kind, Note: note, Hash: HashScript(source), Size: len(source)}
}

// HashScript returns the SHA-256 of a source, in hex.
func HashScript(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])
}

// Equal reports whether two scripts are equal in all fields, such as version and note, or both nil.
func (s *Script) Equal(o *Script) bool { return s == o || s != nil && o != nil && *s == *o }

// Same reports whether two scripts have equal kinds and sources. It returns false if one of them is nil.
func (s *Script) Same(o *Script) bool {
	return s != nil && o != nil && s.Kind == o.Kind && s.Hash == o.Hash
}

// CheckSource returns an error if a source is too long or is not text.
func CheckSource(field, source string) error {
	switch {
	case source == "":
		return Invalid(field, "", "required: the text of the script")
	case len(source) > MaxScript:
		e := Invalid(field, "", "%d bytes; at most %d (256 KB) are allowed", len(source), MaxScript)
		e.Code = CodeTooLarge
		return e
	case strings.IndexByte(source, 0) >= 0:
		return Invalid(field, "", "zero byte at %d: a script must be text; install programs on the executor's machine",
			strings.IndexByte(source, 0))
	case !utf8.ValidString(source):
		return Invalid(field, "", "not UTF-8: the protocol supports only UTF-8")
	}
	return nil
}

func (d *Def) validateScript() error {
	s := d.Script
	if s == nil {
		return nil
	}
	hash, err := hex.DecodeString(s.Hash)
	return cmp.Or(
		oneOf("script.kind", s.Kind, ScriptKinds),
		text("script.note", s.Note, MaxNote),
		when(d.Handler != "", Invalid("handler", d.Handler, "leave this field out: a job has either a handler or a script")),
		when(d.Command != nil, Invalid("command", "", "leave this field out: a job has either a script or a command")),
		when(err != nil || len(hash) != sha256.Size || strings.ToLower(s.Hash) != s.Hash,
			Invalid("script.hash", s.Hash, "expected the SHA-256 of a script source: 64 characters from 0-9 and a-f")),
		when(d.Call != nil, Invalid("call", "", "leave this field out: scripts are not called over HTTP")),
	)
}

// Scripts is the record of the earlier versions of a job's script.
type Scripts struct {
	Job JobID `json:"-"`
	V   int64 `json:"-"` // grows with each write
	// Old lists the earlier versions, oldest first. Old also has the current version if that version is about to be
	// replaced.
	Old []Script `json:"old,omitempty"`
	// Stored maps the hash of each stored source to the time of the source's last write, in milliseconds since 1970.
	// The last write may have failed.
	Stored map[string]int64 `json:"stored,omitempty"`
}

// Clone returns a deep copy of s. Its Stored is never nil.
func (s Scripts) Clone() Scripts {
	stored := make(map[string]int64, len(s.Stored))
	maps.Copy(stored, s.Stored)
	s.Old, s.Stored = slices.Clone(s.Old), stored
	return s
}

// All returns all versions, oldest first. The parameter present is the job's current version, or nil if the job has no
// script.
func (s Scripts) All(present *Script) []Script {
	list := slices.Clone(s.Old)
	if present == nil {
		return list
	}
	if n := len(list); n > 0 && list[n-1].Version == present.Version {
		list = list[:n-1] // its note may have changed since
	}
	return append(list, *present)
}

// Last returns the highest version number in Old; 0 if Old is empty.
func (s Scripts) Last() int {
	if n := len(s.Old); n > 0 {
		return s.Old[n-1].Version
	}
	return 0
}

// Trim removes the oldest versions from Old, but keeps the newest KeepVersions-1 versions. Trim also keeps versions that
// open runs use, and versions that were replaced at or after the parameter since, in milliseconds since 1970. The
// parameter revs lists the job revisions of the open runs.
func (s *Scripts) Trim(since int64, revs []int64) {
	used := map[int]bool{}
	for _, rev := range revs {
		for i := range slices.Backward(s.Old) {
			if s.Old[i].Rev <= rev {
				used[i] = true
				break
			}
		}
	}
	beyond := len(s.Old) - (KeepVersions - 1)
	kept := s.Old[:0:0]
	for i, v := range s.Old {
		if i >= beyond || used[i] || s.Old[i+1].Rev >= since {
			kept = append(kept, v)
		}
	}
	s.Old = kept
}

func (s *Scripts) Trims() bool { return len(s.Old) >= KeepVersions }

// Unnamed returns the hashes of stored sources that no version in Old uses, except the hash in the parameter present. A
// source that was written at or after the parameter before, in milliseconds since 1970, is left out.
func (s *Scripts) Unnamed(before int64, present string) (list []string) {
	for hash, at := range s.Stored {
		if at < before && hash != present && !slices.ContainsFunc(s.Old, func(v Script) bool { return v.Hash == hash }) {
			list = append(list, hash)
		}
	}
	slices.Sort(list)
	return list
}
