"""The compile options, as belfryd makes them of a model.yaml. The format is specified in compiler/README.md."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from belfry_compiler.errors import CompilerError

# torch has no float precision below which a declared tolerance makes sense.
_PRECISIONS = ("float32",)
_MAX_AXIS = 11  # BELFRY_DRIVER_MAX_RANK - 1
_MAX_SIZE = 2**62


@dataclass(frozen=True)
class Options:
    """Checked compile options; every field has a default."""

    batch_axis: dict[str, int] = field(default_factory=dict)  # tensor -> axis
    buckets: dict[str, list[int]] = field(default_factory=dict)  # symbol -> ascending sizes
    pad: dict[str, float] = field(default_factory=dict)  # input -> value
    output_names: list[str] = field(default_factory=list)
    precision: str = "float32"
    rtol: float | None = None
    atol: float | None = None
    deterministic: bool = False
    max_batch: int = 0
    batch_buckets: list[int] = field(default_factory=list)

    def canonical(self) -> dict[str, Any]:
        """The fields that differ from their default, and always the precision."""
        values: dict[str, Any] = {"precision": self.precision}
        for name in ("batch_axis", "buckets", "pad", "output_names", "deterministic", "max_batch", "batch_buckets"):
            value = getattr(self, name)
            if value:
                values[name] = value
        for name in ("rtol", "atol"):
            if getattr(self, name) is not None:
                values[name] = getattr(self, name)
        return values


def parse_options(text: str) -> Options:
    """Any text gives Options or one CompilerError that names every fault."""
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise CompilerError("bad_options", f"the options are not JSON: {error}") from None
    return options_from(raw)


def options_from(raw: Any) -> Options:
    if not isinstance(raw, dict):
        raise CompilerError("bad_options", f"the options are {_kind(raw)}, expected an object")
    reader = _Reader(raw)
    options = Options(
        batch_axis=reader.mapping("batch_axis", reader.axis),
        buckets=reader.mapping("buckets", reader.sizes),
        pad=reader.mapping("pad", reader.number),
        output_names=reader.names("output_names"),
        precision=reader.precision(),
        rtol=reader.tolerance("rtol"),
        atol=reader.tolerance("atol"),
        deterministic=reader.boolean("deterministic"),
        max_batch=reader.max_batch(),
        batch_buckets=reader.sizes("batch_buckets", raw["batch_buckets"]) if "batch_buckets" in raw else [],
    )
    reader.finish()
    return options


class _Reader:
    """Reads fields one by one and collects what is wrong with them."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._raw = raw
        self._faults: list[str] = []

    def finish(self) -> None:
        unknown = sorted(set(self._raw) - set(Options.__dataclass_fields__))
        for name in unknown:
            known = ", ".join(sorted(Options.__dataclass_fields__))
            self._faults.append(f"unknown option {name!r}, expected one of {known}")
        if self._faults:
            raise CompilerError("bad_options", "; ".join(self._faults))

    def mapping(self, name: str, read: Any) -> dict[str, Any]:
        raw = self._raw.get(name, {})
        if not isinstance(raw, dict):
            self._fault(name, raw, "an object")
            return {}
        return {key: read(f"{name}.{key}", value) for key, value in raw.items()}

    def axis(self, where: str, raw: Any) -> int:
        if not _is_int(raw) or not 0 <= raw <= _MAX_AXIS:
            self._fault(where, raw, f"an axis from 0 to {_MAX_AXIS}")
            return 0
        return raw

    def number(self, where: str, raw: Any) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
            self._fault(where, raw, "a finite number")
            return 0.0
        return float(raw)

    def sizes(self, where: str, raw: Any) -> list[int]:
        good = isinstance(raw, list) and all(_is_int(size) and 1 <= size <= _MAX_SIZE for size in raw)
        if not good or any(a >= b for a, b in pairwise(raw)):
            self._fault(where, raw, "ascending sizes of at least 1")
            return []
        return list(raw)

    def names(self, name: str) -> list[str]:
        raw = self._raw.get(name, [])
        if not isinstance(raw, list) or not all(isinstance(item, str) and item for item in raw):
            self._fault(name, raw, "a list of names")
            return []
        if len(set(raw)) != len(raw):
            self._fault(name, raw, "names that differ")
            return []
        return list(raw)

    def precision(self) -> str:
        raw = self._raw.get("precision", "float32")
        if raw not in _PRECISIONS:
            self._fault("precision", raw, f"one of {', '.join(_PRECISIONS)}")
            return "float32"
        return raw

    def tolerance(self, name: str) -> float | None:
        raw = self._raw.get(name)
        if raw is None:
            return None
        value = self.number(name, raw)
        if value < 0:
            self._fault(name, raw, "a number of at least 0")
        return value

    def boolean(self, name: str) -> bool:
        raw = self._raw.get(name, False)
        if not isinstance(raw, bool):
            self._fault(name, raw, "true or false")
            return False
        return raw

    def max_batch(self) -> int:
        raw = self._raw.get("max_batch", 0)
        if not _is_int(raw) or not 0 <= raw <= _MAX_SIZE:
            self._fault("max_batch", raw, "a number of rows, 0 for the model's own")
            return 0
        return raw

    def _fault(self, where: str, raw: Any, expected: str) -> None:
        shown = json.dumps(raw, default=str)
        self._faults.append(f"{where} is {shown if len(shown) < 80 else shown[:77] + '...'}, expected {expected}")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a text", bool: "a truth value", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
