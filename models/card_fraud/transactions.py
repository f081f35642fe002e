"""A seeded generator of card transactions with the structure that fraud detection lives on.

Honest cards have habits (favourite merchants, hours, categories, a level of spending), take trips, shop for presents,
buy one evening in shops they never tried, and mistype their codes. Fraud comes in bursts of four kinds; each also looks
a little like something honest:

* testing:   small amounts at places where nobody looks closely, minutes apart, then large ones online;
* clone:     a copied stripe in a country where the card has never been, hours after a payment at home;
* takeover:  new merchants, mostly at night, gift cards and transfers, amounts up to what the card allows;
* trickle:   now and then a middling amount at a new merchant: hard to see.
"""

from dataclasses import dataclass, field, fields

import numpy as np

from card_fraud import world as w

FRAUD_KINDS = ("testing", "clone", "takeover", "trickle")
ERRORS = ("code", "funds", "security-code", "expiry", "technical")
CARD_TYPES = ("debit", "credit", "prepaid", "business")
DAY = 86_400.0


@dataclass
class Card:
    """What the bank knows of a card, and (favourites, habits) what it does not."""

    number: int
    home: int
    kind: int
    opened_days: float  # before the first transaction
    limit: float
    level: float  # multiplies amounts
    rate: float  # transactions a day
    trips: float  # chance that a trip starts, for each transaction
    habits: np.ndarray  # weight of each category
    favourites: dict[int, list[int]] = field(default_factory=dict)


@dataclass
class Transactions:
    """Columns, one entry for each transaction, ordered by card and then time."""

    card: np.ndarray  # index into cards
    time: np.ndarray  # seconds since the start, which is a Monday, midnight
    amount: np.ndarray
    merchant: np.ndarray
    category: np.ndarray
    country: np.ndarray
    entry: np.ndarray
    error: np.ndarray  # index into ERRORS, -1: none
    fraud: np.ndarray  # index into FRAUD_KINDS, -1: honest
    cards: list[Card]

    def __len__(self) -> int:
        return len(self.time)


def generate(cards: int, seed: int, first_card: int = 0, days: float = 45.0, compromised: float = 0.3) -> Transactions:
    """Transactions of `cards` cards. A card depends on the seed and its number only: more cards never change a card."""
    place = w.World()
    rows: list[tuple] = []
    all_cards: list[Card] = []
    for number in range(first_card, first_card + cards):
        rng = np.random.default_rng([seed, 2, number])
        card = _new_card(rng, place, number)
        history = _honest(rng, place, card, days)
        if rng.random() < 0.45 and len(history) > 4:
            history += _spree(rng, place, card, history)
        if rng.random() < compromised and len(history) > 4:
            history += _burst(rng, place, card, history)
        history.sort(key=lambda row: row[0])
        rows += [(len(all_cards), *row) for row in history]
        all_cards.append(card)
    columns = list(zip(*rows, strict=True)) if rows else [()] * 9
    types = {"time": np.float64, "amount": np.float64}
    names = [f.name for f in fields(Transactions) if f.name != "cards"]
    return Transactions(
        **{n: np.array(c, dtype=types.get(n, np.int64)) for n, c in zip(names, columns, strict=True)}, cards=all_cards
    )


def _new_card(rng: np.random.Generator, place: w.World, number: int) -> Card:
    habits = w.SHARE * rng.gamma(0.8, 1.25, len(w.CATEGORIES))
    kind = int(rng.choice(4, p=[0.5, 0.36, 0.08, 0.06]))
    level = float(np.exp(rng.normal(0.3 if kind == 3 else 0.0, 0.45)))
    card = Card(
        number=number,
        home=int(rng.choice(len(w.COUNTRIES), p=w.HOME_WEIGHT / w.HOME_WEIGHT.sum())),
        kind=kind,
        opened_days=float(rng.exponential(900)),
        limit=float(np.round(np.exp(rng.normal(7.6, 0.6)) * level, -2)) + 100,
        level=level,
        rate=float(np.clip(rng.gamma(2.0, 0.55), 0.15, 6.0)),
        trips=float(rng.beta(1, 60)) * (3 if kind == 3 else 1),
        habits=habits / habits.sum(),
    )
    for category in range(len(w.CATEGORIES)):
        count = 1 + int(rng.integers(4))
        card.favourites[category] = [place.pick(rng, category, card.home) for _ in range(count)]
    return card


