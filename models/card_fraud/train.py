"""Trains the card-fraud network on generated transactions, by a number of steps and not by the clock."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from card_fraud import encode
from card_fraud.network import CardFraud
from card_fraud.transactions import generate

# The card numbers of the two parts are disjoint; so are, as a card depends on its number only, their transactions.
TRAINING_CARDS, HELD_OUT_CARDS, HELD_OUT_FROM = 3000, 800, 1_000_000
STEPS, BATCH = 420, 256
HONEST_FOR_EACH_FRAUD = 3  # in a training batch; undone after training


@dataclass
class Sequences:
    """Encoded transactions, the sequences among them, and which end in fraud."""

    features: np.ndarray
    index: np.ndarray
    label: np.ndarray

    @classmethod
    def of(cls, cards: int, seed: int, first_card: int = 0) -> "Sequences":
        transactions = generate(cards, seed, first_card)
        return cls(encode.encode(transactions), encode.windows(transactions), transactions.fraud >= 0)

    def take(self, rows: np.ndarray) -> np.ndarray:
        return encode.sequences(self.features, self.index[rows])


def train(data: Sequences, seed: int, steps: int = STEPS, say: Callable[[str], None] = print) -> CardFraud:
    """Deterministic for a seed, a build of torch and a kind of processor.

    One thread: more only wait for each other when the machine has other work, and sum in another order.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _train(data, seed, steps, say)
    finally:
        torch.set_num_threads(threads)


def _train(data: Sequences, seed: int, steps: int, say: Callable[[str], None]) -> CardFraud:
    torch.manual_seed(seed)
    rng = np.random.default_rng([seed, 3])
    fraud, honest = np.flatnonzero(data.label), np.flatnonzero(~data.label)
    if not len(fraud) or not len(honest):
        raise ValueError(f"training needs both classes, got {len(fraud)} frauds and {len(honest)} honest transactions")
    model = CardFraud().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2)
    warm = max(1, steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / warm, 0.5 + 0.5 * math.cos(math.pi * min(1.0, s / steps)))
    )
    loss_of = torch.nn.BCEWithLogitsLoss()
    frauds = BATCH // (1 + HONEST_FOR_EACH_FRAUD)
    label = torch.cat([torch.ones(frauds, 1), torch.zeros(BATCH - frauds, 1)])
    smooth = 0.0
    for step in range(1, steps + 1):
        rows = np.concatenate([rng.choice(fraud, frauds), rng.choice(honest, BATCH - frauds)])
        loss = loss_of(model.logit(torch.from_numpy(data.take(rows))), label)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        smooth = loss.item() if step == 1 else 0.95 * smooth + 0.05 * loss.item()
        if step % 60 == 0 or step == steps:
            say(f"step {step}/{steps}, loss {smooth:.3f}")
    # Batches hold more fraud than life does: move the answer back to the odds of life, so that it is a probability.
    with torch.no_grad():
        model.dense.bias += math.log(len(fraud) / len(honest)) + math.log(HONEST_FOR_EACH_FRAUD)
    return model.eval()


def score(model: CardFraud, data: Sequences, rows: np.ndarray) -> np.ndarray:
    """Eager answers, float32 [rows, 1]."""
    with torch.inference_mode():
        parts = [
            model(torch.from_numpy(data.take(rows[at : at + 512])))["fraud_probability"].numpy()
            for at in range(0, len(rows), 512)
        ]
    return np.concatenate(parts)
