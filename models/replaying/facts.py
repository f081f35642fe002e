"""What the server tells of itself: its metrics page, and the command-line client where there is one."""

import json
import math
import re
import shutil
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sample.problem import Problem

_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """One scrape. Text format 0.0.4."""

    def __init__(self, text: str) -> None:
        self._samples: dict[str, list[tuple[dict[str, str], float]]] = {}
        for line in text.splitlines():
            found = _SAMPLE.match(line)
            if found is None:
                continue
            name, labels, value = found.groups()
            parsed = {
                key: _ESCAPE.sub(lambda m: "\n" if m[1] == "n" else m[1], text)
                for key, text in _LABEL.findall(labels or "")
            }
            self._samples.setdefault(name, []).append((parsed, float(value)))

    @classmethod
    def scrape(cls, address: str) -> "Metrics":
        url = f"http://{address}/metrics"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy never reaches this host
        try:
            with opener.open(url, timeout=10) as answer:
                return cls(answer.read().decode("utf-8", "replace"))
        except OSError as error:
            raise Problem(f"no metrics at {url}: {error}") from None

    def has(self, name: str) -> bool:
        return name in self._samples

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series of that name with those labels."""
        return math.fsum(v for got, v in self._samples.get(name, []) if labels.items() <= got.items())

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """The sums by the values of one label."""
        sums: dict[str, float] = {}
        for got, value in self._samples.get(name, []):
            if labels.items() <= got.items() and label in got:
                sums[got[label]] = sums.get(got[label], 0.0) + value
        return sums


@dataclass
class Load:
    """What the server did for one model between two scrapes."""

    batches: float = 0.0
    rows: float = 0.0
    rows_by_card: dict[str, float] | None = None  # None: this server does not tell

    @classmethod
    def between(cls, before: Metrics, after: Metrics, model: str) -> "Load":
        def grown(name: str) -> float:
            return after.total(name, model=model) - before.total(name, model=model)

        by_card = None
        if after.has("belfry_card_rows_total"):
            old = before.by("belfry_card_rows_total", "card", model=model)
            new = after.by("belfry_card_rows_total", "card", model=model)
            by_card = {card: new[card] - old.get(card, 0.0) for card in sorted(new)}
        return cls(grown("belfry_batch_rows_count"), grown("belfry_batch_rows_sum"), by_card)

    @property
    def mean_batch(self) -> float | None:
        return self.rows / self.batches if self.batches else None


@dataclass
class Compile:
    """How a version came to its artifact; all None for a built-in model and where the client is missing."""

    seconds: float | None = None
    cache_hit: bool | None = None
    targets: list[str] = field(default_factory=list)


class CommandLine:
    """The `belfry` client, spoken to by its JSON."""

    def __init__(self, binary: str, admin: str) -> None:
        self._binary, self._admin = binary, admin

    @classmethod
    def find(cls, given: str | None, admin: str) -> "CommandLine | None":
        """The given binary, which must be there; else the one built beside this folder, else the one on the path."""
        if given is not None:
            if shutil.which(given) is None:
                raise Problem(f"there is no program {given}")
            return cls(given, admin)
        built = Path(__file__).resolve().parents[2] / "build" / "bin" / "belfry"
        found = shutil.which(str(built)) or shutil.which("belfry")
        return cls(found, admin) if found else None

    def _json(self, *words: str) -> Any:
        command = [self._binary, "--admin", self._admin, *words, "--json"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Problem(f"{self._binary}: {error}") from None
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise Problem(f"belfry {' '.join(words)}: exit code {done.returncode}: {last}")
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise Problem(f"belfry {' '.join(words)} --json printed no JSON: {error}") from None

    def models(self) -> list[dict[str, Any]]:
        return versions_of(self._json("models"))

    def compile(self, model: str) -> Compile:
        """Of the version that is READY; of the newest if none is."""
        versions = versions_of(self._json("show", model))
        ready = [v for v in versions if state_of(v.get("summary", v)) == "READY"] or versions
        artifacts = ready[-1].get("artifacts", []) if ready else []
        if not artifacts:
            return Compile()
        return Compile(
            seconds=sum(float(a.get("compile_seconds", 0)) for a in artifacts),
            cache_hit=all(bool(a.get("cache_hit", False)) for a in artifacts),
            targets=[str(a.get("target", "")) for a in artifacts],
        )


def versions_of(answer: Any) -> list[dict[str, Any]]:
    """The list of versions in an answer, which is the list itself or an object around it."""
    versions = answer.get("versions", []) if isinstance(answer, dict) else answer
    if not isinstance(versions, list) or not all(isinstance(v, dict) for v in versions):
        raise Problem("belfry printed something else than a list of versions")
    return versions


def state_of(summary: dict[str, Any]) -> str:
    return str(summary.get("state", "")).removeprefix("VERSION_STATE_")
