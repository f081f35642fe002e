"""Waits until the models can be asked, and tells meanwhile how far they are."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from replaying.facts import CommandLine, state_of
from sample.problem import Problem

POLL_SECONDS = 0.5
_COUNT = re.compile(r"\s*\d+/\d+")
TELL_SECONDS = 15.0  # a line at least this often, so that a log shows that something goes on


def wait(
    address: str, command: CommandLine | None, names: Sequence[str], seconds: float, say: Callable[[str], None]
) -> None:
    """Returns when all are READY. A Problem says which is not: FAILED at once, anything else after the given time."""
    import tritonclient.grpc as grpc

    end = time.monotonic() + seconds
    client = grpc.InferenceServerClient(address)
    told: dict[str, str] = {}
    last = time.monotonic()
    try:
        while True:
            missing = [name for name in names if not _ready(client, name)]
            states = _states(command)
            for name in names:
                line = "READY" if name not in missing else _line(states.get(name))
                # Counts within a stage ("10/24") change all the time: a new stage is news, a count is not.
                news = _COUNT.sub("", line)
                if told.get(name, "READY" if seconds == 0 else "") != news:
                    say(f"{name}: {line}")
                    told[name] = news
                    last = time.monotonic()
            failed = {n: s for n in missing if (s := states.get(n)) and state_of(s) == "FAILED"}
            if failed:
                name, state = next(iter(failed.items()))
                raise Problem(f"model {name} FAILED: {' '.join(str(state.get('reason', '')).split())[:500]}")
            if not missing:
                return
            if time.monotonic() >= end:
                raise Problem(
                    f"not READY at {address}: {', '.join(missing)}" + (f" after {seconds:g} s" if seconds else "")
                )
            if time.monotonic() - last >= TELL_SECONDS:
                say("; ".join(f"{name}: {_line(states.get(name))}" for name in missing))
                last = time.monotonic()
            time.sleep(POLL_SECONDS)
    finally:
        client.close()


def _ready(client: Any, name: str) -> bool:
    try:
        return bool(client.is_model_ready(name, client_timeout=5))
    except Exception:  # not reachable, not known, not READY: all the same here
        return False


def _states(command: CommandLine | None) -> dict[str, dict[str, Any]]:
    """The newest version of each model, by name; empty while the server does not answer."""
    if command is None:
        return {}
    try:
        return {str(v.get("name", v.get("model", ""))): v for v in command.models()}
    except Problem:
        return {}


def _line(summary: dict[str, Any] | None) -> str:
    if summary is None:
        return "not there yet"
    progress = summary.get("progress") or {}
    stage = str(progress.get("stage", ""))
    state = state_of(summary)
    return state + (f", {stage}" if stage and stage != state.lower() else "")
