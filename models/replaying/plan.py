"""What a replay sends: every row of a model's traffic once, cut into requests of the sizes that clients use."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sample.traffic import Traffic

ECHO = "echo"
# Most callers score one thing at a time; some send what one screen, or one end-of-day file, holds.
SIZES = np.array([1, 2, 4, 8, 16])
WEIGHTS = np.array([0.70, 0.10, 0.08, 0.06, 0.06])


@dataclass(frozen=True)
class Request:
    inputs: dict[str, np.ndarray]
    output: str
    want: np.ndarray  # eager's answer
    rows: np.ndarray  # of the traffic; which row of `want` is which


def cut(count: int, seed: int) -> list[np.ndarray]:
    """Rows 0 … count-1 in order, each in exactly one request."""
    rng = np.random.default_rng([seed, 6])
    parts, at = [], 0
    while at < count:
        size = int(rng.choice(SIZES, p=WEIGHTS))
        parts.append(np.arange(at, min(at + size, count)))
        at += size
    return parts


def requests(model: str, directory: Path, seed: int) -> list[Request]:
    if model == ECHO:
        return list(_echo(seed))
    traffic = Traffic.load(directory / model / "1" / "replay.npz")
    if traffic.texts:
        return list(_texts(traffic, seed))
    return [Request(traffic.take(rows), traffic.output, traffic.eager[rows], rows) for rows in cut(len(traffic), seed)]


def _texts(traffic: Traffic, seed: int) -> Iterator[Request]:
    from minilm.encoder import Tokenizer  # only this model's replay needs a tokenizer

    tokenizer = Tokenizer()
    # A request is as long as its longest text, so clients put texts of like length into one.
    order = np.argsort([len(text) for text in traffic.texts], kind="stable")
    parts = [order[places] for places in cut(len(traffic), seed)]
    np.random.default_rng([seed, 8]).shuffle(parts)
    for rows in parts:
        yield Request(tokenizer([traffic.texts[row] for row in rows]), traffic.output, traffic.eager[rows], rows)


def _echo(seed: int) -> Iterator[Request]:
    """Tensors of every kind and of odd shapes; the name of the tensor is filled in from the server's metadata."""
    rng = np.random.default_rng([seed, 7])
    kinds = ("bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "bytes")
    shapes = ((1,), (1, 1), (3, 4), (1, 5, 7), (8, 128), (1, 4096))
    for row in range(len(kinds) * len(shapes)):
        kind, shape = kinds[row % len(kinds)], shapes[row % len(shapes)]
        if kind == "bytes":
            words = [rng.bytes(int(n)) for n in rng.integers(0, 40, int(np.prod(shape)))]
            array = np.empty(len(words), dtype=np.object_)
            array[:] = words
            array = array.reshape(shape)
        elif kind == "bool":
            array = rng.random(shape) < 0.5
        elif kind.startswith("f"):
            array = rng.normal(0, 100, shape).astype(kind)
        else:
            span = np.iinfo(kind)
            array = rng.integers(span.min, span.max, shape, dtype=kind, endpoint=True)
        yield Request({"": array}, "", array, np.array([row]))
