#!/bin/sh
# Enables and starts the service on a new installation, and restarts it after an upgrade.
set -e
command -v systemctl >/dev/null || exit 0
removed=/var/lib/tickring.removed # from postremove.sh: after "apt remove", dpkg passes the old version here too
new=
case "$1:$2" in
configure: | 1:) new=yes ;; # deb without an old version, or the first rpm
*) [ ! -e "$removed" ] || new=yes ;;
esac
rm -f "$removed"
[ -z "$new" ] || systemctl enable tickring.service
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ -n "$new" ]; then
  systemctl start tickring.service
else
  systemctl try-restart tickring.service
fi
