"""Inputs to check a model with: seeded, of any size, and like what the model was exported with."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from belfry_compiler.program import Leaf, Program
from belfry_compiler.signature import Signature

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64)


@dataclass(frozen=True)
class ValueRange:
    """What values an input takes, learnt from the example that the program was exported with."""

    low: float
    high: float
    mean: float = 0.0
    std: float = 1.0
    mask: bool = False  # ones, then zeros


class Sampler:
    """Makes inputs of given sizes. The same seed gives the same inputs. Not thread-safe: owns one generator."""

    def __init__(self, program: Program, signature: Signature, seed: int = 20240229) -> None:
        self._signature = signature
        self._seed = seed
        vocabularies = _vocabularies(program)
        self.ranges = [_learn(leaf, vocabularies.get(index)) for index, leaf in enumerate(program.inputs)]

    def inputs(self, sizes: dict[str, int], salt: int = 0) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(self._seed + salt)
        shapes = self._signature.input_shapes(sizes)
        made = []
        for spec, shape, values in zip(self._signature.inputs, shapes, self.ranges, strict=True):
            made.append(_draw(shape, spec.dtype, values, generator, max(spec.batch_axis, 0)))
        return made


def _learn(leaf: Leaf, vocabulary: int | None) -> ValueRange:
    dtype, example = leaf.value.dtype, leaf.example
    if vocabulary is not None:
        return ValueRange(0, vocabulary - 1)
    mask = "mask" in leaf.name.lower() and not dtype.is_floating_point
    if dtype == torch.bool or mask:
        return ValueRange(0, 1, mask=mask)
    if example is None or example.numel() == 0 or example.is_complex():
        return ValueRange(-3.0, 3.0) if dtype.is_floating_point else ValueRange(0, 1)
    numbers = example.to(torch.float64).flatten()
    numbers = numbers[torch.isfinite(numbers)]
    if numbers.numel() == 0:
        return ValueRange(-3.0, 3.0)
    low, high = float(numbers.min()), float(numbers.max())
    if not dtype.is_floating_point:
        return ValueRange(low, high)
    if low == high:  # torch.zeros or torch.ones: an example of the shape, not of the values
        return ValueRange(low - 2.0, high + 2.0, mean=low)
    return ValueRange(low, high, float(numbers.mean()), float(numbers.std(correction=0)))


def _draw(
    shape: list[int], dtype: torch.dtype, values: ValueRange, generator: torch.Generator, batch_axis: int
) -> torch.Tensor:
    if values.mask:
        return _prefix_mask(shape, generator, batch_axis).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(torch.bool)
    if dtype.is_floating_point:
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * values.std + values.mean
        return drawn.clamp(values.low, values.high).to(dtype)
    span = int(values.high) - int(values.low)
    drawn = torch.randint(0, span + 1, shape, generator=generator, dtype=torch.int64) + int(values.low)
    return drawn.to(dtype)


def _prefix_mask(shape: list[int], generator: torch.Generator, batch_axis: int) -> torch.Tensor:
    """Along the last axis: each row has a length of its own, at least 1. The first row is full."""
    if not shape or (len(shape) - 1 == batch_axis and len(shape) == 1):
        return torch.ones(shape, dtype=torch.int64)
    length = shape[-1]
    lengths = torch.randint(1, length + 1, [*shape[:-1], 1], generator=generator)
    lengths.view(-1)[0] = length
    return (torch.arange(length).expand(shape) < lengths).to(torch.int64)


def _vocabularies(program: Program) -> dict[int, int]:
    """For inputs that index an embedding: how many rows it has."""
    placeholders = [node for node in program.module.graph.nodes if node.op == "placeholder"]
    found: dict[int, int] = {}
    for index, placeholder in enumerate(placeholders):
        for user in placeholder.users:
            if user.target is not torch.ops.aten.embedding.default or user.args[1] is not placeholder:
                continue
            weight = user.args[0].meta.get("val") if isinstance(user.args[0], torch.fx.Node) else None
            rows = weight.shape[0] if isinstance(weight, torch.Tensor) else _attribute_rows(program, user.args[0])
            if isinstance(rows, int):
                found[index] = min(found.get(index, rows), rows)
    return found


def _attribute_rows(program: Program, node: object) -> int | None:
    if not isinstance(node, torch.fx.Node) or node.op != "get_attr":
        return None
    value: object = program.module
    for part in str(node.target).split("."):
        value = getattr(value, part, None)
    return int(value.shape[0]) if isinstance(value, torch.Tensor) else None
