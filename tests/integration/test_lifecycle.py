"""Models come, go and are replaced while requests run; the server starts and ends in order."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from support import models
from support.cards import stopped_card
from support.load import EchoLoad
from support.requests import infer, inputs_of
from support.server import Server, wait_until
from support.slow import ROW, slow_folder
from tritonclient.utils import InferenceServerException

X = {"x": np.linspace(-1, 1, 4, dtype=np.float32)[None]}


@pytest.fixture(scope="module")
def two_versions() -> Path:
    def make(place: Path) -> None:
        models.save(place, "m", models.tiny(1), version=1)
        models.save(place, "m", models.tiny(2), version=2)

    return models.made_once("lifecycle-1", make)


def place(folder: Path, source: Path, *versions: int) -> Path:
    """A model directory with some versions of the source's model 'm'."""
    for version in versions:
        shutil.copytree(source / "m" / str(version), folder / "m" / str(version), dirs_exist_ok=True)
    return folder


def expected(source: Path, version: int) -> np.ndarray:
    program = torch.export.load(str(source / "m" / str(version) / "model.pt2"))
    return program.module()(torch.from_numpy(X["x"])).detach().numpy()


def answer(server: Server, version: str = "") -> np.ndarray:
    with server.client() as client:
        return infer(client, "m", X, model_version=version)["output"]


def test_reload_under_load_loses_nothing(serve: object, two_versions: Path, tmp_path: Path) -> None:
    folder = place(tmp_path / "models", two_versions, 1)
    old, new = expected(two_versions, 1), expected(two_versions, 2)
    with serve(model_dir=folder) as server:  # type: ignore[operator]
        server.wait_ready("m")
        np.testing.assert_allclose(answer(server), old, rtol=1e-4, atol=1e-5)
        stop, seen, wrong = threading.Event(), {"old": 0, "new": 0}, []

        def run() -> None:
            with server.client() as client:
                while not stop.is_set():
                    try:
                        got = infer(client, "m", X)["output"]
                    except InferenceServerException as error:
                        wrong.append(str(error))
                        return
                    if np.allclose(got, old, rtol=1e-4, atol=1e-5):
                        seen["old"] += 1
                    elif np.allclose(got, new, rtol=1e-4, atol=1e-5):
                        seen["new"] += 1
                    else:
                        wrong.append(f"neither version's answer: {got}")

        threads = [threading.Thread(target=run) for _ in range(6)]
        for thread in threads:
            thread.start()
        wait_until("the old answers", lambda: seen["old"] > 50)
        place(folder, two_versions, 2)
        with server.client(admin=True) as admin:
            admin.load_model("m")
        wait_until("the new answers", lambda: seen["new"] > 50 or wrong)
        stop.set()
        for thread in threads:
            thread.join()
        assert not wrong, wrong[:3]
        assert server.is_ready("m", "2")
        wait_until("the old version is gone", lambda: not server.is_ready("m", "1"))


