"""Small models made on the spot, and the compiled artifacts that tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from torch.export import Dim, export

from .paths import CACHE


def save(folder: Path, name: str, program: torch.export.ExportedProgram, config: str = "", version: int = 1) -> Path:
    """Puts a program where --model-dir expects it; returns the .pt2."""
    place = folder / name / str(version)
    place.mkdir(parents=True, exist_ok=True)
    torch.export.save(program, str(place / "model.pt2"))
    if config:
        (place / "model.yaml").write_text(config)
    return place / "model.pt2"


def tiny(seed: int = 0, width: int = 4, most: int = 64) -> torch.export.ExportedProgram:
    """x [batch, width] -> tanh of a linear layer [batch, width]."""
    torch.manual_seed(seed)

    class Tiny(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(width, width)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.linear(x))

    return of_rows(Tiny(), width, most)


def of_rows(
    module: torch.nn.Module, width: int = 4, most: int = 64, least: int = 1
) -> torch.export.ExportedProgram:
    """Exports a module of one input x [batch, width]."""
    batch = Dim("batch", min=least, max=most)
    return export(module.eval(), (torch.randn(3, width),), dynamic_shapes={"x": {0: batch}})


def made_once(key: str, make: Callable[[Path], None]) -> Path:
    """A folder of models that several tests and runs use: made once per build folder.

    The bytes of an exported file differ from one export to the next, and the artifact cache goes by bytes.
    """
    place = CACHE / "models" / key
    if not place.exists():
        draft = place.with_name(f".{key}.{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        make(draft)
        draft.rename(place)
    return place


def with_artifacts(data_dir: Path) -> Path:
    """Gives a new data folder everything that earlier tests compiled."""
    shared = CACHE / "artifacts"
    if shared.exists():
        shutil.copytree(shared, data_dir / "artifacts", copy_function=_link, dirs_exist_ok=True)
    return data_dir


def keep_artifacts(data_dir: Path) -> None:
    """Adds what this data folder compiled to the shared ones."""
    shared = CACHE / "artifacts"
    shared.mkdir(parents=True, exist_ok=True)
    for artifact in (data_dir / "artifacts").iterdir() if (data_dir / "artifacts").exists() else []:
        if (artifact / "manifest.json").exists() and not (shared / artifact.name).exists():
            draft = shared / f".{artifact.name}.{os.getpid()}"
            shutil.copytree(artifact, draft, copy_function=_link)
            draft.rename(shared / artifact.name)


def _link(source: str, target: str) -> str:
    # Tests that damage a file write a new one in its place, so a hard link is as good as a copy.
    os.link(source, target)
    return target
