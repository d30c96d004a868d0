"""The one table that names every quantity, and one call for all that apply to a text."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given
from mha_viz.core.metrics.blocks import Visible
from mha_viz.core.metrics.by_text import known, of_outputs, reduction_of
from mha_viz.core.metrics.checks import (
    Allowed,
    HeadVectors,
    OutputMatrices,
    Pattern,
    allowed_keys,
    check_pattern,
)
from mha_viz.core.metrics.head_sums import Reduction
from mha_viz.core.metrics.metric import RENAMED as RENAMED
from mha_viz.core.metrics.metric import Metric, MetricTable
from mha_viz.core.metrics.outputs import Outputs, outputs_of, reduce_outputs
from mha_viz.core.metrics.reduction import check_sink, reduce_pattern, texts_of

if TYPE_CHECKING:
    import pandas as pd


def _read_metrics() -> MetricTable:
    """Read `metrics.toml`, a table for each metric."""
    entries = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text("utf-8"))
    table = MetricTable()
    for key, entry in entries.items():
        low, *high = entry.pop("limits")
        table[key] = Metric(
            key=key,
            limits=(float(low), float(high[0]) if high else None),
            function=_function(entry.pop("function")),
            needs=frozenset(entry.pop("needs", ())),
            **entry,
        )
    return table


def _function(path: str) -> Callable[..., Any]:
    """Return the function of a path such as "layers.coverage.ratio": module, function, field."""
    module, name, *field = path.split(".")
    function: Callable[..., Any] = getattr(import_module(f"{__package__}.{module}"), name)
    if not field:
        return function

    @functools.wraps(function)
    def one_field(*given: Any) -> Any:
        return getattr(function(*given), field[0])

    return one_field


METRICS = _read_metrics()
UNSEEN = frozenset(("next_token",))  # where the future is hidden
BUILT_IN = frozenset(METRICS)  # all others are somebody's own


def head_table(
    pattern: Pattern,
    *,
    ids: Given[Int[Array, "key"]] | None = None,
    is_special: Given[Bool[Array, "key"]] | None = None,
    causal: bool = False,
    allowed: Allowed | None = None,
    period: int | None = None,
    sink: Given[Float[Array, "layer head query"]] | None = None,
    z: HeadVectors | None = None,
    W_O: OutputMatrices = (),
    only: Collection[str] | None = None,
) -> dict[str, Float[Tensor, "layer head"]]:
    """Compute every metric that applies to this pattern, in the order of `METRICS`.

    A metric is left out where it has no meaning or no data: positions in
    cross-attention, neighbours of a single token, repetitions where no token repeats. Of a head
    that attends to nothing, what is made of its pattern is NaN (not defined).

    `ids` are integers (key,), `is_special` bool (key,); `allowed`, bool (query, key) or (layer,
    query, key), hides more than `causal` does and takes its place. `period`: the text is two copies
    of so many tokens. `sink` (layer, head, query) is the share of each row that went to a learned
    sink. With `z` and `W_O` what a head writes is measured, too. `only` are keys of metrics, where
    not all are to be computed. Returns metric key -> (layer, head).

    >>> import torch
    >>> table = head_table(torch.eye(2).reshape(1, 1, 2, 2))
    >>> table["self_token"], "special_token" in table
    (tensor([[1.]]), False)
    """
    pattern, _ = check_pattern(pattern)
    texts = texts_of(pattern, ids=ids, is_special=is_special, causal=causal, period=period)
    visible = Visible.of(texts, allowed_keys(pattern, causal, allowed))
    needs = known(texts).keys() | {"allowed"}
    if visible.repeats is not None and visible.repeats.any():
        needs.add("repeats")
    sinks = check_sink(sink, pattern)
    if sinks is not None:
        needs.add("sink")
    reductions = pattern_reductions(needs, only)
    found = reduce_pattern(pattern, texts, visible, reductions, sinks, checked=True)
    if z is not None and len(W_O):
        found |= reduce_outputs(outputs_of(z, W_O), output_metrics(needs, only))
    return {key: found[key] for key in METRICS if key in found}


def pattern_reductions(
    needs: Collection[str], only: Collection[str] | None = None
) -> dict[str, Reduction]:
    """Return the metrics of patterns that need no more than this; see `Metric`."""
    return {one.key: reduction_of(one) for one in _of_heads(needs, only, written=False)}


def output_metrics(
    needs: Collection[str], only: Collection[str] | None = None
) -> dict[str, Callable[[Outputs], Tensor]]:
    """Return the metrics of what heads write that need no more than this."""
    return {one.key: of_outputs(one) for one in _of_heads(needs, only, written=True)}


def _of_heads(
    needs: Collection[str], only: Collection[str] | None, written: bool
) -> Iterator[Metric]:
    for metric in METRICS.values():
        wanted = metric.of == "head" and (only is None or metric.key in only)
        fits = ("outputs" in metric.needs) == written and metric.needs <= {*needs, "outputs"}
        if wanted and fits:
            yield metric


def compare_heads(
    pattern: Float[Tensor, "2 query key"], z: Float[Tensor, "2 query d_head"] | None
) -> pd.Series[float]:
    """Compute each measure between two heads, by its key: see `AttentionRecord.compare`."""
    import pandas as pd  # late: a report is made without it

    found = {}
    for key, metric in METRICS.items():
        subject = z if "outputs" in metric.needs else pattern
        if metric.of == "pair" and subject is not None:
            found[key] = float(metric.function(subject[None])[0, 1])
    return pd.Series(found, dtype=float)
