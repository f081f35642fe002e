"""What in a `.pt2` could run code while torch reads it, and how that is refused.

torch.export.load is not made for files of strangers. It unpickles example inputs, and it hands expressions in symbols
to sympy, which evaluates them as Python. belfryd limits the compiler's memory, time and processes, but there is no
sandbox around it yet: load only models that you trust. Here the known ways are closed, so that such a file gets an
error with words and not a strange end.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from belfry_compiler.errors import CompilerError

# What torch writes: Symbol('s17', positive=True, integer=True), 2*Symbol(…), Mod(…, 8), …
_EXPRESSION = re.compile(r"[\w\s'\"(),=+\-*/<>!&|]*")
_NUMBER_OR_NAME = re.compile(r"[A-Za-z_]\w*")
_SYMBOL = re.compile(r"(s|u|i|f|z|_)\d*|(zuf|unbacked_|backed_)\w*")
_QUOTED = re.compile(r"'(\w*)'|\"(\w*)\"")
_FUNCTION_NAMES = """
    Symbol Integer Rational Add Mul Pow Mod PythonMod FloorDiv CeilDiv CleanDiv CeilToInt FloorToInt IntTrueDiv
    FloatTrueDiv ToFloat TruncToInt TruncToFloat RoundToInt RoundDecimal PowByNatural FloatPow Max Min Abs Eq Ne Le Lt
    Ge Gt And Or Not Where ModularIndexing Identity Piecewise floor ceiling oo int_oo IntInfinity BitwiseFn_bitwise_and
    positive integer nonnegative real finite True False None evaluate
"""
_FUNCTIONS = frozenset(_FUNCTION_NAMES.split())


def refuse_pickled_code() -> None:
    """From now on torch.load takes tensors and containers only, also where torch itself asks for more."""
    os.environ.pop("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", None)
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"


def check_expressions(path: Path, graph: Any) -> None:
    """Every expression in the graph may only do arithmetic on symbols."""
    for text in _expressions(graph):
        words = _NUMBER_OR_NAME.findall(_QUOTED.sub("", text))
        plain = _EXPRESSION.fullmatch(text) is not None and "__" not in text
        if not plain or not all(word in _FUNCTIONS or _SYMBOL.fullmatch(word) for word in words):
            shown = text if len(text) <= 100 else f"{text[:100]}…"
            raise CompilerError("bad_model", f"{path.name} holds an expression that is no arithmetic: {shown}")


def allow_classes_of_the_model(path: Path) -> None:
    """Lets example inputs hold objects of classes that are not installed here: as empty shells without their code."""
    import torch

    with zipfile.ZipFile(path) as archive:
        pickled = [name for name in archive.namelist() if "/data/sample_inputs/" in name and name.endswith(".pt")]
        for name in pickled:
            try:
                unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(archive.read(name)))
            except Exception:  # no checkpoint at all: torch.export.load tells what it is
                continue
            shells = [(type("Shell", (_Shell,), {}), full) for full in unsafe if not _is_installed(full)]
            torch.serialization.add_safe_globals(shells)


class _Shell:
    """Takes the place of an object whose class is not here. Does nothing, whatever it is given."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass


def _is_installed(full_name: str) -> bool:
    module = full_name.split(".")[0]
    if module == "__main__":
        return False
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return True


def _expressions(graph: Any) -> Iterator[str]:
    pending = [graph]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            text = item.get("expr_str")
            if isinstance(text, str):
                yield text
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
