#!/bin/sh
# snapshot.sh [--one]: builds the packages of the checked-out commit into dist/, for all
# targets or for Linux on amd64 only, without a tag and without publishing.
set -e
cd "$(dirname "$0")/.."
config=.goreleaser.yaml
TICKRING_COMMIT=$(git rev-parse HEAD)
export TICKRING_COMMIT
goreleaser() { go tool -modfile=tools/release/go.mod goreleaser "$@"; }
case "${1-}" in
'') goreleaser release --snapshot --clean ;;
--one)
  goreleaser check
  mkdir -p bin
  sed '/^ *- darwin$/d; /^ *- windows$/d; /^ *- arm64$/d' $config >bin/goreleaser.yaml
  goreleaser release --snapshot --clean --skip=homebrew --config bin/goreleaser.yaml
  ;;
*)
  echo "usage: snapshot.sh [--one]" >&2
  exit 2
  ;;
esac
