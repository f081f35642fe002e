"""Rows that see each other are caught, others are not; on eager answers, which need no compile."""

from __future__ import annotations

import pytest
import torch

from belfry_compiler.errors import CompilerError
from tests.conftest import check


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("batch_attention", "output output changes by"),
        ("training_batch_norm", "output output changes by"),
        ("ranking", "output output changes"),
        ("batch_softmax", "output output changes by"),
        ("dynamic_quantisation", "output output"),
        ("divided_by_batch_size", "when it is joined with 5 other rows"),
    ],
)
def test_rows_that_see_each_other_are_not_batched(model: str, words: str) -> None:
    found = check(model)
    assert found.rows.checked
    assert not found.rows.independent
    assert words in found.rows.detail
    assert not found.signature.batch.batchable
    assert found.rows.detail in found.signature.batch.reason


def test_a_faint_influence_is_caught_by_extreme_neighbours() -> None:
    found = check("faint")
    assert not found.rows.independent
    assert "when the rows beside it are" in found.rows.detail


@pytest.mark.parametrize("model", ["mlp", "mlp_softmax", "lstm", "encoder", "ordinary", "decider", "rounding", "fft"])
def test_ordinary_models_are_batched(model: str) -> None:
    found = check(model)
    assert found.rows.checked
    assert found.rows.independent, found.rows.detail
    assert found.signature.batch.batchable


def test_a_fixed_batch_is_checked_too() -> None:
    assert check("mlp_static", {"batch_axis": {"x": 0}}).rows.independent


def test_calls_see_nothing_of_earlier_calls() -> None:
    found = check("counter")
    program = found.program
    assert any("updates state in every call (total)" in note for note in program.notes)
    x = torch.randn(2, 3)
    assert torch.equal(program.run([x])[0], program.run([x])[0])
    assert not found.rows.independent  # within one call, the first row is added to all


def test_good_padding_passes() -> None:
    check("encoder", {"buckets": {"seq": [8, 32]}})


def test_a_mean_without_a_mask_misses() -> None:
    with pytest.raises(CompilerError, match="to the bucket") as caught:
        check("encoder_unmasked", {"buckets": {"seq": [8, 32]}})
    assert caught.value.kind == "tolerance"
    assert "output embedding" in str(caught.value)


def test_a_wrong_pad_value_misses() -> None:
    with pytest.raises(CompilerError, match="attention_mask: 1"):
        check("encoder", {"buckets": {"seq": [8, 32]}, "pad": {"attention_mask": 1}})


def test_a_random_model_misses() -> None:
    with pytest.raises(CompilerError) as caught:
        check("random_dropout")
    assert caught.value.kind == "tolerance"


def test_determinism_is_reported_with_its_size() -> None:
    assert check("mlp", {"deterministic": True, "max_batch": 32}).rows.deterministic == {"checked": True, "size": 32}
