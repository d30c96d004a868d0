"""The one table that names every quantity, and one call for all that apply to a text."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given, as_tensor
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics.checks import (
    Allowed,
    HeadVectors,
    OutputMatrices,
    Pattern,
    check_pattern,
    check_per_key,
)
from mha_viz.core.metrics.content import occurs_again
from mha_viz.core.metrics.metric import RENAMED as RENAMED
from mha_viz.core.metrics.metric import Metric, MetricTable, Need
from mha_viz.core.metrics.outputs import check_outputs, compact_outputs
from mha_viz.core.metrics.spread import row_entropy

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

    Args:
        pattern: (layer, head, query, key).
        ids: integers (key,), token ids.
        is_special: bool (key,).
        causal: whether the future was hidden.
        allowed: bool (query, key) or (layer, query, key), True = may attend, where more was hidden
            than that; takes the place of `causal`.
        period: tokens in one copy, if the text is two copies of a sequence, one after the other.
        sink: (layer, head, query), the share of each row that went to a learned sink.
        z: (layer, head, query, d_head), pattern times values.
        W_O: each layer's output weights (head, d_head, d_model): with both, what a head writes is
            measured, too.
        only: keys of metrics, where not all are to be computed.

    Returns:
        metric key -> (layer, head).

    >>> import torch
    >>> table = head_table(torch.eye(2).reshape(1, 1, 2, 2))
    >>> table["self_token"], "special_token" in table
    (tensor([[1.]]), False)
    """
    pattern, _ = check_pattern(pattern)
    n_query, n_key = pattern.shape[-2:]
    # what is there, and what a metric that needs it is called with
    given: dict[Need, dict[str, object]] = {
        "causal": {"causal": causal},
        "allowed": {"causal": causal, "allowed": allowed},
        "rows": {"rows": row_entropy(pattern)},  # three metrics are made of these
    }
    if n_query == n_key:
        given |= {"self": {}, "neighbours": {}} if n_key > 1 else {"self": {}}
    if is_special is not None:
        given["special"] = {"is_special": check_per_key("is_special", is_special, pattern)}
    if ids is not None and len(check_per_key("ids", ids, pattern).unique()) < n_key:
        ids = as_tensor("ids", ids)
        given["ids"] = {"ids": ids}
        visibility: dict[str, Any] = {
            "causal": causal,
            "allowed": allowed,
            "is_special": is_special,
        }
        if n_query == n_key and occurs_again(pattern, ids, **visibility).any():
            given["repeats"] = {"ids": ids, **visibility}
    optional: dict[Need, object] = {"period": period, "sink": sink}
    given |= {need: {need: value} for need, value in optional.items() if value is not None}
    if z is not None and len(W_O):
        z, W_O, _ = check_outputs(z, W_O)
        given |= {"outputs": {}, "compact": {"compact": compact_outputs(z, W_O)}}
    table: dict[str, Tensor] = {}
    for metric in METRICS.values():
        if only is not None and metric.key not in only:
            continue
        if metric.of == "head" and metric.needs <= given.keys():
            check_cancelled()
            extra = {k: v for need in metric.needs for k, v in given[need].items()}
            subject = (z, W_O) if "outputs" in metric.needs else (pattern,)
            table[metric.key] = metric.function(*subject, **extra)
    idle = (pattern == 0).all(-1).all(-1)
    if idle.any():
        for key, values in table.items():
            if not {"outputs", "sink"} & METRICS[key].needs:  # what a head does without tokens
                table[key] = torch.where(idle, torch.nan, values)
    return table


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
