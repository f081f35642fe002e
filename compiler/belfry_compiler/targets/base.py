"""What a target is: the one interface between the pipeline and the ways to compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch

    from belfry_compiler.program import Program
    from belfry_compiler.progress import Progress

# Runs the artifact once: the inputs' tensors in order, the outputs' tensors in order.
Runner = Callable[["list[torch.Tensor]"], "list[torch.Tensor]"]


@dataclass(frozen=True)
class Compiled:
    """What a target put into the artifact's folder."""

    entry: dict[str, str]  # manifest: {"kind", "path"}
    kernels: int
    fallbacks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Target(Protocol):
    """One compile for one kind of card. Used by one thread."""

    name: str
    driver: str  # "cpu/1": name and artifact version of the driver that runs it
    arch: str
    isa: str

    def prepare(self, work: Path) -> None:
        """Begins what does not need the model, in the background. 'work' is a private folder, removed at the end."""

    def compile(self, program: Program, out: Path, progress: Progress) -> Compiled:
        """Writes the artifact's files into 'out'."""

    def load(self, out: Path, compiled: Compiled) -> Runner:
        """Loads from the folder, as the card does."""

    def close(self) -> None:
        """Ends what 'prepare' began. May be called at any time, more than once."""
