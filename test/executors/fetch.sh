#!/usr/bin/env bash
# Fetches executors that others wrote, in Java (Maven Central) and Python (PyPI),
# for the matrix in test/wire: fetch.sh FOLDER. It prints the variable by which
# the matrix finds them. Needs mvn, javac and python3 with venv.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?fetch.sh FOLDER}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
for v in xxl-2.2.0 xxl-2.3.1 xxl-2.4.2 xxl-3.3.2; do
  [ -f "$dir/$v/done" ] ||
    mvn -q -B -f "$here/pom.xml" -P "$v" dependency:copy-dependencies -DoutputDirectory="$dir/$v" >&2
  touch "$dir/$v/done"
  if [ "$v" = xxl-2.2.0 ]; then # its handlers are of another form
    javac -cp "$dir/$v/*" -d "$dir/$v/classes" "$here/Executor22.java"
    continue
  fi
  javac -cp "$dir/$v/*" -d "$dir/$v/classes" "$here/Executor.java"
  sed -n "/^import com.xxl.job.core.context/,/^}/p" "$here/../../docs/how-to/connect-xxl-job-executors.md" >"$dir/$v/App.java" # as the page has it
  javac -cp "$dir/$v/*" -d "$dir/$v/classes" "$dir/$v/App.java"
done
[ -f "$dir/python/done" ] || {
  python3 -m venv "$dir/python" && "$dir/python/bin/pip" install -q --disable-pip-version-check pyxxl==0.4.8 >&2
}
touch "$dir/python/done"
echo "TICKRING_TEST_EXECUTORS=$dir"
