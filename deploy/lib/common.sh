# Shared by the scripts of this folder and by tests/run.sh. POSIX sh; to be sourced.
# shellcheck shell=sh

# One line about what goes on.
say() { printf '%s\n' "$*"; }

# One line about what is missing, and the end.
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

_step_pid=
# An interrupted script takes along what it started.
_step_interrupted() {
  [ -z "$_step_pid" ] || kill "$_step_pid" 2>/dev/null
  printf '%s: interrupted\n' "${0##*/}" >&2
  exit 130
}
trap _step_interrupted INT TERM HUP

# step TITLE LOG COMMAND...: runs the command with its output in the file LOG. Shows every ten seconds that it still
# goes on, and at what. If it fails, shows the end of LOG (not if STEP_QUIET is set) and returns its exit code.
step() {
  _title=$1 _log=$2
  shift 2
  say "$_title"
  mkdir -p "$(dirname "$_log")" || return 1
  _start=$(date +%s) _told=0
  "$@" >"$_log" 2>&1 </dev/null &
  _step_pid=$!
  while kill -0 "$_step_pid" 2>/dev/null; do
    sleep 0.2 2>/dev/null || sleep 1
    _past=$(($(date +%s) - _start))
    if [ "$_past" -ge $((_told + 10)) ]; then
      _told=$_past
      say "  $_past s  $(tail -n 1 "$_log" | tr -cd '[:print:]' | cut -c 1-100)"
    fi
  done
  wait "$_step_pid" && _code=0 || _code=$?
  _step_pid=
  if [ "$_code" -ne 0 ] && [ -z "${STEP_QUIET:-}" ]; then
    {
      say "---- the end of $_log"
      tail -n 25 "$_log"
      say "----"
    } >&2
  fi
  return "$_code"
}
