"""Does padding leave answers alone? For each symbol with buckets: a short input, and the same padded to a bucket."""

from __future__ import annotations

import torch

from belfry_compiler import symbols as sym
from belfry_compiler.compare import difference
from belfry_compiler.errors import CompilerError
from belfry_compiler.numerics import Numerics, run_artifact
from belfry_compiler.samples import Sampler
from belfry_compiler.signature import Signature, TensorSpec
from belfry_compiler.targets.base import Runner

# Longer buckets show nothing that these do not, and cost more.
_LARGEST_BUCKET = 512


def check_padding(signature: Signature, sampler: Sampler, run: Runner, numerics: Numerics) -> None:
    """Raises where the declared pad values change an answer by more than the model's tolerance."""
    for symbol in signature.symbols.values():
        sizes = signature.buckets.get(symbol.name, [])
        if not sizes or symbol.name == signature.batch.symbol:
            continue
        for bucket in dict.fromkeys([sizes[0], min(sizes[-1], max(sizes[0], _LARGEST_BUCKET))]):
            for length in _lengths(symbol, bucket):
                _check(signature, sampler, run, numerics, symbol, length, symbol.clamp(bucket))


def _lengths(symbol: sym.Symbol, bucket: int) -> list[int]:
    lengths = [symbol.clamp(length) for length in (1, bucket // 2 + 1, bucket - 1)]
    return [length for length in dict.fromkeys(lengths) if length < bucket]


def _check(
    signature: Signature,
    sampler: Sampler,
    run: Runner,
    numerics: Numerics,
    symbol: sym.Symbol,
    length: int,
    bucket: int,
) -> None:
    others = {other.name: other.clamp(3) for other in signature.symbols.values()}
    short_sizes = {**others, symbol.name: length}
    long_sizes = {**others, symbol.name: bucket}
    inputs = sampler.inputs(short_sizes, salt=length)
    shapes = signature.input_shapes(long_sizes)
    padded = [
        _padded(spec, tensor, shape) for spec, tensor, shape in zip(signature.inputs, inputs, shapes, strict=True)
    ]
    expected = run_artifact(run, inputs, short_sizes)
    actual = run_artifact(run, padded, long_sizes)
    for spec, long, short in zip(signature.outputs, actual, expected, strict=True):
        for axis in signature.axes_of(spec, symbol):
            long = long.narrow(axis, 0, length)
        found = difference(long, short, numerics.rtol, numerics.atol)
        if found.misses:
            pads = ", ".join(f"{tensor.name}: {tensor.pad:g}" for tensor in signature.inputs)
            text = (
                f"output {spec.name} {found.detail}: padding {symbol.name} from {length} to the bucket {bucket} with "
                f"the declared values ({pads}) changes the answer by {found.max_abs:.3g}, allowed "
                f"rtol {numerics.rtol:g}, atol {numerics.atol:g}; declare other pad values, or no buckets"
            )
            raise CompilerError("tolerance", text)


def _padded(spec: TensorSpec, tensor: torch.Tensor, shape: list[int]) -> torch.Tensor:
    fill = bool(spec.pad) if tensor.dtype == torch.bool else spec.pad
    padded = torch.full(shape, fill, dtype=tensor.dtype)
    corner = tuple(slice(0, size) for size in tensor.shape)
    padded[corner] = tensor
    return padded
