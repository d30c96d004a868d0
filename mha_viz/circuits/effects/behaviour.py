"""Behaviours of a model as one number, by which effects are measured."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.core.arguments import one_of
from mha_viz.errors import ArgumentError

Metric = Literal["logit_difference", "logit", "loss", "log_probability", "kl"]
METRICS: tuple[Metric, ...] = ("logit_difference", "logit", "loss", "kl")  # of paths and maps
Word = str | int | None


@dataclass(frozen=True, eq=False)
class Behaviour:
    """A model's behaviour as one number: a mean where the model predicts at several places.

    - "logit": the logit of the right token. "logit_difference": less that of a wrong one.
    - "loss": -ln p of the right token, nats. "log_probability": ln p of it.
    - "kl": KL(clean || now) of the whole distributions, nats.
    """

    metric: Metric  # which of them
    right: Int[Tensor, " target"]  # the right token at each place
    wrong: Int[Tensor, " target"]  # the wrong one; read for "logit_difference" alone
    clean: Float[Tensor, "target d_vocab"] | None = None  # logits of the clean run; for "kl"

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
        if self.metric == "log_probability":
            return right - logits.double().logsumexp(-1)
        return right if self.metric == "logit" else right - _of(logits, self.wrong)


def metric_of(metric: str, target: Word = None, against: Word = None) -> Metric:
    """Return a known metric; ArgumentError where there is none, or tokens that it does not use."""
    checked_metric = one_of("metric", metric, METRICS)
    if against is not None and metric != "logit_difference":
        raise ArgumentError(f'against is for metric="logit_difference"; got metric={metric!r}.')
    if target is not None and metric == "kl":
        raise ArgumentError('metric="kl" compares whole distributions: it takes no target.')
    return checked_metric


def _of(
    logits: Float[Tensor, "setting target d_vocab"], tokens: Int[Tensor, " target"]
) -> Float[Tensor, "setting target"]:
    index = tokens.to(logits.device).expand(len(logits), -1)[..., None]
    return logits.gather(-1, index)[..., 0].double()
