import numpy as np
import pytest

torch = pytest.importorskip("torch")

from card_fraud import train as t  # noqa: E402
from card_fraud.network import CardFraud  # noqa: E402
from sample import export, golden  # noqa: E402
from sample.quality import auc  # noqa: E402


@pytest.fixture(scope="module")
def data() -> t.Sequences:
    return t.Sequences.of(150, seed=3)


def test_a_few_steps_learn_something(data):
    model = t.train(data, seed=3, steps=12, say=lambda line: None)
    held_out = t.Sequences.of(60, seed=3, first_card=t.HELD_OUT_FROM)
    rows = np.concatenate([np.flatnonzero(held_out.label), np.flatnonzero(~held_out.label)[:600]])
    assert auc(held_out.label[rows], t.score(model, held_out, rows)) > 0.75


def test_training_is_deterministic(data):
    first, second = (t.train(data, seed=3, steps=2, say=lambda line: None) for _ in range(2))
    for name, value in first.state_dict().items():
        assert torch.equal(value, second.state_dict()[name]), name


def test_training_needs_both_classes(data):
    honest = t.Sequences(data.features, data.index, np.zeros_like(data.label))
    with pytest.raises(ValueError, match="0 frauds"):
        t.train(honest, seed=3, steps=1, say=lambda line: None)


def test_export_keeps_the_batch_symbolic_on_axis_1(tmp_path):
    torch.manual_seed(0)
    model = CardFraud().eval()
    rng = np.random.default_rng(0)
    cases = {str(n): {"transactions": rng.normal(size=(7, n, 220)).astype(np.float32)} for n in (1, 3, 9)}
    batch = torch.export.Dim("batch", min=1, max=4096)
    export.save(model, cases, {"transactions": {1: batch}}, "3", tmp_path)

    program = torch.export.load(tmp_path / "model.pt2")
    (limits,) = program.range_constraints.values()
    assert (int(limits.lower), int(limits.upper)) == (1, 4096)
    shape = next(n for n in program.graph.nodes if n.name == "transactions").meta["val"].shape
    assert (shape[0], shape[2]) == (7, 220)
    assert isinstance(shape[1], torch.SymInt)
    result = next(n for n in program.graph.nodes if n.op == "output").args[0][0].meta["val"].shape
    assert str(result[0]) == str(shape[1])
    assert result[1] == 1

    for name, case in golden.load(tmp_path / "golden.npz").items():
        assert np.array_equal(case.inputs["transactions"], cases[name]["transactions"])
        got = export.eager(program.module(), case.inputs)["fraud_probability"]
        np.testing.assert_allclose(got, case.outputs["fraud_probability"], rtol=0, atol=1e-6)


def test_a_row_does_not_depend_on_its_neighbours():
    torch.manual_seed(0)
    model = CardFraud().eval()
    x = np.random.default_rng(1).normal(size=(7, 5, 220)).astype(np.float32)
    together = export.eager(model, {"transactions": x})["fraud_probability"]
    alone = export.eager(model, {"transactions": np.ascontiguousarray(x[:, 2:3])})["fraud_probability"]
    np.testing.assert_allclose(together[2:3], alone, rtol=0, atol=1e-6)
