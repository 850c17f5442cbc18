#!/usr/bin/env bash
# Fetches DynamoDB Local and ElasticMQ from Maven Central and starts both on the
# loopback interface: start.sh FOLDER [DYNAMODB-PORT SQS-PORT]. Their logs, jars
# and process numbers are in FOLDER; stop.sh FOLDER ends them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:?start.sh FOLDER [DYNAMODB-PORT SQS-PORT]}
dynamodb=${2:-8801} sqs=${3:-9801}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
for profile in dynamodb sqs; do
  [ -f "$dir/$profile/done" ] && continue
  mvn -q -B -f "$here/pom.xml" -P "$profile" dependency:copy-dependencies -DoutputDirectory="$dir/$profile" >&2
  touch "$dir/$profile/done"
done
javac -cp "$dir/dynamodb/*" -d "$dir/classes" "$here/Loopback.java"
cat >"$dir/elasticmq.conf" <<CONF
include classpath("application.conf")
node-address { protocol = http, host = "127.0.0.1", port = $sqs, context-path = "" }
rest-sqs { enabled = true, bind-hostname = "127.0.0.1", bind-port = $sqs, sqs-limits = strict }
rest-stats { enabled = false }
CONF
nohup java -Xmx512m -XX:TieredStopAtLevel=1 -Djava.library.path="$dir/dynamodb" -cp "$dir/classes:$dir/dynamodb/*" \
  Loopback -inMemory -disableTelemetry -port "$dynamodb" >"$dir/dynamodb.log" 2>&1 &
echo $! >"$dir/dynamodb.pid"
nohup java -Xmx256m -XX:TieredStopAtLevel=1 -Dconfig.file="$dir/elasticmq.conf" -cp "$dir/sqs/*" org.elasticmq.server.Main >"$dir/sqs.log" 2>&1 &
echo $! >"$dir/sqs.pid"
for _ in $(seq 600); do
  kill -0 "$(cat "$dir/dynamodb.pid")" && kill -0 "$(cat "$dir/sqs.pid")" || break
  if (: <"/dev/tcp/127.0.0.1/$dynamodb") 2>/dev/null && (: <"/dev/tcp/127.0.0.1/$sqs") 2>/dev/null; then
    echo "TICKRING_TEST_DYNAMODB=http://127.0.0.1:$dynamodb TICKRING_TEST_SQS=http://127.0.0.1:$sqs"
    exit 0
  fi
  sleep 0.2
done
echo "the stand-ins did not start: $dir/dynamodb.log, $dir/sqs.log" >&2
exit 1
