"""Embeddings of the categorical columns and scaled numeric ones, through a small perceptron."""

import torch
from torch import nn

from credit_risk import columns

HIDDEN = 32


class CreditRisk(nn.Module):
    """One named input a column, each [batch]: int64 codes and float32 amounts in their own units.

    The parameters of `forward` are the names that clients send: they are those of `columns`, in its order, which a test
    holds together.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleDict(
            {
                name: nn.Embedding(len(words) + 1, min(4, (len(words) + 2) // 2))
                for name, words in columns.CATEGORICAL.items()
            }
        )
        width = sum(table.embedding_dim for table in self.tables.values()) + len(columns.NUMERIC)
        # Mean and spread of the numeric columns (amount and duration as logarithms), set from the training part.
        self.register_buffer("mean", torch.zeros(len(columns.NUMERIC)))
        self.register_buffer("spread", torch.ones(len(columns.NUMERIC)))
        self.layers = nn.Sequential(
            nn.Dropout(0.2), nn.Linear(width, HIDDEN), nn.ReLU(), nn.Dropout(0.4), nn.Linear(HIDDEN, 1)
        )

    def numbers(self, numeric: list[torch.Tensor]) -> torch.Tensor:
        """[batch, 7] before scaling. The skewed columns, duration and amount, come first and go through a logarithm."""
        skewed = [torch.log1p(column.clamp(min=0)) for column in numeric[:2]]
        return torch.stack([*skewed, *numeric[2:]], dim=1)

    def logit(self, categorical: list[torch.Tensor], numeric: list[torch.Tensor]) -> torch.Tensor:
        parts = []
        for table, code in zip(self.tables.values(), categorical, strict=True):
            known = (code >= 0) & (code < table.num_embeddings)
            parts.append(table(torch.where(known, code, 0)))
        scaled = ((self.numbers(numeric) - self.mean) / self.spread).clamp(-4, 4)
        return self.layers(torch.cat([*parts, scaled], dim=1))

    def forward(
        self,
        status_of_existing_checking_account: torch.Tensor,
        credit_history: torch.Tensor,
        purpose: torch.Tensor,
        savings_account_and_bonds: torch.Tensor,
        present_employment_since: torch.Tensor,
        other_debtors_or_guarantors: torch.Tensor,
        property: torch.Tensor,
        other_installment_plans: torch.Tensor,
        housing: torch.Tensor,
        job: torch.Tensor,
        telephone: torch.Tensor,
        duration_in_month: torch.Tensor,
        credit_amount: torch.Tensor,
        installment_rate_in_percentage_of_disposable_income: torch.Tensor,
        present_residence_since: torch.Tensor,
        age_in_years: torch.Tensor,
        number_of_existing_credits_at_this_bank: torch.Tensor,
        number_of_people_being_liable_to_provide_maintenance_for: torch.Tensor,
    ) -> dict[str, torch.Tensor]:
        categorical = [
            status_of_existing_checking_account,
            credit_history,
            purpose,
            savings_account_and_bonds,
            present_employment_since,
            other_debtors_or_guarantors,
            property,
            other_installment_plans,
            housing,
            job,
            telephone,
        ]
        numeric = [
            duration_in_month,
            credit_amount,
            installment_rate_in_percentage_of_disposable_income,
            present_residence_since,
            age_in_years,
            number_of_existing_credits_at_this_bank,
            number_of_people_being_liable_to_provide_maintenance_for,
        ]
        return {"default_probability": torch.sigmoid(self.logit(categorical, numeric)).squeeze(1)}
