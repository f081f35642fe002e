"""Names, symbols and the batch axis, as an outsider sees them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, Mod

from belfry_compiler.errors import CompilerError
from belfry_compiler.expressions import render
from belfry_compiler.manifest import manifest_of
from belfry_compiler.symbols import Symbol
from tests.conftest import derive


def described(name: str, options: dict | None = None) -> dict:
    _, signature, _ = derive(name, options)
    return manifest_of("", {}, "cpu", signature, {}, [], {})


def shapes(tensors: list[dict]) -> dict[str, list]:
    return {tensor["name"]: tensor["shape"] for tensor in tensors}


def test_dynamic_batch() -> None:
    found = described("mlp")
    assert found["inputs"] == [{"name": "x", "dtype": "FP32", "shape": ["batch", 30], "batch_axis": 0, "pad": 0}]
    assert found["outputs"] == [{"name": "output", "dtype": "FP32", "shape": ["batch", 3], "batch_axis": 0}]
    assert found["symbols"] == {"batch": {"min": 1, "max": 256}}
    assert found["batch"] == {"batchable": True, "reason": "", "symbol": "batch", "fixed": 0}


def test_batch_on_axis_one() -> None:
    found = described("lstm")
    assert shapes(found["inputs"]) == {"x": [7, "batch", 11]}
    assert found["inputs"][0]["batch_axis"] == 1
    assert found["outputs"][0]["batch_axis"] == 0


def test_two_symbols_and_dict_keys() -> None:
    found = described("encoder", {"pad": {"input_ids": 5}, "buckets": {"seq": [16, 32]}})
    assert shapes(found["inputs"]) == {"input_ids": ["batch", "seq"], "attention_mask": ["batch", "seq"]}
    assert shapes(found["outputs"]) == {"embedding": ["batch", 24], "tokens": ["batch", "seq", 24]}
    assert [tensor["pad"] for tensor in found["inputs"]] == [5, 0]
    assert found["symbols"]["seq"] == {"min": 2, "max": 64}


def test_nested_inputs_and_dataclass_fields() -> None:
    found = described("decider")
    assert [(tensor["name"], tensor["dtype"]) for tensor in found["inputs"]] == [
        ("ids", "INT64"),
        ("columns.age", "FP32"),
        ("columns.more.0", "FP32"),
        ("columns.more.1", "FP32"),
        ("flag", "BOOL"),
    ]
    assert [(tensor["name"], tensor["dtype"]) for tensor in found["outputs"]] == [
        ("score", "FP32"),
        ("label", "INT64"),
        ("flagged", "BOOL"),
    ]
    assert found["batch"]["batchable"]


def test_scalars_are_baked_in_and_what_is_no_tensor_is_left_out() -> None:
    program, signature, _ = derive("scalar_and_tuple")
    assert [spec.name for spec in signature.inputs] == ["x"]
    assert [spec.name for spec in signature.outputs] == ["output_0", "output_2", "output_4"]
    assert any("input k is baked in as 3" in note for note in program.notes)
    assert any("output output_1 is left out: it is None" in note for note in program.notes)
    assert any("output output_3 is left out: it is 5" in note for note in program.notes)


def test_outputs_may_be_renamed() -> None:
    assert list(shapes(described("encoder", {"output_names": ["a", "b"]})["outputs"])) == ["a", "b"]
    with pytest.raises(CompilerError, match=r"has 1 names, but the program has 2 outputs \(embedding, tokens\)"):
        derive("encoder", {"output_names": ["a"]})


def test_derived_dimension_is_an_expression() -> None:
    found = described("derived_dimension")
    assert shapes(found["outputs"]) == {"output": ["batch", "2*seq"]}
    assert found["batch"]["batchable"]


def test_no_common_symbol_is_unbatched() -> None:
    batch = described("no_common_symbol")["batch"]
    assert not batch["batchable"]
    assert "axis 0 of x is not exactly one axis of y, output" in batch["reason"]


def test_two_common_symbols_are_unbatched_unless_declared() -> None:
    found = described("two_common_symbols")
    assert not found["batch"]["batchable"]
    assert "axis 0 of x and axis 1 of x" in found["batch"]["reason"]
    assert list(found["symbols"]) == ["seq", "seq_2"]
    declared = described("two_common_symbols", {"batch_axis": {"x": 1}})
    assert declared["batch"]["symbol"] == "batch"
    assert shapes(declared["inputs"]) == {"x": ["seq", "batch"]}
    assert declared["outputs"][0]["batch_axis"] == 1


def test_static_batch() -> None:
    assert "no dimension of the inputs varies" in described("mlp_static")["batch"]["reason"]
    found = described("mlp_static", {"batch_axis": {"x": 0}})
    assert found["batch"] == {"batchable": True, "reason": "", "symbol": "", "fixed": 8}
    assert shapes(found["inputs"]) == {"x": [8, 30]}
    assert [tensor["batch_axis"] for tensor in [*found["inputs"], *found["outputs"]]] == [0, 0]


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("mlp", {"pad": {"y": 1}}, r"pad\.y: there is no such input, expected one of x"),
        ("mlp", {"batch_axis": {"z": 1}}, r"batch_axis\.z: there is no such tensor, expected one of x, output"),
        ("mlp", {"batch_axis": {"x": 5}}, r"batch_axis\.x is 5, but the tensor has 2 axes"),
        ("mlp", {"buckets": {"seq": [4]}}, r"no such symbol, it has batch \(axis 0 of x\)"),
        ("encoder", {"buckets": {"seq": [32, 128]}}, r"buckets\.seq has 128, but the program takes 2 to 64"),
        ("encoder", {"pad": {"input_ids": 0.5}}, r"pad\.input_ids is 0\.5, which is no value of int64"),
        ("mlp", {"batch_buckets": [1, 1000]}, r"batch_buckets has 1000, but the program takes 1 to 256"),
        ("mlp", {"batch_axis": {"x": 0, "output": 1}}, "axes of different sizes"),
    ],
)
def test_options_that_do_not_fit_the_model(model: str, options: dict, words: str) -> None:
    with pytest.raises(CompilerError, match=words) as caught:
        derive(model, options)
    assert caught.value.kind == "bad_options"


def test_types_that_the_protocol_does_not_carry_are_refused() -> None:
    with pytest.raises(CompilerError, match="tensor output has type complex64") as caught:
        derive("complex_output")
    assert caught.value.kind == "uncompilable"


def test_a_model_that_writes_its_input_is_refused() -> None:
    with pytest.raises(CompilerError, match=r"forward writes into its own input \(x\)") as caught:
        derive("writes_input")
    assert caught.value.kind == "uncompilable"


class TestExpressions:
    """Only + - * // and parentheses may leave: the manifest's reader knows no more."""

    @staticmethod
    def text(build: Callable[[sympy.Symbol], sympy.Basic]) -> int | str | None:
        symbol = sympy.Symbol("s7", positive=True, integer=True)
        return render(build(symbol), {symbol: Symbol("seq", symbol, 1, None, "")})

    @pytest.mark.parametrize(
        ("build", "value"),
        [
            (lambda s: s, 23),
            (lambda s: 2 * s, 46),
            (lambda s: 3 * s - 2, 67),
            (lambda s: s**2 + 1, 530),
            (lambda s: FloorDiv(s + 7, 8), 3),
            (lambda s: 5 * FloorDiv(s, 2) + s, 78),
            (lambda s: FloorDiv(s, FloorDiv(s, 5)), 5),
            (lambda s: Mod(s, 8) + 1, 8),
        ],
    )
    def test_they_keep_their_value(self, build: Callable[[sympy.Symbol], sympy.Basic], value: int) -> None:
        text = self.text(build)
        assert re.fullmatch(r"[\w\s+\-*/()]+", str(text))
        assert "**" not in str(text)
        assert eval(str(text), {"seq": 23}) == value

    def test_what_has_no_words_is_not_written(self) -> None:
        assert self.text(lambda s: sympy.Max(s, 4)) is None
        assert self.text(lambda s: 2 * sympy.Max(s, 4) + 1) is None


def test_an_output_size_without_words_is_a_count() -> None:
    found = described("data_dependent")
    assert shapes(found["outputs"]) == {"output": ["count"]}
    assert found["symbols"]["count"] == {"min": 0, "max": 4096}
    assert not found["batch"]["batchable"]
