"""One compile, from a `.pt2` to a sealed artifact: the stages in order.

What imports torch is imported late: the target begins its own work while torch is being imported.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from belfry_compiler import canonical, folder, host
from belfry_compiler.errors import CompilerError
from belfry_compiler.options import Options, options_from
from belfry_compiler.progress import Progress
from belfry_compiler.targets import make_target

if TYPE_CHECKING:
    from belfry_compiler.targets.base import Target


# Environment variables that would change what Inductor and the C++ compiler make: the key does not know them.
_FOREIGN_PREFIXES = (
    "TORCHINDUCTOR_",
    "AOT_INDUCTOR_",
    "AOTINDUCTOR_",
    "AOTI_",
    "TORCH_COMPILE_",
    "TORCHDYNAMO_",
    "ONEDNN_",
    "DNNL_",
)
_FOREIGN_VARIABLES = ("ATEN_CPU_CAPABILITY", "CXX", "CC", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    model: Path
    target: str
    out: Path
    options: Options
    isa: str | None
    threads: int
    key: str | None = None
    key_fields: dict[str, Any] | None = None  # numbers as canonical.NumberToken


def compile_model(request: Request, progress: Progress) -> str:
    """Returns the artifact's key. On an error nothing that looks whole is left in the folder."""
    work = Path(tempfile.mkdtemp(prefix="belfry-compile-"))
    target = None
    try:
        target = make_target(request.target, request.isa, request.threads)
        folder.claim_folder(request.out)
        with progress.stage("load"):
            model = _read(request.model)
            fields = _key_fields(request, target, canonical.sha256_hex(model))
            key = _key(request, fields)
            del model
            _isolate(work, request.threads)
            target.prepare(work)
            exported = _load(request.model)
        _stages(request, target, exported, key, fields, progress)
        return key
    finally:
        if target is not None:
            target.close()
        shutil.rmtree(work, ignore_errors=True)


def _stages(
    request: Request, target: Target, exported: Any, key: str, fields: dict[str, Any], progress: Progress
) -> None:
    import torch

    from belfry_compiler.manifest import manifest_of
    from belfry_compiler.numerics import check_numerics
    from belfry_compiler.program import make_program
    from belfry_compiler.rows import check_rows
    from belfry_compiler.samples import Sampler
    from belfry_compiler.signature import derive_signature

    torch.set_num_threads(request.threads)
    with progress.stage("export"):
        program = make_program(exported)
        signature = derive_signature(program, request.options)
    compiled = target.compile(program, request.out, progress)
    with progress.stage("numerics"):
        run = target.load(request.out, compiled)
        sampler = Sampler(program, signature)
        numerics = check_numerics(program, signature, request.options, sampler, run)
    with progress.stage("rows"):
        rows = check_rows(program, signature, request.options, sampler, run, numerics)
    with progress.stage("package"):
        files = folder.list_files(request.out)
    report = {
        "seconds": round(progress.seconds, 3),
        "stages": progress.report(),
        "kernels": compiled.kernels,
        "fallbacks": compiled.fallbacks,
        "numerics": numerics.report(),
        "rows": rows.report(),
        "deterministic": rows.deterministic,
        "notes": [*program.notes, *compiled.notes],
    }
    manifest = manifest_of(key, canonical.plain(fields), request.target, signature, compiled.entry, files, report)
    folder.seal(request.out, manifest)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CompilerError("bad_model", f"{path.name} cannot be read: {error.strerror}") from None


def _load(path: Path) -> Any:
    from belfry_compiler.archive import load_program

    return load_program(path)


def _key_fields(request: Request, target: Target, model_sha256: str) -> dict[str, Any]:
    """As device/manifest/README.md says; those that the caller gave must say the same."""
    own: dict[str, Any] = {
        "model_sha256": model_sha256,
        "target": target.name,
        "driver": target.driver,
        "arch": target.arch,
        "isa": target.isa,
        "torch": host.torch_version(),
        "compiler": host.compiler_version(),
        "options": request.options.canonical(),
    }
    if request.key_fields is None:
        return own
    given = canonical.plain(request.key_fields)
    faults = [
        f"{name} is {given.get(name)!r}, but here it is {own[name]!r}"
        for name in own
        if name != "options" and given.get(name) != own[name]
    ]
    if options_from(given.get("options", {})) != request.options:
        faults.append("options are not those that the compile was given")
    if faults:
        raise CompilerError("bad_options", f"the key fields do not fit this compile: {'; '.join(faults)}")
    return request.key_fields


def _key(request: Request, fields: dict[str, Any]) -> str:
    key = canonical.key_of(fields)
    if request.key is not None and request.key != key:
        raise CompilerError("bad_options", f"--key is {request.key}, but the key fields give {key}")
    return key


def _isolate(work: Path, threads: int) -> None:
    """What Inductor makes on the way goes into a private folder, and nothing of the caller's environment comes in."""
    for name in list(os.environ):
        if name.startswith(_FOREIGN_PREFIXES) or name in _FOREIGN_VARIABLES:
            del os.environ[name]
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(work / "cache")
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    os.environ["OMP_NUM_THREADS"] = str(threads)
    # Threads that wait must not spin: cards may be serving on the same processors.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
