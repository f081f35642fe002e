"""A real `belfryd` in a folder of its own, on ports that the system picks."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tritonclient.grpc as triton

from .metrics import Metrics, parse_metrics
from .paths import BIN, COMPILER_DIR, PYTHON

START_SECONDS = 60
STOP_SECONDS = 60


def wait_until(what: str, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Polls until `condition` returns something true and returns it; fails naming `what`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)


@dataclass
class Server:
    """One running belfryd. Made by `start_server`."""

    process: subprocess.Popen[bytes]
    data_dir: Path
    log_path: Path
    addresses: dict[str, str] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return self.addresses["inference"]

    @property
    def admin(self) -> str:
        return self.addresses["admin"]

    @property
    def pid(self) -> int:
        return self.process.pid

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @contextmanager
    def client(self, admin: bool = False) -> Iterator[triton.InferenceServerClient]:
        client = triton.InferenceServerClient(self.admin if admin else self.address)
        try:
            yield client
        finally:
            client.close()

    def scrape(self) -> Metrics:
        with urllib.request.urlopen(f"http://{self.addresses['metrics']}/metrics", timeout=10) as page:
            return parse_metrics(page.read().decode())

    def cli(self, *words: str, check: bool = True, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Runs the command-line client against this server."""
        command = [str(BIN / "belfry"), "--server", self.address, "--admin", self.admin, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(words)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def cli_json(self, *words: str) -> Any:
        return json.loads(self.cli(*words, "--json").stdout)

    def cards(self) -> list[dict[str, Any]]:
        return self.cli_json("cards")

    def version(self, model: str, version: str = "") -> dict[str, Any]:
        """What `belfry show` tells of a version: its summary's fields, and the rest under 'detail'."""
        details = self.cli_json("show", model, *([version] if version else []))
        return {**details[-1]["summary"], "detail": details[-1]}

    def artifact(self, model: str, version: str = "") -> dict[str, Any]:
        """The one compiled artifact of a version on one kind of card."""
        (artifact,) = self.version(model, version)["detail"]["artifacts"]
        return artifact

    def is_ready(self, model: str, version: str = "") -> bool:
        with self.client() as client:
            return bool(client.is_model_ready(model, version))

    def wait_ready(self, *models: str, seconds: float = 300) -> None:
        """Until the named models are READY; a FAILED one fails the test with its reason."""
        for model in models:
            wait_until(f"{model} READY\n{self.log()[-3000:]}", lambda m=model: self._ready_or_raise(m), seconds)

    def _ready_or_raise(self, model: str) -> bool:
        if self.is_ready(model):
            return True
        for version in self.cli_json("models"):
            if version["name"] == model and version["state"] == "FAILED":
                raise AssertionError(f"{model} FAILED: {version}\n{self.log()[-3000:]}")
        return False

    def stop(self, sig: int = signal.SIGTERM, seconds: float = STOP_SECONDS) -> int:
        """Sends the signal and returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            late = f"belfryd did not end within {seconds} s of signal {sig}"
            raise AssertionError(f"{late}\n{self.log()[-3000:]}") from None


@contextmanager
def start_server(
    data_dir: Path, *flags: str, model_dir: Path | None = None, cards: str = "cpu:2", env: dict[str, str] | None = None
) -> Iterator[Server]:
    """Starts belfryd and waits until it answers; ends it, whatever happened."""
    data_dir.mkdir(parents=True, exist_ok=True)
    log_path = data_dir / "belfryd.log"
    command = [
        str(BIN / "belfryd"), "--data-dir", str(data_dir), "--cards", cards,
        "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
        "--python", PYTHON, "--compiler-dir", str(COMPILER_DIR), "--lame-duck", "0s", *flags,
    ]  # fmt: skip
    if model_dir is not None:
        command += ["--model-dir", str(model_dir)]
    addresses = data_dir / "run" / "addresses.json"
    addresses.unlink(missing_ok=True)
    with log_path.open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **(env or {})})
    server = Server(process, data_dir, log_path)
    try:
        wait_until(
            f"belfryd listens\n{server.log()}",
            lambda: addresses.exists() or process.poll() is not None,
            START_SECONDS,
        )
        if process.poll() is not None:
            raise AssertionError(f"belfryd ended with {process.returncode}:\n{server.log()}")
        server.addresses = json.loads(addresses.read_text())
        yield server
    finally:
        if process.poll() is None:
            server.stop()
