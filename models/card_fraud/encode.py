"""Encodes transactions to the 220 features that the network reads, and cuts each card's history into sequences of 7.

Only what a bank knows at the instant of the payment is used: a feature never looks at a later transaction, nor at the
label. `FIELDS` is the layout; a test holds it at 220.
"""

from collections import deque

import numpy as np

from card_fraud import world as w
from card_fraud.transactions import CARD_TYPES, DAY, ERRORS, Transactions

STEPS = 7
AMOUNT_EDGES = np.array([1, 2, 5, 10, 20, 35, 50, 75, 100, 150, 250, 500, 1000], dtype=np.float64)
GAP_EDGES = np.array([60, 300, 1800, 2 * 3600, 6 * 3600, DAY, 3 * DAY], dtype=np.float64)
COUNT_EDGES = np.array([1, 3, 7, 15, 40], dtype=np.float64)
WINDOWS = (600.0, 3600.0, DAY)  # for counts
SUMS = (3600.0, DAY, 7 * DAY)  # for amounts against the limit

FIELDS: tuple[tuple[str, int], ...] = (
    ("present", 1),  # 0 in the steps before a card's first transaction
    ("amount_log", 1),
    ("amount_against_habit", 1),  # logarithm, less the card's running mean
    ("amount_of_limit", 1),
    ("amount_bin", len(AMOUNT_EDGES) + 1),
    ("amount_form", 3),  # whole, ends in .99, multiple of ten
    ("hour", 24),
    ("weekday", 7),
    ("gap_log", 1),  # since the card's last transaction
    ("gap_bin", len(GAP_EDGES) + 1),
    ("merchant_digits", 40),  # four decimal digits, each one-hot
    ("category", len(w.CATEGORIES)),
    ("country", len(w.COUNTRIES)),
    ("country_form", 2),  # abroad, another than last time
    ("entry", len(w.ENTRY_MODES)),
    ("error", len(ERRORS)),
    ("card_type", len(CARD_TYPES)),
    ("card_scale", 3),  # age, limit, mean amount, logarithms
    ("card_count", len(COUNT_EDGES) + 1),  # transactions known before this one
    ("home", len(w.COUNTRIES)),
    ("first_time", 4),  # this merchant, category, country, entry mode on this card
    ("category_habit", 1),  # the category's part of the card's history
    ("velocity_count", len(WINDOWS)),
    ("velocity_sum", len(SUMS)),
    ("velocity_errors", 1),
    ("velocity_small", 1),  # amounts under 5 in the last hour
    ("impossible_travel", 1),  # the card was shown in another country less than three hours ago
)
FEATURES = sum(width for _, width in FIELDS)
OFFSET: dict[str, slice] = {}
_at = 0
for _name, _width in FIELDS:
    OFFSET[_name] = slice(_at, _at + _width)
    _at += _width


class _History:
    """What is known of one card before its next transaction."""

    def __init__(self) -> None:
        self.count = 0
        self.mean_log = 3.2  # of a card never seen
        self.last_time = -1.0
        self.last_country = -1
        self.last_shown = (-1.0, -1)  # time and country of the last payment with the card in hand
        self.merchants: set[int] = set()
        self.countries: set[int] = set()
        self.entries: set[int] = set()
        self.categories: dict[int, int] = {}
        self.recent: deque[tuple[float, float, bool]] = deque()  # time, amount, error; of the last week


