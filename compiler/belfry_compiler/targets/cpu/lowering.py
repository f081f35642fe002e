"""From a program to C++: Inductor's half of the compile, which ends with sources on disk and no compiler run."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from belfry_compiler.errors import CompilerError
from belfry_compiler.program import Program
from belfry_compiler.targets.cpu import internals
from belfry_compiler.targets.cpu.isa import Isa

_KERNEL_INCLUDE = "#include <torch/csrc/inductor/cpp_prefix.h>"
_KERNEL_DEFINITION = re.compile(r'^extern "C"\s+void\s+\w+\([^;{]*\)\s*\{', re.MULTILINE)
# Calls of PyTorch's own operators. What only handles tensors (sizes, views, allocation) is called aoti_torch_NAME.
_OPERATOR_CALL = re.compile(r"\baoti_torch_cpu_(\w+)\(")
_RECURRENT = ("aten::lstm", "aten::gru", "aten::mkldnn_rnn_layer")
# The end of the constructor's call of its base: whether the base copies the constants out of the shared object.
_COPIES_CONSTANTS = re.compile(r"(std::move\(cubin_dir\),\s*)true\)")


@dataclass(frozen=True)
class Sources:
    """What Inductor wrote, cut along its seams."""

    model: str  # the class of this model: constants' table, the calls of kernels and operators
    kernels: list[str]  # one self-contained text each
    constants: Path  # object file
    compile_flags: list[str]
    definitions: list[str]
    extern_nodes: Path | None  # operators that are called by name, for the runner
    kernel_count: int
    fallbacks: list[str]
    constants_in_place: bool  # the constants are used where the file is mapped


def lower(program: Program, isa: Isa, folder: Path, interface: str) -> Sources:
    """Runs Inductor. 'folder' receives what it writes; 'interface' is the text that every model begins with."""
    internals.fix_vector_isa(isa.name)
    options = {
        "aot_inductor.output_path": str(folder / "model"),
        "aot_inductor.package": True,
        "aot_inductor.package_cpp_only": True,
        "aot_inductor.precompile_headers": False,
        "aot_inductor.enable_line_tables": False,
        # The number of threads belongs to the card, not to the artifact.
        "cpp.dynamic_threads": True,
        "cpp.march": isa.march,
        "compile_threads": 1,
        "freezing": _is_recurrent(program),
    }
    files = _inductor(program, options)
    return _collect(files, interface)


def _inductor(program: Program, options: dict[str, Any]) -> list[Path]:
    arguments = tuple(_argument(leaf.value, leaf.example) for leaf in program.inputs)
    try:
        with torch.no_grad():
            made = torch._inductor.aot_compile(program.module, arguments, options=options)
    except Exception as error:
        raise CompilerError("uncompilable", _own_words(error)) from error
    if not isinstance(made, list):
        raise CompilerError("internal", f"Inductor returned {made!r}, expected a list of files")
    return [Path(file) for file in made if isinstance(file, str)]


def _is_recurrent(program: Program) -> bool:
    """Recurrent layers reorder their weights in every call unless these are packed at compile time.

    Packing everything ("freezing") makes an LSTM up to twice as fast, but linear layers of a few rows five times as
    slow, because the packed ones go through a costlier call. So it depends on what the model mostly does.
    """
    names = {str(getattr(node.target, "name", lambda: "")()) for node in _calls(program)}
    return any(name.startswith(_RECURRENT) for name in names)


def _calls(program: Program) -> list[torch.fx.Node]:
    return [node for node in program.module.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


def _argument(value: torch.Tensor, example: torch.Tensor | None) -> torch.Tensor:
    if example is not None:
        return example
    return torch.zeros([internals.hint_of(size) for size in value.shape], dtype=value.dtype)


def _own_words(error: BaseException) -> str:
    """The innermost cause tells what is wrong; what wraps it tells where."""
    texts: list[str] = []
    current: BaseException | None = error
    while current is not None:
        text = f"{type(current).__name__}: {current}".strip()
        if not any(text in known or known in text for known in texts):
            texts.append(text)
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "Inductor cannot compile the model: " + "\ncaused by ".join(texts)


def _collect(files: list[Path], interface: str) -> Sources:
    wrapper = _only(files, lambda path: path.name.endswith(".wrapper.cpp"), "a wrapper")
    constants = _only(files, lambda path: path.suffix == ".o", "an object file with the constants")
    flags = json.loads(
        _only(files, lambda path: path.name.endswith("compile_flags.json"), "compile flags").read_text(encoding="utf-8")
    )
    extern = wrapper.with_suffix(".json")
    text = wrapper.read_text(encoding="utf-8")
    if any(path.name == "custom_objs_config.json" for path in files):
        raise CompilerError("uncompilable", "the model keeps an object of a custom class, which a card cannot hold")
    head, found, rest = text.partition(interface)
    if not found:
        raise CompilerError("internal", "AOTInductor's source does not have the layout of torch 2.13")
    model, *kernels = rest.split(_KERNEL_INCLUDE)
    model, replaced = _COPIES_CONSTANTS.subn(r"\1false)", model)
    in_place = replaced == 1
    if replaced > 1:
        raise CompilerError("internal", "AOTInductor's source does not have the layout of torch 2.13")
    nodes = _extern_names(extern) if extern.exists() else []
    return Sources(
        model=head + model,
        kernels=[f"{_KERNEL_INCLUDE}{kernel}" for kernel in kernels],
        constants=constants,
        compile_flags=_code_flags(flags["cflags"]),
        definitions=[str(name).strip() for name in flags["definitions"]],
        extern_nodes=extern if extern.exists() else None,
        kernel_count=sum(len(_KERNEL_DEFINITION.findall(kernel)) for kernel in kernels),
        fallbacks=sorted({f"aten.{name}" for name in _OPERATOR_CALL.findall(model)} | set(nodes)),
        constants_in_place=in_place,
    )


def _only(files: list[Path], test: Any, what: str) -> Path:
    found = [path for path in files if test(path)]
    if len(found) != 1:
        raise CompilerError("internal", f"Inductor wrote {len(found)} files where {what} was expected")
    return found[0]


def _code_flags(flags: list[str]) -> list[str]:
    """Those that decide what the code computes; how hard to optimise and what to warn of is decided in build.py."""
    left_out = {"DNDEBUG", "Wall", "pedantic", "fno-omit-frame-pointer"}
    kept = [flag for flag in flags if flag not in left_out and not re.fullmatch(r"O\w|g\d?", flag)]
    return [f"-{flag}" for flag in kept]


def _extern_names(path: Path) -> list[str]:
    """Operators that the runner calls by name, of the JSON file that AOTInductor writes for it."""
    nodes = json.loads(path.read_text(encoding="utf-8")).get("nodes", [])
    names = [node.get("node", {}).get("target", "") for node in nodes]
    return [name.removeprefix("torch.ops.").removesuffix(".default") for name in names if name]
