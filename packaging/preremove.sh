#!/bin/sh
# Stops and disables the service before the package is removed, not before an upgrade.
set -e
command -v systemctl >/dev/null || exit 0
case "$1" in
remove | 0)
  [ ! -d /run/systemd/system ] || systemctl stop tickring.service
  systemctl disable tickring.service
  ;;
esac
