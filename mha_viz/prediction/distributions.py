"""Probabilities of outcomes, with their entropy and divergence, for every kind of prediction."""

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.prediction.logits import Objective


def log_probs_at(
    kind: Objective, logits: Float[Tensor, "predicted outcome"], position: int
) -> Float[Tensor, " candidate"]:
    """Return the logarithms of the probabilities at a place; see `outcome_logits`.

    Of many labels that of yes for each; nothing for a number.
    """
    if kind == "regression":
        return logits.new_zeros(0)
    if kind == "multi_label":
        return logits.log_softmax(-1)[:, 1]
    return logits[0 if kind == "class" else position].log_softmax(-1)


def entropy(kind: str, log_probs: Float[Tensor, " outcome"]) -> float:
    """Compute the entropy of a distribution, or the sum over labels that are each yes or no."""
    total = torch.special.entr(log_probs.exp()).sum()
    if kind == "multi_label":
        total = total + torch.special.entr(-log_probs.expm1()).sum()
    return float(total)


def kl_divergence(before: Float[Tensor, " d_vocab"], after: Float[Tensor, " d_vocab"]) -> float:
    """Compute KL(before || after) of two distributions of log-probabilities, nats, 0 or more.

    >>> kl_divergence(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.75]).log())
    0.1438
    """
    # Normalised again: float32 sums to 1 within 1e-7, which would be a distance of its own.
    p, q = before.double().log_softmax(-1), after.double().log_softmax(-1)
    terms = torch.where(p.isneginf(), 0.0, p.exp() * (p - q))
    return max(0.0, float(terms.sum()))


def labels_divergence(before: Float[Tensor, " label"], after: Float[Tensor, " label"]) -> float:
    """Compute KL(before || after) of labels that are each yes or no, summed over them, nats.

    >>> labels_divergence(torch.tensor([0.5, 0.5]).log(), torch.tensor([0.25, 0.5]).log())
    0.1438
    """
    pairs = [
        [_no_or_yes(probability) for probability in both]
        for both in zip(before, after, strict=True)
    ]
    return sum(kl_divergence(p, q) for p, q in pairs)


def _no_or_yes(log_p: Tensor) -> Float[Tensor, "2"]:
    log_p = log_p.double()
    return torch.stack([(-log_p.expm1()).log(), log_p])
