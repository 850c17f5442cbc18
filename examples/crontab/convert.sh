#!/bin/sh
# Writes jobs.yaml with a job for each line of the crontab of a user, as in docs/tutorial/replace-a-crontab.md. Keeps a copy of
# the crontab in USER.crontab.
user=${1:?usage: convert.sh USER}
zone=${zone:-$(readlink -f /etc/localtime | sed -n 's:.*/zoneinfo/::p')}
crontab -u "$user" -l >"$user.crontab" && {
  [ -n "$zone" ] || { echo "/etc/localtime is not a link to a time zone: set the shell variable zone, such as zone=Europe/Berlin" >&2; false; }
} && {
cat <<END
version: 1
set: cron
defaults: {timezone: $zone, waitForExecutor: 10m}
apps:
  - {name: cron, token: {env: TICKRING_APP_TOKEN}}
jobs:
END
awk '
  /^[ \t]*CRON_TZ[ \t]*=/ {
    print "line " NR " sets CRON_TZ: leave it out, and give the jobs of the lines below it a timezone in their schedule" >"/dev/stderr"
    exit 1
  }
  /^[ \t]*MAILTO[ \t]*=/ {
    print "line " NR " sets MAILTO: for email about failures, add an email channel and notify: {to: [mail]}" >"/dev/stderr"
  }
  /^[ \t]*(#|$)/ { next }
  /^[ \t]*[A-Za-z_][A-Za-z_0-9]*[ \t]*=/ {
    split($0, part, /[ \t]*=/)
    sub(/^[ \t]*/, "", part[1])
    to["SHELL"] = "ExecStart= of the unit, in place of /bin/sh"
    to["HOME"] = "Environment= and WorkingDirectory= of the unit"
    if (part[1] != "MAILTO") print "line " NR " sets " part[1] ": put it into " (part[1] in to ? to[part[1]] : "Environment= of the unit") >"/dev/stderr"
    next
  }
  {
    n = /^[ \t]*@/ ? 1 : 5
    when = $1
    for (i = 2; i <= n; i++) when = when " " $i
    for (i = 1; i <= n; i++) sub(/^[ \t]*[^ \t]+[ \t]*/, "")
    if (/(^|[^\\])%/) {
      print "line " NR " has input after a %: use a here-document or a file for the input, and write other percent signs as \\%" >"/dev/stderr"
      exit 1
    }
    gsub(/\\%/, "%")
    gsub(/\047/, "&&")
    printf "  - {app: cron, name: line-%d, handler: sh, params: \047%s\047, schedule: {crontab: \"%s\"}}\n", NR, $0, when
  }' "$user.crontab"
} >jobs.yaml || { rm -f jobs.yaml; echo "no jobs.yaml was written" >&2; exit 1; }
