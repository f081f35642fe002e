"""The command line: arguments in, progress and one last line of JSON out, an exit code per kind of error."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn

from belfry_compiler import canonical, host
from belfry_compiler.errors import CompilerError
from belfry_compiler.options import Options, parse_options
from belfry_compiler.progress import Progress

_OPTIONS_LIMIT = 4 << 20


def main(arguments: list[str]) -> int:
    """Returns the exit code. Stdout carries only JSON lines, whatever torch or a model prints."""
    progress = Progress(_claim_stdout())
    try:
        return _run(arguments, progress)
    except CompilerError as error:
        progress.say(error.to_json())
        return error.exit_code
    except MemoryError:
        error = CompilerError("internal", "the compile ran out of memory")
    except KeyboardInterrupt:
        error = CompilerError("internal", "the compile was interrupted")
    except Exception as unexpected:
        traceback.print_exc(file=sys.stderr)
        where = traceback.extract_tb(unexpected.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        error = CompilerError("internal", f"{type(unexpected).__name__}: {unexpected} (at {place})")
    progress.say(error.to_json())
    return error.exit_code


def _run(arguments: list[str], progress: Progress) -> int:
    parsed = _parser().parse_args(arguments)
    if parsed.command == "describe":
        progress.say(host.describe())
        return 0
    from belfry_compiler.pipeline import Request, compile_model

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    warnings.simplefilter("ignore")  # torch's own deprecations tell an operator nothing
    # One compile, then the process ends: looking for garbage in millions of graph nodes costs a tenth of the time.
    gc.set_threshold(200_000, 50, 100)
    key_fields = _key_fields(parsed)
    request = Request(
        model=parsed.model,
        target=parsed.target,
        out=parsed.out,
        options=_options(parsed.options, key_fields),
        isa=parsed.isa,
        threads=parsed.threads,
        key=parsed.key,
        key_fields=key_fields,
    )
    key = compile_model(request, progress)
    progress.say({"done": {"key": key, "seconds": round(progress.seconds, 3)}})
    return 0


class _Parser(argparse.ArgumentParser):
    """Faults of the command line are errors like any other."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        raise CompilerError("bad_options", message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="belfry_compiler",
        description="Compiles an exported PyTorch program to an artifact that Belfry's cards run.",
        epilog="Formats, exit codes and the reasons are in compiler/README.md.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("describe", help="print the versions and targets that are here, as JSON")
    compile_ = commands.add_parser("compile", help="compile one model into a new folder")
    compile_.add_argument("model", type=Path, help="a .pt2 made by torch.export.save")
    compile_.add_argument("--target", default="cpu", help="cpu")
    compile_.add_argument("--out", type=Path, required=True, help="the artifact's folder: new or empty")
    compile_.add_argument("--options", type=Path, help="compile options, a JSON file")
    compile_.add_argument("--key", help="the key that the caller expects")
    compile_.add_argument("--key-fields", type=Path, help="what the key was made of, a JSON file")
    compile_.add_argument("--isa", help="instruction set (avx512, avx2, …); default: the host's best")
    compile_.add_argument("--threads", type=_threads, default=host.usable_cpus(), help="processors to use")
    return parser


def _threads(text: str) -> int:
    count = int(text)
    if not 1 <= count <= 1024:
        raise argparse.ArgumentTypeError(f"{text} is not between 1 and 1024")
    return count


def _key_fields(parsed: argparse.Namespace) -> dict[str, Any] | None:
    if parsed.key_fields is None:
        if parsed.key is not None:
            raise CompilerError("bad_options", "--key needs --key-fields")
        return None
    try:
        fields = canonical.parse_keeping_numbers(_read_text(parsed.key_fields, "--key-fields"))
    except ValueError as error:
        raise CompilerError("bad_options", f"--key-fields is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise CompilerError("bad_options", "--key-fields is not an object")
    return fields


def _options(path: Path | None, key_fields: dict[str, Any] | None) -> Options:
    """Of the file; where there is none, those in the key fields."""
    if path is not None:
        return parse_options(_read_text(path, "--options"))
    if key_fields is not None:
        return parse_options(json.dumps(canonical.plain(key_fields.get("options", {}))))
    return Options()


def _read_text(path: Path, what: str) -> str:
    try:
        if path.stat().st_size > _OPTIONS_LIMIT:
            raise CompilerError("bad_options", f"{what} is larger than {_OPTIONS_LIMIT} bytes")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CompilerError("bad_options", f"{what} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise CompilerError("bad_options", f"{what} is not UTF-8: {error.reason}") from None


def _claim_stdout() -> Any:
    """Keeps stdout for JSON: what else writes there, Python or C++, goes to stderr."""
    sys.stdout.flush()
    mine = os.fdopen(os.dup(1), "w", encoding="ascii", newline="\n")
    os.dup2(2, 1)
    return mine
