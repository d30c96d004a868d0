"""Behaviour of a model at some places as one number: a logit, a difference of two, loss or KL."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

Metric = Literal["logit_difference", "logit", "loss", "kl"]
METRICS: tuple[Metric, ...] = get_args(Metric)


@dataclass(frozen=True, eq=False)
class Behaviour:
    """A model's behaviour as one number: a mean where the model predicts at several places.

    - "logit": the logit of the right token. "logit_difference": less that of a wrong one.
    - "loss": -ln p of the right token, nats.
    - "kl": KL(clean || now) of the whole distributions, nats.
    """

    metric: Metric  # which of them
    right: Int[Tensor, " target"]  # (target,), the right token at each place
    wrong: Int[Tensor, " target"] | None = None  # (target,), the wrong one; for "logit_difference"
    # (target, d_vocab), the logits of the clean run; for "kl".
    clean: Float[Tensor, "target d_vocab"] | None = None

    def __call__(
        self, logits: Float[Tensor, "setting target d_vocab"]
    ) -> Float[Tensor, " setting"]:
        """Compute the number under each setting, float64; gradients flow to the logits."""
        return self.each(logits).mean(-1)

    def each(
        self, logits: Float[Tensor, "setting target d_vocab"]
    ) -> Float[Tensor, "setting target"]:
        """Compute the number at each place by itself."""
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
