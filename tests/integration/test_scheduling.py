"""Deadlines, cancellation, priorities and determinism, seen from a client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
import torch
from support import models
from support.requests import infer, inputs_of
from support.server import Server, wait_until
from support.slow import ROW, Backlog, slow_folder
from tritonclient.grpc import service_pb2 as pb
from tritonclient.utils import InferenceServerException


@pytest.fixture(scope="module")
def slow_models() -> Path:
    return slow_folder()


@pytest.fixture(scope="module")
def slow_server(slow_models: Path, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    from conftest import _serve

    with _serve(tmp_path_factory.mktemp("slow"), model_dir=slow_models, cards="cpu:1") as server:
        server.wait_ready("slow", "deterministic", seconds=300)
        yield server


def figures(server: Server) -> Callable[[str], float]:
    page = server.scrape()
    return lambda name: page.value(name, model="slow")


def test_an_expired_request_is_told_in_time_and_never_runs(slow_server: Server) -> None:
    before = figures(slow_server)
    with Backlog(slow_server) as backlog, slow_server.client() as client:
        start = time.monotonic()
        # Less urgent than the backlog: an equal one with a deadline would overtake it.
        with pytest.raises(InferenceServerException) as caught:
            infer(client, "slow", ROW, client_timeout=0.05, priority=3)
        assert "DEADLINE_EXCEEDED" in str(caught.value.status())
        assert time.monotonic() - start < 5
    wait_until("counted", lambda: figures(slow_server)("belfry_expired_total") > before("belfry_expired_total"))
    after = figures(slow_server)
    assert after("belfry_executed_rows_total") - before("belfry_executed_rows_total") == backlog.requests


def test_the_timeout_parameter_counts_too(slow_server: Server) -> None:
    before = figures(slow_server)
    with Backlog(slow_server), slow_server.client() as client:
        with pytest.raises(InferenceServerException, match="deadline") as caught:
            infer(client, "slow", ROW, timeout=30_000, priority=3)  # microseconds
        assert "DEADLINE_EXCEEDED" in str(caught.value.status())
    assert figures(slow_server)("belfry_expired_total") - before("belfry_expired_total") == 1


def test_a_cancelled_request_leaves_the_queue(slow_server: Server) -> None:
    before = figures(slow_server)
    with Backlog(slow_server) as backlog, slow_server.client() as client:
        told: list[object] = []
        context = client.async_infer("slow", inputs_of(ROW), lambda result, error: told.append(error))
        depth = figures(slow_server)("belfry_queue_depth")
        context.cancel()
        cancelled = before("belfry_cancelled_total")
        wait_until("cancelled", lambda: figures(slow_server)("belfry_cancelled_total") > cancelled)
        assert depth >= 1
        wait_until("the client is told", lambda: told)
    after = figures(slow_server)
    assert after("belfry_cancelled_total") - before("belfry_cancelled_total") == 1
    assert after("belfry_executed_rows_total") - before("belfry_executed_rows_total") == backlog.requests


def test_an_urgent_request_overtakes(slow_server: Server) -> None:
    order: list[str] = []

    def run(name: str, priority: int) -> None:
        with slow_server.client() as client:
            infer(client, "slow", ROW, priority=priority)
        order.append(name)

    with Backlog(slow_server):
        plain = [threading.Thread(target=run, args=("plain", 3)) for _ in range(3)]
        for thread in plain:
            thread.start()
        wait_until("they wait", lambda: figures(slow_server)("belfry_queue_depth") >= 3)
        urgent = threading.Thread(target=run, args=("urgent", 1))
        urgent.start()
        for thread in [*plain, urgent]:
            thread.join()
    assert order.index("urgent") < 2, order


def test_a_full_queue_refuses_with_its_limit(serve: object, slow_models: Path) -> None:
    def make(place: Path) -> None:
        program = torch.export.load(str(slow_models / "slow" / "1" / "model.pt2"))
        models.save(place, "narrow", program, "max_batch: 1\nmax_queue: 2\n")

    folder = models.made_once("scheduling-narrow-4", make)
    with serve(model_dir=folder, cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("narrow")

        def run(_: int) -> str:
            try:
                with server.client() as client:
                    infer(client, "narrow", ROW)
            except InferenceServerException as error:
                return f"{error.status()} {error}"
            return "OK"

        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(run, range(12)))
    refused = [a for a in answers if a != "OK"]
    assert refused
    assert len(answers) - len(refused) >= 3
    assert all("RESOURCE_EXHAUSTED" in a and "2 requests" in a for a in refused), refused


def test_deterministic_answers_are_equal_to_the_bit_whatever_rides_along(slow_server: Server) -> None:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((24, 40)).astype(np.float32)
    before = slow_server.scrape()
    with slow_server.client() as client:
        alone = [infer(client, "deterministic", {"x": rows[i : i + 1]}) for i in range(24)]

        def run(seed: int) -> None:
            order = np.random.default_rng(seed).permutation(24)
            with slow_server.client() as mine:
                for i in order:
                    size = int(seed % 5) + 1
                    picked = [(i + k) % 24 for k in range(size)]
                    got = infer(mine, "deterministic", {"x": rows[picked]})
                    for at, row in enumerate(picked):
                        for name, value in got.items():
                            assert value[at].tobytes() == alone[row][name][0].tobytes()

        with ThreadPoolExecutor(10) as pool:
            list(pool.map(run, range(10)))
    after = slow_server.scrape()

    def grown(name: str) -> float:
        return after.value(name, model="deterministic") - before.value(name, model="deterministic")

    # One size only: every execution is padded to the sixteen rows of max_batch.
    executions = grown("belfry_executions_total")
    assert grown("belfry_executed_rows_total") == 24 + 24 * 2 * (1 + 2 + 3 + 4 + 5)
    assert grown("belfry_executed_rows_total") + grown("belfry_padded_rows_total") == 16 * executions


def test_a_client_that_hangs_up_leaves_nothing_behind(slow_server: Server) -> None:
    with Backlog(slow_server):
        for _ in range(5):
            channel = grpc.insecure_channel(slow_server.address)
            stub = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer", lambda r: r.SerializeToString())
            message = pb.ModelInferRequest(model_name="slow")
            message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
            message.raw_input_contents.append(bytes(16))
            stub.future(message)
            channel.close()
    wait_until("nothing in flight", lambda: figures(slow_server)("belfry_requests_in_flight") == 0)
    assert figures(slow_server)("belfry_queue_depth") == 0
