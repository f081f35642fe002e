"""The small parts: canonical JSON, options, comparing, sampling."""

from __future__ import annotations

import json

import pytest
import torch

from belfry_compiler import canonical
from belfry_compiler.compare import default_tolerance, difference, same_bits
from belfry_compiler.errors import CompilerError
from belfry_compiler.neighbours import permuted
from belfry_compiler.options import Options, options_from, parse_options
from belfry_compiler.samples import Sampler
from belfry_compiler.targets.cpu.build import _units
from tests.conftest import derive


def test_canonical_json_is_one_text_for_equal_values() -> None:
    value = {"b": [1, True, None, "é\n"], "a": {"y": 0.5, "x": -3}}
    assert canonical.canonical_json(value) == '{"a":{"x":-3,"y":0.5},"b":[1,true,null,"\\u00e9\\n"]}'
    assert canonical.canonical_json(value) == json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True
    )


def test_numbers_keep_the_text_they_came_in() -> None:
    text = '{"a":1e-5,"b":1.50,"c":100000000000000000000.0}'
    assert canonical.canonical_json(canonical.parse_keeping_numbers(text)) == text
    assert canonical.plain(canonical.parse_keeping_numbers(text)) == {"a": 1e-5, "b": 1.5, "c": 1e20}


def test_a_known_key() -> None:
    fields = {"model_sha256": "00", "options": {"precision": "float32"}, "target": "cpu"}
    assert canonical.key_of(fields) == "5db778a3f4f67ddb9a1b0ff3ccc46667243e72f6d355cb3fbc9b6371f9e0399e"


def test_nan_is_not_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical.canonical_json({"a": float("nan")})
    with pytest.raises(ValueError, match="NaN is not JSON"):
        canonical.parse_keeping_numbers('{"a":NaN}')


def test_only_what_differs_from_the_default_is_in_the_key() -> None:
    assert Options().canonical() == {"precision": "float32"}
    assert options_from({"max_batch": 0, "pad": {}, "rtol": None}).canonical() == {"precision": "float32"}
    assert options_from({"pad": {"x": 1}, "rtol": 0}).canonical() == {
        "precision": "float32",
        "pad": {"x": 1.0},
        "rtol": 0.0,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "an array, expected an object"),
        ("{", "not JSON"),
        ('{"colour": 1}', "unknown option 'colour', expected one of atol, batch_axis"),
        ('{"batch_axis": {"x": -1}}', r"batch_axis\.x is -1, expected an axis"),
        ('{"batch_axis": {"x": true}}', r"batch_axis\.x is true"),
        ('{"buckets": {"seq": [8, 4]}}', r"buckets\.seq is \[8, 4\], expected ascending sizes"),
        ('{"buckets": {"seq": [0]}}', r"buckets\.seq"),
        ('{"pad": {"x": "1"}}', r'pad\.x is "1", expected a finite number'),
        ('{"output_names": ["a", "a"]}', "names that differ"),
        ('{"precision": "int4"}', 'precision is "int4", expected one of float32'),
        ('{"rtol": -1}', "rtol is -1"),
        ('{"deterministic": 1}', "deterministic is 1, expected true or false"),
        ('{"max_batch": 1.5}', r"max_batch is 1\.5"),
        ('{"max_batch": -1, "rtol": "x"}', "rtol is .*; max_batch is"),
    ],
)
def test_options_name_every_fault(text: str, words: str) -> None:
    with pytest.raises(CompilerError, match=words) as caught:
        parse_options(text)
    assert caught.value.kind == "bad_options"


def test_difference() -> None:
    nan, inf = float("nan"), float("inf")
    a = torch.tensor([1.0, nan, inf, -inf])
    assert not difference(a, a.clone(), 0, 0).misses
    assert difference(a, torch.tensor([1.0, 1.0, inf, -inf]), 1, 1).misses
    assert difference(torch.tensor([inf]), torch.tensor([-inf]), 1, 1).misses
    assert difference(torch.tensor([1.0]), torch.tensor([1.0 + 1e-3]), 0, 1e-4).misses
    assert not difference(torch.tensor([1.0]), torch.tensor([1.0 + 1e-5]), 1e-4, 0).misses
    assert difference(torch.tensor([1]), torch.tensor([2]), 1, 1).misses
    assert difference(torch.tensor([True]), torch.tensor([False]), 1, 1).misses
    assert difference(torch.zeros(2), torch.zeros(3), 1, 1).misses
    assert difference(torch.zeros(2), torch.zeros(2, dtype=torch.float64), 1, 1).misses
    found = difference(torch.tensor([[1.0, 2.0], [3.0, 4.5]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0, 0.1)
    assert found.max_abs == 0.5
    assert "is 4.5 at [1, 1], expected 4" in found.detail


def test_same_bits() -> None:
    nan = torch.tensor([float("nan")])
    assert same_bits(nan, nan.clone())
    assert not same_bits(torch.tensor([0.0]), torch.tensor([-0.0]))


def test_the_least_precise_type_decides_the_tolerance() -> None:
    assert default_tolerance({torch.float32, torch.int64}) == (1e-4, 1e-5)
    assert default_tolerance({torch.float32, torch.bfloat16})[0] > default_tolerance({torch.float16})[0]
    assert default_tolerance(set()) == (1e-4, 1e-5)


def test_samples_are_seeded_and_like_the_examples() -> None:
    program, signature, _ = derive("encoder")
    sampler = Sampler(program, signature)
    ids, mask = sampler.inputs({"batch": 6, "seq": 12})
    again, _ = sampler.inputs({"batch": 6, "seq": 12})
    assert torch.equal(ids, again)
    assert not torch.equal(ids, sampler.inputs({"batch": 6, "seq": 12}, salt=1)[0])
    assert ids.min() >= 0
    assert 90 < ids.max() < 97  # all words of the embedding, not only those of the example
    assert set(mask.unique().tolist()) == {0, 1}
    assert torch.equal(mask.sort(1, descending=True).values, mask)  # ones, then zeros
    assert bool((mask.sum(1) >= 1).all())


def test_samples_of_an_example_that_tells_nothing() -> None:
    program, signature, _ = derive("ordinary")  # exported with kinds that are all zero
    kind, _ = Sampler(program, signature).inputs({"batch": 64})
    assert kind.unique().numel() > 10


@pytest.mark.parametrize("count", [2, 3, 6, 33])
def test_permuted_is_a_permutation(count: int) -> None:
    order = permuted(count)
    assert sorted(order) == list(range(count))
    assert order != list(range(count))


def test_kernels_are_spread_over_units() -> None:
    kernels = [f"kernel {index}" + " " * 20_000 for index in range(10)]
    units = _units(kernels, 2)
    assert len(units) == 2
    for kernel in kernels:
        assert sum(kernel in unit for unit in units) == 1
    assert _units([], 4) == []
    assert len(_units(["small"], 4)) == 1
