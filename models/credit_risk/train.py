"""Trains the credit-risk network: small data, so the whole of it each step, and strong regularisation."""

import numpy as np
import torch

from credit_risk import columns
from credit_risk.network import CreditRisk

STEPS = 200


def tensors(inputs: dict[str, np.ndarray], rows: np.ndarray) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(inputs[name][rows]) for name in columns.INPUTS}


def train(
    inputs: dict[str, np.ndarray], label: np.ndarray, rows: np.ndarray, seed: int, steps: int = STEPS
) -> CreditRisk:
    """On `rows` of the inputs. Deterministic for a seed, a build of torch and a kind of processor."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(seed)
        rng = np.random.default_rng([seed, 5])
        model = CreditRisk().train()
        columns_of = tensors(inputs, rows)
        numeric = [columns_of[name] for name in columns.NUMERIC]
        model.mean.copy_(model.numbers(numeric).mean(0))
        model.spread.copy_(model.numbers(numeric).std(0).clamp(min=1e-3))
        wanted = torch.from_numpy(label[rows].astype(np.float32))[:, None]
        optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=5e-2)
        loss_of = torch.nn.BCEWithLogitsLoss()
        for _ in range(steps):
            # Now and then a value is not known: this trains the entry 0 of each table.
            categorical = [
                torch.where(torch.from_numpy(rng.random(len(rows)) < 0.03), 0, columns_of[name])
                for name in columns.CATEGORICAL
            ]
            loss = loss_of(model.logit(categorical, numeric), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return model.eval()
    finally:
        torch.set_num_threads(threads)


def score(model: CreditRisk, inputs: dict[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Eager answers, float32 [rows]."""
    with torch.inference_mode():
        return model(**tensors(inputs, rows))["default_probability"].numpy()
