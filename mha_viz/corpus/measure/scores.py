"""The metrics that a study computes, and the heads that learned nothing beside them."""

from __future__ import annotations

import torch
from torch import Tensor

from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.baselines import uniform_rows
from mha_viz.core.metrics.table import BUILT_IN
from mha_viz.corpus.measure.padded import PaddedTexts

NO_BASELINE = ("sink",)  # uniform attention has none


def _scores() -> tuple[str, ...]:
    """Return the metrics of heads but that of repeated texts, which has a probe of its own."""
    of_heads = (metric for metric in METRICS.values() if metric.of == "head")
    return tuple(metric.key for metric in of_heads if "period" not in metric.needs)


SCORES = tuple(key for key in _scores() if key in BUILT_IN)


def own_scores() -> tuple[str, ...]:
    """Return the metrics that were added to those of the library."""
    return tuple(key for key in _scores() if key not in BUILT_IN)


def chance_patterns(texts: PaddedTexts, visible: Tensor) -> Tensor:
    """Build the patterns of heads that learned nothing: (batch, 2, query, key).

    The first gives every key that it may see the same weight, the second all of it to the token
    before (the first token to itself), as `core.metrics.baselines` has it.
    """
    uniform = uniform_rows(visible)
    previous = (torch.arange(visible.shape[-1], device=visible.device) - 1).clamp(min=0)
    offset = torch.nn.functional.one_hot(previous, visible.shape[-1]).float().expand_as(uniform)
    return torch.stack([uniform, offset * texts.real[..., None]], 1)


def chance_z(patterns: Tensor, value: Tensor, n_heads: int, texts: PaddedTexts) -> Tensor:
    """Compute what a layer's heads read by the first of `chance_patterns`, then by the second.

    All texts come twice: (2 * batch, head, query, d_value).
    """
    padding = texts.once("no value", lambda: ~texts.real[:, None, :, None])
    wide = value.float().masked_fill(padding, 0.0)
    side_by_side = wide.transpose(1, 2).flatten(2)  # one product for all heads
    uniform = (patterns[:, 0] @ side_by_side).unflatten(2, wide.shape[1::2]).transpose(1, 2)
    previous = torch.cat([wide[:, :, :1], wide[:, :, :-1]], 2)
    z, group = torch.cat([uniform, previous]), n_heads // value.shape[1]
    return z if group == 1 else z.repeat_interleave(group, dim=1)
