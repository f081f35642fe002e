# Starts and stops a belfryd that goes on after the script has ended. POSIX sh; to be sourced after common.sh.
# shellcheck shell=sh

# server_pid DATA: the process that serves from the folder DATA; fails if there is none. The kernel forgets a process and
# reuses its number, so the number in the lock file counts only if a belfryd that was given this folder has it.
server_pid() {
  _pid=$(cat "$1/run/lock" 2>/dev/null) && [ -n "$_pid" ] || return 1
  case $_pid in *[!0-9]*) return 1 ;; esac
  _program=$(readlink "/proc/$_pid/exe" 2>/dev/null) || return 1
  case $_program in
    */belfryd | */belfryd' (deleted)') ;;
    *) return 1 ;;
  esac
  # cat, as a shell itself would complain of a process that ended just now.
  cat "/proc/$_pid/cmdline" 2>/dev/null | tr '\0' '\n' | grep -qxF -e "$1" -e "--data-dir=$1" || return 1
  echo "$_pid"
}

# address_of DATA LISTENER: as the running server wrote it; LISTENER is inference, admin or metrics.
address_of() { sed -n "s/.*\"$2\" *: *\"\\([^\"]*\\)\".*/\\1/p" "$1/run/addresses.json"; }

# start_server DATA LOG PROGRAM ARGUMENT...: returns when it listens. On failure START_PROBLEM says why.
start_server() {
  _data=$1 _log=$2
  shift 2
  mkdir -p "$(dirname "$_log")"
  : >"$_log"
  # A session of its own, so that neither the end of this script nor of its terminal ends the server.
  _detach=
  if have setsid; then _detach=setsid; fi
  # shellcheck disable=SC2086
  $_detach nohup "$@" >>"$_log" 2>&1 </dev/null &
  _started=$!
  _end=$(($(date +%s) + 120))
  while :; do
    if _pid=$(server_pid "$_data") && [ -f "$_data/run/addresses.json" ]; then return 0; fi
    if ! kill -0 "$_started" 2>/dev/null && ! server_pid "$_data" >/dev/null; then
      START_PROBLEM=$(tail -n 1 "$_log")
      [ -n "$START_PROBLEM" ] || START_PROBLEM="it ended without a word"
      return 1
    fi
    if [ "$(date +%s)" -ge "$_end" ]; then
      START_PROBLEM="no word from it in 120 s; see $_log"
      return 1
    fi
    sleep 0.1 2>/dev/null || sleep 1
  done
}

# stop_server DATA: asks the server of that folder to finish what it accepted and waits for its end; nothing to do if there
# is none. On failure STOP_PROBLEM says why.
stop_server() {
  _pid=$(server_pid "$1") || return 0
  say "stopping belfryd, process $_pid"
  kill -TERM "$_pid" 2>/dev/null || :
  _wait_for_end "$1" 60 && return 0
  say "it did not finish in 60 s; ending it at once"
  kill -TERM "$_pid" 2>/dev/null || : # the second signal is the fast one
  _wait_for_end "$1" 10 && return 0
  kill -KILL "$_pid" 2>/dev/null || :
  _wait_for_end "$1" 10 && return 0
  STOP_PROBLEM="process $_pid of an earlier run does not end"
  return 1
}

_wait_for_end() {
  _until=$(($(date +%s) + $2))
  while server_pid "$1" >/dev/null; do
    [ "$(date +%s)" -lt "$_until" ] || return 1
    sleep 0.1 2>/dev/null || sleep 1
  done
}
