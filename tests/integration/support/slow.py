"""A model that keeps a card busy, and a backlog of requests for it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

import numpy as np
import torch

from . import models
from .requests import infer
from .server import Server, wait_until

ROW = {"x": np.ones((1, 4), np.float32)}


class Slow(torch.nn.Module):
    """Some tenths of a second a row on one core: enough for others to queue up behind it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.w = torch.nn.Parameter(torch.randn(4000, 4000) / 63)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.repeat(1, 1000)
        for _ in range(40):
            y = torch.tanh(y @ self.w)
        return x + y[:, :4]


def slow_folder() -> Path:
    """Models 'slow', one row an execution, and 'deterministic', sixteen rows an execution."""

    def make(place: Path) -> None:
        models.save(place, "slow", models.of_rows(Slow()), "max_batch: 1\n")
        models.save(place, "deterministic", models.tiny(3, 40, 64), "deterministic: true\nmax_batch: 16\n")

    return models.made_once("scheduling-4", make)


class Backlog:
    """Keeps the card busy with requests of 'slow' while the body of a `with` runs."""

    def __init__(self, server: Server, requests: int = 8) -> None:
        self.server, self.requests = server, requests
        self.done: list[str] = []
        self.threads: list[threading.Thread] = []

    def _one(self) -> None:
        with self.server.client() as client:
            infer(client, "slow", ROW)
        self.done.append("ok")

    def __enter__(self) -> Self:
        self.threads = [threading.Thread(target=self._one) for _ in range(self.requests)]
        for thread in self.threads:
            thread.start()
        wait_until("a queue builds up", lambda: self.server.scrape().value("belfry_queue_depth", model="slow") >= 2)
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self.threads:
            thread.join()
        assert self.done == ["ok"] * self.requests
