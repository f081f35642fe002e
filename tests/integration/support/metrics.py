"""Reads a Prometheus page, as a scraper would."""

from __future__ import annotations

import re

_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

Labels = frozenset[tuple[str, str]]


class Metrics:
    """The samples of one scrape."""

    def __init__(self, samples: dict[tuple[str, Labels], float]) -> None:
        self.samples = samples

    def value(self, name: str, **labels: str) -> float:
        """The sum of all samples of `name` that carry these labels; 0 if there are none."""
        wanted = set(labels.items())
        return sum(v for (n, ls), v in self.samples.items() if n == name and wanted <= ls)

    def names(self) -> set[str]:
        return {name for name, _ in self.samples}

    def label_values(self, name: str, label: str) -> set[str]:
        return {v for n, ls in self.samples for k, v in ls if n == name and k == label}


def parse_metrics(page: str) -> Metrics:
    samples: dict[tuple[str, Labels], float] = {}
    for line in page.splitlines():
        if not line or line.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            raise AssertionError(f"not a sample: {line!r}")
        name, labels, value = match.groups()
        key = (name, frozenset(_LABEL.findall(labels or "")))
        if key in samples:
            raise AssertionError(f"the same sample twice: {line!r}")
        samples[key] = float(value)
    return Metrics(samples)
