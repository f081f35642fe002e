"""Steady load whose every answer is checked."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Self

import numpy as np
from tritonclient.utils import InferenceServerException

from .requests import echo
from .server import Server


class EchoLoad:
    """While the `with` runs, clients send tagged rows to echo and check that their own tag comes back."""

    def __init__(self, server: Server, clients: int = 8, tolerate: Callable[[str], bool] | None = None) -> None:
        self.server, self.clients = server, clients
        self.tolerate = tolerate or (lambda status: False)
        self.answered: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def _run(self, number: int) -> None:
        rng = np.random.default_rng(number)
        sent = 0
        with self.server.client() as client:
            while not self._stop.is_set():
                rows = int(rng.integers(1, 9))
                values = np.full((rows, 5), number * 1_000_000 + sent, np.int64)
                sent += 1
                try:
                    got = echo(client, values, client_timeout=30)
                    status = "OK"
                    if not np.array_equal(got, values):
                        self.wrong.append(f"client {number}: sent {values[0, 0]}, got {got[:, 0].tolist()}")
                except InferenceServerException as error:
                    status = str(error.status())
                    if not self.tolerate(status):
                        self.wrong.append(f"client {number}: {error}")
                with self._lock:
                    self.answered[status] += 1

    def wait_answers(self, more: int) -> None:
        """Until that many further answers have come."""
        from .server import wait_until

        goal = self.answered["OK"] + more
        wait_until(f"{more} more answers, {dict(self.answered)}, {self.wrong[:3]}", lambda: self.answered["OK"] >= goal)

    def __enter__(self) -> Self:
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(1, self.clients + 1)]
        for thread in self._threads:
            thread.start()
        self.wait_answers(self.clients)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self.wrong, self.wrong[:5]
