"""deploy/quickstart.sh as a newcomer runs it, twice, with nothing to install and little to build."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support import models, paths
from support.metrics import Metrics, parse_metrics
from support.server import wait_until

COMPILED = ("card-fraud", "credit-risk", "minilm")
# A build folder that was made from nothing but sources has its programs to link; the models may have to be compiled.
RUN_SECONDS = 900


@dataclass
class Quickstart:
    """The script with everything of its own below one folder, except what was built and trained already."""

    data: Path

    @property
    def environment(self) -> dict[str, str]:
        own = {
            "BELFRY_BUILD_DIR": str(paths.BUILD),
            "BELFRY_VENV": sys.prefix,
            "BELFRY_DATA_DIR": str(self.data),
            "BELFRY_MODEL_DIR": str(paths.SAMPLES),
            "BELFRY_LISTEN": "127.0.0.1:0",
            "BELFRY_ADMIN_LISTEN": "127.0.0.1:0",
            "BELFRY_METRICS_LISTEN": "127.0.0.1:0",
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BELFRY_")}
        return {**inherited, **own}

    def __call__(self, *words: str) -> str:
        """Runs the script to a good end and returns what it printed."""
        command = ["sh", str(paths.ROOT / "deploy" / "quickstart.sh"), *words]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
        )
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def pid(self) -> int:
        return int((self.data / "run" / "lock").read_text())

    def scrape(self) -> Metrics:
        address = json.loads((self.data / "run" / "addresses.json").read_text())["metrics"]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            return parse_metrics(page.read().decode())


@pytest.fixture
def quickstart(samples: Path, tmp_path: Path) -> Iterator[Quickstart]:
    cache = (paths.BUILD / "CMakeCache.txt").read_text()
    if f"={paths.ROOT / 'deploy' / 'cmake'}\n" not in cache:
        pytest.skip(f"{paths.BUILD} was not configured by the scripts; the quickstart would build it anew")
    script = Quickstart(models.with_artifacts(tmp_path / "data"))
    try:
        yield script
    finally:
        script("--stop")
    models.keep_artifacts(script.data)


def rows(printed: str) -> dict[str, dict[str, str]]:
    """The table of the replay: model -> column -> cell. Columns are two spaces or more apart."""
    lines = printed.splitlines()
    rule = next(i for i, line in enumerate(lines) if re.fullmatch(r"-{40,}", line))
    titles = re.split(r" {2,}", lines[rule - 1].strip())
    table = {}
    for line in lines[rule + 1 :]:
        cells = re.split(r" {2,}", line.strip())
        if len(cells) < len(titles) - 1:  # echo has no quality
            break
        table[cells[0]] = dict(zip(titles, cells, strict=False))
    return table


def as_printed(printed: str, words: str) -> subprocess.CompletedProcess[str]:
    """Runs the one printed command line with these words, in a shell without the environment of the script."""
    (line,) = (line for line in printed.splitlines() if line.startswith("  ") and words in line)
    bare = {name: value for name, value in os.environ.items() if not name.startswith("BELFRY_")}
    return subprocess.run(
        ["sh", "-c", line], env=bare, cwd="/", capture_output=True, text=True, timeout=120, check=False
    )


def test_two_runs_a_request_and_the_end(quickstart: Quickstart) -> None:
    first = quickstart("--no-install", "--seconds", "1")
    table = rows(first)
    assert set(table) == {*COMPILED, "echo"}
    for model, row in table.items():
        assert row["errors"] == "0", (model, row)
        assert int(row["requests"]) > 0, (model, row)
    pid = quickstart.pid()

    second = quickstart("--no-install", "--seconds", "1")
    table = rows(second)
    assert {model: table[model]["cache"] for model in COMPILED} == dict.fromkeys(COMPILED, "hit")
    assert all(row["errors"] == "0" for row in table.values()), table
    metrics = quickstart.scrape()
    assert metrics.value("belfry_compiles_total") == 0
    assert metrics.value("belfry_cache_hits_total") == len(COMPILED)
    assert "configuring" not in second
    assert quickstart.pid() != pid, "a server of an earlier run is replaced"
    pid = quickstart.pid()

    asked = as_printed(second, " infer echo ")
    assert asked.returncode == 0, asked.stderr
    assert "1.5" in asked.stdout
    assert "2.5" in asked.stdout

    stopped = as_printed(second, " --stop")
    assert stopped.returncode == 0, stopped.stderr
    assert str(pid) in stopped.stdout
    wait_until("the server has ended", lambda: not Path(f"/proc/{pid}").exists())
    assert "no server" in quickstart("--stop")
