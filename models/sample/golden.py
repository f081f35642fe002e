"""Golden files: named cases of inputs and outputs in one .npz.

The entries are CASE/inputs/NAME and CASE/outputs/NAME. Arrays only, never pickles: a golden file can be read without
trusting whoever made it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    inputs: Arrays
    outputs: Arrays


def save(path: Path, cases: Mapping[str, Case]) -> None:
    entries: dict[str, np.ndarray] = {}
    for name, case in cases.items():
        for part, arrays in (("inputs", case.inputs), ("outputs", case.outputs)):
            for tensor, array in arrays.items():
                if array.dtype.hasobject:
                    raise ValueError(
                        f"{name}/{part}/{tensor} holds Python objects, expected numbers or fixed-width text"
                    )
                entries[f"{name}/{part}/{tensor}"] = array
    np.savez_compressed(path, **entries)  # type: ignore[arg-type]


def load(path: Path) -> dict[str, Case]:
    parts: dict[str, dict[str, dict[str, np.ndarray]]] = {}
    with np.load(path, allow_pickle=False) as file:
        for key in file.files:
            pieces = key.split("/", 2)
            if len(pieces) != 3 or pieces[1] not in ("inputs", "outputs"):
                raise ValueError(f"{path}: entry {key!r}, expected CASE/inputs/NAME or CASE/outputs/NAME")
            parts.setdefault(pieces[0], {"inputs": {}, "outputs": {}})[pieces[1]][pieces[2]] = file[key]
    return {name: Case(case["inputs"], case["outputs"]) for name, case in parts.items()}
