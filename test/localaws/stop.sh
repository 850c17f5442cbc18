#!/usr/bin/env bash
# Ends what start.sh started: stop.sh FOLDER.
for f in "${1:?stop.sh FOLDER}"/*.pid; do
  [ -f "$f" ] && kill "$(cat "$f")" 2>/dev/null
  rm -f "$f"
done
exit 0
