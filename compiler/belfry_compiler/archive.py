"""Reading a `.pt2`: the checks that give clean errors, before and while torch reads it."""

from __future__ import annotations

import json
import logging
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belfry_compiler import hostile
from belfry_compiler.errors import CompilerError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_JSON_LIMIT = 256 << 20


def load_program(path: Path) -> ExportedProgram:
    """Any file gives an ExportedProgram or a CompilerError of kind bad_model or uncompilable."""
    graph = _read_graph(path)
    hostile.refuse_pickled_code()
    if graph is not None:
        hostile.check_expressions(path, graph)
        hostile.allow_classes_of_the_model(path)
        _register_foreign_nodes(graph)
    import torch

    with _WarningsOf("torch") as heard:
        try:
            program = torch.export.load(str(path))
        except Exception as error:
            raise _explain(path, error, heard.exception, graph) from None
    if not isinstance(program, torch.export.ExportedProgram):
        raise CompilerError("bad_model", f"{path.name} holds {type(program).__name__}, expected an exported program")
    return program


def _read_graph(path: Path) -> dict[str, Any] | None:
    """The archive's model.json; None for the older layout, which torch reads itself."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            broken = archive.testzip()
            if broken is not None:
                raise CompilerError("bad_model", f"{path.name} is damaged: the sum of {broken} does not match")
            graphs = [name for name in names if name.endswith("/models/model.json")]
            if not graphs:
                _check_layout(path, names)
                return None
            if archive.getinfo(graphs[0]).file_size > _JSON_LIMIT:
                raise CompilerError("bad_model", f"{path.name}: {graphs[0]} is larger than {_JSON_LIMIT} bytes")
            graph = json.loads(archive.read(graphs[0]))
    except CompilerError:
        raise
    except FileNotFoundError:
        raise CompilerError("bad_model", f"{path.name}: no such file") from None
    except (OSError, zipfile.BadZipFile, ValueError, RuntimeError, NotImplementedError, EOFError) as error:
        text = f"{path.name} is not a .pt2 made by torch.export.save, or it is cut short: {error}"
        raise CompilerError("bad_model", text) from None
    except Exception as error:  # zlib.error and what else hostile bytes bring about
        raise CompilerError("bad_model", f"{path.name} is damaged: {error}") from None
    if not isinstance(graph, dict):
        raise CompilerError("bad_model", f"{path.name}: {graphs[0]} holds {type(graph).__name__}, expected an object")
    return graph


def _check_layout(path: Path, names: list[str]) -> None:
    if any("/data/aotinductor/" in name for name in names):
        text = f"{path.name} is a compiled AOTInductor package, expected an exported program (torch.export.save)"
        raise CompilerError("bad_model", text)
    if any(name.endswith("/constants.pkl") for name in names):
        text = f"{path.name} is TorchScript, expected an exported program (torch.export.save)"
        raise CompilerError("bad_model", text)
    if "version" not in names:
        inside = ", ".join(names[:5]) or "nothing"
        raise CompilerError("bad_model", f"{path.name} is no exported program (torch.export.save): it holds {inside}")


def _explain(path: Path, error: Exception, inner: BaseException | None, graph: dict[str, Any] | None) -> CompilerError:
    cause = inner if inner is not None else error
    missing = _missing_operators(graph) if graph is not None else []
    if missing:
        text = f"{path.name} uses operators of a library that is not installed here: {', '.join(missing)}"
        return CompilerError("uncompilable", text)
    made_with = graph.get("torch_version", "") if graph is not None else ""
    text = f"{path.name} cannot be read: {type(cause).__name__}: {cause}"
    if made_with:
        text += f" (exported with torch {made_with})"
    return CompilerError("bad_model", text)


def _missing_operators(graph: dict[str, Any]) -> list[str]:
    """Operators that the program calls and that no loaded library has, as namespace::name.overload."""
    import torch

    missing: set[str] = set()
    for target in _call_targets(graph.get("graph_module", {}).get("graph", {})):
        if not target.startswith("torch.ops."):
            continue
        parts = target.split(".")[2:]
        try:
            found: Any = torch.ops
            for part in parts:
                found = getattr(found, part)
        except (AttributeError, RuntimeError):
            missing.add(f"{parts[0]}::{'.'.join(parts[1:])}")
    return sorted(missing)


def _call_targets(graph: Any) -> Iterator[str]:
    """Of a serialized graph and of the graphs inside it (the branches of a condition)."""
    if isinstance(graph, list):
        for item in graph:
            yield from _call_targets(item)
    elif isinstance(graph, dict):
        target = graph.get("target")
        if isinstance(target, str):
            yield target
        for item in graph.values():
            if isinstance(item, dict | list):
                yield from _call_targets(item)


def _register_foreign_nodes(graph: dict[str, Any]) -> None:
    """Makes the dataclasses of a model's signature known by name, so that its own code is not needed.

    A program that returns a dataclass names the class, and torch.export.load refuses a name that nothing has
    registered. Only the names of the fields matter here: a stand-in takes the class's place.
    """
    from torch.utils import _pytree

    for entry in graph.get("graph_module", {}).get("module_call_graph", []):
        signature = (entry or {}).get("signature") or {}
        for spec in (signature.get("in_spec"), signature.get("out_spec")):
            for name in _node_types(spec):
                if name not in _pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE:
                    _register_stand_in(name)


def _node_types(spec: Any) -> Iterator[str]:
    try:
        tree = json.loads(spec)[1] if spec else {}
    except (ValueError, TypeError, KeyError, IndexError):
        return
    pending = [tree]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict):
            continue
        if isinstance(node.get("type"), str):
            yield node["type"]
        children = node.get("children_spec")
        pending.extend(children if isinstance(children, list) else [])


def _register_stand_in(name: str) -> None:
    from torch.utils import _pytree

    stand_in = type("Record", (_Record,), {"__qualname__": name})
    _pytree._register_pytree_node(
        stand_in,
        lambda record: (list(record.values), record.context),
        lambda values, context: stand_in(list(values), context),
        serialized_type_name=name,
    )


class _Record:
    """Stands in for a dataclass of the model's own code: values in the order of its fields."""

    def __init__(self, values: list[Any], context: Any) -> None:
        self.values = values
        self.context = context


def field_names(context: Any) -> list[str]:
    """Of a dataclass's serialized context: [fields that hold tensors, fields that are None], or the fields alone."""
    if isinstance(context, list | tuple) and context and isinstance(context[0], list | tuple):
        return [str(name) for name in context[0]]
    if isinstance(context, list | tuple) and all(isinstance(name, str) for name in context):
        return list(context)
    return []


class _WarningsOf:
    """Hears what torch logs: torch.export.load logs the cause of a failure and raises another error without it."""

    def __init__(self, logger: str) -> None:
        self._logger = logging.getLogger(logger)
        self._handler = _Listener()
        self.exception: BaseException | None = None

    def __enter__(self) -> _WarningsOf:
        self._handlers = [(log, log.handlers[:]) for log in (self._logger, logging.getLogger("torch.export"))]
        for log, _ in self._handlers:
            log.handlers = []
        self._logger.addHandler(self._handler)
        return self

    def __exit__(self, *exc: object) -> None:
        for log, handlers in self._handlers:
            log.handlers = handlers
        self.exception = self._handler.exception


class _Listener(logging.Handler):
    exception: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.exception = record.exc_info[1]
