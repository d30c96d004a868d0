"""Scores of heads that learned nothing, on the same text: the ruler beside a number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given, as_tensor
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics.checks import (
    NO_FACTS,
    Allowed,
    OutputMatrices,
    Pattern,
    TokenFacts,
    allowed_keys,
)
from mha_viz.core.metrics.outputs import outputs_of, reduce_outputs
from mha_viz.core.metrics.position import repeated_tokens
from mha_viz.core.metrics.reduction import check_facts
from mha_viz.core.metrics.table import METRICS, head_table, output_metrics
from mha_viz.errors import ArgumentError

_ROUNDING = 1e-6  # of a score in float32
_ROWS = {"previous_token": -1, "next_token": -1}  # a row less than there are has that neighbour


@dataclass(frozen=True)
class Baseline:
    """One metric's value for heads that have learned nothing; None where it has none."""

    # a head that gives every token it may see the same weight. For metrics of a head's output: the
    # heads' own values under such weights, averaged over all heads; `by_head` has each.
    uniform: float | None = None
    offset: float | None = None  # one that always looks at the token before (the first at itself)
    random: float | None = None  # mean over the heads of the same architecture with random weights
    random_low: float | None = None  # the smallest of those heads
    random_high: float | None = None  # the largest
    # how many rows of weights the score is a mean of; of repeated tokens, how many different ones,
    # since a head looks from equal tokens alike
    n_rows: float | None = None
    # where layers see different keys (a sliding window in some of them), the baseline of each; its
    # random heads are those of layers in which uniform attention scores alike
    by_layer: tuple["Baseline", ...] = ()
    # of metrics of a head's output, [layer][head]: what it writes from its own values
    by_head: tuple[tuple["Baseline", ...], ...] = ()

    def at(self, layer: int, head: int | None = None) -> "Baseline":
        """Return the baseline for a head of this layer, counted from 0, or for any of its heads."""
        if self.by_head and head is not None:
            return self.by_head[layer][head]
        return self.by_layer[layer] if self.by_layer else self


def uniform_pattern(
    n_query: int, n_key: int, *, causal: bool = False, allowed: Allowed | None = None
) -> Float[Tensor, "#layer 1 query key"]:
    """Give the same weight to each key that a row may see: A = 1 / m_q.

    >>> uniform_pattern(2, 2, causal=True)[0, 0]
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    layers = 1 if allowed is None or allowed.ndim < 3 else len(allowed)
    visible = allowed_keys(torch.empty(layers, 1, n_query, n_key), causal, allowed)
    return uniform_rows(visible)[:, None]


def uniform_rows(visible: Bool[Tensor, "*batch query key"]) -> Float[Tensor, "*batch query key"]:
    """Give the same weight to each key that a row sees; none to a row that sees nothing."""
    counts = visible.float()
    return counts / counts.sum(-1, keepdim=True).clamp_min(1.0)


def offset_pattern(n_query: int, n_key: int, offset: int) -> Float[Tensor, "1 1 query key"]:
    """Give all weight to the token `offset` places on, or to the nearest that exists.

    >>> offset_pattern(3, 3, -1)[0, 0].argmax(-1)
    tensor([0, 0, 1])
    """
    if n_query < 1 or n_key < 1:
        raise ArgumentError(f"expected at least one query and one key, got {n_query} and {n_key}")
    key = (torch.arange(n_query) + offset).clamp(0, n_key - 1)
    return torch.nn.functional.one_hot(key, n_key).float()[None, None]


def baselines(
    pattern: Pattern,
    facts: TokenFacts = NO_FACTS,
    *,
    layers: Sequence[int] | None = None,
    parts: tuple[Int[Tensor, "query"], Int[Tensor, "key"]] | None = None,
    value: Given[Float[Array, "layer kv_head key d_value"]] | None = None,
    W_O: OutputMatrices = (),
    random: Mapping[str, Float[Tensor, "layer head"]] | None = None,
) -> dict[str, Baseline]:
    """Score uniform, fixed-offset and random heads by each metric that applies to this text.

    Only the pattern's shape is read. `facts.allowed`, bool (mask, query, key), is of tokens, even
    where words were merged; `layers` gives the mask of each layer, where layers share masks.
    `parts`, integers (query,) and (key,), count the tokens that each word was merged from: the
    heads of the baselines attend to tokens, and their weights are merged as the pattern's were.
    With `value` (layer, kv_head, key, d_value), what is read from each key, and `W_O`, metrics of a
    head's output have a uniform and a fixed-offset baseline as well. `random` is metric -> (layer,
    head) of the same architecture with random weights on this text.
    """
    pattern = as_tensor("pattern", pattern)
    n_query, n_key = pattern.shape[-2:] if parts is None else (int(n.sum()) for n in parts)
    allowed = None if facts.allowed is None else as_tensor("allowed", facts.allowed)
    patterns = {
        "uniform": uniform_pattern(n_query, n_key, causal=facts.causal, allowed=allowed),
        "offset": offset_pattern(n_query, n_key, -1),
    }
    if allowed is not None and parts is not None:
        allowed = allowed_words(allowed, *parts)
    facts = replace(facts, allowed=allowed)
    scores: dict[str, dict[str, Tensor]] = {}
    for name, weights in patterns.items():
        check_cancelled()
        weights = weights if parts is None else _by_words(weights, *parts)
        table = _of_weights(weights, facts, layers)
        if value is not None and len(W_O):
            table |= _of_outputs(weights, layers, as_tensor("value", value).float(), W_O)
        for key, values in table.items():
            rows = torch.full_like(values, _ROWS.get(key, 0) + pattern.shape[-2])
            scores.setdefault(key, {"rows": rows})[name] = values
    if "duplicate_token" in scores:
        n_masks = 1 if allowed is None else len(allowed)
        texts, visible = check_facts(facts, pattern[:n_masks])
        repeated = repeated_tokens(visible, texts)[:, None]
        scores["duplicate_token"]["rows"] = repeated if layers is None else repeated[list(layers)]
    for key, values in (random or {}).items():
        scores.setdefault(key, {})["random"] = values
    baseline_of = {key: _baseline(key, values) for key, values in scores.items()}
    return {key: baseline for key, baseline in baseline_of.items() if baseline != Baseline()}


def _of_weights(
    weights: Float[Tensor, "#mask 1 query key"], facts: TokenFacts, layers: Sequence[int] | None
) -> dict[str, Float[Tensor, "layer 1"]]:
    """Measure weights under each mask, and return the scores of each layer's own."""
    if facts.allowed is not None:
        weights = weights.expand(len(facts.allowed), -1, -1, -1)
    table = head_table(weights, facts)
    return table if layers is None else {key: table[key][list(layers)] for key in table}


