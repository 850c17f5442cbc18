#!/usr/bin/env bash
# Fetches axe-core (npm) for what test/browser asks of each page: fetch.sh FOLDER.
# It prints the variable by which the suite finds it. Needs npm and tar.
set -euo pipefail
dir=${1:?fetch.sh FOLDER}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
version=4.14.1
[ -f "$dir/axe-core-$version/axe.min.js" ] || {
  (cd "$dir" && npm pack --silent "axe-core@$version" >&2)
  mkdir -p "$dir/axe-core-$version"
  tar xzf "$dir/axe-core-$version.tgz" -C "$dir/axe-core-$version" --strip-components 1
}
echo "TICKRING_TEST_AXE=$dir/axe-core-$version"
