"""Compiled artifacts, each made once for all tests: a compile takes seconds."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from belfry_compiler.options import Options, options_from
from belfry_compiler.pipeline import Request, compile_model
from belfry_compiler.program import Program, make_program
from belfry_compiler.progress import Progress
from belfry_compiler.rows import Rows, check_rows
from belfry_compiler.samples import Sampler
from belfry_compiler.signature import Signature, derive_signature
from belfry_compiler.targets.cpu import internals
from tests import models


@dataclass
class Artifact:
    """A compiled model and what the compile said."""

    folder: Path
    model: Path
    key: str
    progress: list[dict[str, Any]]

    @property
    def manifest(self) -> dict[str, Any]:
        return json.loads((self.folder / "manifest.json").read_text(encoding="ascii"))

    def run(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        runner = internals.container_runner(str(self.folder / self.manifest["entry"]["path"]))
        return runner.run(list(inputs))


def compile_here(model: Path, folder: Path, options: dict[str, Any] | None = None) -> Artifact:
    said = io.StringIO()
    request = Request(model, "cpu", folder, options_from(options or {}), None, 2)
    key = compile_model(request, Progress(said))
    return Artifact(folder, model, key, [json.loads(line) for line in said.getvalue().splitlines()])


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The path of a sample model's .pt2, by the name of its function in models.py."""
    folder = tmp_path_factory.mktemp("models")
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = folder / f"{name}.pt2"
            torch.export.save(getattr(models, name)(), str(made[name]))
        return made[name]

    return get


@pytest.fixture(scope="session")
def artifact(exported: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Artifact]:
    """A sample model's artifact, compiled on first use."""
    made: dict[str, Artifact] = {}

    def get(name: str, options: dict[str, Any] | None = None) -> Artifact:
        key = name + json.dumps(options, sort_keys=True)
        if key not in made:
            made[key] = compile_here(exported(name), tmp_path_factory.mktemp("artifacts") / "out", options)
        return made[key]

    return get


@dataclass
class Checked:
    """A sample model with the checks run on eager answers instead of compiled ones: no compile."""

    program: Program
    signature: Signature
    rows: Rows


def derive(name: str, options: dict[str, Any] | None = None) -> tuple[Program, Signature, Options]:
    parsed = options_from(options or {})
    program = make_program(reloaded(getattr(models, name)()))
    return program, derive_signature(program, parsed), parsed


def reloaded(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """As it is after it was written to a file: without what only the exporting process knows."""
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    return torch.export.load(stream)


def check(name: str, options: dict[str, Any] | None = None) -> Checked:
    from belfry_compiler.numerics import check_numerics

    program, signature, parsed = derive(name, options)
    sampler = Sampler(program, signature)
    numerics = check_numerics(program, signature, parsed, sampler, program.run)
    rows = check_rows(program, signature, parsed, sampler, program.run, numerics)
    return Checked(program, signature, rows)
