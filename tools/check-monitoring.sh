#!/usr/bin/env bash
# The alert rules of docs/monitoring, by promtool: their form, their tests, and the form of
# what the dashboard asks. That what they name is exposed is a test of package server.
set -euo pipefail
cd "$(dirname "$0")/../docs/monitoring"

promtool check rules alerts.yaml
promtool test rules alerts_test.yaml
asked=$(mktemp --suffix .json)
trap 'rm -f "$asked"' EXIT
python3 - >"$asked" <<'PY'
import json
def targets(panels):
    for p in panels:
        yield from (t["expr"] for t in p.get("targets", []) if "expr" in t)
        yield from targets(p.get("panels", []))
rules = []
for expr in targets(json.load(open("grafana.json"))["panels"]):
    for name, value in {"$__rate_interval": "5m", "$__range": "1h", "$app": ".*"}.items():
        expr = expr.replace(name, value)
    rules.append({"record": f"dashboard:{len(rules)}", "expr": expr})
assert len(rules) > 10, rules
print(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
PY
promtool check rules "$asked"
