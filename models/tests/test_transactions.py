import numpy as np
import pytest

from card_fraud import encode, transactions
from card_fraud import world as w


@pytest.fixture(scope="module")
def some() -> transactions.Transactions:
    return transactions.generate(120, seed=11)


def columns(t: transactions.Transactions) -> list[np.ndarray]:
    return [t.time, t.amount, t.merchant, t.category, t.country, t.entry, t.error, t.fraud]


def test_same_seed_same_transactions(some):
    again = transactions.generate(120, seed=11)
    assert all(np.array_equal(a, b) for a, b in zip(columns(some), columns(again), strict=True))
    other = transactions.generate(120, seed=12)
    assert not np.array_equal(some.amount[:100], other.amount[:100])


def test_a_card_does_not_depend_on_how_many_others_there_are(some):
    alone = transactions.generate(1, seed=11, first_card=5)
    mine = some.card == 5
    assert all(np.array_equal(a, b[mine]) for a, b in zip(columns(alone), columns(some), strict=True))


def test_values_are_in_their_ranges_and_in_order(some):
    assert (some.amount > 0).all()
    for values, count in (
        (some.merchant, w.MERCHANTS),
        (some.category, len(w.CATEGORIES)),
        (some.country, len(w.COUNTRIES)),
        (some.entry, len(w.ENTRY_MODES)),
    ):
        assert values.min() >= 0
        assert values.max() < count
    same_card = some.card[1:] == some.card[:-1]
    assert (np.diff(some.card) >= 0).all()
    assert (np.diff(some.time)[same_card] >= 0).all()


def test_fraud_comes_in_bursts_of_every_kind(some):
    fraud = some.fraud >= 0
    assert 0.005 < fraud.mean() < 0.1
    assert set(some.fraud[fraud]) == set(range(len(transactions.FRAUD_KINDS)))
    with_fraud = np.unique(some.card[fraud])
    assert fraud.sum() / len(with_fraud) > 2  # several on a card, not spread evenly
    assert len(with_fraud) < 0.6 * len(some.cards)


def test_card_testing_is_small_then_large(some):
    seen = 0
    for card in range(len(some.cards)):
        rows = np.flatnonzero((some.card == card) & (some.fraud == 0))
        if len(rows) < 3:
            continue
        seen += 1
        assert some.amount[rows[0]] < 5
        assert some.amount[rows].max() > 5 * some.amount[rows[0]]
        assert some.time[rows[1]] - some.time[rows[0]] < 3600
    assert seen >= 3


def test_clones_are_abroad(some):
    home = np.array([card.home for card in some.cards])[some.card]
    assert (some.country != home)[some.fraud == 1].all()
    honest = some.fraud < 0
    assert 0 < (some.country != home)[honest].mean() < 0.4  # honest people travel, too


def test_features_are_220_and_finite(some):
    assert encode.FEATURES == 220
    features = encode.encode(some)
    assert features.shape == (len(some), 220)
    assert features.dtype == np.float32
    assert np.isfinite(features).all()
    assert np.abs(features).max() <= 8


@pytest.mark.parametrize(
    "name",
    ["amount_bin", "hour", "weekday", "gap_bin", "category", "country", "entry", "card_type", "home", "card_count"],
)
def test_one_hot_fields_have_one_hot(some, name):
    field = encode.encode(some)[:, encode.OFFSET[name]]
    assert np.array_equal(field.sum(1), np.ones(len(some), dtype=np.float32))


def test_merchant_digits_tell_the_merchant(some):
    digits = encode.encode(some)[:, encode.OFFSET["merchant_digits"]].reshape(len(some), 4, 10).argmax(2)
    assert np.array_equal(digits @ np.array([1, 10, 100, 1000]), some.merchant)


def test_features_do_not_look_ahead(some):
    """Cutting off the later half of a card's transactions changes nothing of the earlier half."""
    alone = transactions.generate(1, seed=11, first_card=3)
    half = len(alone) // 2
    cut = transactions.Transactions(alone.card[:half], *(column[:half] for column in columns(alone)), cards=alone.cards)
    assert np.array_equal(encode.encode(cut), encode.encode(alone)[:half])


def test_features_do_not_contain_the_label(some):
    blank = transactions.Transactions(some.card, *columns(some)[:-1], fraud=np.full(len(some), -1), cards=some.cards)
    assert np.array_equal(encode.encode(blank), encode.encode(some))


def test_windows_stay_on_their_card(some):
    index = encode.windows(some)
    assert index.shape == (len(some), encode.STEPS)
    assert np.array_equal(index[:, -1], np.arange(len(some)))
    known = index >= 0
    assert (some.card[np.maximum(index, 0)] == some.card[:, None])[known].all()
    first = int(np.flatnonzero(some.card == 1)[0])
    assert index[first].tolist() == [-1] * 6 + [first]
    assert index[first + 2].tolist() == [-1] * 4 + [first, first + 1, first + 2]


def test_sequences_have_the_batch_on_axis_1(some):
    features, index = encode.encode(some), encode.windows(some)
    got = encode.sequences(features, index[[0, 40]])
    assert got.shape == (7, 2, 220)
    assert got.flags.c_contiguous
    assert np.array_equal(got[-1, 1], features[40])
    assert not got[:-1, 0].any()  # the first transaction has nothing before it
