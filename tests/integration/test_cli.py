"""Every verb of `belfry` against a real server: answers on stdout, errors on stderr, exit codes as its help says."""

from __future__ import annotations

import json
import os
import queue
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cards import stopped_card
from support.paths import BIN
from support.requests import inputs_of
from support.server import Server, wait_until
from support.slow import ROW, slow_folder

VERBS = (
    "models", "show", "load", "unload", "infer", "bench", "cards", "health", "metadata", "drain", "compile",
)  # fmt: skip
ROWS = "[[1,2,3],[4,5,6]]"


def belfry(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`belfry` without a server of the test."""
    return subprocess.run(
        [str(BIN / "belfry"), *words],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def assert_one_error(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("belfry: ")
    for word in words:
        assert word in line, line


def test_infer_shows_the_answer(echo_server: Server) -> None:
    done = echo_server.cli("infer", "echo", "--input", ROWS)
    head, rows = done.stdout.split("\n", 1)
    assert head.split() == ["output", "INT64", "[2,3]"]
    assert json.loads(rows) == [[1, 2, 3], [4, 5, 6]]


def test_infer_answers_as_json(echo_server: Server) -> None:
    answer = echo_server.cli_json("infer", "echo", "--input", f"input:INT32={ROWS}")
    assert answer["model_name"] == "echo"
    assert answer["model_version"] == "1"
    assert answer["seconds"] > 0
    assert answer["outputs"] == [
        {"name": "output", "datatype": "INT32", "shape": [2, 3], "data": [[1, 2, 3], [4, 5, 6]]}
    ]


@pytest.mark.parametrize("values", [np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), np.arange(4, dtype=np.int8)])
def test_infer_reads_and_writes_npy(echo_server: Server, tmp_path: Path, values: np.ndarray) -> None:
    source, target = tmp_path / "in.npy", tmp_path / "out.npy"
    np.save(source, values)
    done = echo_server.cli("infer", "echo", "--input", f"@{source}", "--out", f"output={target}")
    assert done.stdout == "", "the output is in the file instead"
    got = np.load(target)
    assert got.dtype == values.dtype
    assert np.array_equal(got, values)


def test_a_file_that_cannot_be_read_or_written_is_5(echo_server: Server, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.npy")
    assert_one_error(echo_server.cli("infer", "echo", "--input", f"@{missing}", check=False), 5, missing)
    nowhere = str(tmp_path / "nowhere" / "out.npy")
    done = echo_server.cli("infer", "echo", "--input", "[1]", "--out", f"output={nowhere}", check=False)
    assert done.returncode == 5
    assert nowhere in done.stderr


@pytest.mark.parametrize(
    "words", [("infer", "nothing", "--input", "[[1]]"), ("show", "nothing"), ("metadata", "nothing"),
              ("unload", "nothing")]
)  # fmt: skip
def test_an_unknown_model_is_1_and_named(echo_server: Server, words: tuple[str, ...]) -> None:
    assert_one_error(echo_server.cli(*words, check=False), 1, "nothing", "NOT_FOUND")


def test_bench_counts(echo_server: Server) -> None:
    before = echo_server.scrape().value("belfry_requests_total", model="echo")
    told = echo_server.cli_json("bench", "echo", "--seconds", "0.3", "--concurrency", "3", "--rows", "2")
    assert told["errors"] == 0
    assert told["requests"] > 0
    assert (told["model"], told["concurrency"], told["rows"]) == ("echo", 3, 2)
    assert 0 < told["p50_seconds"] <= told["p90_seconds"] <= told["p99_seconds"] <= told["max_seconds"]
    assert told["rows_per_second"] == pytest.approx(2 * told["requests_per_second"])

    def counted() -> float:
        return echo_server.scrape().value("belfry_requests_total", model="echo") - before

    wait_until("the server has counted them too", lambda: counted() >= told["requests"])
    # A caller that is under way when the time is over may or may not be in the report.
    assert counted() <= told["requests"] + 3
    assert "PER SECOND" in echo_server.cli("bench", "echo", "--seconds", "0.1").stdout


def test_health(echo_server: Server) -> None:
    assert echo_server.cli("health").stdout == "ready\n"
    assert echo_server.cli("health", "echo").stdout == "ready\n"
    assert echo_server.cli_json("health") == {"live": True, "ready": True}
    done = echo_server.cli("health", "nothing", "--json", check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"live": True, "ready": False}


def test_metadata(echo_server: Server) -> None:
    assert echo_server.cli("metadata").stdout.startswith("belfry ")
    server = echo_server.cli_json("metadata")
    assert server["name"] == "belfry"
    assert server["version"]
    assert "statistics" in server["extensions"]
    assert "input" in echo_server.cli("metadata", "echo").stdout
    model = echo_server.cli_json("metadata", "echo")
    assert (model["name"], model["versions"]) == ("echo", ["1"])
    assert [tensor["name"] for tensor in model["inputs"] + model["outputs"]] == ["input", "output"]


def test_models(echo_server: Server) -> None:
    head, line = echo_server.cli("models").stdout.splitlines()
    assert head.split() == ["MODEL", "VERSION", "STATE", "CARDS"]
    assert line.split()[:3] == ["echo", "1", "READY"]
    (version,) = echo_server.cli_json("models")
    assert (version["name"], version["version"], version["state"]) == ("echo", 1, "READY")
    assert version["default_version"] is True
    assert set(version["cards"]) == {"cpu:0", "cpu:1"}


def test_show(echo_server: Server) -> None:
    text = echo_server.cli("show", "echo").stdout
    assert text.startswith("echo version 1  READY")
    (detail,) = echo_server.cli_json("show", "echo", "1")
    assert detail["summary"]["state"] == "READY"
    assert {"signature", "batching", "artifacts", "metrics"} <= detail.keys()
    assert_one_error(echo_server.cli("show", "echo", "7", check=False), 1, "7")


def test_cards(echo_server: Server) -> None:
    head, *lines = echo_server.cli("cards").stdout.splitlines()
    assert head.split()[:3] == ["CARD", "STATE", "PID"]
    cards = echo_server.cards()
    assert [(c["name"], c["state"]) for c in cards] == [("cpu:0", "READY"), ("cpu:1", "READY")]
    for line, card in zip(lines, cards, strict=True):
        assert line.split()[:3] == [card["name"], card["state"], str(card["pid"])]


def test_unload(serve: object) -> None:
    with serve(cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        assert server.cli("unload", "echo").stdout == "echo version 1 is UNLOADED\n"
        (version,) = server.cli_json("unload", "echo")  # already: no error
        assert version["state"] == "UNLOADED"
        assert not server.is_ready("echo")
        assert server.cli("infer", "echo", "--input", "[1]", check=False).returncode == 1
        assert server.cli("models").stdout.splitlines()[1].split()[2] == "UNLOADED"


def test_load_waits_until_ready_and_tells(serve: object) -> None:
    with serve("--load-root", str(slow_folder()), cards="cpu:1") as server:  # type: ignore[operator]
        path = slow_folder() / "deterministic" / "1" / "model.pt2"
        loaded = server.cli_json("load", str(path), "--name", "other", "--version", "4")
        assert (loaded["name"], loaded["version"], loaded["state"]) == ("other", 4, "READY")
        assert server.is_ready("other", "4")
        assert_one_error(server.cli("load", "nothing", check=False), 1, "nothing")


def test_drain_refuses_and_does_not_end_the_server(serve: object) -> None:
    with serve(cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        assert server.cli_json("drain") == {"in_flight": 0}
        assert_one_error(server.cli("infer", "echo", "--input", "[1]", check=False), 1, "drain", "UNAVAILABLE")
        assert server.cli("health", check=False).returncode == 1
        assert server.process.poll() is None
        assert server.cli("drain").stdout == "drained, 0 requests in flight\n"  # again: no error


def test_drain_exit_under_load_answers_what_was_accepted(serve: object) -> None:
    with serve(model_dir=slow_folder(), cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("slow")
        told: queue.Queue[tuple[Any, Any]] = queue.Queue()
        with server.client() as client, ThreadPoolExecutor(1) as pool:
            with stopped_card(server):
                for _ in range(6):
                    client.async_infer("slow", inputs_of(ROW), lambda result, error: told.put((result, error)))
                wait_until(
                    "six in flight", lambda: server.scrape().value("belfry_requests_in_flight", model="slow") == 6, 20
                )
                drain = pool.submit(server.cli, "drain", "--exit")
                wait_until("it drains", lambda: server.cli("health", check=False).returncode == 1, 5)
                assert told.empty()
                assert not drain.done(), "drain waits for what was accepted"
            drain.result()  # exit code 0
            answers = [told.get(timeout=60) for _ in range(6)]
        assert [error for _, error in answers] == [None] * 6
        assert all(result.as_numpy("output").shape == (1, 4) for result, _ in answers)
        assert server.process.wait(30) == 0


@pytest.mark.parametrize(
    "words", [("models",), ("show", "m"), ("load", "m"), ("unload", "m"), ("infer", "m", "--input", "[1]"),
              ("bench", "m"), ("cards",), ("health",), ("metadata",), ("drain",)], ids=lambda words: words[0]
)  # fmt: skip
def test_no_server_is_3(tmp_path: Path, words: tuple[str, ...]) -> None:
    nobody = f"unix:{tmp_path}/nobody"
    assert_one_error(belfry(*words, "--server", nobody, "--admin", nobody, "--timeout", "10s"), 3, nobody)


def test_addresses_come_from_the_environment(echo_server: Server) -> None:
    done = belfry("cards", BELFRY_SERVER=echo_server.address, BELFRY_ADMIN=echo_server.admin)
    assert done.returncode == 0, done
    assert belfry("health", BELFRY_SERVER=echo_server.address).stdout == "ready\n"


@pytest.mark.parametrize(
    "words", [("nonsense",), ("infer",), ("models", "--no-such-flag"), ("show", "a", "1", "b"),
              ("bench", "echo", "--seconds", "often"), ("infer", "echo", "--input", "[[1,"), ("cards", "extra")]
)  # fmt: skip
def test_wrong_usage_is_2(echo_server: Server, words: tuple[str, ...]) -> None:
    done = echo_server.cli(*words, check=False)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("belfry: ")


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(verb: str) -> None:
    done = belfry(verb, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith(f"belfry {verb} - ")
    assert "Exit codes:" in done.stdout
    assert done.stderr == ""


def test_help_names_every_verb() -> None:
    done = belfry("--help")
    assert done.returncode == 0
    text = done.stdout
    listed = text[text.index("verbs:") : text.index("'belfry VERB --help'")].splitlines()[1:]
    assert {line.split()[0] for line in listed if line.strip()} == set(VERBS)
