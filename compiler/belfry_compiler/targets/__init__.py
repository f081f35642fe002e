"""One package per target. Their names are known without importing torch."""

from __future__ import annotations

from belfry_compiler.errors import CompilerError
from belfry_compiler.targets.base import Target

TARGET_NAMES = ("cpu",)


def make_target(name: str, isa: str | None, threads: int) -> Target:
    """The target of that name. Imports nothing of torch: a target may begin work before torch is there."""
    if name == "cpu":
        from belfry_compiler.targets.cpu.target import CpuTarget

        return CpuTarget(isa, threads)
    raise CompilerError("bad_options", f"target {name!r} is not known, expected one of {', '.join(TARGET_NAMES)}")
