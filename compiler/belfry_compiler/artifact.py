"""The artifact's folder: manifest.json last, everything on disk before the caller renames the folder."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from belfry_compiler import symbols as sym
from belfry_compiler.errors import CompilerError
from belfry_compiler.signature import DTYPE_NAMES, Signature, TensorSpec

MANIFEST = "manifest.json"


def claim_folder(out: Path) -> None:
    """The folder may exist, but must be empty: nothing of an earlier try may get into an artifact."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise CompilerError("bad_options", f"--out {out.name} is not empty")
    except OSError as error:
        raise CompilerError("bad_options", f"--out {out.name} cannot be made: {error.strerror}") from None


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


def list_files(out: Path) -> list[dict[str, Any]]:
    """Every file of the artifact with its sum; the manifest is not there yet."""
    files = []
    for path in sorted(out.rglob("*")):
        if path.is_file():
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            files.append({"path": path.relative_to(out).as_posix(), "sha256": digest, "bytes": path.stat().st_size})
    return files


def seal(out: Path, manifest: dict[str, Any]) -> None:
    """Puts everything on disk, then the manifest: a folder with a manifest is whole."""
    text = json.dumps(manifest, ensure_ascii=True, allow_nan=False, indent=1)
    try:
        for path in sorted(out.rglob("*")):
            _sync(path)
        with (out / MANIFEST).open("w", encoding="ascii") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        _sync(out)
        _sync(out.resolve().parent)
    except OSError as error:
        raise CompilerError("internal", f"the artifact cannot be written: {error.strerror}") from error


def _tensor(spec: TensorSpec, signature: Signature) -> dict[str, Any]:
    shape = [sym.render(expr, signature.symbols) for expr in spec.shape]
    return {"name": spec.name, "dtype": DTYPE_NAMES[spec.dtype], "shape": shape, "batch_axis": spec.batch_axis}


def _range(symbol: sym.Symbol) -> dict[str, int]:
    return {"min": symbol.low} if symbol.high is None else {"min": symbol.low, "max": symbol.high}


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
