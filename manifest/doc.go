// Package manifest reads and writes the file that `tickring apply` takes: YAML
// (or JSON, which is YAML) in, the specs of package manage out, and back. Every
// error has a position, a path, and says what is allowed. It talks to nobody:
// files and the environment are read through [Options].
//
// One table (table.go) names every field with its kind, bounds, words and
// whether it comes later. The parser, the nearest-name hints, [Export], [Diff]
// and the JSON [Schema] all follow it, so they cannot drift apart.
package manifest
