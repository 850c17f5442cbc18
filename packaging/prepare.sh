#!/bin/sh
# Builds what packages contain besides the binary, into bin/: man pages, completions, and the tool
# that writes the SBOM.
set -e
cd "$(dirname "$0")/.."
rm -rf bin/man bin/completions
mkdir -p bin/completions
CGO_ENABLED=0 go build -trimpath -ldflags "-X main.release=${1:-}" -o bin/tickring ./cmd/tickring
bin/tickring man bin/man
bin/tickring completion bash >bin/completions/tickring.bash
bin/tickring completion zsh >bin/completions/_tickring
bin/tickring completion fish >bin/completions/tickring.fish
go build -modfile=tools/release/go.mod -o bin/cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
