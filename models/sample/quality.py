"""Figures of merit, on NumPy alone, so that a client that only replays traffic needs no more."""

import numpy as np


def auc(label: np.ndarray, score: np.ndarray) -> float:
    """Area under the ROC curve: the chance that a positive scores above a negative, ties counting half.

    NaN where only one class is there, or where a score is not a number.
    """
    label = np.asarray(label).reshape(-1) > 0
    score = np.asarray(score, dtype=np.float64).reshape(-1)
    if label.shape != score.shape:
        raise ValueError(f"{label.size} labels for {score.size} scores")
    positives, negatives = int(label.sum()), int((~label).sum())
    if positives == 0 or negatives == 0 or np.isnan(score).any():
        return float("nan")
    _, inverse, count = np.unique(score, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    rank = (last - count + 1 + last) / 2  # of each distinct score, the mean of the ranks it covers
    return float((rank[inverse][label].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosine of each row of `a` with the same row of `b`."""
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    norm = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return (a * b).sum(-1) / np.maximum(norm, 1e-30)


def max_error(got: np.ndarray, want: np.ndarray) -> float:
    """Largest absolute difference; infinite if shape or kind differ or something is not finite where it should be."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return float("inf")
    if got.size == 0:
        return 0.0
    if got.dtype.kind not in "fiub":
        return 0.0 if bool((got == want).all()) else float("inf")
    difference = np.abs(got.astype(np.float64) - want.astype(np.float64))
    return float("inf") if np.isnan(difference).any() else float(difference.max())
