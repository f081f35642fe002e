"""The cpu target: lower with Inductor, build with the C++ compiler, load as belfry-card does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from belfry_compiler import host
from belfry_compiler.errors import CompilerError
from belfry_compiler.targets.base import Compiled, Runner
from belfry_compiler.targets.cpu import internals
from belfry_compiler.targets.cpu.build import Build
from belfry_compiler.targets.cpu.isa import choose_isa
from belfry_compiler.targets.cpu.toolchain import Toolchain

if TYPE_CHECKING:
    import torch

    from belfry_compiler.program import Program
    from belfry_compiler.progress import Progress

ENTRY = "model.so"
# Beside the shared object and of its name: the runner looks for it there.
_EXTERN_NODES = "model.json"


class CpuTarget:
    """See targets/base.py."""

    name = "cpu"
    driver = "cpu/1"

    def __init__(self, isa: str | None, threads: int) -> None:
        self._isa = choose_isa(isa)
        self._jobs = threads
        self._tools = Toolchain(threads)
        self._work: Path | None = None
        self._build: Build | None = None
        self.arch = host.arch()
        self.isa = self._isa.name

    def prepare(self, work: Path) -> None:
        torch_dir = host.torch_dir()
        if torch_dir is None:
            raise CompilerError("internal", "torch is not installed in this Python")
        if not host.torch_version().startswith(internals.KNOWN_TORCH):
            known = ", ".join(internals.KNOWN_TORCH)
            raise CompilerError("internal", f"torch {host.torch_version()} is installed, expected one of {known}")
        if self._isa.onednn:
            os.environ["ONEDNN_MAX_CPU_ISA"] = self._isa.onednn
        self._work = work
        self._build = Build(self._isa, torch_dir, work / "build", self._tools, self._jobs)
        self._build.begin()

    def compile(self, program: Program, out: Path, progress: Progress) -> Compiled:
        if self._work is None or self._build is None:
            raise CompilerError("internal", "the target was not prepared")
        from belfry_compiler.targets.cpu.lowering import lower

        with progress.stage("inductor"):
            sources = lower(program, self._isa, self._work / "inductor", self._build.interface_text)
        with progress.stage("build"):
            self._build.finish(sources, out / ENTRY)
            if sources.extern_nodes is not None:
                shutil.copyfile(sources.extern_nodes, out / _EXTERN_NODES)
        notes = [] if sources.constants_in_place else ["the constants are copied when the artifact is loaded"]
        return Compiled({"kind": "aoti", "path": ENTRY}, sources.kernel_count, sources.fallbacks, notes)

    def load(self, out: Path, compiled: Compiled) -> Runner:
        try:
            runner = internals.container_runner(str(out / compiled.entry["path"]))
        except RuntimeError as error:
            raise CompilerError("internal", f"the artifact cannot be loaded: {error}") from error

        def run(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
            return runner.run([tensor.contiguous() for tensor in tensors])

        return run

    def close(self) -> None:
        self._tools.close()
