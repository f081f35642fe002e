"""Makes the credit-risk model: read the data, cross-validate, train on the larger part, export."""

from pathlib import Path

import numpy as np
import torch

from credit_risk import columns, data
from credit_risk import train as t
from sample import export
from sample.quality import auc
from sample.recipe import Say
from sample.traffic import Traffic

SEED = 1
FOLDS, ROUNDS = 5, 3
MAX_BATCH = 4096


def build(out: Path, cache: Path, say: Say) -> dict[str, float]:
    records = data.load(cache)
    inputs, label = columns.encode(records), data.labels(records)
    say(f"{len(label)} loans, {int(label.sum())} gone bad; cross-validating, {FOLDS} folds, {ROUNDS} times")
    scores = []
    for round_ in range(ROUNDS):
        fold = data.folds(label, FOLDS, SEED + round_)
        for held_out in range(FOLDS):
            model = t.train(inputs, label, np.flatnonzero(fold != held_out), SEED + round_)
            rows = np.flatnonzero(fold == held_out)
            scores.append(auc(label[rows], t.score(model, inputs, rows)))
    say(f"cross-validated AUC {np.mean(scores):.4f}; training the model to serve on four folds of five")
    fold = data.folds(label, FOLDS, SEED)
    model = t.train(inputs, label, np.flatnonzero(fold != 0), SEED)
    rows = np.flatnonzero(fold == 0)
    score = t.score(model, inputs, rows)
    quality = {
        "auc": round(auc(label[rows], score), 4),
        "rows": len(rows),
        "auc_cross_validated": round(float(np.mean(scores)), 4),
        "auc_cross_validated_spread": round(float(np.std(scores)), 4),
    }
    say(f"AUC {quality['auc']:.4f} on the fifth; exporting")
    part = {name: array[rows] for name, array in inputs.items()}
    batch = torch.export.Dim("batch", min=1, max=MAX_BATCH)
    export.save(model, _cases(part), {name: {0: batch} for name in columns.INPUTS}, "four", out)
    Traffic(output="default_probability", eager=score, inputs=part, label=label[rows].astype(np.int8)).save(
        out / "replay.npz"
    )
    return quality


def _cases(part: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    cases = {
        name: {column: part[column][at] for column in columns.INPUTS}
        for name, at in (("one", slice(0, 1)), ("four", slice(1, 5)), ("thirty", slice(5, 35)))
    }
    # Codes that no table knows count as unknown; the row beside them must not suffer.
    odd = {column: array.copy() for column, array in cases["four"].items()}
    for column, value in zip(list(columns.CATEGORICAL)[:4], (0, 99, -3, 2**40), strict=True):
        odd[column][0] = value
    return {**cases, "unknown-codes": odd}
