#!/bin/sh
# Fails if the documentation or a translation key breaks a rule of .vale/styles/Tickring, or if the comments
# of a package break more rules than .vale/comments allows. Needs Go and a C compiler, and no network.
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

vale() { # files: one line for each finding, path:line:column:rule:message
	CGO_ENABLED=1 go tool -modfile=tools/vale/go.mod vale --no-global --no-exit --output=line "$@"
}

vale $(git ls-files '*.md' '*.po') >"$work/texts"
vale $(git grep -L '^// Code generated' -- '*.go') >"$work/comments"
sed '/^#/d' .vale/comments >"$work/allowed"

awk -F: '
	FILENAME == ARGV[1] { split($0, f, " "); allowed[f[2]] = f[1]; next }
	{ dir = $1; sub("/?[^/]*$", "", dir); found[dir]++; lines[dir] = lines[dir] $0 "\n" }
	END {
		for (dir in found) if (found[dir] > allowed[dir] + 0) {
			printf "%s%s: %d findings in comments, .vale/comments allows %d\n", lines[dir], dir, found[dir], allowed[dir]
			bad = 1
		}
		for (dir in allowed) if (found[dir] + 0 < allowed[dir])
			printf "%s: %d findings in comments: lower the %d in .vale/comments\n", dir, found[dir], allowed[dir]
		exit bad
	}' "$work/allowed" "$work/comments" || bad=1
cat "$work/texts"
[ -z "${bad:-}" ] && [ ! -s "$work/texts" ]
