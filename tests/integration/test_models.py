"""The sample models served: answers equal eager's, however requests are batched."""

from __future__ import annotations

import json
import queue
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.requests import Arrays, golden_cases, infer, inputs_of
from support.server import Server

MODELS = ["card-fraud", "credit-risk", "minilm"]
# As compiler/README.md says of float32.
RTOL, ATOL = 1e-4, 1e-5


def assert_close(got: Arrays, expected: Arrays) -> None:
    assert got.keys() == expected.keys()
    for name in expected:
        assert got[name].shape == expected[name].shape, name
        assert got[name].dtype == expected[name].dtype, name
        np.testing.assert_allclose(got[name], expected[name], rtol=RTOL, atol=ATOL, err_msg=name)


@pytest.mark.parametrize("model", MODELS)
def test_golden_answers(sample_server: Server, samples: Path, model: str) -> None:
    with sample_server.client() as client:
        for inputs, outputs in golden_cases(samples / model / "1").values():
            assert_close(infer(client, model, inputs), outputs)


@pytest.mark.parametrize(("model", "least"), [("card-fraud", 0.97), ("credit-risk", 0.75)])
def test_the_trained_models_have_learnt_something(samples: Path, model: str, least: float) -> None:
    """On rows that training did not see; golden answers alone would be right of an untrained model, too."""
    quality = json.loads((samples / model / "1" / "quality.json").read_text())
    assert least < quality["auc"] <= 1, quality


@pytest.mark.parametrize("model", MODELS)
def test_answers_do_not_depend_on_who_rides_along(sample_server: Server, samples: Path, model: str) -> None:
    """Concurrent requests of different sizes, each checked against its own expected rows."""
    cases = list(golden_cases(samples / model / "1").values())

    def client_run(seed: int) -> None:
        order = np.random.default_rng(seed).permutation(len(cases) * 4) % len(cases)
        with sample_server.client() as client:
            for i in order:
                inputs, outputs = cases[i]
                assert_close(infer(client, model, inputs), outputs)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(client_run, range(8)))


def test_concurrent_requests_are_batched(sample_server: Server) -> None:
    """Sixty-four requests at once to a model that takes milliseconds a row."""
    ids = np.random.default_rng(4).integers(1000, 20000, (1, 16), dtype=np.int64)
    row = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    before = sample_server.scrape()
    with sample_server.client() as client:
        expected = infer(client, "minilm", row)
        told: queue.Queue[tuple[Any, Any]] = queue.Queue()
        for _ in range(64):
            client.async_infer("minilm", inputs_of(row), lambda result, error: told.put((result, error)))
        for _ in range(64):
            result, error = told.get(timeout=60)
            assert error is None
            for name, value in expected.items():
                np.testing.assert_allclose(result.as_numpy(name), value, rtol=RTOL, atol=ATOL)
    after = sample_server.scrape()
    executed = {
        name: after.value(name, model="minilm") - before.value(name, model="minilm")
        for name in ("belfry_executions_total", "belfry_executed_rows_total")
    }
    assert executed["belfry_executed_rows_total"] == 65
    assert executed["belfry_executions_total"] < 65 / 2, "requests that wait together ride together"


def test_both_cards_take_part(sample_server: Server, samples: Path) -> None:
    inputs, _ = next(iter(golden_cases(samples / "minilm" / "1").values()))

    def client_run(_: int) -> None:
        with sample_server.client() as client:
            for _ in range(5):
                infer(client, "minilm", inputs)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(client_run, range(8)))
    page = sample_server.scrape()
    for card in ("cpu:0", "cpu:1"):
        assert page.value("belfry_card_rows_total", model="minilm", card=card) > 0, card


def test_requests_of_different_lengths_share_a_batch(sample_server: Server) -> None:
    """minilm pads sequences to its buckets; the answers equal those without padding."""
    rng = np.random.default_rng(5)
    requests = []
    for length in (5, 7, 11, 13, 16):
        ids = rng.integers(1000, 20000, (1, length), dtype=np.int64)
        requests.append({"input_ids": ids, "attention_mask": np.ones_like(ids)})
    with sample_server.client() as client:
        alone = [infer(client, "minilm", r) for r in requests]
    before = sample_server.scrape()
    told: queue.Queue[tuple[int, Any, Any]] = queue.Queue()
    with sample_server.client() as client:
        for n in range(60):
            i = n % len(requests)
            client.async_infer(
                "minilm", inputs_of(requests[i]), lambda result, error, i=i: told.put((i, result, error))
            )
        for _ in range(60):
            i, result, error = told.get(timeout=60)
            assert error is None
            assert_close({name: result.as_numpy(name) for name in alone[i]}, alone[i])
    after = sample_server.scrape()
    executions = after.value("belfry_executions_total", model="minilm") - before.value(
        "belfry_executions_total", model="minilm"
    )
    assert executions < 60 / 2


def test_an_oversize_request_is_split_and_rejoined(sample_server: Server) -> None:
    """minilm takes 32 rows at most per execution."""
    rng = np.random.default_rng(6)
    ids = rng.integers(1000, 20000, (75, 9), dtype=np.int64)
    whole = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    before = sample_server.scrape()
    with sample_server.client() as client:
        got = infer(client, "minilm", whole)
        after = sample_server.scrape()

        def grown(name: str) -> float:
            return after.value(name, model="minilm") - before.value(name, model="minilm")

        assert grown("belfry_executed_rows_total") == 75
        assert grown("belfry_executions_total") >= 3, "75 rows in pieces of at most 32"
        for start in (0, 30, 74):
            part = {name: array[start : start + 1] for name, array in whole.items()}
            for name, value in infer(client, "minilm", part).items():
                np.testing.assert_allclose(got[name][start : start + 1], value, rtol=RTOL, atol=ATOL)


def test_only_requested_outputs_come_back(sample_server: Server, samples: Path) -> None:
    import tritonclient.grpc as triton

    inputs, outputs = next(iter(golden_cases(samples / "minilm" / "1").values()))
    name = next(iter(outputs))
    with sample_server.client() as client:
        got = infer(client, "minilm", inputs, outputs=[triton.InferRequestedOutput(name)])
    assert list(got) == [name]


def test_classification_gives_the_top_classes(sample_server: Server, samples: Path) -> None:
    import tritonclient.grpc as triton

    inputs, outputs = next(iter(golden_cases(samples / "minilm" / "1").values()))
    name, expected = next(iter(outputs.items()))
    with sample_server.client() as client:
        got = infer(client, "minilm", inputs, outputs=[triton.InferRequestedOutput(name, class_count=3)])[name]
    assert got.shape == (expected.shape[0], 3)
    for row, classes in zip(expected, got, strict=True):
        best = np.argsort(-row, kind="stable")[:3]
        assert [int(c.decode().split(":")[1]) for c in classes] == best.tolist()
