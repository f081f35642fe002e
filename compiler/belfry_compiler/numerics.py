"""Does the artifact answer as the model does? Its answers against eager ones, on several sizes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import torch

from belfry_compiler import symbols as sym
from belfry_compiler.compare import Difference, default_tolerance, difference
from belfry_compiler.errors import CompilerError
from belfry_compiler.options import Options
from belfry_compiler.program import Program
from belfry_compiler.samples import Sampler
from belfry_compiler.signature import Signature
from belfry_compiler.targets.base import Runner

# A model that takes longer than this for three rows is not run on many more.
_SLOW_SECONDS = 0.25


@dataclass
class Numerics:
    """What the check found; part of the report."""

    rtol: float
    atol: float
    max_abs: float = 0.0
    max_rel: float = 0.0
    worst: str = ""
    excess: float = -1.0
    checked: list[dict[str, int]] = field(default_factory=list)

    def take(self, name: str, found: Difference) -> None:
        self.max_abs = max(self.max_abs, found.max_abs)
        self.max_rel = max(self.max_rel, found.max_rel)
        if found.excess > self.excess:
            self.excess, self.worst = found.excess, name

    def report(self) -> dict[str, Any]:
        return {
            "max_abs": self.max_abs,
            "max_rel": self.max_rel,
            "worst": self.worst,
            "rtol": self.rtol,
            "atol": self.atol,
            "checked": self.checked,
        }


def tolerance(program: Program, signature: Signature, options: Options) -> tuple[float, float]:
    """The declared tolerance, or that of the least precise type in the model."""
    dtypes = {spec.dtype for spec in [*signature.inputs, *signature.outputs]}
    dtypes |= {tensor.dtype for tensor in [*program.module.parameters(), *program.module.buffers()]}
    rtol, atol = default_tolerance(dtypes)
    return (rtol if options.rtol is None else options.rtol, atol if options.atol is None else options.atol)


def check_numerics(program: Program, signature: Signature, options: Options, sampler: Sampler, run: Runner) -> Numerics:
    """Raises where an output misses its tolerance."""
    result = Numerics(*tolerance(program, signature, options))
    seconds = 0.0
    for sizes in sizes_to_check(signature, options):
        if seconds > _SLOW_SECONDS and sizes.get("batch", 1) > 3:
            continue
        inputs = sampler.inputs(sizes)
        begin = time.monotonic()
        expected = _eager(program, inputs, sizes)
        seconds = time.monotonic() - begin
        actual = run_artifact(run, inputs, sizes)
        _check_outputs(signature, sizes, actual, expected, result)
        result.checked.append(sizes)
    _check_repeats(program, signature, sampler, result)
    return result


def sizes_to_check(signature: Signature, options: Options) -> list[dict[str, int]]:
    """One row, three and many; the other symbols small, middling and large, each at least once."""
    inputs = [symbol for symbol in signature.symbols.values() if not symbol.name.startswith("count")]
    batch = next((symbol for symbol in inputs if symbol.name == "batch"), None)
    others = [symbol for symbol in inputs if symbol is not batch]
    most = min(options.max_batch or 33, 33)
    batches = [1, 3, most] if batch is not None else [1]
    found: list[dict[str, int]] = []
    for index in range(max(len(batches), 3 if others else 1)):
        sizes = {symbol.name: _spread(symbol, index, signature.buckets.get(symbol.name, [])) for symbol in others}
        if batch is not None:
            sizes["batch"] = batch.clamp(batches[index % len(batches)])
        if sizes not in found:
            found.append(sizes)
    return found


def _spread(symbol: sym.Symbol, index: int, buckets: list[int]) -> int:
    wanted = [5, 16, 33][index % 3]
    if buckets:
        wanted = min(buckets[index % len(buckets)], 128)
    return symbol.clamp(wanted)


def _eager(program: Program, inputs: list[torch.Tensor], sizes: dict[str, int]) -> list[torch.Tensor]:
    try:
        return program.run(inputs)
    except Exception as error:
        text = f"the model itself fails on sample inputs of {_shown(sizes)}: {type(error).__name__}: {error}"
        raise CompilerError("uncompilable", text) from error


def run_artifact(run: Runner, inputs: list[torch.Tensor], sizes: dict[str, int]) -> list[torch.Tensor]:
    try:
        return [value.clone() for value in run([tensor.clone() for tensor in inputs])]
    except RuntimeError as error:
        text = f"the compiled model fails at {_shown(sizes)}: {error}"
        raise CompilerError("uncompilable", text) from error


def _check_outputs(
    signature: Signature,
    sizes: dict[str, int],
    actual: list[torch.Tensor],
    expected: list[torch.Tensor],
    result: Numerics,
) -> None:
    if len(actual) != len(signature.outputs):
        text = f"the artifact returns {len(actual)} tensors, expected {len(signature.outputs)}"
        raise CompilerError("internal", text)
    for spec, a, e in zip(signature.outputs, actual, expected, strict=True):
        found = difference(a, e, result.rtol, result.atol)
        result.take(spec.name, found)
        if found.misses:
            text = (
                f"output {spec.name} {found.detail}: the compiled model misses its tolerance at {_shown(sizes)} "
                f"(largest difference {found.max_abs:.3g}, allowed rtol {result.rtol:g}, atol {result.atol:g})"
            )
            raise CompilerError("tolerance", text)


def _check_repeats(program: Program, signature: Signature, sampler: Sampler, result: Numerics) -> None:
    """A model that draws random numbers agrees with nothing, itself included."""
    if not result.checked:
        return
    inputs = sampler.inputs(result.checked[0])
    first, second = program.run(inputs), program.run(inputs)
    for spec, a, e in zip(signature.outputs, first, second, strict=True):
        if difference(a, e, result.rtol, result.atol).misses:
            text = f"output {spec.name} differs between two runs of the model itself on equal inputs: it is random"
            raise CompilerError("tolerance", text)


def _shown(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items()) or "its fixed size"
