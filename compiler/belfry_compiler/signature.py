"""The signature of a program: named tensors, symbols with ranges, and the axis along which requests are joined."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch

from belfry_compiler import symbols as sym
from belfry_compiler.errors import CompilerError
from belfry_compiler.expressions import render
from belfry_compiler.options import Options
from belfry_compiler.program import Leaf, Program

DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.bool: "BOOL",
    torch.uint8: "UINT8",
    torch.uint16: "UINT16",
    torch.uint32: "UINT32",
    torch.uint64: "UINT64",
    torch.int8: "INT8",
    torch.int16: "INT16",
    torch.int32: "INT32",
    torch.int64: "INT64",
    torch.float16: "FP16",
    torch.bfloat16: "BF16",
    torch.float32: "FP32",
    torch.float64: "FP64",
}
MAX_RANK = 12
# belfryd's limit where a model.yaml does not say (server/serving/model_config.h).
DEFAULT_MAX_BATCH = 1024


@dataclass(frozen=True)
class TensorSpec:
    name: str
    dtype: torch.dtype
    shape: list[Any]  # ints and sympy expressions
    batch_axis: int = -1  # -1: requests are not joined along any axis of it
    pad: float = 0.0


@dataclass(frozen=True)
class Batch:
    """How requests are joined. Either 'symbol' or 'fixed' is set where they can be."""

    batchable: bool
    reason: str = ""
    symbol: str = ""
    fixed: int = 0


@dataclass
class Signature:
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    symbols: dict[sympy.Symbol, sym.Symbol]
    batch: Batch
    buckets: dict[str, list[int]] = field(default_factory=dict)  # symbol -> sizes, of the options

    def symbol(self, name: str) -> sym.Symbol:
        return next(symbol for symbol in self.symbols.values() if symbol.name == name)

    def unbatched(self, reason: str) -> None:
        self.batch = replace(self.batch, batchable=False, reason=reason)

    def input_shapes(self, sizes: dict[str, int]) -> list[list[int]]:
        values = {symbol.expr: sizes[symbol.name] for symbol in self.symbols.values() if symbol.name in sizes}
        return [[sym.evaluate(expr, values) for expr in spec.shape] for spec in self.inputs]

    def axes_of(self, spec: TensorSpec, symbol: sym.Symbol) -> list[int]:
        return [axis for axis, expr in enumerate(spec.shape) if expr == symbol.expr]


def derive_signature(program: Program, options: Options) -> Signature:
    outputs = _renamed(program.outputs, options)
    leaves = [*program.inputs, *outputs]
    _check_names(program.inputs, outputs, options)
    axes, batch_expr, batch = _batch(program.inputs, leaves, options)
    names = sym.name_symbols(program, batch_expr)
    specs = [_tensor(leaf, axes.get(leaf.name, -1), options) for leaf in leaves]
    count = len(program.inputs)
    signature = Signature(specs[:count], specs[count:], names, batch, dict(options.buckets))
    _name_the_unspeakable(signature)
    _check_buckets(signature, options)
    _note_names(program, signature)
    return signature


def _name_the_unspeakable(signature: Signature) -> None:
    """A size that the manifest has no words for: in an output a symbol of its own, in an input a reason to refuse."""
    for spec in signature.inputs:
        for axis, expr in enumerate(spec.shape):
            if render(expr, signature.symbols) is None:
                text = f"axis {axis} of input {spec.name} is {expr}, which requests cannot be checked against"
                raise CompilerError("uncompilable", text)
    for spec in signature.outputs:
        for axis, expr in enumerate(spec.shape):
            if render(expr, signature.symbols) is None:
                opaque = sympy.Dummy(f"{spec.name}_{axis}")
                taken = sum(symbol.name.startswith("count") for symbol in signature.symbols.values())
                name = "count" if taken == 0 else f"count_{taken + 1}"
                signature.symbols[opaque] = sym.Symbol(name, opaque, 0, None, f"axis {axis} of {spec.name}")
                spec.shape[axis] = opaque


def _renamed(outputs: list[Leaf], options: Options) -> list[Leaf]:
    names = options.output_names
    if not names:
        return outputs
    if len(names) != len(outputs):
        text = f"output_names has {len(names)} names, but the program has {len(outputs)} outputs"
        raise CompilerError("bad_options", f"{text} ({', '.join(leaf.name for leaf in outputs)})")
    return [replace(leaf, name=name) for leaf, name in zip(outputs, names, strict=True)]


def _check_names(inputs: list[Leaf], outputs: list[Leaf], options: Options) -> None:
    known_inputs = [leaf.name for leaf in inputs]
    known = [*known_inputs, *(leaf.name for leaf in outputs)]
    faults = [
        f"pad.{name}: there is no such input, expected one of {', '.join(known_inputs)}"
        for name in options.pad
        if name not in known_inputs
    ]
    faults += [
        f"batch_axis.{name}: there is no such tensor, expected one of {', '.join(known)}"
        for name in options.batch_axis
        if name not in known
    ]
    for leaf in [*inputs, *outputs]:
        axis = options.batch_axis.get(leaf.name, -1)
        if axis >= leaf.value.dim():
            faults.append(f"batch_axis.{leaf.name} is {axis}, but the tensor has {leaf.value.dim()} axes")
    if faults:
        raise CompilerError("bad_options", "; ".join(faults))


def _tensor(leaf: Leaf, batch_axis: int, options: Options) -> TensorSpec:
    dtype = leaf.value.dtype
    if dtype not in DTYPE_NAMES:
        known = ", ".join(str(known).removeprefix("torch.") for known in DTYPE_NAMES)
        text = f"tensor {leaf.name} has type {str(dtype).removeprefix('torch.')}, which the protocol does not carry"
        raise CompilerError("uncompilable", f"{text}; expected one of {known}")
    if leaf.value.dim() > MAX_RANK:
        text = f"tensor {leaf.name} has {leaf.value.dim()} axes, at most {MAX_RANK} can be"
        raise CompilerError("uncompilable", text)
    pad = options.pad.get(leaf.name, 0.0)
    if not dtype.is_floating_point and not _fits(pad, dtype):
        shown = str(dtype).removeprefix("torch.")
        raise CompilerError("bad_options", f"pad.{leaf.name} is {pad:g}, which is no value of {shown}")
    return TensorSpec(leaf.name, dtype, sym.shape_exprs(leaf.value), batch_axis, pad)


def _fits(value: float, dtype: torch.dtype) -> bool:
    if dtype == torch.bool:
        return value in (0.0, 1.0)
    info = torch.iinfo(dtype)
    return value == int(value) and info.min <= int(value) <= info.max


def _batch(
    inputs: list[Leaf], leaves: list[Leaf], options: Options
) -> tuple[dict[str, int], sympy.Symbol | None, Batch]:
    """The axis of each tensor, the symbol that all of them have there, and what becomes of it."""
    if options.batch_axis:
        return _declared_batch(inputs, leaves, options)
    candidates = [symbol for symbol in _symbols(inputs) if all(_axis_of(leaf, symbol) is not None for leaf in leaves)]
    if len(candidates) == 1:
        axes = {leaf.name: _axis_of(leaf, candidates[0]) for leaf in leaves}
        return axes, candidates[0], Batch(True, "", "batch")
    if candidates:
        places = " and ".join(f"axis {_axis_of(leaves[0], symbol)} of {leaves[0].name}" for symbol in candidates)
        reason = f"more than one dimension varies in every tensor ({places}): say which one in batch_axis"
        return {}, None, Batch(False, reason)
    return {}, None, Batch(False, _why_none(inputs, leaves))


def _declared_batch(
    inputs: list[Leaf], leaves: list[Leaf], options: Options
) -> tuple[dict[str, int], sympy.Symbol | None, Batch]:
    by_name = {leaf.name: leaf for leaf in leaves}
    declared = {name: sym.shape_exprs(by_name[name].value)[axis] for name, axis in options.batch_axis.items()}
    sizes = set(declared.values())
    if len(sizes) != 1:
        shown = ", ".join(f"{name}: axis {options.batch_axis[name]} is {size}" for name, size in declared.items())
        raise CompilerError("bad_options", f"batch_axis names axes of different sizes ({shown})")
    size = sizes.pop()
    axes = dict(options.batch_axis)
    missing = []
    for leaf in leaves:
        if leaf.name not in axes:
            axis = _axis_of(leaf, size)
            if axis is None:
                missing.append(leaf.name)
            else:
                axes[leaf.name] = axis
    if missing:
        what = f"size {size}" if isinstance(size, int) else "the symbol of the batch axis"
        text = f"batch_axis does not name an axis of {', '.join(missing)}, and there is not exactly one with {what}"
        raise CompilerError("bad_options", text)
    if isinstance(size, int):
        return axes, None, Batch(True, "", "", size)
    if not isinstance(size, sympy.Symbol):
        text = f"batch_axis names a dimension that is {size}, expected a symbol or a number"
        raise CompilerError("bad_options", text)
    return axes, size, Batch(True, "", "batch")


def _symbols(inputs: list[Leaf]) -> list[sympy.Symbol]:
    return sym.free_symbols(expr for leaf in inputs for expr in sym.shape_exprs(leaf.value))


def _axis_of(leaf: Leaf, size: Any) -> int | None:
    """The one axis that is exactly 'size'; None where it is none or several, or hides in an expression too."""
    exprs = sym.shape_exprs(leaf.value)
    axes = [axis for axis, expr in enumerate(exprs) if expr == size]
    if len(axes) != 1:
        return None
    if isinstance(size, sympy.Symbol):
        holding = [expr for expr in exprs if isinstance(expr, sympy.Basic) and size in expr.free_symbols]
        if len(holding) != 1:
            return None
    return axes[0]


def _why_none(inputs: list[Leaf], leaves: list[Leaf]) -> str:
    found = _symbols(inputs)
    if not found:
        return "no dimension of the inputs varies: export with a dynamic batch dimension, or declare batch_axis"
    lacking = {symbol: [leaf.name for leaf in leaves if _axis_of(leaf, symbol) is None] for symbol in found}
    nearest = min(found, key=lambda symbol: len(lacking[symbol]))
    first = next(leaf for leaf in inputs if any(_holds(expr, nearest) for expr in sym.shape_exprs(leaf.value)))
    axis = next(axis for axis, expr in enumerate(sym.shape_exprs(first.value)) if _holds(expr, nearest))
    return (
        f"no dimension varies together in every input and output: the one at axis {axis} of {first.name} is not "
        f"exactly one axis of {', '.join(lacking[nearest])}"
    )


def _holds(expr: Any, symbol: sympy.Symbol) -> bool:
    return isinstance(expr, sympy.Basic) and symbol in expr.free_symbols


def _check_buckets(signature: Signature, options: Options) -> None:
    known = {symbol.name: symbol for symbol in signature.symbols.values()}
    faults: list[str] = []
    declared = list(options.buckets.items())
    if options.batch_buckets:
        declared.append(("batch", options.batch_buckets))
    for name, sizes in declared:
        what = f"buckets.{name}" if name in options.buckets else "batch_buckets"
        if name not in known:
            if what == "batch_buckets":
                continue  # the model is served unbatched, or in its one fixed size
            listed = ", ".join(f"{symbol.name} ({symbol.where})" for symbol in known.values()) or "none"
            faults.append(f"{what}: the program has no such symbol, it has {listed}")
            continue
        bad = [size for size in sizes if not known[name].admits(size)]
        if bad:
            high = known[name].high
            allowed = f"{known[name].low} to {high}" if high is not None else f"at least {known[name].low}"
            faults.append(f"{what} has {', '.join(map(str, bad))}, but the program takes {allowed}")
    if faults:
        raise CompilerError("bad_options", "; ".join(faults))


def _note_names(program: Program, signature: Signature) -> None:
    if signature.symbols:
        named = ", ".join(f"{symbol.name} = {symbol.where}" for symbol in signature.symbols.values())
        program.notes.append(f"the program does not keep the names of its dimensions; they are called: {named}")
