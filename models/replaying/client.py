"""One client process of the replay: a few threads, each with one request under way, all of the stock client."""

import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from replaying import plan
from sample.quality import max_error


@dataclass(frozen=True)
class Task:
    model: str
    directory: Path
    address: str
    seed: int
    seconds: float  # send this long, and every request once at least …
    limit: float  # … but never longer than this
    timeout: float  # of one request
    process: int
    processes: int
    threads: int
    most: int  # requests of this process at most


@dataclass
class Tally:
    """What one or several threads saw. `answers`: the first answer to each row, where answers have one row a row."""

    latency: list[float] = field(default_factory=list)
    rows: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    worst: float = 0.0  # against eager
    answers: dict[int, np.ndarray] = field(default_factory=dict)
    began: float = 0.0
    ended: float = 0.0

    def add(self, other: "Tally") -> None:
        self.latency += other.latency
        self.rows += other.rows
        self.errors += other.errors
        self.worst = max(self.worst, other.worst)
        for row, answer in other.answers.items():
            self.answers.setdefault(row, answer)
        self.began = min(self.began or other.began, other.began)
        self.ended = max(self.ended, other.ended)


def prepare() -> None:
    """Imports what is slow to import, so that all processes begin to send together."""
    import tritonclient.grpc  # noqa: F401


def run(task: Task) -> Tally:
    import tritonclient.grpc as grpc

    requests = plan.requests(task.model, task.directory, task.seed)
    client = grpc.InferenceServerClient(task.address)
    try:
        tensor_in, tensor_out = echo_names(client) if task.model == plan.ECHO else ("", "")
        tallies = [Tally() for _ in range(task.threads)]
        threads = []
        for number, tally in enumerate(tallies):
            mine = requests[task.process * task.threads + number :: task.processes * task.threads]
            sender = _Sender(task, client, tally, mine or requests, tensor_in, tensor_out)
            threads.append(threading.Thread(target=sender.send, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        client.close()
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


def echo_names(client: object) -> tuple[str, str]:
    """Names of echo's input and output, from the server."""
    metadata = client.get_model_metadata(plan.ECHO)  # type: ignore[attr-defined]
    return metadata.inputs[0].name, metadata.outputs[0].name


class _Sender:
    """One thread's loop: prepared requests, one at a time, each answer compared with eager's."""

    def __init__(
        self, task: Task, client: object, tally: Tally, requests: list[plan.Request], tensor_in: str, tensor_out: str
    ) -> None:
        self._task, self._client, self._tally = task, client, tally
        self._requests = [(r, to_wire(r, tensor_in), r.output or tensor_out) for r in requests]

    def send(self) -> None:
        task, tally = self._task, self._tally
        tally.began = tally.ended = time.monotonic()
        most = max(1, task.most // task.threads)
        sent = 0
        while sent < most:
            once = sent >= len(self._requests)
            spent = time.monotonic() - tally.began
            if spent > task.limit or (once and spent > task.seconds):
                break
            self._one(*self._requests[sent % len(self._requests)], keep=not once)
            sent += 1
        tally.ended = time.monotonic()

    def _one(self, request: plan.Request, wire: list, output: str, keep: bool) -> None:
        started = time.monotonic()
        try:
            answer = self._client.infer(self._task.model, wire, client_timeout=self._task.timeout)  # type: ignore[attr-defined]
            got = answer.as_numpy(output)
        except Exception as error:  # whatever a request ends with is counted, never ends the replay
            self._tally.errors[describe(error)] += 1
            return
        self._tally.latency.append(time.monotonic() - started)
        self._tally.rows += len(request.rows)
        if got is None:
            self._tally.errors[f"the answer has no output {output!r}"] += 1
            return
        self._tally.worst = max(self._tally.worst, difference(got, request.want))
        if keep and request.want.dtype.kind == "f" and len(got) == len(request.rows):
            self._tally.answers.update(zip(request.rows.tolist(), got, strict=True))


def to_wire(request: plan.Request, tensor_in: str = "") -> list:
    """The request's inputs as the client library wants them, encoded once."""
    import tritonclient.grpc as grpc
    from tritonclient.utils import np_to_triton_dtype

    wire = []
    for name, array in request.inputs.items():
        tensor = grpc.InferInput(name or tensor_in, list(array.shape), np_to_triton_dtype(array.dtype))
        tensor.set_data_from_numpy(array)
        wire.append(tensor)
    return wire


def difference(got: np.ndarray, want: np.ndarray) -> float:
    """Largest absolute difference; infinity where shape, kind or bytes differ."""
    if want.dtype == np.object_:
        same = got.shape == want.shape and got.reshape(-1).tolist() == want.reshape(-1).tolist()
        return 0.0 if same else float("inf")
    return max_error(got, want)


def describe(error: Exception) -> str:
    """One line, without what differs from request to request."""
    status = getattr(error, "status", lambda: None)()
    text = getattr(error, "message", lambda: None)() or str(error) or type(error).__name__
    line = " ".join(str(text).split())[:300]
    return f"{status}: {line}" if status else line
