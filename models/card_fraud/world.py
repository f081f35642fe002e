"""The fixed world that cards spend money in: countries, kinds of merchants, merchants.

Seeded and independent of the cards, so that training and held-out cards meet the same merchants, as they do at a bank.
"""

from dataclasses import dataclass

import numpy as np

COUNTRIES = (
    "US", "GB", "DE", "FR", "ES", "IT", "NL", "PL", "CH", "AT", "SE", "DK",
    "CA", "MX", "BR", "TR", "AE", "IN", "TH", "JP", "AU", "ZA", "NG", "RO",
)  # fmt: skip
HOME_WEIGHT = np.array([22, 12, 14, 9, 7, 7, 5, 5, 3, 3, 3, 2, 3, 1, 1, 1, 0.5, 0.5, 0.3, 0.5, 1, 0.3, 0.1, 1])

# How a payment is made.
CHIP, CONTACTLESS, STRIPE, ONLINE, RECURRING = range(5)
ENTRY_MODES = ("chip", "contactless", "stripe", "online", "recurring")


@dataclass(frozen=True)
class Category:
    """A kind of merchant. `clock` is when people go there: all, day, evening, morning."""

    name: str
    median: float  # amount
    spread: float  # sigma of the logarithm of the amount
    share: float  # of honest payments
    online: float  # part of its payments made online
    clock: str = "day"
    fraud: float = 0.0  # how much fraudsters like to cash out there
    recurring: bool = False


CATEGORIES = (
    Category("grocery", 32, 0.7, 20, 0.05),
    Category("supermarket", 58, 0.6, 12, 0.08),
    Category("bakery", 6, 0.5, 8, 0.0, "morning"),
    Category("restaurant", 34, 0.6, 9, 0.02, "evening"),
    Category("fast-food", 12, 0.4, 7, 0.15, "evening"),
    Category("bar", 22, 0.6, 3, 0.0, "evening"),
    Category("fuel", 55, 0.35, 6, 0.0, "all", 0.4),
    Category("parking", 5, 0.6, 3, 0.3),
    Category("transit", 4, 0.7, 6, 0.35, "morning"),
    Category("taxi", 18, 0.5, 2, 0.7, "evening", 0.2),
    Category("rail", 46, 0.8, 1.5, 0.75, "all", 0.3),
    Category("airline", 260, 0.8, 0.7, 0.95, "all", 1.0),
    Category("hotel", 190, 0.7, 0.9, 0.8, "all", 0.6),
    Category("car-rental", 170, 0.6, 0.3, 0.7, "day", 0.2),
    Category("clothing", 52, 0.8, 4, 0.45, "day", 0.8),
    Category("shoes", 78, 0.5, 1, 0.45, "day", 0.5),
    Category("electronics", 130, 1.1, 1.6, 0.55, "day", 3.0),
    Category("jewellery", 210, 1.1, 0.3, 0.3, "day", 2.2),
    Category("furniture", 180, 1.0, 0.7, 0.5),
    Category("do-it-yourself", 42, 0.9, 2, 0.15, "day", 0.3),
    Category("pharmacy", 17, 0.7, 3, 0.1),
    Category("doctor", 70, 0.8, 0.6, 0.05),
    Category("cosmetics", 33, 0.6, 1.2, 0.4, "day", 0.4),
    Category("books", 21, 0.6, 1.2, 0.6),
    Category("marketplace", 28, 1.0, 6, 1.0, "evening", 1.2),
    Category("app-store", 4, 0.8, 3, 1.0, "evening", 0.5),
    Category("streaming", 12, 0.2, 2, 1.0, "all", 0.1, True),
    Category("telephone", 35, 0.3, 1, 1.0, "all", 0.2, True),
    Category("donation", 15, 0.8, 0.4, 1.0, "all", 0.4),
    Category("gift-card", 50, 0.6, 0.5, 0.85, "all", 3.0),
    Category("money-transfer", 150, 0.9, 0.6, 0.9, "all", 2.5),
    Category("cash-machine", 100, 0.6, 3, 0.0, "all", 1.5),
)
CATEGORY_INDEX = {category.name: index for index, category in enumerate(CATEGORIES)}
SHARE = np.array([category.share for category in CATEGORIES])
FRAUD = np.array([category.fraud for category in CATEGORIES])

# Fraudsters try whether a card number is alive where nobody looks closely.
TESTING_GROUND = tuple(CATEGORY_INDEX[name] for name in ("app-store", "donation", "parking", "marketplace"))

_HOUR = np.arange(24)
CLOCKS = {
    "all": np.full(24, 1.0),
    "day": 0.03 + np.exp(-(((_HOUR - 14) / 4.0) ** 2)),
    "evening": 0.05 + np.exp(-(((_HOUR - 19.5) / 3.2) ** 2)),
    "morning": 0.02 + np.exp(-(((_HOUR - 8) / 2.0) ** 2)) + 0.35 * np.exp(-(((_HOUR - 17) / 2.0) ** 2)),
}

MERCHANTS = 10_000  # identities have four decimal digits


class World:
    """Merchants by category and country. Immutable after construction; safe to share between threads."""

    def __init__(self, seed: int = 2024):
        rng = np.random.default_rng([seed, 1])
        weight = np.sqrt(SHARE)
        self.category = rng.choice(len(CATEGORIES), MERCHANTS, p=weight / weight.sum()).astype(np.int64)
        self.country = rng.choice(len(COUNTRIES), MERCHANTS, p=HOME_WEIGHT / HOME_WEIGHT.sum()).astype(np.int64)
        self.popularity = 1.0 / (1.0 + rng.permutation(MERCHANTS)) ** 0.6
        # A few merchants lost their customers' card numbers; some serve fraudsters knowingly.
        self.shady = rng.random(MERCHANTS) < 0.02
        self._by_place: dict[tuple[int, int], np.ndarray] = {}
        for category in range(len(CATEGORIES)):
            everywhere = np.flatnonzero(self.category == category)
            for country in range(len(COUNTRIES)):
                here = everywhere[self.country[everywhere] == country]
                self._by_place[category, country] = here if len(here) else everywhere

    def merchants(self, category: int, country: int) -> np.ndarray:
        """Merchants of the category in the country; of the category anywhere if it has none there."""
        return self._by_place[category, country]

    def pick(self, rng: np.random.Generator, category: int, country: int, shady: float = 1.0) -> int:
        """A merchant by popularity; `shady` multiplies the weight of the shady ones."""
        candidates = self.merchants(category, country)
        weight = self.popularity[candidates] * np.where(self.shady[candidates], shady, 1.0)
        cumulated = np.cumsum(weight)
        return int(candidates[np.searchsorted(cumulated, rng.random() * cumulated[-1])])
