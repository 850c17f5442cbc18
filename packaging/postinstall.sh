#!/bin/sh
# Enables and starts the service on a new installation, and restarts it after an upgrade.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
case "$1:$2" in
configure: | 1:) # new: deb without an old version, or the first rpm
  systemctl enable --now tickring.service
  ;;
configure:* | 2:)
  systemctl try-restart tickring.service
  ;;
esac
