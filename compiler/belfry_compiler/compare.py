"""Comparing tensors: within a tolerance, or to the bit."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from belfry_compiler.signature import TensorSpec

# Default tolerances by the least precise type of a model: what reordered sums and fused kernels may differ by.
_TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-9),
    torch.float32: (1e-4, 1e-5),
    torch.float16: (1e-2, 1e-3),
    torch.bfloat16: (4e-2, 1e-2),
}


def default_tolerance(dtypes: set[torch.dtype]) -> tuple[float, float]:
    known = [_TOLERANCES[dtype] for dtype in dtypes if dtype in _TOLERANCES]
    return max(known, default=_TOLERANCES[torch.float32])


@dataclass(frozen=True)
class Difference:
    """Of one tensor. 'excess' is how many times the allowed difference the worst element is off; above 1 it misses."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    excess: float = 0.0
    detail: str = ""

    @property
    def misses(self) -> bool:
        return self.excess > 1.0


def difference(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> Difference:
    """Integers and truth values must be equal. NaNs and infinities are equal to their like in the same place."""
    if actual.shape != expected.shape:
        return Difference(excess=torch.inf, detail=f"has shape {list(actual.shape)}, expected {list(expected.shape)}")
    if actual.dtype != expected.dtype:
        return Difference(excess=torch.inf, detail=f"has type {actual.dtype}, expected {expected.dtype}")
    if actual.numel() == 0:
        return Difference()
    if not actual.dtype.is_floating_point:
        return _exact(actual, expected)
    return _close(actual, expected, rtol, atol)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return torch.equal(_bits(a), _bits(b))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


def _exact(actual: torch.Tensor, expected: torch.Tensor) -> Difference:
    wrong = actual != expected
    count = int(wrong.sum())
    if count == 0:
        return Difference()
    where = int(wrong.flatten().to(torch.uint8).argmax())
    a, e = actual.flatten()[where].item(), expected.flatten()[where].item()
    text = f"{count} of {wrong.numel()} elements differ, first {_place(actual, where)} ({a}, expected {e})"
    return Difference(float(abs(int(a) - int(e))), 0.0, torch.inf, text)


def _close(actual: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> Difference:
    a, e = actual.to(torch.float64).flatten(), expected.to(torch.float64).flatten()
    equal = (a == e) | (a.isnan() & e.isnan())
    off = torch.where(equal, 0.0, (a - e).abs())
    strange = ~equal & ~(a.isfinite() & e.isfinite())
    allowed = atol + rtol * torch.where(e.isfinite(), e.abs(), 0.0)
    over = torch.where(off == 0, 0.0, off / allowed)
    over = torch.where(strange, torch.inf, over)
    off = torch.where(strange, 0.0, off)
    relative = torch.where((off > 0) & (e.abs() > atol), off / e.abs(), 0.0)
    worst = int(over.argmax())
    text = ""
    if float(over[worst]) > 1.0:
        text = f"is {a[worst]:.9g} {_place(actual, worst)}, expected {e[worst]:.9g}"
    return Difference(float(off.max()), float(relative.max()), float(over[worst]), text)


def _place(tensor: torch.Tensor, flat: int) -> str:
    index = []
    for size in reversed(tensor.shape):
        index.append(flat % size)
        flat //= size
    return f"at {list(reversed(index))}"


def dtypes_of(specs: list[TensorSpec]) -> set[torch.dtype]:
    return {spec.dtype for spec in specs if spec.dtype.is_floating_point}
