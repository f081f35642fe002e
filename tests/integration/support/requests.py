"""Requests made with the stock client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import np_to_triton_dtype

Arrays = dict[str, np.ndarray]


def inputs_of(arrays: Arrays) -> list[triton.InferInput]:
    inputs = []
    for name, array in arrays.items():
        tensor = triton.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(np.asarray(array, order="C"))
        inputs.append(tensor)
    return inputs


def infer(client: triton.InferenceServerClient, model: str, arrays: Arrays, **options: Any) -> Arrays:
    """One request; the outputs by name."""
    result = client.infer(model, inputs_of(arrays), **options)
    return {o.name: result.as_numpy(o.name) for o in result.get_response().outputs}


def echo(client: triton.InferenceServerClient, array: np.ndarray, **options: Any) -> np.ndarray:
    return infer(client, "echo", {"input": array}, **options)["output"]


def golden_cases(model_dir: Path) -> dict[str, tuple[Arrays, Arrays]]:
    """Case name -> (inputs, outputs) of a model's golden.npz."""
    cases: dict[str, tuple[Arrays, Arrays]] = {}
    with np.load(model_dir / "golden.npz") as stored:
        for key in stored.files:
            case, kind, name = key.split("/", 2)
            pair = cases.setdefault(case, ({}, {}))
            pair[0 if kind == "inputs" else 1][name] = stored[key]
    return cases
