"""The outcome of a replay: one row a model, as a table for people or as JSON."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Row:
    model: str
    requests: int = 0  # answered and failed
    errors: int = 0
    p50: float | None = None  # seconds, seen by the client
    p99: float | None = None
    rows_per_second: float | None = None
    mean_batch: float | None = None
    rows_by_card: dict[str, float] | None = None
    compile_seconds: float | None = None
    cache_hit: bool | None = None
    max_error: float | None = None  # against eager
    quality: str = ""  # "AUC 0.9855 (0.9855)"
    quality_value: float | None = None
    eager_value: float | None = None
    faults: list[str] = field(default_factory=list)  # why this row is not good

    def as_json(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "requests": self.requests,
            "errors": self.errors,
            "p50_seconds": self.p50,
            "p99_seconds": self.p99,
            "rows_per_second": self.rows_per_second,
            "mean_batch_rows": self.mean_batch,
            "rows_by_card": self.rows_by_card,
            "compile_seconds": self.compile_seconds,
            "cache_hit": self.cache_hit,
            # JSON knows no infinity.
            "max_error": self.max_error if self.max_error is None or math.isfinite(self.max_error) else "infinite",
            "quality": self.quality,
            "quality_value": self.quality_value,
            "quality_eager": self.eager_value,
            "faults": self.faults,
        }


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least `share` of the values do not exceed."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _number(value: float | None, digits: int, scale: float = 1.0) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"


def _error(value: float | None) -> str:
    if value is None:
        return "-"
    return "none" if value == 0 else f"{value:.1e}" if math.isfinite(value) else "wrong"


def _cards(value: dict[str, float] | None) -> str:
    return "-" if value is None else "/".join(f"{rows:.0f}" for rows in value.values()) or "none"


def _cache(row: Row) -> str:
    return "-" if row.cache_hit is None else "hit" if row.cache_hit else "miss"


# Title, whether numbers (right-aligned), text of a row.
COLUMNS = (
    ("model", False, lambda r: r.model),
    ("requests", True, lambda r: str(r.requests)),
    ("errors", True, lambda r: str(r.errors)),
    ("p50 ms", True, lambda r: _number(r.p50, 2, 1e3)),
    ("p99 ms", True, lambda r: _number(r.p99, 2, 1e3)),
    ("rows/s", True, lambda r: _number(r.rows_per_second, 0)),
    ("batch", True, lambda r: _number(r.mean_batch, 1)),
    ("rows per card", False, lambda r: _cards(r.rows_by_card)),
    ("compile", True, lambda r: "-" if r.compile_seconds is None else f"{r.compile_seconds:.1f} s"),
    ("cache", False, _cache),
    ("error", True, lambda r: _error(r.max_error)),
    ("quality (eager)", False, lambda r: r.quality),
)


def table(rows: Sequence[Row]) -> str:
    """Plain text; every row of it as wide as its content needs."""
    cells = [[title for title, _, _ in COLUMNS], *([text(row) for _, _, text in COLUMNS] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]

    def line(texts: Sequence[str]) -> str:
        parts = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, (_, right, _) in zip(texts, widths, COLUMNS, strict=True)
        ]
        return "  ".join(parts).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([line(cells[0]), rule, *(line(c) for c in cells[1:])])


def legend(rows: Sequence[Row]) -> str:
    cards = next(("/".join(row.rows_by_card) for row in rows if row.rows_by_card), "")
    return (
        "p50, p99: seen by the clients. batch: mean rows of one execution."
        + (f" Cards: {cards}." if cards else "")
        + "\nerror: largest difference from eager, golden cases included. "
        "cache: whether the artifact was there when the server started."
    )
