"""Real compiles: the artifact's files, its answers, and what the report says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from belfry_compiler import canonical
from belfry_compiler.errors import CompilerError
from tests.conftest import Artifact, compile_here


def eager(artifact: Artifact, *inputs: torch.Tensor) -> list[torch.Tensor]:
    answers = torch.export.load(str(artifact.model)).module()(*inputs)
    return [answers] if isinstance(answers, torch.Tensor) else list(answers)


def test_the_folder_is_whole_and_says_what_it_is(artifact: Callable[..., Artifact]) -> None:
    made = artifact("mlp")
    manifest = made.manifest
    assert manifest["format"] == 1
    assert manifest["entry"] == {"kind": "aoti", "path": "model.so"}
    listed = {file["path"]: file for file in manifest["files"]}
    present = {path.name for path in made.folder.iterdir()} - {"manifest.json"}
    assert set(listed) == present
    for name, file in listed.items():
        data = (made.folder / name).read_bytes()
        assert file["bytes"] == len(data)
        assert file["sha256"] == hashlib.sha256(data).hexdigest()
    assert manifest["key"] == made.key == canonical.key_of(manifest["key_fields"])
    assert manifest["key_fields"]["model_sha256"] == hashlib.sha256(made.model.read_bytes()).hexdigest()


def test_the_report_is_full(artifact: Callable[..., Artifact]) -> None:
    report = artifact("mlp").manifest["report"]
    assert {stage["name"] for stage in report["stages"]} == {
        "load",
        "export",
        "inductor",
        "build",
        "numerics",
        "rows",
        "package",
    }
    assert report["seconds"] >= sum(stage["seconds"] for stage in report["stages"]) * 0.9
    assert report["kernels"] >= 1
    assert any("addmm" in name for name in report["fallbacks"])
    assert [sizes["batch"] for sizes in report["numerics"]["checked"]] == [1, 3, 33]
    assert report["numerics"]["max_abs"] < 1e-5
    assert report["rows"] == {"checked": True, "independent": True, "detail": ""}


def test_progress_tells_every_stage_in_order(artifact: Callable[..., Artifact]) -> None:
    stages = [line["stage"] for line in artifact("mlp").progress]
    assert stages == ["load", "export", "inductor", "build", "numerics", "rows", "package"]
    seconds = [line["seconds"] for line in artifact("mlp").progress]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("rows", [1, 2, 7, 64, 256])
def test_one_artifact_answers_every_batch_size(artifact: Callable[..., Artifact], rows: int) -> None:
    made = artifact("mlp")
    x = torch.randn(rows, 30)
    torch.testing.assert_close(made.run(x), eager(made, x), rtol=1e-4, atol=1e-5)


def test_batch_on_axis_one(artifact: Callable[..., Artifact]) -> None:
    made = artifact("lstm")
    x = torch.randn(7, 5, 11)
    torch.testing.assert_close(made.run(x), eager(made, x), rtol=1e-4, atol=1e-5)
    assert made.manifest["batch"]["batchable"]


def test_two_symbols_and_padding_buckets(artifact: Callable[..., Artifact]) -> None:
    made = artifact("encoder", {"buckets": {"seq": [16, 32]}})
    ids, mask = torch.randint(0, 97, (5, 21)), torch.ones(5, 21, dtype=torch.int64)
    expected = torch.export.load(str(made.model)).module()(ids, mask)
    torch.testing.assert_close(made.run(ids, mask), list(expected.values()), rtol=1e-4, atol=1e-5)
    checked = made.manifest["report"]["numerics"]["checked"]
    assert len({sizes["seq"] for sizes in checked}) > 1


def test_nested_inputs_and_outputs_of_many_types(artifact: Callable[..., Artifact]) -> None:
    made = artifact("decider")
    inputs = [torch.randint(0, 9, (3, 2)), torch.randn(3, 5), torch.randn(3, 5), torch.randn(3, 5)]
    answers = made.run(*inputs, torch.tensor([True, False, True]))
    assert [answer.dtype for answer in answers] == [torch.float32, torch.int64, torch.bool]
    assert torch.equal(answers[2], answers[0] > 0)


def test_a_row_dependent_model_is_compiled_but_not_batched(artifact: Callable[..., Artifact]) -> None:
    manifest = artifact("batch_attention").manifest
    assert not manifest["batch"]["batchable"]
    assert manifest["batch"]["symbol"] == "batch"
    assert "rows see each other" in manifest["batch"]["reason"]
    assert not manifest["report"]["rows"]["independent"]


def test_operators_without_a_kernel_are_named(artifact: Callable[..., Artifact]) -> None:
    fallbacks = artifact("fft").manifest["report"]["fallbacks"]
    assert any("fft_r2c" in name for name in fallbacks)


def test_deterministic_to_the_bit(artifact: Callable[..., Artifact]) -> None:
    made = artifact("mlp", {"deterministic": True, "max_batch": 32})
    assert made.manifest["report"]["deterministic"] == {"checked": True, "size": 32}
    x = torch.randn(32, 30)
    (straight,), (turned,) = made.run(x), made.run(x.flip(0).contiguous())
    assert torch.equal(straight, turned.flip(0))


def test_constants_are_not_copied_into_the_process(artifact: Callable[..., Artifact]) -> None:
    made = artifact("large")
    size = (made.folder / "model.so").stat().st_size
    assert size > 30 << 20

    def private_bytes() -> int:
        fields = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
        return int(fields["Anonymous"].split()[0]) * 1024

    from belfry_compiler.targets.cpu import internals

    before = private_bytes()
    runners = [internals.container_runner(str(made.folder / "model.so")) for _ in range(2)]
    x = torch.randn(2, 2048)
    assert torch.equal(runners[0].run([x])[0], runners[1].run([x])[0])
    assert private_bytes() - before < size // 2


def test_the_code_does_not_depend_on_where_it_was_made(
    exported: Callable[[str], Path], artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    again = compile_here(exported("mlp"), tmp_path / "elsewhere")
    assert again.key == artifact("mlp").key
    assert again.manifest["files"] == artifact("mlp").manifest["files"]
    data = (again.folder / "model.so").read_bytes()
    for path in (str(tmp_path), str(Path(torch.__file__).parent), str(Path.home()), "belfry-compile-"):
        assert path.encode() not in data


def test_a_missed_tolerance_names_the_output(exported: Callable[[str], Path], tmp_path: Path) -> None:
    with pytest.raises(CompilerError, match=r"output output .* misses its tolerance at batch=") as caught:
        compile_here(exported("rounding"), tmp_path / "out", {"rtol": 0, "atol": 0})
    assert caught.value.kind == "tolerance"
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_folder_in_use_is_refused(artifact: Callable[..., Artifact]) -> None:
    made = artifact("mlp")
    before = (made.folder / "manifest.json").read_bytes()
    with pytest.raises(CompilerError, match="is not empty") as caught:
        compile_here(made.model, made.folder)
    assert caught.value.kind == "bad_options"
    assert (made.folder / "manifest.json").read_bytes() == before


def test_the_manifest_is_plain_json(artifact: Callable[..., Artifact]) -> None:
    text = (artifact("mlp").folder / "manifest.json").read_text(encoding="ascii")
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
