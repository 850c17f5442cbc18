#!/bin/sh
# Fails when generated code differs from what its sources give. CI runs it.
set -eu
cd "$(dirname "$0")/.."
generated="api/gen.go api/client/models.go"
before=$(cat $generated | sha256sum)
go generate ./api
if [ "$before" != "$(cat $generated | sha256sum)" ]; then
	echo "generated code was stale, and is fresh now: commit $generated" >&2
	exit 1
fi
