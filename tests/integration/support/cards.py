"""Holding a card still, so that what is in flight stays in flight."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .server import Server, wait_until


def thread_states(pid: int) -> list[str]:
    """The kernel's letter for each thread; T is stopped. A signal takes hold of them one after the other."""
    stats = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    return [stat.rsplit(")", 1)[1].split()[0] for stat in stats]


@contextmanager
def stopped_card(server: Server) -> Iterator[None]:
    """While the body runs, the only card does nothing, so accepted requests stay in flight.

    The watchdog takes the card for hung after 30 s: the body has to be quick.
    """
    (card,) = server.cards()
    os.kill(card["pid"], signal.SIGSTOP)
    try:
        wait_until("the card stands still", lambda: set(thread_states(card["pid"])) == {"T"}, 10)
        yield
    finally:
        os.kill(card["pid"], signal.SIGCONT)
