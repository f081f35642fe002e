"""What belfryd relies on: JSON lines on stdout, words on stderr, exit codes, keys."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from belfry_compiler import canonical, host
from tests.conftest import Artifact

_COMPILER = Path(__file__).parents[1]


def run(*arguments: Any, **environment: str) -> tuple[int, list[dict[str, Any]], str]:
    done = subprocess.run(
        [sys.executable, "-m", "belfry_compiler", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(_COMPILER), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_describe_is_quick_and_does_not_import_torch() -> None:
    code, lines, _ = run("describe")
    assert code == 0
    (described,) = lines
    assert set(described) == {"compiler", "torch", "arch", "isa", "targets"}
    assert described["compiler"] == host.compiler_version()
    assert described["targets"] == ["cpu"]
    script = "import sys, belfry_compiler.cli as c; c.main(['describe']); sys.exit('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(_COMPILER)}).returncode == 0
    )
    # Seconds of a processor, not of the clock: other work on the machine does not count.
    assert min(_processor_seconds("describe") for _ in range(3)) < 0.3


def _processor_seconds(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_compile_with_a_given_key(exported: Callable[[str], Path], tmp_path: Path) -> None:
    """As belfryd calls it, in a hostile place: no home to write to, a foreign cache folder, a foreign compiler."""
    described = run("describe")[1][0]
    options = '{"precision":"float32","rtol":1.00e-4}'
    text = json.dumps(
        {
            "model_sha256": canonical.sha256_hex(exported("mlp").read_bytes()),
            "target": "cpu",
            "driver": "cpu/1",
            **{name: described[name] for name in ("arch", "isa", "torch", "compiler")},
            "options": "@",
        }
    ).replace('"@"', options)
    fields, settings = tmp_path / "fields.json", tmp_path / "options.json"
    fields.write_text(text)
    settings.write_text(options)
    key = canonical.key_of(canonical.parse_keeping_numbers(text))
    arguments = ["--options", settings, "--key", key, "--key-fields", fields, "--threads", 2]
    hostile = {"HOME": "/proc", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "foreign"), "CXX": "/bin/false"}
    private = tmp_path / "tmp"
    private.mkdir()
    code, lines, _ = run(
        "compile", exported("mlp"), "--out", tmp_path / "out", *arguments, TMPDIR=str(private), **hostile
    )
    assert code == 0, lines
    assert lines[-1]["done"]["key"] == key
    assert all(set(line) == {"stage", "seconds"} for line in lines[:-1])
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["key"] == key
    assert manifest["report"]["numerics"]["rtol"] == 1e-4
    assert list(private.iterdir()) == []
    assert not (tmp_path / "foreign").exists()


def test_the_key_is_the_same_by_hand_and_by_the_library(artifact: Callable[..., Artifact]) -> None:
    made = artifact("mlp")
    assert made.manifest["key_fields"]["options"] == {"precision": "float32"}
    assert made.manifest["key_fields"]["isa"] == host.host_isas()[0]


@pytest.mark.parametrize(
    ("arguments", "kind", "code", "words"),
    [
        (["compile"], "bad_options", 2, "arguments are required: model, --out"),
        (["compile", "@absent", "--out", "@out"], "bad_model", 3, "No such file"),
        (["compile", "@text", "--out", "@out"], "bad_model", 3, "is not a .pt2"),
        (
            ["compile", "@mlp", "--out", "@out", "--target", "gpu"],
            "bad_options",
            2,
            "'gpu' is not known, expected one of cpu",
        ),
        (["compile", "@mlp", "--out", "@out", "--isa", "mmx"], "bad_options", 2, "isa 'mmx' is not known"),
        (["compile", "@mlp", "--out", "@out", "--options", "@text"], "bad_options", 2, "not JSON"),
        (["compile", "@mlp", "--out", "@out", "--key", "00"], "bad_options", 2, "--key needs --key-fields"),
        (["compile", "@mlp", "--out", "@out", "--key-fields", "@fields"], "bad_options", 2, "target is 'tpu'"),
        (["compile", "@writes_input", "--out", "@out"], "uncompilable", 4, "forward writes into its own input (x)"),
        (["compile", "@random_dropout", "--out", "@out"], "tolerance", 5, "output output"),
    ],
)
def test_errors(
    exported: Callable[[str], Path], tmp_path: Path, arguments: list[str], kind: str, code: int, words: str
) -> None:
    (tmp_path / "text").write_text("no model, no JSON")
    (tmp_path / "fields").write_text(json.dumps({"target": "tpu"}))
    known = {"@out", "@text", "@absent", "@fields"}
    resolved = [
        argument
        if not argument.startswith("@")
        else tmp_path / argument[1:]
        if argument in known
        else exported(argument[1:])
        for argument in arguments
    ]
    exit_code, lines, _ = run(*resolved)
    assert exit_code == code, lines
    error = lines[-1]["error"]
    assert error["kind"] == kind
    assert words in error["message"]
    assert "Traceback" not in error["message"]
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_what_a_model_prints_stays_out_of_stdout(tmp_path: Path) -> None:
    script = "import belfry_compiler.cli as c; p = c._claim_stdout(); print('noise'); p.write('{}\\n'); p.flush()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(_COMPILER)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "{}\n"
    assert "noise" in done.stderr
