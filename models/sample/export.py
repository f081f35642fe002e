"""From a module to `model.pt2` and its golden cases: exported, saved, read back, and compared with eager."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sample import golden
from sample.quality import max_error

# What an exported program may differ from eager: it runs the same operators, so next to nothing.
TOLERANCE = 1e-6


def export(
    model: torch.nn.Module, example: Mapping[str, np.ndarray], shapes: Mapping[str, Mapping[int, Any]]
) -> torch.export.ExportedProgram:
    """`example` in the order of forward's parameters; `shapes` names the symbolic axes of each (torch.export.Dim)."""
    arguments = tuple(torch.from_numpy(array) for array in example.values())
    with torch.no_grad(), warnings.catch_warnings():
        # Layers that keep a flat list of their weights (LSTM) make torch.export warn about the list; the weights
        # themselves are parameters and exported as such.
        warnings.filterwarnings("ignore", message=".*were assigned during export.*")
        return torch.export.export(model, arguments, dynamic_shapes={n: dict(s) for n, s in shapes.items()})


def eager(model: torch.nn.Module, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The answer of a module, or of an exported program's, to inputs in the order of forward's parameters."""
    with torch.inference_mode():
        outputs = model(*(torch.from_numpy(array) for array in inputs.values()))
    return {name: tensor.numpy() for name, tensor in outputs.items()}


def save(
    model: torch.nn.Module,
    cases: Mapping[str, Mapping[str, np.ndarray]],
    shapes: Mapping[str, Mapping[int, Any]],
    example: str,
    out: Path,
) -> None:
    """Writes out/model.pt2, exported on the case `example`, and out/golden.npz with eager's answer to every case."""
    program = export(model, cases[example], shapes)
    torch.export.save(program, out / "model.pt2")
    again = torch.export.load(out / "model.pt2").module()
    answered: dict[str, golden.Case] = {}
    for name, inputs in cases.items():
        want, got = eager(model, inputs), eager(again, inputs)
        for output, array in want.items():
            error = max_error(got[output], array)
            if not error <= TOLERANCE:
                raise RuntimeError(
                    f"case {name}, output {output}: the exported program differs from eager by {error:.3g}, "
                    f"expected at most {TOLERANCE:.0e}"
                )
        answered[name] = golden.Case(inputs, want)
    golden.save(out / "golden.npz", answered)
