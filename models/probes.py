"""Scores of a model's heads and predictions: the figures that training logs and cards state."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BertForMaskedLM, PreTrainedModel

from models.data import CONTEXT, Corpus

NEAR, FAR = 32, 500  # tokens from the first copy to the second
INDUCTION_ROWS = {NEAR: 32, FAR: 4}  # four rows of the latter already have 500 million weights


def attention(model: PreTrainedModel, **inputs: Tensor) -> Tensor:
    """Attention weights as (layer, batch, head, query, key)."""
    return torch.stack(model(**inputs, output_attentions=True).attentions).float()


def offset_scores(model: PreTrainedModel, texts: Iterable[Sequence[int]], offset: int) -> Tensor:
    """Mean weight on the key `offset` places from the query, over all queries that have one.

    Returns (layer, head). The mean is taken in each text, then over the texts.
    """
    scores = []
    for ids in texts:
        inputs = torch.tensor([list(ids)], device=next(model.parameters()).device)
        weights = attention(model, input_ids=inputs)[:, 0]
        scores.append(weights.diagonal(offset, dim1=-2, dim2=-1).mean(-1))
    return torch.stack(scores).mean(0)


def random_twice(vocab: int, period: int, rows: int, seed: int = 0) -> Tensor:
    """Rows of uniformly random tokens, each row repeated once."""
    ids = np.random.default_rng(seed).integers(1, vocab, (rows, period))
    return torch.from_numpy(np.tile(ids, 2))


@torch.no_grad()
def induction(
    model: PreTrainedModel, vocab: int, period: int = NEAR, rows: int = INDUCTION_ROWS[NEAR]
) -> dict[str, Any]:
    """Induction score of each head, and the loss on the first and on the second copy.

    The score is the mean weight from a token of the second copy to the token that followed its
    occurrence in the first (Olsson et al. 2022). The first token of the second copy cannot be
    foreseen, so the second loss is over those after it.
    """
    ids = random_twice(vocab, period, rows).to(next(model.parameters()).device)
    out = model(input_ids=ids, output_attentions=True)
    weights = torch.stack(out.attentions).float()
    scores = weights.diagonal(1 - period, dim1=-2, dim2=-1)[..., 1:].mean((1, -1))
    losses = cross_entropy(out.logits[:, :-1].float().mT, ids[:, 1:], reduction="none")
    first, second = losses[:, : period - 1].mean(), losses[:, period:].mean()
    return {"heads": scores, "first": first.item(), "second": second.item()}


@torch.no_grad()
def causal_loss(
    model: PreTrainedModel, corpus: Corpus, limit: int | None = None, length: int = CONTEXT
) -> float:
    """Mean loss in nats a token over adjoining windows, at most `limit` of them.

    A window is one longer than the model reads; its last token is the first of the next.
    """
    count = (len(corpus.tokens) - 1) // length
    picked = np.linspace(0, count - 1, min(count, limit or count)).astype(int)
    windows = np.stack([corpus.tokens[i * length : (i + 1) * length + 1] for i in picked])
    device, total = next(model.parameters()).device, 0.0
    rows_at_once = min(32, max(1, 4096 // length))
    for rows in np.array_split(windows.astype(np.int64), -(-len(windows) // rows_at_once)):
        ids = torch.from_numpy(rows).to(device)
        logits = model(input_ids=ids[:, :-1]).logits.float()
        total += cross_entropy(logits.mT, ids[:, 1:], reduction="sum").item()
    return total / (len(windows) * length)


@torch.no_grad()
def masked_scores(
    model: BertForMaskedLM, batches: Iterable[dict[str, NDArray[np.int64]]]
) -> tuple[float, float]:
    """Loss in nats and accuracy at the tokens to be predicted."""
    device = next(model.parameters()).device
    loss = correct = count = 0.0
    for batch in batches:
        inputs = {k: torch.from_numpy(v).to(device) for k, v in batch.items()}
        labels = inputs.pop("labels")
        at = labels != -100
        logits = masked_logits(model, inputs, at)
        loss += cross_entropy(logits, labels[at], reduction="sum").item()
        correct += (logits.argmax(-1) == labels[at]).sum().item()
        count += int(at.sum())
    return loss / count, correct / count


def masked_logits(model: BertForMaskedLM, inputs: dict[str, Tensor], at: Tensor) -> Tensor:
    """Logits at the places to be predicted only: the vocabulary is the dear part."""
    logits: Tensor = model.cls(model.bert(**inputs).last_hidden_state[at]).float()
    return logits


def best(scores: Tensor) -> tuple[float, str]:
    """The highest score and its head, as "L3 H7"."""
    layer, head = divmod(int(scores.argmax()), scores.size(1))
    return scores.max().item(), f"L{layer} H{head}"
