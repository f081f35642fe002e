"""Makes the card-fraud model: generate, train, export."""

from pathlib import Path

import numpy as np
import torch

from card_fraud import train as t
from sample import export
from sample.quality import auc
from sample.recipe import Say
from sample.traffic import Traffic

SEED = 7
REPLAYED = 3000  # rows: the transactions of the first held-out cards, each card's in order
MAX_BATCH = 4096


def build(out: Path, cache: Path, say: Say) -> dict[str, float]:
    say(f"generating transactions of {t.TRAINING_CARDS} cards")
    data = t.Sequences.of(t.TRAINING_CARDS, SEED)
    say(f"training on {len(data.label)} transactions, {100 * data.label.mean():.1f} % fraud")
    model = t.train(data, SEED, say=say)

    say(f"scoring {t.HELD_OUT_CARDS} cards that training never saw")
    held_out = t.Sequences.of(t.HELD_OUT_CARDS, SEED, t.HELD_OUT_FROM)
    rows = np.arange(len(held_out.label))
    score = t.score(model, held_out, rows)
    quality = {
        "auc": round(auc(held_out.label, score), 4),
        "rows": len(rows),
        "fraud_rate": round(float(held_out.label.mean()), 4),
        "mean_probability": round(float(score.mean()), 4),
        "recall_at_1_percent": round(_recall(held_out.label, score[:, 0], 0.01), 4),
        "recall_at_3_percent": round(_recall(held_out.label, score[:, 0], 0.03), 4),
    }
    say(f"AUC {quality['auc']:.4f}; exporting")

    frauds = np.flatnonzero(held_out.label)
    cases = {
        "one": {"transactions": held_out.take(frauds[:1])},
        "three": {"transactions": held_out.take(np.array([0, 1, 40]))},  # short histories among them
        "seventeen": {"transactions": held_out.take(np.concatenate([frauds[1:9], rows[200:209]]))},
    }
    batch = torch.export.Dim("batch", min=1, max=MAX_BATCH)
    export.save(model, cases, {"transactions": {1: batch}}, "three", out)
    part = rows[:REPLAYED]
    Traffic(
        output="fraud_probability",
        eager=score[part],
        inputs={"transactions": held_out.take(part)},
        axis={"transactions": 1},
        label=held_out.label[part].astype(np.int8),
    ).save(out / "replay.npz")
    return quality


def _recall(label: np.ndarray, score: np.ndarray, share: float) -> float:
    """The part of the fraud that is found if the given share of the transactions is looked at."""
    seen = np.argsort(-score, kind="stable")[: int(share * len(score))]
    return float(label[seen].sum() / label.sum())
