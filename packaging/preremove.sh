#!/bin/sh
# Stops the service before the package is removed, not before an upgrade.
set -e
[ -d /run/systemd/system ] || exit 0
case "$1" in
remove | 0) systemctl disable --now tickring.service ;;
esac
