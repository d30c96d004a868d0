"""What a head that does nothing clever would score on the same text: the ruler beside a number."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.checks import Array, Given, as_tensor
from mha_viz.core.metrics.checks import OutputMatrices, Pattern
from mha_viz.core.metrics.table import head_table
from mha_viz.errors import ArgumentError


@dataclass(frozen=True)
class Baseline:
    """One metric's value for heads that have learned nothing; None where it has none.

    Args:
        uniform: a head that gives every token it may see the same weight. For metrics of a head's
            output: this head's own values under such weights, averaged over all heads.
        offset: a head that always looks at the token before (the first one at itself).
        random: mean over the heads of the same architecture with random weights.
        random_low, random_high: the smallest and the largest of those heads.
    """

    uniform: float | None = None
    offset: float | None = None
    random: float | None = None
    random_low: float | None = None
    random_high: float | None = None


def uniform_pattern(
    n_query: int, n_key: int, *, causal: bool = False
) -> Float[Tensor, "1 1 query key"]:
    """Attention that gives the same weight to each key that a row may see: A = 1 / m_q.

    Args:
        n_query: queries, at least 1.
        n_key: keys, at least 1.
        causal: query q sees keys 0 to q only.

    >>> uniform_pattern(2, 2, causal=True)[0, 0]
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    seen = torch.ones(n_query, n_key)
    seen = seen.tril() if causal else seen
    return (seen / seen.sum(-1, keepdim=True))[None, None]


def offset_pattern(n_query: int, n_key: int, offset: int) -> Float[Tensor, "1 1 query key"]:
    """Attention to the token `offset` places on, or to the nearest that exists.

    Args:
        n_query: queries, at least 1.
        n_key: keys, at least 1.
        offset: tokens; negative ones lead back.

    Raises:
        ArgumentError: an empty axis.

    >>> offset_pattern(3, 3, -1)[0, 0].argmax(-1)
    tensor([0, 0, 1])
    """
    if n_query < 1 or n_key < 1:
        raise ArgumentError(f"expected at least one query and one key, got {n_query} and {n_key}")
    place = (torch.arange(n_query) + offset).clamp(0, n_key - 1)
    return torch.nn.functional.one_hot(place, n_key).float()[None, None]


def baselines(
    pattern: Pattern,
    *,
    ids: Given[Int[Array, "key"]] | None = None,
    is_special: Given[Bool[Array, "key"]] | None = None,
    causal: bool = False,
    parts: tuple[Int[Tensor, "query"], Int[Tensor, "key"]] | None = None,
    value: Given[Float[Array, "layer head key d_value"]] | None = None,
    W_O: OutputMatrices = (),
    random: Mapping[str, Float[Tensor, "layer head"]] | None = None,
) -> dict[str, Baseline]:
    """For each metric that applies to this text, what uniform, fixed and random heads score.

    Args:
        pattern: (layer, head, query, key); its shape alone is looked at.
        ids: integers (key,), token ids.
        is_special: bool (key,).
        causal: whether the future was hidden.
        parts: integers (query,) and (key,), how many tokens each place was before words were
            merged; all are still heads of tokens, seen as the pattern is: after merging.
        value: (layer, head, key, d_value), what is read from each key.
        W_O: each layer's output weights (head, d_value, d_model): with both, metrics of a head's
            output have a uniform and a fixed-offset baseline as well.
        random: metric -> (layer, head) of the same architecture with random weights on this text.

    Returns:
        metric key -> Baseline.
    """
    n_query, n_key = pattern.shape[-2:] if parts is None else (int(n.sum()) for n in parts)
    given: dict[str, Any] = {"ids": ids, "is_special": is_special, "causal": causal}
    made = {
        "uniform": uniform_pattern(n_query, n_key, causal=causal),
        "offset": offset_pattern(n_query, n_key, -1),
    }
    found: dict[str, dict[str, float]] = {}
    for name, weights in made.items():
        weights = weights if parts is None else _by_words(weights, *parts)
        outputs: dict[str, Any] = {}
        if value is not None and len(W_O):
            wide = as_tensor("value", value).float()
            outputs = {"z": weights.to(wide) @ wide, "W_O": W_O}
        for key, values in head_table(weights, **given, **outputs).items():
            found.setdefault(key, {})[name] = float(values.mean())
    for key, values in (random or {}).items():
        defined = values[values.isfinite()]
        if defined.numel():
            low, high = defined.aminmax()
            found.setdefault(key, {}).update(
                random=float(defined.mean()), random_low=float(low), random_high=float(high)
            )
    return {key: Baseline(**numbers) for key, numbers in found.items()}


def _by_words(weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """As `AttentionRecord.merge_words`: mass from a word's tokens averaged, mass to them summed."""
    rows, columns = (torch.eye(len(n)).repeat_interleave(n, dim=1) for n in (queries, keys))
    return (rows / rows.sum(1, keepdim=True)) @ weights @ columns.mT
