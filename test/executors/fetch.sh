#!/usr/bin/env bash
# Fetches executors of other projects, in Java (Maven Central) and Python (PyPI), for the matrix in test/wire and for examples:
# fetch.sh FOLDER. It prints the variable by which the tests find them. Needs mvn, javac and python3 with venv.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../examples
dir=${1:?fetch.sh FOLDER}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
for v in xxl-2.2.0 xxl-2.3.1 xxl-2.4.2 xxl-3.3.2; do
  [ -f "$dir/$v/done" ] ||
    mvn -q -B -f "$examples/java/pom.xml" -Dxxl-job.version="${v#xxl-}" dependency:copy-dependencies -DoutputDirectory="$dir/$v" >&2
  touch "$dir/$v/done"
  if [ "$v" = xxl-2.2.0 ]; then # its handlers are of another form
    javac -cp "$dir/$v/*" -d "$dir/$v/classes" "$here/Executor22.java"
    continue
  fi
  javac -cp "$dir/$v/*" -d "$dir/$v/classes" "$here/Executor.java" "$examples/java/App.java"
done
[ -f "$dir/python/done" ] || {
  python3 -m venv "$dir/python" && "$dir/python/bin/pip" install -q --disable-pip-version-check -r "$examples/python/requirements.txt" >&2
}
touch "$dir/python/done"
echo "TICKRING_TEST_EXECUTORS=$dir"
