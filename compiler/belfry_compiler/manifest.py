"""The manifest of an artifact, as device/manifest/README.md specifies it."""

from __future__ import annotations

from typing import Any

from belfry_compiler import symbols as sym
from belfry_compiler.expressions import render
from belfry_compiler.signature import DTYPE_NAMES, Signature, TensorSpec


def manifest_of(
    key: str,
    key_fields: dict[str, Any],
    target: str,
    signature: Signature,
    entry: dict[str, str],
    files: list[dict[str, Any]],
    report: dict[str, Any],
) -> dict[str, Any]:
    batch = signature.batch
    return {
        "format": 1,
        "key": key,
        "key_fields": key_fields,
        "target": target,
        "inputs": [{**_tensor(spec, signature), "pad": _number(spec.pad)} for spec in signature.inputs],
        "outputs": [_tensor(spec, signature) for spec in signature.outputs],
        "symbols": {symbol.name: _range(symbol) for symbol in signature.symbols.values()},
        "batch": {"batchable": batch.batchable, "reason": batch.reason, "symbol": batch.symbol, "fixed": batch.fixed},
        "files": files,
        "entry": entry,
        "report": report,
    }


def _tensor(spec: TensorSpec, signature: Signature) -> dict[str, Any]:
    shape = [render(expr, signature.symbols) for expr in spec.shape]
    return {"name": spec.name, "dtype": DTYPE_NAMES[spec.dtype], "shape": shape, "batch_axis": spec.batch_axis}


def _range(symbol: sym.Symbol) -> dict[str, int]:
    return {"min": symbol.low} if symbol.high is None else {"min": symbol.low, "max": symbol.high}


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value
