"""From C++ sources to a shared object: what is the same for all models early, the rest in parallel."""

from __future__ import annotations

import shutil
from concurrent.futures import Future
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from belfry_compiler.errors import CompilerError
from belfry_compiler.targets.cpu import internals
from belfry_compiler.targets.cpu.isa import Isa
from belfry_compiler.targets.cpu.toolchain import Toolchain

if TYPE_CHECKING:
    from belfry_compiler.targets.cpu.lowering import Sources

# Kernels are where time is spent when serving. The rest runs a few dozen instructions between two of them.
_KERNEL_OPTIMISATION = "-O3"
_WRAPPER_OPTIMISATION = "-O1"
# Parsing the headers of one more translation unit costs about a second, as much as compiling this much kernel text.
_KERNEL_TEXT_PER_UNIT = 60_000
# Definitions without influence on the layout of AOTInductor's classes.
_HARMLESS = ("CPU_CAPABILITY", "HAVE_", "AT_BUILD", "TORCH_INDUCTOR_PRECOMPILE_HEADERS")


class Build:
    """One shared object. 'begin' needs no torch; 'finish' needs Inductor's sources. Used by one thread."""

    def __init__(self, isa: Isa, torch_dir: Path, folder: Path, tools: Toolchain, jobs: int) -> None:
        self._isa = isa
        self._torch = torch_dir
        self._folder = folder
        self._tools = tools
        self._jobs = max(1, jobs)
        self._interface: Future[None] | None = None
        self.interface_text = internals.interface_source(torch_dir)

    def begin(self) -> None:
        """Compiles AOTInductor's C interface, the same text for every model, while torch is still being imported."""
        self._folder.mkdir(parents=True, exist_ok=True)
        frame = resources.files(__package__).joinpath("interface.cpp.in").read_text(encoding="utf-8")
        source = frame.replace("@AOTI_INTERFACE@", self.interface_text)
        flags, definitions = self._base_flags(), _base_definitions()
        self._interface = self._compile("interface", source, _WRAPPER_OPTIMISATION, flags, definitions)

    def finish(self, sources: Sources, target: Path) -> None:
        if self._interface is None:
            raise CompilerError("internal", "the build was not begun")
        self._check_definitions(sources)
        flags = [*sources.compile_flags, *self._isa.flags]
        in_place = "true" if sources.constants_in_place else "false"
        model = f'{sources.model}\nextern "C" {{ extern const bool belfry_constants_in_place = {in_place}; }}\n'
        jobs = [self._compile("model", model, _WRAPPER_OPTIMISATION, flags, sources.definitions)]
        units = _units(sources.kernels, self._jobs)
        names = [f"kernels_{index}" for index in range(len(units))]
        for name, text in zip(names, units, strict=True):
            jobs.append(self._compile(name, text, _KERNEL_OPTIMISATION, flags, sources.definitions))
        for job in [*jobs, self._interface]:
            job.result()
        self._link(["interface", "model", *names], sources.constants, target)

    def _compile(self, name: str, text: str, optimise: str, flags: list[str], definitions: list[str]) -> Future[None]:
        (self._folder / f"{name}.cpp").write_text(text, encoding="utf-8")
        include = self._torch / "include"
        arguments = [
            "-c",
            f"{name}.cpp",
            "-o",
            f"{name}.o",
            optimise,
            "-DNDEBUG",
            "-w",
            *(f"-D{definition}" for definition in definitions),
            *flags,
            f"-I{include}",
            f"-I{include / 'torch' / 'csrc' / 'api' / 'include'}",
            # Messages of failed checks name files of torch: by the name of the file, not by where it lies here.
            f"-ffile-prefix-map={include}=torch-include",
        ]
        return self._tools.submit(self._folder, arguments)

    def _base_flags(self) -> list[str]:
        march = [f"-march={self._isa.march}"] if self._isa.march else []
        return ["-fPIC", "-std=c++20", "-fopenmp", *march, *self._isa.flags]

    def _check_definitions(self, sources: Sources) -> None:
        """The interface was compiled before Inductor told its definitions; they must agree where it matters."""
        ours = {name for name in _base_definitions() if not name.startswith(_HARMLESS)}
        theirs = {name for name in sources.definitions if not name.startswith(_HARMLESS)}
        if ours != theirs:
            text = f"AOTInductor defines {', '.join(sorted(ours ^ theirs))}, which this compiler does not expect"
            raise CompilerError("internal", text)

    def _link(self, names: list[str], constants: Path, target: Path) -> None:
        shutil.copyfile(constants, self._folder / "constants.o")
        libraries = self._torch / "lib"
        arguments = [
            "-shared",
            "-o",
            "model.so",
            *(f"{name}.o" for name in names),
            "constants.o",
            f"-L{libraries}",
            "-ltorch_cpu",
            # torch's own OpenMP runtime calls itself by the same name as the system's: a process has only one.
            "-fopenmp",
            "-Wl,--as-needed",
            "-Wl,-z,relro",
            "-Wl,-z,noexecstack",
            "-s",
        ]
        self._tools.submit(self._folder, arguments).result()
        shutil.move(self._folder / "model.so", target)


def _base_definitions() -> list[str]:
    return ["TORCH_INDUCTOR_CPP_WRAPPER", "STANDALONE_TORCH_HEADER", "C10_USING_CUSTOM_GENERATED_MACROS"]


def _units(kernels: list[str], jobs: int) -> list[str]:
    """Joins kernels into translation units of about equal size; the order of kernels does not matter."""
    total = sum(len(text) for text in kernels)
    count = max(1, min(jobs, len(kernels), round(total / _KERNEL_TEXT_PER_UNIT)))
    units = [""] * count
    for text in sorted(kernels, key=len, reverse=True):
        shortest = min(range(count), key=lambda index: len(units[index]))
        units[shortest] += text + "\n"
    return [unit for unit in units if unit]
