"""What this host and this installation are: all without importing torch, so that asking is quick."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import platform
from pathlib import Path

import belfry_compiler

# Instruction sets by the names that PyTorch's own kernels use, best first, with the features of
# /proc/cpuinfo that they need. The names are part of the artifact's key.
_X86_ISAS: tuple[tuple[str, frozenset[str]], ...] = (
    ("avx512", frozenset({"avx512f", "avx512dq", "avx512vl", "avx512bw", "avx2", "fma", "f16c"})),
    ("avx2", frozenset({"avx2", "fma", "f16c"})),
)


@functools.cache
def cpu_features() -> frozenset[str]:
    """The feature words of the first processor, as Linux names them."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, words = line.partition(":")
        if name.strip().lower() in ("flags", "features"):
            return frozenset(words.split())
    return frozenset()


def arch() -> str:
    return platform.machine()


def host_isas() -> list[str]:
    """Instruction sets that this host runs, best first; never empty. aarch64 has its NEON kernels under "default"."""
    machine = arch()
    features = cpu_features()
    isas: list[str] = []
    if machine == "x86_64":
        isas = [name for name, needed in _X86_ISAS if needed <= features]
    elif machine == "s390x" and "vxe" in features:
        isas = ["zvector"]
    elif machine == "ppc64le":
        isas = ["vsx"]
    return [*isas, "default"]


def torch_version() -> str:
    """Of the installed distribution; empty where there is none."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return ""


def torch_dir() -> Path | None:
    """Where torch is installed, without importing it."""
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


@functools.cache
def compiler_version() -> str:
    """The version and twelve hex digits of a hash over the package's own sources: every edit makes new artifacts."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    sources = [path for path in root.rglob("*") if path.is_file() and path.suffix in (".py", ".in")]
    for path in sorted(sources, key=lambda path: path.relative_to(root).as_posix()):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return f"{belfry_compiler.__version__}+{digest.hexdigest()[:12]}"


def describe() -> dict[str, object]:
    from belfry_compiler.targets import TARGET_NAMES

    return {
        "compiler": compiler_version(),
        "torch": torch_version(),
        "arch": arch(),
        "isa": host_isas()[0],
        "targets": list(TARGET_NAMES),
    }


def usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
