"""The artifact's folder: claimed empty, sealed with the manifest last, on disk before the caller renames it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from belfry_compiler.errors import CompilerError

MANIFEST = "manifest.json"


def claim_folder(out: Path) -> None:
    """The folder may exist, but must be empty: nothing of an earlier try may get into an artifact."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise CompilerError("bad_options", f"--out {out.name} is not empty")
    except OSError as error:
        raise CompilerError("bad_options", f"--out {out.name} cannot be made: {error.strerror}") from None


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


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