def test_a_failed_update_leaves_the_old_version_serving(serve: object, two_versions: Path, tmp_path: Path) -> None:
    folder = place(tmp_path / "models", two_versions, 1)
    with serve(model_dir=folder, cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("m")
        (folder / "m" / "2").mkdir()
        (folder / "m" / "2" / "model.pt2").write_bytes(b"this is no archive")
        failed = server.cli("load", "m", check=False)
        assert failed.returncode != 0
        np.testing.assert_allclose(answer(server), expected(two_versions, 1), rtol=1e-4, atol=1e-5)
        status = server.cli("show", "m", "2").stdout
        assert "FAILED" in status
        with server.client() as client, pytest.raises(InferenceServerException) as caught:
            infer(client, "m", X, model_version="2")
        assert "FAILED_PRECONDITION" in str(caught.value.status())
        assert "FAILED" in str(caught.value)


def test_a_failed_compile_tells_the_compilers_words_and_is_not_tried_again(serve: object, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    (folder / "broken" / "1").mkdir(parents=True)
    (folder / "broken" / "1" / "model.pt2").write_bytes(b"PK\x03\x04 nothing")
    with serve(model_dir=folder, cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        wait_until("FAILED", lambda: server.version("broken")["state"] == "FAILED", 120)
        reason = server.version("broken")["reason"]
        assert "pt2" in reason or "archive" in reason or "zip" in reason, reason
        misses = server.scrape().value("belfry_compiles_total", result="failed")
        time.sleep(0.5)  # long enough for a retry loop to show itself
        assert server.scrape().value("belfry_compiles_total", result="failed") == misses
        with server.client() as client:
            assert client.is_server_ready(), "one bad model does not make the server unready"


def test_load_and_unload_by_the_stock_client(serve: object, two_versions: Path, tmp_path: Path) -> None:
    folder = place(tmp_path / "models", two_versions, 1)
    with serve(model_dir=folder, cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("m")
        with server.client(admin=True) as admin:
            admin.load_model("m")  # nothing new: succeeds
            admin.unload_model("m")
        wait_until("unloaded", lambda: not server.is_ready("m"))
        with server.client() as client, pytest.raises(InferenceServerException) as caught:
            infer(client, "m", X)
        assert any(code in str(caught.value.status()) for code in ("FAILED_PRECONDITION", "NOT_FOUND"))
        with server.client(admin=True) as admin:
            admin.load_model("m")
        np.testing.assert_allclose(answer(server), expected(two_versions, 1), rtol=1e-4, atol=1e-5)


def test_load_takes_paths_from_allowed_roots_only(serve: object, two_versions: Path, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    place(root, two_versions, 1)
    place(elsewhere, two_versions, 1)
    (root / "link").symlink_to(elsewhere)
    with serve("--load-root", str(root), cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        for bad in (elsewhere / "m/1/model.pt2", root / "link/m/1/model.pt2", root / "../elsewhere/m/1/model.pt2"):
            refused = server.cli("load", str(bad), check=False)
            assert refused.returncode != 0, bad
        server.cli("load", str(root / "m/1/model.pt2"))
        np.testing.assert_allclose(answer(server, "1"), expected(two_versions, 1), rtol=1e-4, atol=1e-5)


def test_after_sigterm_it_is_not_ready_first_and_the_lame_duck_still_answers(serve: object) -> None:
    """So that load balancers look away before a request is refused; then exit 0."""
    with serve("--lame-duck", "1s") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        over = ("UNAVAILABLE", "CANCELLED")
        with EchoLoad(server, tolerate=lambda status: any(code in status for code in over)) as load:
            load.wait_answers(100)
            server.process.send_signal(signal.SIGTERM)
            from grpc_health.v1 import health_pb2, health_pb2_grpc

            def not_serving() -> bool:
                with grpc.insecure_channel(server.address) as channel:
                    reply = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
                return reply.status == health_pb2.HealthCheckResponse.NOT_SERVING

            wait_until("not ready", not_serving)
            load.wait_answers(20)  # the lame duck still answers
            assert server.process.wait(30) == 0
        assert load.answered["OK"] > 100


def test_sigterm_finishes_what_is_in_flight(serve: object) -> None:
    """One request runs and five wait when the signal comes: all six are answered."""
    with serve(model_dir=slow_folder(), cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("slow")
        told: queue.Queue[tuple[Any, Any]] = queue.Queue()
        with server.client() as client:
            with stopped_card(server):
                for _ in range(6):
                    client.async_infer("slow", inputs_of(ROW), lambda result, error: told.put((result, error)))
                wait_until(
                    "six in flight", lambda: server.scrape().value("belfry_requests_in_flight", model="slow") == 6, 20
                )
                server.process.send_signal(signal.SIGTERM)
                wait_until("it is not ready", lambda: server.cli("health", check=False).returncode != 0, 5)
                assert told.empty()
            answers = [told.get(timeout=60) for _ in range(6)]
        assert [error for _, error in answers] == [None] * 6
        assert all(result.as_numpy("output").shape == (1, 4) for result, _ in answers)
        assert server.process.wait(30) == 0


def test_every_line_of_the_json_log_is_json(serve: object) -> None:
    """Whatever clients send and however cards die."""
    with serve("--log-format", "json", cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        with server.client() as client:
            with pytest.raises(InferenceServerException):
                infer(client, 'echo"}\n{"level":"error\\\x1b[31m\x00\u2028', X)
            (card,) = server.cards()
            os.kill(card["pid"], signal.SIGKILL)
            wait_until(
                "the card is back",
                lambda: [(c["state"], c["pid"] != card["pid"]) for c in server.cards()] == [("READY", True)],
            )
            assert infer(client, "echo", {"input": np.ones(2, np.float32)})["output"].tolist() == [1, 1]
        assert server.stop() == 0
        lines = server.log().splitlines()
    assert len(lines) >= 3
    events = [json.loads(line) for line in lines]
    assert all(isinstance(event, dict) for event in events)
    assert any("cpu:0" in line for line in lines), "the death of the card is told"


def test_a_second_sigterm_is_fast(serve: object) -> None:
    with serve("--lame-duck", "60s", cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        server.process.send_signal(signal.SIGTERM)
        wait_until("the first is seen", lambda: "SIGTERM" in server.log() or "stop" in server.log().lower())
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 3
        assert time.monotonic() - begin < 10


def test_two_servers_do_not_share_a_data_folder(serve: object, tmp_path: Path) -> None:
    data = tmp_path / "shared"
    with serve(data_dir=data, cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        import subprocess

        from support.paths import BIN

        second = subprocess.run(
            [str(BIN / "belfryd"), "--data-dir", str(data), "--listen", "127.0.0.1:0", "--admin-listen",
             "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert str(server.pid) in second.stderr


def test_a_bad_model_yaml_names_its_faults(serve: object, two_versions: Path, tmp_path: Path) -> None:
    folder = place(tmp_path / "models", two_versions, 1)
    (folder / "m" / "1" / "model.yaml").write_text("max_batsch: 4\nmax_queue: -1\n")
    with serve(model_dir=folder, cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        wait_until("FAILED", lambda: server.version("m")["state"] == "FAILED")
        reason = server.version("m")["reason"]
        assert "max_batsch" in reason
        assert "max_batch" in reason.replace("max_batsch", "")
        assert "max_queue" in reason
