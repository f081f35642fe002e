"""Sizes as the manifest writes them: integers, names, + - * // and parentheses, nothing else."""

from __future__ import annotations

from typing import Any

import sympy

from belfry_compiler.symbols import Symbol

_POWER_LIMIT = 8


def render(expr: Any, symbols: dict[sympy.Symbol, Symbol]) -> int | str | None:
    """A number, a name, or a text such as "2*seq" or "(seq + 7)//8"; None where the manifest has no words for it."""
    if not isinstance(expr, sympy.Basic):
        return int(expr)
    return _text(expr, {symbol: known.name for symbol, known in symbols.items()})


def _text(expr: sympy.Basic, names: dict[sympy.Symbol, str]) -> str | None:
    if isinstance(expr, sympy.Integer):
        return str(expr) if expr >= 0 else f"({expr})"
    if isinstance(expr, sympy.Symbol):
        return names.get(expr)
    parts = [_text(part, names) for part in _parts(expr)]
    known = [part for part in parts if part is not None]
    if not known or len(known) != len(parts):
        return None
    if isinstance(expr, sympy.Add):
        return f"({' + '.join(known)})"
    if isinstance(expr, sympy.Mul | sympy.Pow):
        return "*".join(known)
    if _is(expr, "FloorDiv", "CleanDiv"):
        return f"({known[0]}//{known[1]})"
    if _is(expr, "Mod", "PythonMod"):
        return f"({known[0]} - {known[0]}//{known[1]}*{known[1]})"
    return None


def _parts(expr: sympy.Basic) -> tuple[sympy.Basic, ...]:
    if isinstance(expr, sympy.Pow):
        base, exponent = expr.args
        count = int(exponent) if isinstance(exponent, sympy.Integer) else 0
        return (base,) * count if 0 < count <= _POWER_LIMIT else ()
    return expr.args


def _is(expr: sympy.Basic, *names: str) -> bool:
    """torch's own functions, by name: where they are defined differs between its versions."""
    return type(expr).__name__ in names and len(expr.args) == 2
