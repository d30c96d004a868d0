"""What a model says at some places, as one number: a logit, a difference of two, loss or KL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

Metric = Literal["logit_difference", "logit", "loss", "kl"]
METRICS: tuple[Metric, ...] = get_args(Metric)


@dataclass(frozen=True, eq=False)
class Behaviour:
    """One number for what a model says; a mean where it is asked at several places.

    - "logit": the logit of the right token. "logit_difference": less that of a wrong one.
    - "loss": -ln p of the right token, nats.
    - "kl": KL(clean || now) of the whole distributions, nats.

    Args:
        metric: which of them.
        right: (target,), the right token at each place.
        wrong: (target,), the wrong one; for "logit_difference".
        clean: (target, d_vocab), the logits of the clean run; for "kl".
    """

    metric: Metric
    right: Int[Tensor, " target"]
    wrong: Int[Tensor, " target"] | None = None
    clean: Float[Tensor, "target d_vocab"] | None = None

    def __call__(
        self, logits: Float[Tensor, "setting target d_vocab"]
    ) -> Float[Tensor, " setting"]:
        """The number under each setting, float64; gradients flow to the logits."""
        return self.each(logits).mean(-1)

    def each(
        self, logits: Float[Tensor, "setting target d_vocab"]
    ) -> Float[Tensor, "setting target"]:
        """The number at each place by itself."""
        if self.metric == "kl":
            assert self.clean is not None
            p, q = self.clean.double().log_softmax(-1), logits.double().log_softmax(-1)
            return torch.where(p.isneginf(), 0.0, p.exp() * (p - q)).sum(-1)
        right = _of(logits, self.right)
        if self.metric == "loss":
            return logits.double().logsumexp(-1) - right
        if self.metric == "logit":
            return right
        assert self.wrong is not None
        return right - _of(logits, self.wrong)


def _of(
    logits: Float[Tensor, "setting target d_vocab"], tokens: Int[Tensor, " target"]
) -> Float[Tensor, "setting target"]:
    index = tokens.to(logits.device).expand(len(logits), -1)[..., None]
    return logits.gather(-1, index)[..., 0].double()