def _amount(rng: np.random.Generator, card: Card, category: int, factor: float = 1.0) -> float:
    kind = w.CATEGORIES[category]
    amount = kind.median * card.level * factor * float(np.exp(rng.normal(0, kind.spread)))
    if kind.name == "cash-machine":
        return float(np.clip(np.ceil(amount / 10) * 10, 10, 1000))
    if kind.name == "gift-card":
        return float(np.clip(np.ceil(amount / 25) * 25, 25, 500))
    if rng.random() < 0.25:
        amount = np.ceil(amount) - (0.01 if rng.random() < 0.5 else 0.0)
    return float(np.round(max(amount, 0.5), 2))


def _entry(rng: np.random.Generator, category: int, amount: float) -> int:
    kind = w.CATEGORIES[category]
    if kind.recurring:
        return w.RECURRING
    if rng.random() < kind.online:
        return w.ONLINE
    if kind.name != "cash-machine" and amount < 50 and rng.random() < 0.75:
        return w.CONTACTLESS
    return w.STRIPE if rng.random() < 0.03 else w.CHIP


def _error(rng: np.random.Generator, entry: int, often: float = 1.0) -> int:
    if rng.random() > 0.02 * often:
        return -1
    if entry == w.ONLINE:
        return int(rng.choice([1, 2, 3, 4], p=[0.3, 0.4, 0.2, 0.1]))
    return int(rng.choice([0, 1, 4], p=[0.5, 0.3, 0.2]))


def _honest(rng: np.random.Generator, place: w.World, card: Card, days: float) -> list[tuple]:
    """The habits: (time, amount, merchant, category, country, entry, error, fraud) by day."""
    rows: list[tuple] = []
    abroad, until = card.home, -1.0
    shopping = float(rng.uniform(0, days)) if rng.random() < 0.5 else -10.0  # a day of presents
    for day in range(int(days)):
        weekend = day % 7 >= 5
        count = rng.poisson(card.rate * (1.3 if weekend else 0.9) * (4.0 if abs(day - shopping) < 1 else 1.0))
        for _ in range(count):
            if day > until and rng.random() < card.trips:
                abroad, until = int(rng.integers(len(w.COUNTRIES))), day + float(rng.integers(2, 12))
            country = abroad if day <= until else card.home
            category = int(rng.choice(len(w.CATEGORIES), p=card.habits))
            kind = w.CATEGORIES[category]
            clock = w.CLOCKS[kind.clock]
            hour = int(rng.choice(24, p=clock / clock.sum()))
            if country == card.home and rng.random() < 0.72:
                merchant = int(rng.choice(card.favourites[category]))
            else:
                merchant = place.pick(rng, category, country)
            amount = _amount(rng, card, category, 1.6 if abs(day - shopping) < 1 else 1.0)
            entry = _entry(rng, category, amount)
            if entry in (w.ONLINE, w.RECURRING) and rng.random() < 0.15:
                merchant = place.pick(rng, category, int(rng.integers(len(w.COUNTRIES))))
            where = int(place.country[merchant]) if entry in (w.ONLINE, w.RECURRING) else country
            time = day * DAY + hour * 3600 + float(rng.uniform(0, 3600))
            rows.append((time, amount, merchant, category, where, entry, _error(rng, entry), -1))
    return rows


def _spree(rng: np.random.Generator, place: w.World, card: Card, history: list[tuple]) -> list[tuple]:
    """An honest evening of online shopping in new places: what fraud likes to pass for."""
    time = history[int(rng.integers(len(history)))][0] + float(rng.exponential(5 * 3600))
    rows = []
    for _ in range(int(rng.integers(1, 6))):
        category = _cash_out(rng) if rng.random() < 0.5 else int(rng.choice(len(w.CATEGORIES), p=card.habits))
        merchant = place.pick(rng, category, _online_country(rng, card))
        amount = min(_amount(rng, card, category, float(rng.uniform(0.7, 2.5))), card.limit)
        entry = w.RECURRING if w.CATEGORIES[category].recurring else w.ONLINE
        error = _error(rng, entry, often=2.0)
        rows.append((time, amount, merchant, category, int(place.country[merchant]), entry, error, -1))
        time += float(rng.exponential(1500)) + 40
    return rows