def _of_outputs(
    weights: Float[Tensor, "mask 1 query key"],
    layers: Sequence[int] | None,
    value: Float[Tensor, "layer kv_head key d_value"],
    W_O: OutputMatrices,
) -> dict[str, Float[Tensor, "layer head"]]:
    """Measure what heads would write with these weights, a layer at a time."""
    tables = []
    masks = range(len(value)) if layers is None else layers
    for mask, read, W in zip(masks, value, W_O, strict=True):
        check_cancelled()
        z = weights[mask % len(weights)].to(value) @ read
        z = z.repeat_interleave(len(W) // len(read), 0)  # query heads of a key head read alike
        tables.append(reduce_outputs(outputs_of(z[None], [W]), output_metrics(())))
    return {key: torch.cat([table[key] for table in tables]) for key in tables[0]}


def allowed_words(
    allowed: Bool[Tensor, "layer query_token key_token"],
    queries: Int[Tensor, "query"],
    keys: Int[Tensor, "key"],
) -> Bool[Tensor, "layer query key"]:
    """Return which words a word may see: any of its tokens may see any of theirs."""
    return _by_words(allowed.float(), queries, keys) > 0


def _baseline(key: str, scores: Mapping[str, Tensor]) -> Baseline:
    """Summarise what heads score; for each layer, too, where layers see different keys."""
    over_all = _over_heads(scores)
    if "uniform" not in scores:
        return over_all
    if "outputs" in METRICS[key].needs:  # each head's own, by its values
        return replace(over_all, by_head=_of_each_head(over_all, scores))
    levels = scores["uniform"].mean(-1)
    equal = (levels[:, None] - levels).abs() <= _ROUNDING  # NaN is like nothing
    if equal.all():
        return over_all
    of_layers = [{name: values[rows] for name, values in scores.items()} for rows in equal]
    return replace(over_all, by_layer=tuple(map(_over_heads, of_layers)))


def _of_each_head(
    over_all: Baseline, scores: Mapping[str, Tensor]
) -> tuple[tuple[Baseline, ...], ...]:
    """Return what each head itself scores under the weights of a baseline; None where undefined."""
    uniform, offset = (
        [[None if x != x else x for x in row] for row in scores[name].tolist()]
        for name in ("uniform", "offset")
    )
    return tuple(
        tuple(replace(over_all, uniform=x, offset=y) for x, y in zip(*rows, strict=True))
        for rows in zip(uniform, offset, strict=True)
    )


def _over_heads(scores: Mapping[str, Tensor]) -> Baseline:
    """Average what is defined, and take the range of the random heads."""
    defined = {name: values[values.isfinite()] for name, values in scores.items()}
    mean = {name: float(values.mean()) for name, values in defined.items() if values.numel()}
    baseline = Baseline(
        mean.get("uniform"), mean.get("offset"), mean.get("random"), n_rows=mean.get("rows")
    )
    if "random" not in mean:
        return baseline
    low, high = defined["random"].aminmax()
    return replace(baseline, random_low=float(low), random_high=float(high))


def _by_words(weights: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Merge words as `AttentionRecord.merge_words`: average from, sum to a word's tokens."""
    rows, columns = (torch.eye(len(n)).repeat_interleave(n, dim=1) for n in (queries, keys))
    return (rows / rows.sum(1, keepdim=True)) @ weights @ columns.mT
