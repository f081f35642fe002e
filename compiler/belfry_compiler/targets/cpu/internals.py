"""The private parts of torch that the cpu target touches: all of them, and nowhere else.

Known to work with torch 2.13. What is public (torch._inductor.aot_compile with options) is used elsewhere directly.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

KNOWN_TORCH = ("2.13",)


def interface_source(torch_dir: Path) -> str:
    """The text that AOTInductor puts in front of every model: the same for all of them."""
    path = torch_dir / "_inductor" / "codegen" / "aoti_runtime" / "interface.cpp"
    return path.read_text(encoding="utf-8")


def fix_vector_isa(isa: str) -> None:
    """Makes Inductor write code for this instruction set.

    Its own choice tests the host by compiling probes, four seconds of them, and then takes whatever extensions it
    finds (VNNI, bf16, AMX), which would make artifacts of one key differ from host to host.
    """
    from torch._inductor import cpu_vec_isa

    chosen = _fixed(_vector_isa(isa))
    cpu_vec_isa.valid_vec_isa_list = lambda: [chosen] if chosen is not None else []


def _vector_isa(isa: str) -> Any:
    import platform

    from torch._inductor import cpu_vec_isa

    classes = {
        "avx512": cpu_vec_isa.VecAVX512,
        "avx2": cpu_vec_isa.VecAVX2,
        "zvector": cpu_vec_isa.VecZVECTOR,
        "vsx": cpu_vec_isa.VecVSX,
    }
    if isa == "default" and platform.machine() == "aarch64":
        return cpu_vec_isa.VecNEON
    return classes.get(isa)


def _fixed(base: Any) -> Any:
    """An instance that says of itself that it works, without a probe. Inductor hashes it by its text."""
    if base is None:
        return None
    fixed = type(base.__name__, (base,), {"__bool__": lambda self: True, "__hash__": base.__hash__})
    return fixed()


def container_runner(path: str) -> Any:
    """The runner that belfry-card uses, from Python."""
    import torch

    return torch._C._aoti.AOTIModelContainerRunnerCpu(path, 1)


def hint_of(size: int | torch.SymInt) -> int:
    """The size that a dimension had when the program was exported."""
    import torch

    if isinstance(size, torch.SymInt):
        hint = size.node.hint
        return int(hint) if hint is not None else 2
    return int(size)
