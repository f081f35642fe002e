"""Progress for machines on stdout, one JSON object a line; words for people go to stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

STAGES = ("load", "export", "inductor", "build", "numerics", "rows", "package")


class Progress:
    """Counts the seconds of each stage and tells when one begins. One compile, one thread."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out
        self._begin = time.monotonic()
        self._stages: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begin

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if name not in STAGES:
            raise ValueError(f"unknown stage {name!r}")
        self.say({"stage": name, "seconds": round(self.seconds, 3)})
        begin = time.monotonic()
        try:
            yield
        finally:
            self._stages[name] = self._stages.get(name, 0.0) + time.monotonic() - begin

    def say(self, message: dict[str, Any]) -> None:
        out = self._out if self._out is not None else sys.stdout
        out.write(json.dumps(message, ensure_ascii=True) + "\n")
        out.flush()

    def report(self) -> list[dict[str, Any]]:
        return [{"name": name, "seconds": round(seconds, 3)} for name, seconds in self._stages.items()]
