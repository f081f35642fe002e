"""Compile once: the artifact cache over restarts, crashes and damage."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from support import models
from support.paths import BIN, COMPILER_DIR
from support.requests import infer
from support.server import Server, start_server, wait_until

X = {"x": np.ones((2, 4), np.float32)}


@pytest.fixture(scope="module")
def folder() -> Path:
    return models.made_once("cache-1", lambda place: models.save(place, "m", models.tiny(7)) and None)


def ask(server: Server) -> np.ndarray:
    with server.client() as client:
        return infer(client, "m", X)["output"]


def compiles(server: Server) -> float:
    return server.scrape().value("belfry_compiles_total", result="ok")


def manifests(data: Path) -> list[Path]:
    return sorted((data / "artifacts").glob("*/manifest.json"))


def test_the_second_start_compiles_nothing(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_server(data, model_dir=folder) as server:
        server.wait_ready("m")
        first = ask(server)
        assert compiles(server) == 1, "two cards, one compile"
        assert not server.artifact("m")["cache_hit"]
    assert len(manifests(data)) == 1
    with start_server(data, model_dir=folder) as server:
        server.wait_ready("m")
        assert compiles(server) == 0
        assert server.scrape().value("belfry_cache_hits_total") == 1
        assert server.artifact("m")["cache_hit"]
        np.testing.assert_array_equal(ask(server), first)
    models.keep_artifacts(data)


def test_killed_in_the_middle_of_a_compile_and_started_again(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_server(data, model_dir=folder, cards="cpu:1") as server:
        wait_until_compiler_works(server)
        children = descendants(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        server.process.wait()
        wait_until_gone(children)
    assert manifests(data) == []
    with start_server(data, model_dir=folder, cards="cpu:1") as server:
        server.wait_ready("m")
        ask(server)
    assert [p for p in (data / "artifacts").iterdir() if p.name.startswith("tmp")] == []


def test_sigterm_ends_a_compile_with_all_its_processes(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_server(data, model_dir=folder, cards="cpu:1") as server:
        wait_until_compiler_works(server)
        children = descendants(server.pid)
        begin = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begin < 20, "it does not wait for the compile"
        wait_until_gone(children)
    assert manifests(data) == []


def test_unload_ends_a_compile_with_all_its_processes(folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_server(data, model_dir=folder, cards="cpu:1") as server:
        wait_until_compiler_works(server)
        (card,) = (card["pid"] for card in server.cards())
        compiler = set(descendants(server.pid)) - {card, *descendants(card)}
        assert compiler
        server.cli("unload", "m")
        assert server.version("m")["state"] == "UNLOADED"
        wait_until_gone(compiler)
        assert manifests(data) == []
        server.cli("load", "m")
        ask(server)
        assert compiles(server) == 1


def wait_until_compiler_works(server: Server) -> None:
    """Until `belfry show` tells a stage of the compiler, not one of the server's such as "queued"."""
    stages = {"load", "export", "inductor"}

    def works() -> bool:
        version = server.version("m")
        return version["state"] == "COMPILING" and (version.get("progress") or {}).get("stage") in stages

    wait_until("the compiler is at work", works)


def wait_until_gone(pids: Iterable[int]) -> None:
    for pid in pids:
        wait_until(f"process {pid} ends", lambda pid=pid: not Path(f"/proc/{pid}").exists())


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            children = (task / "children").read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # that thread has ended
        for child in children:
            try:
                found += [int(child), *descendants(int(child))]
            except FileNotFoundError:
                continue  # that process has
    return found


def test_a_damaged_artifact_is_found_and_made_again(serve: object, folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serve(data_dir=data, model_dir=folder, cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("m")
        good = ask(server)
        key = server.artifact("m")["key"]
    artifact = data / "artifacts" / key
    victim = max((p for p in artifact.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.unlink()  # it may be a hard link to the shared artifact
    victim.write_bytes(content)
    with start_server(data, model_dir=folder, cards="cpu:1") as server:
        server.wait_ready("m")
        assert compiles(server) == 1
        np.testing.assert_array_equal(ask(server), good)


def test_an_artifact_made_on_a_build_host_serves_without_python(folder: Path, tmp_path: Path) -> None:
    built = tmp_path / "built"
    done = subprocess.run(
        [str(BIN / "belfry"), "compile", str(folder / "m/1/model.pt2"), "--target", "cpu", "--out", str(built),
         "--python", sys.executable, "--compiler-dir", str(COMPILER_DIR)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    data = tmp_path / "data"
    shutil.copytree(built, data / "artifacts")
    with start_server(
        data, "--artifacts-only", "--python", "/nonexistent/python", model_dir=folder, cards="cpu:1"
    ) as server:
        server.wait_ready("m")
        assert compiles(server) == 0
        assert ask(server).shape == (2, 4)


def test_artifacts_only_names_what_is_missing(folder: Path, tmp_path: Path) -> None:
    with start_server(tmp_path / "data", "--artifacts-only", model_dir=folder, cards="cpu:1") as server:
        wait_until("FAILED", lambda: server.version("m")["state"] == "FAILED")
        reason = server.version("m")["reason"]
        assert "model_sha256" in reason, reason


def test_explain_cache_miss_names_the_field_that_differs(serve: object, folder: Path, tmp_path: Path) -> None:
    with serve(model_dir=folder, cards="cpu:1") as server:  # type: ignore[operator]
        server.wait_ready("m")
    other = tmp_path / "models"
    shutil.copytree(folder, other)
    (other / "m" / "1" / "model.yaml").write_text("rtol: 0.01\n")
    with serve("--artifacts-only", model_dir=other, cards="cpu:1") as server:  # type: ignore[operator]
        wait_until("FAILED", lambda: server.version("m")["state"] == "FAILED")
        said = server.cli("show", "m", "--explain-cache-miss").stdout
        assert "rtol" in said, said


def test_the_quota_evicts_what_is_not_in_use(tmp_path: Path) -> None:
    def make(place: Path) -> None:
        for i in range(3):
            models.save(place, f"m{i}", models.tiny(20 + i, width=512))

    folder = models.made_once("cache-quota-3", make)
    data, some = tmp_path / "data", tmp_path / "some"
    shutil.copytree(folder / "m0", some / "m0")
    shutil.copytree(folder / "m1", some / "m1")
    with start_server(data, model_dir=some, cards="cpu:1") as server:
        server.wait_ready("m0", "m1")
        gone, stays = server.artifact("m0")["key"], server.artifact("m1")["key"]
        assert server.scrape().value("belfry_cache_bytes") > 1 << 20
    # A quota below the size of one artifact: m1 is in use, m2 is new, so m0 has to go.
    shutil.rmtree(some / "m0")
    shutil.copytree(folder / "m2", some / "m2")
    with start_server(data, "--cache-quota-gb", "0.001", model_dir=some, cards="cpu:1") as server:
        server.wait_ready("m1", "m2")
        wait_until("evicted", lambda: server.scrape().value("belfry_cache_evictions_total") >= 1)
        assert not (data / "artifacts" / gone).exists()
        assert (data / "artifacts" / stays / "manifest.json").exists()
        with server.client() as client:
            for model in ("m1", "m2"):
                infer(client, model, {"x": np.ones((1, 512), np.float32)})
