"""The network that banks run beside their core systems: two LSTM layers of 200 units, a dense unit, a sigmoid."""

import torch
from torch import nn

from card_fraud.encode import FEATURES

UNITS = 200


class CardFraud(nn.Module):
    """float32 [7, batch, 220] -> {"fraud_probability": float32 [batch, 1]}, of the last transaction of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, UNITS, num_layers=2)
        self.dense = nn.Linear(UNITS, 1)

    def logit(self, transactions: torch.Tensor) -> torch.Tensor:
        steps, _ = self.lstm(transactions)
        return self.dense(steps[-1])

    def forward(self, transactions: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"fraud_probability": torch.sigmoid(self.logit(transactions))}
