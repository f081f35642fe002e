import csv
import inspect
import io

import numpy as np
import pytest

from credit_risk import columns, data
from sample.problem import Problem
from sample.quality import auc

# Records of our own, in the form of the data: the first a likely good loan, the second a likely bad one.
GOOD = {name: words[-1] for name, words in columns.CATEGORICAL.items()}
BAD = {name: words[0] for name, words in columns.CATEGORICAL.items()}
for name in columns.NUMERIC:
    GOOD[name], BAD[name] = "2", "4"
GOOD |= {"duration_in_month": "6", "credit_amount": "900", columns.TARGET: "good"}
BAD |= {"duration_in_month": "60", "credit_amount": "15000", columns.TARGET: "bad"}
for record in (GOOD, BAD):
    record |= dict.fromkeys(columns.LEFT_OUT, "x")


def as_csv(records: list[dict[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


def test_codes_and_words_are_inverse():
    for column, words in columns.CATEGORICAL.items():
        assert len(set(words)) == len(words)
        for word in words:
            assert columns.word(column, columns.code(column, word)) == word
        assert columns.code(column, "something else") == 0
        assert columns.word(column, 0) is None
        assert columns.word(column, len(words) + 1) is None


def test_parse_then_encode_keeps_every_value():
    records = data.parse(as_csv([GOOD, BAD]))
    inputs = columns.encode(records)
    assert tuple(inputs) == columns.INPUTS
    for column in columns.CATEGORICAL:
        assert inputs[column].dtype == np.int64
        assert [columns.word(column, code) for code in inputs[column].tolist()] == [GOOD[column], BAD[column]]
    for column in columns.NUMERIC:
        assert inputs[column].dtype == np.float32
        assert inputs[column].tolist() == [float(GOOD[column]), float(BAD[column])]
    assert data.labels(records).tolist() == [0, 1]


def test_columns_left_out_are_no_inputs():
    assert not set(columns.LEFT_OUT) & set(columns.INPUTS)
    assert len(columns.INPUTS) + len(columns.LEFT_OUT) + 1 == 21


def test_parse_says_which_column_is_missing():
    without = [{k: v for k, v in r.items() if k != "housing"} for r in (GOOD, BAD)]
    with pytest.raises(Problem, match="housing"):
        data.parse(as_csv(without))


def test_encode_says_which_value_is_no_number():
    with pytest.raises(ValueError, match=r"age_in_years.*'old'"):
        columns.encode([GOOD | {"age_in_years": "old"}])


def test_folds_have_equal_shares_and_lose_nobody():
    label = np.array([1] * 30 + [0] * 70)
    fold = data.folds(label, 5, seed=2)
    assert np.bincount(fold).tolist() == [20] * 5
    assert [int(label[fold == k].sum()) for k in range(5)] == [6] * 5
    assert np.array_equal(fold, data.folds(label, 5, seed=2))


class TestNetwork:
    @pytest.fixture(autouse=True)
    def _torch(self):
        pytest.importorskip("torch")

    def model(self):
        import torch

        from credit_risk.network import CreditRisk

        torch.manual_seed(1)
        return CreditRisk().eval()

    def inputs(self, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        drawn = {c: rng.integers(1, len(words) + 1, rows) for c, words in columns.CATEGORICAL.items()}
        return drawn | {c: rng.uniform(0, 3, rows).astype(np.float32) for c in columns.NUMERIC}

    def test_forward_takes_the_columns_in_their_order(self):
        parameters = list(inspect.signature(self.model().forward).parameters)
        assert tuple(parameters) == columns.INPUTS

    def test_forward_hands_every_column_to_its_own_place(self):
        """Training reads the columns in the order of `columns`; forward names them by hand."""
        import torch

        model = self.model()
        with torch.no_grad():
            for table in model.tables.values():
                table.weight.copy_(torch.randn_like(table.weight))
            named = {name: torch.from_numpy(array) for name, array in self.inputs(4).items()}
            order = ([named[c] for c in columns.CATEGORICAL], [named[c] for c in columns.NUMERIC])
            shuffled = dict(sorted(named.items()))
            assert torch.equal(model(**shuffled)["default_probability"], torch.sigmoid(model.logit(*order))[:, 0])

    def test_unknown_codes_count_as_missing_and_harm_nobody(self):
        from sample import export

        model, base = self.model(), self.inputs(3)
        missing = {k: v.copy() for k, v in base.items()}
        missing["purpose"][1] = 0
        want = export.eager(model, missing)["default_probability"]
        for odd in (-1, 11, 99, 2**62, -(2**62)):
            asked = {k: v.copy() for k, v in base.items()}
            asked["purpose"][1] = odd
            got = export.eager(model, asked)["default_probability"]
            np.testing.assert_array_equal(got, want)

    def test_training_beats_chance_on_data_with_a_pattern(self):
        from credit_risk import train

        inputs = self.inputs(400, seed=5)
        label = (inputs["credit_history"] + inputs["duration_in_month"] > 5).astype(np.int64)
        model = train.train(inputs, label, np.arange(300), seed=5, steps=40)
        held_out = np.arange(300, 400)
        assert auc(label[held_out], train.score(model, inputs, held_out)) > 0.8

    def test_export_has_one_batch_symbol_for_all(self, tmp_path):
        import torch

        from sample import export, golden

        cases = {"one": self.inputs(1), "five": self.inputs(5)}
        batch = torch.export.Dim("batch", min=1, max=4096)
        export.save(self.model(), cases, {name: {0: batch} for name in columns.INPUTS}, "five", tmp_path)
        program = torch.export.load(tmp_path / "model.pt2")
        assert len(program.range_constraints) == 1
        values = {n.name: n.meta["val"] for n in program.graph.nodes if n.name in columns.INPUTS}
        assert list(values) == list(columns.INPUTS)
        assert {str(v.shape) for v in values.values()} == {str(values["purpose"].shape)}
        assert values["purpose"].dtype == torch.int64
        assert values["credit_amount"].dtype == torch.float32
        case = golden.load(tmp_path / "golden.npz")["five"]
        got = export.eager(program.module(), case.inputs)["default_probability"]
        np.testing.assert_allclose(got, case.outputs["default_probability"], rtol=0, atol=1e-6)