def encode(transactions: Transactions) -> np.ndarray:
    """float32 [transactions, FEATURES]."""
    t = transactions
    out = np.zeros((len(t), FEATURES), dtype=np.float32)
    if not len(t):
        return out
    out[:, OFFSET["present"]] = 1
    log_amount = np.log1p(t.amount)
    out[:, OFFSET["amount_log"]] = (log_amount / 8)[:, None]
    _one_hot(out, "amount_bin", np.searchsorted(AMOUNT_EDGES, t.amount, side="right"))
    cents = np.round(t.amount * 100).astype(np.int64)
    out[:, OFFSET["amount_form"]] = np.stack([cents % 100 == 0, cents % 100 == 99, cents % 1000 == 0], axis=1)
    _one_hot(out, "hour", (t.time % DAY // 3600).astype(np.int64))
    _one_hot(out, "weekday", (t.time // DAY).astype(np.int64) % 7)
    digits = OFFSET["merchant_digits"].start
    rows = np.arange(len(t))
    for place in range(4):
        out[rows, digits + 10 * place + t.merchant // 10**place % 10] = 1
    _one_hot(out, "category", t.category)
    _one_hot(out, "country", t.country)
    _one_hot(out, "entry", t.entry)
    failed = np.flatnonzero(t.error >= 0)
    out[failed, OFFSET["error"].start + t.error[failed]] = 1
    home = np.array([card.home for card in t.cards])[t.card]
    kind = np.array([card.kind for card in t.cards])[t.card]
    limit = np.array([card.limit for card in t.cards])[t.card]
    opened = np.array([card.opened_days for card in t.cards])[t.card]
    _one_hot(out, "home", home)
    _one_hot(out, "card_type", kind)
    out[:, OFFSET["amount_of_limit"]] = np.minimum(t.amount / limit, 2.0)[:, None]
    scale = OFFSET["card_scale"].start
    out[:, scale] = np.log1p(opened + t.time / DAY) / 8
    out[:, scale + 1] = np.log1p(limit) / 12
    _encode_history(out, t, log_amount, home, limit)
    return out


def _one_hot(out: np.ndarray, name: str, value: np.ndarray) -> None:
    out[np.arange(len(value)), OFFSET[name].start + value] = 1


def _encode_history(
    out: np.ndarray, t: Transactions, log_amount: np.ndarray, home: np.ndarray, limit: np.ndarray
) -> None:
    at = {name: place.start for name, place in OFFSET.items()}
    history, card = _History(), -1
    for row in range(len(t)):
        if t.card[row] != card:
            history, card = _History(), int(t.card[row])
        h, now, amount = history, float(t.time[row]), float(t.amount[row])
        line = out[row]
        merchant, category = int(t.merchant[row]), int(t.category[row])
        country, entry = int(t.country[row]), int(t.entry[row])

        line[at["amount_against_habit"]] = (log_amount[row] - h.mean_log) / 3
        line[at["card_scale"] + 2] = h.mean_log / 8
        gap = now - h.last_time if h.count else 30 * DAY
        line[at["gap_log"]] = np.log1p(gap) / 15
        line[at["gap_bin"] + int(np.searchsorted(GAP_EDGES, gap, side="right"))] = 1
        line[at["card_count"] + int(np.searchsorted(COUNT_EDGES, h.count, side="right"))] = 1
        line[at["country_form"]] = country != home[row]
        line[at["country_form"] + 1] = h.count > 0 and country != h.last_country
        first = at["first_time"]
        line[first] = merchant not in h.merchants
        line[first + 1] = category not in h.categories
        line[first + 2] = country not in h.countries
        line[first + 3] = entry not in h.entries
        line[at["category_habit"]] = h.categories.get(category, 0) / (h.count + 5)
        shown = entry not in (w.ONLINE, w.RECURRING)
        if shown and h.last_shown[1] not in (-1, country) and now - h.last_shown[0] < 3 * 3600:
            line[at["impossible_travel"]] = 1

        while h.recent and now - h.recent[0][0] > SUMS[-1]:
            h.recent.popleft()
        ages = [(now - then, value, error) for then, value, error in h.recent]
        for i, span in enumerate(WINDOWS):
            line[at["velocity_count"] + i] = np.log1p(sum(age <= span for age, _, _ in ages)) / 3
        for i, span in enumerate(SUMS):
            spent = amount + sum(value for age, value, _ in ages if age <= span)
            line[at["velocity_sum"] + i] = min(spent / limit[row], 3.0) / 3
        line[at["velocity_errors"]] = min(sum(error for age, _, error in ages if age <= DAY), 4) / 4
        line[at["velocity_small"]] = min(sum(v < 5 and age <= 3600 for age, v, _ in ages), 4) / 4

        h.count += 1
        h.mean_log += (float(log_amount[row]) - h.mean_log) / min(h.count + 2, 50)
        h.last_time, h.last_country = now, country
        if shown:
            h.last_shown = (now, country)
        h.merchants.add(merchant)
        h.countries.add(country)
        h.entries.add(entry)
        h.categories[category] = h.categories.get(category, 0) + 1
        h.recent.append((now, amount, bool(t.error[row] >= 0)))


def windows(transactions: Transactions) -> np.ndarray:
    """int64 [transactions, STEPS]: rows of the card's last STEPS transactions, oldest first, -1 before its first."""
    card = transactions.card
    rows = np.arange(len(card))
    index = rows[:, None] - np.arange(STEPS - 1, -1, -1)[None, :]
    same = (index >= 0) & (card[np.maximum(index, 0)] == card[:, None])
    return np.where(same, index, -1)


def sequences(features: np.ndarray, index: np.ndarray) -> np.ndarray:
    """float32 [STEPS, len(index), FEATURES], as the network takes it: batch on axis 1, absent steps all zero."""
    picked = features[np.maximum(index, 0)]
    picked[index < 0] = 0
    return np.ascontiguousarray(picked.transpose(1, 0, 2))
