"""Cards that die, hang or lie: the front end goes on and nobody loses a request."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.load import EchoLoad
from support.paths import BIN
from support.requests import echo, golden_cases, infer
from support.server import Server, wait_until


def card_pids(server: Server) -> list[int]:
    return [card["pid"] for card in server.cards() if card["state"] == "READY"]


def all_ready(server: Server, count: int) -> bool:
    return len(card_pids(server)) == count


def test_kill_9_under_load_loses_no_request(serve: object) -> None:
    with serve(cards="cpu:2") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        wait_until("both cards", lambda: all_ready(server, 2))
        with EchoLoad(server) as load:
            for round_number in range(6):
                victim = card_pids(server)[round_number % 2]
                load.wait_answers(100)
                os.kill(victim, signal.SIGKILL)
                load.wait_answers(100)
                wait_until("the card is back", lambda: all_ready(server, 2))
                assert victim not in card_pids(server)
        assert sum(card["restarts"] for card in server.cards()) == 6
        assert server.is_ready("echo"), "a kill from outside is not held against the model"


def test_kill_9_under_load_with_a_compiled_model(sample_server: Server, samples: Path) -> None:
    inputs, outputs = next(iter(golden_cases(samples / "credit-risk" / "1").values()))
    restarts = sum(card["restarts"] for card in sample_server.cards())

    def run(i: int) -> None:
        with sample_server.client() as client:
            for n in range(60):
                if i == 0 and n == 20:
                    os.kill(card_pids(sample_server)[0], signal.SIGKILL)
                got = infer(client, "credit-risk", inputs)
                for name, expected in outputs.items():
                    np.testing.assert_allclose(got[name], expected, rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(6)))
    wait_until("both cards", lambda: all_ready(sample_server, 2))
    assert sum(card["restarts"] for card in sample_server.cards()) == restarts + 1
    for card in sample_server.cards():
        assert any(r.startswith("credit-risk/") for r in card["residents"]), "residents come back by themselves"


def test_a_single_card_that_dies_is_waited_for(serve: object) -> None:
    with serve(cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        with server.client() as client:
            echo(client, np.ones(2, np.float32))
            os.kill(card_pids(server)[0], signal.SIGKILL)
            assert echo(client, np.ones(2, np.float32)).tolist() == [1, 1]


def test_a_card_that_hangs_is_killed_by_the_watchdog(serve: object, tmp_path: Path) -> None:
    """SIGSTOP is a hang as good as any. echo's watchdog is the default of 30 s, so a model with its own is used."""
    from support import models

    def make(place: Path) -> None:
        models.save(place, "watched", models.tiny(), "watchdog: 500ms\n")

    folder = models.made_once("cards-watched-1", make)
    with serve(model_dir=folder, cards="cpu:2") as server:  # type: ignore[operator]
        server.wait_ready("watched")
        wait_until("both cards", lambda: all_ready(server, 2))
        victim = card_pids(server)[0]
        os.kill(victim, signal.SIGSTOP)
        x = {"x": np.ones((1, 4), np.float32)}
        with server.client() as client:
            # Enough requests at once that some go to the stopped card.
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda _: infer(client, "watched", x)["output"], range(8)))
            for answer in answers:
                np.testing.assert_allclose(answer, answers[0], rtol=1e-5, atol=1e-6)
        wait_until("the card was restarted", lambda: all_ready(server, 2) and victim not in card_pids(server))
        errors = [card["last_error"] for card in server.cards()]
        assert any("watchdog" in error for error in errors), errors


def test_a_card_process_does_not_outlive_the_server(serve: object) -> None:
    with serve(cards="cpu:2") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        pids = card_pids(server)
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        for pid in pids:
            wait_until(f"card {pid} ends", lambda pid=pid: not Path(f"/proc/{pid}").exists())


def test_cards_load_the_artifact_from_the_cache_itself(sample_server: Server) -> None:
    """No copy in between: what the key names is what runs."""
    models = ("card-fraud", "credit-risk", "minilm")
    folder = (sample_server.data_dir / "artifacts").resolve()
    wanted = {str(folder / sample_server.artifact(model)["key"] / "model.so") for model in models}
    assert len(wanted) == len(models)
    wait_until("both cards", lambda: all_ready(sample_server, 2))
    for card in sample_server.cards():
        assert {r.split("/")[0] for r in card["residents"]} >= set(models)
        maps = Path(f"/proc/{card['pid']}/maps").read_text().splitlines()
        mapped = {fields[5] for line in maps if len(fields := line.split(maxsplit=5)) == 6}
        assert {path for path in mapped if Path(path).name == "model.so"} == wanted


def test_the_server_is_not_ready_while_its_only_card_is_down(serve: object, tmp_path: Path) -> None:
    """The card's program is a script that fails for as long as a file is there."""
    down, card = tmp_path / "down", tmp_path / "card"
    card.write_text(f'#!/bin/sh\n[ ! -e "{down}" ] || exit 1\nexec "{BIN / "belfry-card"}" "$@"\n')
    card.chmod(0o755)
    with serve("--card-binary", str(card), cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("echo")
        with server.client() as client:
            wait_until("ready", client.is_server_ready)
            (victim,) = card_pids(server)
            down.touch()
            os.kill(victim, signal.SIGKILL)
            wait_until("a second start has failed", lambda: server.cards()[0]["restarts"] >= 2)
            assert not client.is_server_ready()
            assert not client.is_model_ready("echo")
            assert client.is_server_live()
            down.unlink()
            wait_until("ready again", client.is_server_ready)
            assert echo(client, np.ones(2, np.float32)).tolist() == [1, 1]


def test_cards_tells_what_an_operator_asks(sample_server: Server) -> None:
    for card in sample_server.cards():
        assert card["state"] == "READY"
        assert card["memory_used"] > 0
        assert {"pid", "restarts", "last_error", "residents", "batches", "busy_seconds"} <= card.keys()
    table = sample_server.cli("cards").stdout
    assert "cpu:0" in table
    assert "READY" in table


@pytest.mark.parametrize("bad", ["cpu:0", "cpu:-1", "gpu", "cpu:1,", ""])
def test_a_bad_cards_flag_is_a_clear_error(tmp_path: Path, bad: str) -> None:
    import subprocess

    done = subprocess.run(
        [str(BIN / "belfryd"), "--data-dir", str(tmp_path), "--cards", bad, "--listen", "127.0.0.1:0",
         "--admin-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert "cards" in done.stderr or "driver" in done.stderr, done.stderr
