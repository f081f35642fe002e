"""Canonical JSON: equal values, equal bytes, in Python and in C++. The key of an artifact is a hash over it."""

from __future__ import annotations

import hashlib
import json
from typing import Any


class NumberToken:
    """A number as it stood in the text. Two languages print some floats differently; the text cannot differ."""

    def __init__(self, text: str) -> None:
        self.text = text


def parse_keeping_numbers(text: str) -> Any:
    """Like json.loads, but numbers with a fraction or exponent stay as they were written."""
    return json.loads(text, parse_float=NumberToken, parse_constant=_refuse_constant)


def canonical_json(value: Any) -> str:
    """Sorted keys, no spaces, ASCII only. NaN and infinities are not JSON and are refused."""
    if isinstance(value, NumberToken):
        return value.text
    if isinstance(value, dict):
        items = (f"{json.dumps(key)}:{canonical_json(value[key])}" for key in sorted(value))
        return "{" + ",".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(canonical_json(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def key_of(fields: dict[str, Any]) -> str:
    """The artifact's key: SHA-256 over the canonical JSON of key_fields."""
    return sha256_hex(canonical_json(fields).encode("ascii"))


def plain(value: Any) -> Any:
    """The same value with ordinary numbers."""
    if isinstance(value, NumberToken):
        return float(value.text)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
