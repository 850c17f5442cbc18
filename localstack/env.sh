# What the scripts beside share; they source it. The state of an emulator, its
# programs and its log are in one folder.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
state=${TICKRING_STATE:-$here/.state}
port=${TICKRING_EMULATOR_PORT:-4566}
urlport=${TICKRING_URL_PORT:-$((port + 1))} # where test/urlproxy has the function URL of the stack
emulator=${TICKRING_EMULATOR:-ministack} # or localstack, or localstack-docker
case $emulator in
ministack | localstack | localstack-docker) ;;
*)
  echo "TICKRING_EMULATOR=$emulator: ministack, localstack and localstack-docker are allowed" >&2
  exit 2
  ;;
esac
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1
export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ENDPOINT_URL_S3=http://127.0.0.1:$port EDGE_PORT=$port
export CI=true CDK_DISABLE_CLI_TELEMETRY=true JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=1
stack=Tickring

cdk() { (cd "$root/infra" && "$state/node_modules/.bin/cdklocal" "$@"); }
