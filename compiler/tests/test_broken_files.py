"""Files that are no model, or not one that can be compiled: a clean error of the right kind, never a traceback."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from belfry_compiler.archive import load_program
from belfry_compiler.errors import CompilerError


def refused(path: Path, words: str, kind: str = "bad_model") -> None:
    with pytest.raises(CompilerError, match=words) as caught:
        load_program(path)
    assert caught.value.kind == kind
    assert "Traceback" not in str(caught.value)


def test_not_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"hello, this is a text" * 100)
    refused(path, r"model\.pt2 is not a \.pt2 made by torch\.export\.save")


def test_empty(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    path.write_bytes(b"")
    refused(path, r"is not a \.pt2")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_cut_short(exported: Callable[[str], Path], tmp_path: Path, part: float) -> None:
    data = exported("mlp").read_bytes()
    path = tmp_path / "model.pt2"
    path.write_bytes(data[: int(len(data) * part)])
    refused(path, "cut short|is no exported program")


@pytest.mark.parametrize("at", [0.3, 0.6])
def test_damaged_inside(exported: Callable[[str], Path], tmp_path: Path, at: float) -> None:
    data = bytearray(exported("mlp").read_bytes())
    for offset in range(64):
        data[int(len(data) * at) + offset] ^= 0x5A
    path = tmp_path / "model.pt2"
    path.write_bytes(data)
    refused(path, "damaged|cut short")


def test_a_zip_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("holiday.txt", "sun")
    refused(path, r"is no exported program \(torch\.export\.save\): it holds holiday\.txt")


def test_torchscript_is_called_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/constants.pkl", b"")
    refused(path, "is TorchScript")


def test_a_graph_that_is_not_one(exported: Callable[[str], Path], tmp_path: Path) -> None:
    for graph in (b"{}", b"[]", b"not json", b'{"graph_module": {"graph": 5}}'):
        path = rewritten(exported("mlp"), tmp_path / "model.pt2", "models/model.json", lambda _, graph=graph: graph)
        refused(path, r"model\.pt2")


def test_weights_that_run_code_do_not(exported: Callable[[str], Path], tmp_path: Path) -> None:
    flag = tmp_path / "it_ran"

    class Trick:
        def __reduce__(self) -> tuple:
            return (Path.touch, (flag,))

    def trick(old: bytes) -> bytes:
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w") as archive, zipfile.ZipFile(io.BytesIO(old)) as before:
            for name in before.namelist():
                data = pickle.dumps(Trick()) if name.endswith("data.pkl") else before.read(name)
                archive.writestr(name, data)
        return stream.getvalue()

    path = rewritten(exported("mlp"), tmp_path / "model.pt2", "data/sample_inputs/model.pt", trick)
    refused(path, r"model\.pt2 cannot be read")
    assert not flag.exists()


def test_expressions_that_run_code_do_not(exported: Callable[[str], Path], tmp_path: Path) -> None:
    flag = tmp_path / "it_ran"

    def trick(old: bytes) -> bytes:
        return old.replace(b"Symbol('s", f"__import__('pathlib').Path('{flag}').touch() or Symbol('s".encode(), 1)

    path = rewritten(exported("mlp"), tmp_path / "model.pt2", "models/model.json", trick)
    refused(path, "an expression that is no arithmetic: __import__")
    assert not flag.exists()


def test_operators_of_a_missing_library_are_named(tmp_path: Path) -> None:
    """The library exists only in the process that exports."""
    path = tmp_path / "model.pt2"
    script = """
import sys, torch
@torch.library.custom_op("bank::score_card", mutates_args=())
def score_card(x: torch.Tensor) -> torch.Tensor:
    return x * 2
@score_card.register_fake
def _(x):
    return torch.empty_like(x)
class M(torch.nn.Module):
    def forward(self, x):
        return torch.ops.bank.score_card(x) + 1
torch.export.save(torch.export.export(M(), (torch.randn(2, 3),)), sys.argv[1])
"""
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, capture_output=True)
    refused(path, r"operators of a library that is not installed here: bank::score_card", "uncompilable")


def test_a_dataclass_of_the_models_own_code_needs_no_code(tmp_path: Path) -> None:
    from belfry_compiler.program import make_program

    path = tmp_path / "model.pt2"
    script = """
import dataclasses, sys, torch
@dataclasses.dataclass
class Answer:
    score: torch.Tensor
    rest: torch.Tensor
torch.export.register_dataclass(Answer, serialized_type_name="bank.Answer")
class M(torch.nn.Module):
    def forward(self, x):
        return Answer(x * 2, x + 1)
torch.export.save(torch.export.export(M(), (torch.randn(2, 3),)), sys.argv[1])
"""
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, capture_output=True)
    program = make_program(load_program(path))
    assert [leaf.name for leaf in program.outputs] == ["score", "rest"]
    assert torch.equal(program.run([torch.ones(2, 3)])[0], torch.full((2, 3), 2.0))


def rewritten(source: Path, target: Path, name: str, change: Callable[[bytes], bytes]) -> Path:
    """The archive with one of its files changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.namelist():
            data = old.read(entry)
            new.writestr(entry, change(data) if entry.endswith(name) else data)
    return target


def test_the_rewriting_itself_keeps_a_model_whole(exported: Callable[[str], Path], tmp_path: Path) -> None:
    path = rewritten(
        exported("mlp"), tmp_path / "model.pt2", "models/model.json", lambda old: json.dumps(json.loads(old)).encode()
    )
    assert load_program(path) is not None
