"""Fixtures of the integration tests: real servers, real models, shared artifacts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from support import models, paths
from support.server import Server, start_server

Starter = Callable[..., AbstractContextManager[Server]]


@pytest.fixture(scope="session")
def samples() -> Path:
    """The sample models, made if they are not there."""
    subprocess.run(
        [sys.executable, str(paths.ROOT / "models" / "make.py"), "--out", str(paths.SAMPLES)], check=True
    )
    return paths.SAMPLES


@contextmanager
def _serve(data_dir: Path, *flags: str, **options: Any) -> Iterator[Server]:
    models.with_artifacts(data_dir)
    with start_server(data_dir, *flags, **options) as server:
        yield server
    models.keep_artifacts(data_dir)


@pytest.fixture
def serve(tmp_path: Path) -> Starter:
    """serve(*flags, model_dir=…, cards=…): a server of this test's own, with the shared artifacts in its cache."""
    count = 0

    def start(*flags: str, data_dir: Path | None = None, **options: Any) -> AbstractContextManager[Server]:
        nonlocal count
        count += 1
        return _serve(data_dir or tmp_path / f"data{count}", *flags, **options)

    return start


@pytest.fixture(scope="session")
def sample_server(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with all sample models and two cpu cards. Tests leave it as they found it."""
    with _serve(tmp_path_factory.mktemp("samples"), model_dir=samples) as server:
        server.wait_ready("echo", "card-fraud", "credit-risk", "minilm", seconds=600)
        yield server


@pytest.fixture(scope="session")
def echo_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server with nothing but the built-in model. Tests leave it as they found it."""
    with _serve(tmp_path_factory.mktemp("echo")) as server:
        server.wait_ready("echo")
        yield server