def _burst(rng: np.random.Generator, place: w.World, card: Card, history: list[tuple]) -> list[tuple]:
    """One burst of fraud, begun at a random point of the card's history."""
    start = history[int(rng.integers(2, len(history)))][0] + float(rng.exponential(6 * 3600))
    kind = int(rng.choice(4, p=[0.30, 0.20, 0.22, 0.28]))
    return (_testing, _clone, _takeover, _trickle)[kind](rng, place, card, start)


def _cash_out(rng: np.random.Generator) -> int:
    weight = w.FRAUD / w.FRAUD.sum()
    return int(rng.choice(len(w.CATEGORIES), p=weight))


def _online_country(rng: np.random.Generator, card: Card) -> int:
    return card.home if rng.random() < 0.5 else int(rng.integers(len(w.COUNTRIES)))


def _testing(rng: np.random.Generator, place: w.World, card: Card, start: float) -> list[tuple]:
    rows, time = [], start
    for _ in range(int(rng.integers(2, 6))):
        category = int(rng.choice(w.TESTING_GROUND))
        merchant = place.pick(rng, category, int(rng.integers(len(w.COUNTRIES))), shady=25.0)
        amount = float(np.round(rng.uniform(0.5, 4.0), 2))
        error = _error(rng, w.ONLINE, often=12.0)
        rows.append((time, amount, merchant, category, int(place.country[merchant]), w.ONLINE, error, 0))
        time += float(rng.exponential(150)) + 5
    time += float(rng.exponential(1800))
    for _ in range(int(rng.integers(1, 6))):
        category = _cash_out(rng)
        merchant = place.pick(rng, category, _online_country(rng, card), shady=8.0)
        amount = min(_amount(rng, card, category, float(rng.uniform(1.5, 5.0))), card.limit)
        error = _error(rng, w.ONLINE, often=8.0)
        rows.append((time, amount, merchant, category, int(place.country[merchant]), w.ONLINE, error, 0))
        time += float(rng.exponential(900)) + 20
    return rows


def _clone(rng: np.random.Generator, place: w.World, card: Card, start: float) -> list[tuple]:
    country = int(rng.choice([c for c in range(len(w.COUNTRIES)) if c != card.home]))
    rows, time = [], start
    cashable = [
        w.CATEGORY_INDEX[n] for n in ("cash-machine", "electronics", "jewellery", "clothing", "fuel", "gift-card")
    ]
    for _ in range(int(rng.integers(2, 8))):
        category = int(rng.choice(cashable))
        merchant = place.pick(rng, category, country, shady=4.0)
        amount = min(_amount(rng, card, category, float(rng.uniform(1.0, 3.5))), card.limit)
        entry = w.STRIPE if rng.random() < 0.85 else w.CHIP
        rows.append((time, amount, merchant, category, country, entry, _error(rng, entry, often=8.0), 1))
        time += float(rng.exponential(2400)) + 60
    return rows


def _takeover(rng: np.random.Generator, place: w.World, card: Card, start: float) -> list[tuple]:
    rows, time, left = [], start, card.limit
    if rng.random() < 0.6:
        time = (
            (start // DAY + 1) * DAY + float(rng.choice([-2, -1, 0, 1, 2, 3, 4])) * 3600 + float(rng.uniform(0, 3600))
        )
        time = max(time, start)
    for _ in range(int(rng.integers(2, 9))):
        category = _cash_out(rng)
        merchant = place.pick(rng, category, _online_country(rng, card), shady=10.0)
        amount = min(_amount(rng, card, category, float(rng.uniform(1.5, 6.0))), max(left, 20.0))
        left -= amount
        error = _error(rng, w.ONLINE, often=6.0)
        rows.append((time, amount, merchant, category, int(place.country[merchant]), w.ONLINE, error, 2))
        time += float(rng.exponential(1200)) + 30
    return rows


def _trickle(rng: np.random.Generator, place: w.World, card: Card, start: float) -> list[tuple]:
    rows, time = [], start
    for _ in range(int(rng.integers(2, 5))):
        category = _cash_out(rng) if rng.random() < 0.6 else int(rng.choice(len(w.CATEGORIES), p=card.habits))
        merchant = place.pick(rng, category, _online_country(rng, card), shady=6.0)
        amount = min(_amount(rng, card, category, float(rng.uniform(0.8, 1.6))), card.limit)
        rows.append(
            (time, amount, merchant, category, int(place.country[merchant]), w.ONLINE, _error(rng, w.ONLINE, 2.0), 3)
        )
        time += float(rng.exponential(1.2 * DAY))
    return rows
