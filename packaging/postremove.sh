#!/bin/sh
# Data and the key of stored secrets stay in /var/lib/private.
set -e
case "$1" in
remove) : >/var/lib/tickring.removed ;;
purge) rm -f /var/lib/tickring.removed ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
