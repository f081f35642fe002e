"""Instruction sets of the cpu target: what each name means to Inductor and to the C++ compiler."""

from __future__ import annotations

from dataclasses import dataclass

from belfry_compiler import host
from belfry_compiler.errors import CompilerError


@dataclass(frozen=True)
class Isa:
    """The name fixes the code: never '-march=native', which would hide in the key what the code needs."""

    name: str
    march: str  # "" leaves the compiler's default
    flags: tuple[str, ...]
    definitions: tuple[str, ...]
    onednn: str = ""  # how oneDNN calls it; it packs weights for what it believes to run on


_X86_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_X86_AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma")
_ZVECTOR = ("CPU_CAPABILITY_ZVECTOR", "CPU_CAPABILITY=ZVECTOR", "HAVE_ZVECTOR_CPU_DEFINITION")

_ISAS: dict[str, dict[str, Isa]] = {
    "x86_64": {
        "avx512": Isa("avx512", "x86-64-v4", _X86_AVX512, ("CPU_CAPABILITY_AVX512",), "AVX512_CORE"),
        "avx2": Isa("avx2", "x86-64-v3", _X86_AVX2, ("CPU_CAPABILITY_AVX2",), "AVX2"),
        "default": Isa("default", "x86-64", (), (), "SSE41"),
    },
    "s390x": {
        "zvector": Isa("zvector", "z14", ("-mvx", "-mzvector"), _ZVECTOR),
        "default": Isa("default", "", (), ()),
    },
    "ppc64le": {
        "vsx": Isa("vsx", "power9", ("-mvsx",), ("CPU_CAPABILITY_VSX",)),
        "default": Isa("default", "", (), ()),
    },
    "aarch64": {
        "default": Isa("default", "armv8-a", (), ("CPU_CAPABILITY_NEON", "AT_BUILD_ARM_VEC256_WITH_SLEEF")),
    },
}


def choose_isa(wanted: str | None) -> Isa:
    """The wanted instruction set, or the host's best. It must run here, because the artifact is checked here."""
    known = _ISAS.get(host.arch(), {"default": Isa("default", "", (), ())})
    runs_here = [name for name in host.host_isas() if name in known]
    name = wanted if wanted else runs_here[0]
    if name not in known:
        text = f"isa {name!r} is not known on {host.arch()}, expected one of {', '.join(known)}"
        raise CompilerError("bad_options", text)
    if name not in runs_here:
        text = f"isa {name!r} does not run on this host, so its artifact cannot be checked here; it runs {runs_here}"
        raise CompilerError("bad_options", text)
    return known[name]
