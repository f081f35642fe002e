"""Readable names for the symbols of an exported program, and sizes for the checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sympy
import torch

from belfry_compiler.program import Program

UNBOUNDED = 2**62


@dataclass(frozen=True)
class Symbol:
    """A dimension that varies. An input's 'low' is at least 1: an empty tensor is never served."""

    name: str
    expr: sympy.Symbol
    low: int
    high: int | None  # None: no bound
    where: str  # "axis 1 of input_ids", for people

    def admits(self, size: int) -> bool:
        return self.low <= size and (self.high is None or size <= self.high)

    def clamp(self, size: int) -> int:
        return max(self.low, size if self.high is None else min(size, self.high))


def dimension_expr(size: Any) -> Any:
    """An int for a fixed size, a sympy expression for one that varies."""
    if isinstance(size, torch.SymInt):
        expr = size.node.expr
        return int(expr) if expr.is_number else sympy.expand(expr)
    return int(size)


def shape_exprs(value: torch.Tensor) -> list[Any]:
    return [dimension_expr(size) for size in value.shape]


def free_symbols(exprs: Iterable[Any]) -> list[sympy.Symbol]:
    """In order of appearance, each once."""
    seen: dict[sympy.Symbol, None] = {}
    for expr in exprs:
        if isinstance(expr, sympy.Basic):
            for symbol in sorted(expr.free_symbols, key=str):
                seen.setdefault(symbol)
    return list(seen)


def name_symbols(program: Program, batch: sympy.Symbol | None) -> dict[sympy.Symbol, Symbol]:
    """Names that stay the same from export to export.

    torch.export.save keeps the ranges of the dimensions but not the names that the exporter gave them. So the batch
    symbol is called "batch", the only other one "seq", and where there are more of these "seq", "seq_2", "seq_3", … in
    the order in which they appear in the inputs. A symbol that only an output has (a count that depends on the data)
    is called "count", "count_2", ….
    """
    in_inputs = free_symbols(expr for leaf in program.inputs for expr in shape_exprs(leaf.value))
    in_outputs = free_symbols(expr for leaf in program.outputs for expr in shape_exprs(leaf.value))
    names: dict[sympy.Symbol, str] = {}
    if batch is not None:
        names[batch] = "batch"
    others = [symbol for symbol in in_inputs if symbol != batch]
    names.update({symbol: _numbered("seq", index) for index, symbol in enumerate(others)})
    counts = [symbol for symbol in in_outputs if symbol not in names]
    names.update({symbol: _numbered("count", index) for index, symbol in enumerate(counts)})
    return {symbol: _describe(program, symbol, name, 0 if symbol in counts else 1) for symbol, name in names.items()}


def evaluate(expr: Any, sizes: dict[sympy.Symbol, int]) -> int:
    if not isinstance(expr, sympy.Basic):
        return int(expr)
    value = expr.xreplace({symbol: sympy.Integer(size) for symbol, size in sizes.items()})
    return int(value)


def _numbered(stem: str, index: int) -> str:
    return stem if index == 0 else f"{stem}_{index + 1}"


def _describe(program: Program, symbol: sympy.Symbol, name: str, fewest: int) -> Symbol:
    low, high = fewest, None
    bounds = program.ranges.get(symbol)
    if bounds is not None:
        low = max(fewest, _bound(bounds.lower, fewest))
        upper = _bound(bounds.upper, UNBOUNDED)
        high = upper if upper < UNBOUNDED else None
    return Symbol(name, symbol, low, high, _place(program, symbol))


def _bound(value: Any, otherwise: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError, AttributeError):
        return otherwise  # torch's int_oo


def _place(program: Program, symbol: sympy.Symbol) -> str:
    for leaf in [*program.inputs, *program.outputs]:
        for axis, expr in enumerate(shape_exprs(leaf.value)):
            if isinstance(expr, sympy.Basic) and symbol in expr.free_symbols:
                return f"axis {axis} of {leaf.name}"
    return "nowhere"
