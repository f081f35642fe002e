"""Other rows beside a row: what the check of row independence puts there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from belfry_compiler.samples import Sampler, ValueRange
from belfry_compiler.signature import Signature, TensorSpec

# (the tensor to replace, its specification, the values the input usually takes)
Fill = Callable[[torch.Tensor, TensorSpec, ValueRange], torch.Tensor]


@dataclass(frozen=True)
class Variant:
    """One kind of neighbour; 'name' completes "when the rows beside it are …"."""

    name: str
    fill: Fill
    ranges: list[ValueRange]


def variants(sampler: Sampler) -> list[Variant]:
    kinds: list[tuple[str, Fill]] = [
        ("padding", _padding),
        ("others", _others),
        ("all at the upper end of their range", _highest),
        ("all at the lower end of their range", _lowest),
        ("very large", _large),
        ("not numbers", _nan),
    ]
    return [Variant(name, fill, sampler.ranges) for name, fill in kinds]


def replace_rows(signature: Signature, inputs: list[torch.Tensor], keep: int, variant: Variant) -> list[torch.Tensor]:
    """The same batch with every row but one replaced."""
    changed = []
    for spec, tensor, values in zip(signature.inputs, inputs, variant.ranges, strict=True):
        filled = variant.fill(tensor, spec, values).clone()
        filled.select(spec.batch_axis, keep).copy_(tensor.select(spec.batch_axis, keep))
        changed.append(filled)
    return changed


def permuted(count: int) -> list[int]:
    """A fixed order in which hardly a row keeps its place."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(count)).tolist()
    return order if order != list(range(count)) else order[1:] + order[:1]


def _padding(tensor: torch.Tensor, spec: TensorSpec, values: ValueRange) -> torch.Tensor:
    return torch.full_like(tensor, bool(spec.pad) if tensor.dtype == torch.bool else spec.pad)


def _others(tensor: torch.Tensor, spec: TensorSpec, values: ValueRange) -> torch.Tensor:
    """The rows of other places, turned around where the values have a sign."""
    count = tensor.shape[spec.batch_axis]
    turned = tensor.flip(spec.batch_axis).roll(count // 3 + 1, spec.batch_axis)
    if values.mask or tensor.dtype == torch.bool:
        return turned
    if tensor.dtype.is_floating_point:
        return (values.low + values.high - turned).to(tensor.dtype)
    return (int(values.low) + int(values.high) - turned.to(torch.int64)).to(tensor.dtype)


def _highest(tensor: torch.Tensor, spec: TensorSpec, values: ValueRange) -> torch.Tensor:
    return torch.full_like(tensor, _in_type(values.high, tensor.dtype))


def _lowest(tensor: torch.Tensor, spec: TensorSpec, values: ValueRange) -> torch.Tensor:
    return torch.full_like(tensor, _in_type(values.low, tensor.dtype))


def _large(tensor: torch.Tensor, spec: TensorSpec, values: ValueRange) -> torch.Tensor:
    """Far outside of what the model has seen; integers stay in their range, they may index a table."""
    if not tensor.dtype.is_floating_point:
        return _highest(tensor, spec, values)
    largest = min(1e30, torch.finfo(tensor.dtype).max / 4)
    return torch.full_like(tensor, largest)


def _nan(tensor: torch.Tensor, spec: TensorSpec, values: ValueRange) -> torch.Tensor:
    if not tensor.dtype.is_floating_point:
        return _lowest(tensor, spec, values)
    return torch.full_like(tensor, torch.nan)


def _in_type(value: float, dtype: torch.dtype) -> float | int | bool:
    if dtype == torch.bool:
        return value != 0
    return value if dtype.is_floating_point else int(value)
