"""Rows that see each other are never joined: such models are served, unbatched, and say why."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from support import models
from support.requests import infer
from support.server import Server


class AttentionOverBatch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ x.T, dim=-1) @ x


class BatchStatistics(torch.nn.Module):
    """Batch norm as in training: with the statistics of the batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, None, None, training=True)


class Ranking(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = x.sum(-1)
        return (scores[:, None] > scores[None, :]).sum(-1).to(torch.float32)


class Independent(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.nn.functional.layer_norm(x, (4,)), dim=-1)


DEPENDENT = {"attention": AttentionOverBatch, "batch-norm": BatchStatistics, "ranking": Ranking}


@pytest.fixture(scope="module")
def rows_server(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    from conftest import _serve

    def make(place: Path) -> None:
        for name, module in {**DEPENDENT, "independent": Independent}.items():
            # A single row has no batch statistics.
            least = 2 if name == "batch-norm" else 1
            models.save(place, name, models.of_rows(module(), least=least))

    folder = models.made_once("rows-2", make)
    with _serve(tmp_path_factory.mktemp("rows"), model_dir=folder, cards="cpu:1") as server:
        server.wait_ready(*DEPENDENT, "independent", seconds=300)
        yield server


@pytest.mark.parametrize("model", DEPENDENT)
def test_dependent_rows_are_caught_and_the_reason_is_told(rows_server: Server, model: str) -> None:
    status = rows_server.cli("show", model).stdout
    assert "row" in status.lower()
    with rows_server.client() as client:
        parameters = client.get_model_config(model).config.parameters
    assert parameters["belfry.batchable"].string_value == "false"
    assert "row" in parameters["belfry.unbatched_reason"].string_value.lower()


@pytest.mark.parametrize("model", DEPENDENT)
def test_each_request_is_answered_as_if_alone(rows_server: Server, model: str) -> None:
    module = DEPENDENT[model]()
    rng = np.random.default_rng(2)
    requests = [rng.standard_normal((3, 4)).astype(np.float32) for _ in range(12)]
    expected = [module(torch.from_numpy(x)).numpy() for x in requests]

    def run(i: int) -> None:
        with rows_server.client() as client:
            for _ in range(10):
                got = infer(client, model, {"x": requests[i]})["output"]
                np.testing.assert_allclose(got, expected[i], rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(run, range(12)))
    page = rows_server.scrape()
    requests_done = page.value("belfry_requests_total", model=model)
    assert page.value("belfry_executions_total", model=model) == requests_done == 120


def test_independent_rows_are_joined(rows_server: Server) -> None:
    def run(_: int) -> None:
        with rows_server.client() as client:
            for _ in range(30):
                infer(client, "independent", {"x": np.ones((1, 4), np.float32)})

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(run, range(12)))
    page = rows_server.scrape()
    assert page.value("belfry_executions_total", model="independent") < 360
