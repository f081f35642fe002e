"""Makes the minilm model: load the published weights, export, measure."""

from pathlib import Path

import numpy as np
import torch

from minilm import encoder
from minilm.sentences import LETTERS, PAIRS, TEXTS
from sample import export
from sample.quality import auc, cosine
from sample.recipe import Say
from sample.traffic import Traffic

MAX_BATCH = 256


def build(out: Path, cache: Path, say: Say) -> dict[str, float]:
    torch.manual_seed(0)
    say("loading weights and tokenizer")
    model, tokenizer = encoder.load(), encoder.Tokenizer()
    cases = {
        "one": tokenizer(["My card was declined."]),
        "three": tokenizer(list(TEXTS[:3])),  # of different lengths: padded, masked
        "letters": tokenizer([TEXTS[0], LETTERS[5]]),
    }
    say("exporting")
    batch = torch.export.Dim("batch", min=1, max=MAX_BATCH)
    seq = torch.export.Dim("seq", min=2, max=encoder.MAX_TOKENS)
    shapes = {name: {0: batch, 1: seq} for name in ("input_ids", "attention_mask")}
    export.save(model, cases, shapes, "three", out)

    # One text at a time: no padding, the answer that a single caller would get.
    texts = [*TEXTS, *LETTERS]
    embedding = np.concatenate([export.eager(model, tokenizer([text]))["embedding"] for text in texts])
    Traffic(output="embedding", eager=embedding, texts=texts).save(out / "replay.npz")
    quality = figures(embedding[: len(TEXTS)])
    say(
        f"cosine of paraphrases {quality['cosine_paraphrases']:.3f}, of others {quality['cosine_others']:.3f}, "
        f"AUC {quality['auc_paraphrases']:.4f}"
    )
    return quality


def figures(embedding: np.ndarray) -> dict[str, float]:
    """How well the embeddings of TEXTS tell a paraphrase from another sentence."""
    if len(embedding) != len(TEXTS):
        raise ValueError(f"{len(embedding)} embeddings, expected {len(TEXTS)}")
    first, second = np.triu_indices(len(TEXTS), k=1)
    value = cosine(embedding[first], embedding[second])
    paraphrase = (first % 2 == 0) & (second == first + 1)
    nearest = embedding @ embedding.T - 2 * np.eye(len(TEXTS))
    found = nearest.argmax(1) == (np.arange(len(TEXTS)) ^ 1)
    return {
        "cosine_paraphrases": round(float(value[paraphrase].mean()), 4),
        "cosine_others": round(float(value[~paraphrase].mean()), 4),
        "auc_paraphrases": round(auc(paraphrase, value), 4),
        "nearest_is_paraphrase": round(float(found.mean()), 4),
        "pairs": len(PAIRS),
    }
