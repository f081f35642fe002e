"""The columns that a client sends, and how the words of the data become the codes that the model takes.

A categorical column is an int64 code: 1, 2, … in the order below, 0 for missing or unknown. A code outside the column's
range counts as 0 inside the model, so that one client's odd code can never fail the batch that it rides in.
Numeric columns are sent in their own units; scaling is inside the model, where it cannot drift from training.

Sex with marital status, and whether someone is a foreign worker, are in the data but not in the model: a lender may
not decide by them.
"""

from collections.abc import Mapping, Sequence

import numpy as np

CATEGORICAL: dict[str, tuple[str, ...]] = {
    "status_of_existing_checking_account": (
        "... < 0 DM",
        "0 <= ... < 200 DM",
        "... >= 200 DM / salary assignments for at least 1 year",
        "no checking account",
    ),
    "credit_history": (
        "no credits taken/ all credits paid back duly",
        "all credits at this bank paid back duly",
        "existing credits paid back duly till now",
        "delay in paying off in the past",
        "critical account/ other credits existing (not at this bank)",
    ),
    "purpose": (
        "car (new)",
        "car (used)",
        "furniture/equipment",
        "radio/television",
        "domestic appliances",
        "repairs",
        "education",
        "retraining",
        "business",
        "others",
    ),
    "savings_account_and_bonds": (
        "... < 100 DM",
        "100 <= ... < 500 DM",
        "500 <= ... < 1000 DM",
        "... >= 1000 DM",
        "unknown/ no savings account",
    ),
    "present_employment_since": (
        "unemployed",
        "... < 1 year",
        "1 <= ... < 4 years",
        "4 <= ... < 7 years",
        "... >= 7 years",
    ),
    "other_debtors_or_guarantors": ("none", "co-applicant", "guarantor"),
    "property": (
        "real estate",
        "building society savings agreement/ life insurance",
        "car or other, not in attribute Savings account/bonds",
        "unknown / no property",
    ),
    "other_installment_plans": ("bank", "stores", "none"),
    "housing": ("rent", "own", "for free"),
    "job": (
        "unemployed/ unskilled - non-resident",
        "unskilled - resident",
        "skilled employee / official",
        "management/ self-employed/ highly qualified employee/ officer",
    ),
    "telephone": ("none", "yes, registered under the customers name"),
}

NUMERIC: tuple[str, ...] = (
    "duration_in_month",
    "credit_amount",
    "installment_rate_in_percentage_of_disposable_income",
    "present_residence_since",
    "age_in_years",
    "number_of_existing_credits_at_this_bank",
    "number_of_people_being_liable_to_provide_maintenance_for",
)

LEFT_OUT = ("personal_status_and_sex", "foreign_worker")
TARGET, BAD = "creditability", "bad"

INPUTS: tuple[str, ...] = (*CATEGORICAL, *NUMERIC)


def code(column: str, word: str) -> int:
    """The code of a word; 0 if the column does not know it."""
    words = CATEGORICAL[column]
    return words.index(word) + 1 if word in words else 0


def word(column: str, value: int) -> str | None:
    """The word of a code; None for 0 and for codes outside the column's range."""
    words = CATEGORICAL[column]
    return words[value - 1] if 1 <= value <= len(words) else None


def encode(records: Sequence[Mapping[str, str]]) -> dict[str, np.ndarray]:
    """Records as they stand in the data, or on an application form, to the model's inputs: a [batch] array a column."""
    inputs: dict[str, np.ndarray] = {}
    for column in CATEGORICAL:
        inputs[column] = np.array([code(column, r.get(column, "")) for r in records], dtype=np.int64)
    for column in NUMERIC:
        inputs[column] = np.array([_number(column, r) for r in records], dtype=np.float32)
    return inputs


def _number(column: str, record: Mapping[str, str]) -> float:
    text = record.get(column)
    try:
        return float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"column {column!r}: got {text!r}, expected a number") from None
