"""The table that names every quantity, one's own among them, and one call for all of a text."""

from __future__ import annotations

import functools
import inspect
import tomllib
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given
from mha_viz.core.metrics.checks import (
    NO_FACTS,
    HeadVectors,
    OutputMatrices,
    Pattern,
    TokenFacts,
    check_pattern,
)
from mha_viz.core.metrics.head_sums import Reduction, row_mean
from mha_viz.core.metrics.metric import RENAMED as RENAMED
from mha_viz.core.metrics.metric import (
    Metric,
    MetricTable,
    Need,
    of_outputs,
    reduction_of,
    text_facts,
)
from mha_viz.core.metrics.outputs import Outputs, outputs_of, reduce_outputs
from mha_viz.core.metrics.reduction import check_facts, check_sink, reduce_pattern, reduced
from mha_viz.errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    import pandas as pd


def _read_metrics() -> MetricTable:
    """Read `metrics.toml`, a table for each metric, without the papers at its end."""
    entries = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text("utf-8"))
    del entries["references"]
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
    def one_field(*arrays: Any) -> Any:
        return getattr(function(*arrays), field[0])

    return one_field


METRICS = _read_metrics()
UNSEEN = frozenset(("next_token",))  # where the future is hidden
BUILT_IN = frozenset(METRICS)  # all others are somebody's own


def head_table(
    pattern: Pattern,
    facts: TokenFacts = NO_FACTS,
    *,
    sink: Given[Float[Array, "layer head query"]] | None = None,
    z: HeadVectors | None = None,
    W_O: OutputMatrices = (),
    only: Collection[str] | None = None,
) -> dict[str, Float[Tensor, "layer head"]]:
    """Compute every metric that applies to this pattern, in the order of `METRICS`.

    A metric is left out where it has no meaning or no data: positions in
    cross-attention, neighbours of a single token, repetitions where no token repeats. Of a head
    that attends to nothing, what is made of its pattern is NaN (not defined).

    `sink` (layer, head, query) is the share of each row that went to a learned sink. With `z` and
    `W_O` what a head writes is measured, too. `only` are keys of metrics, where not all are to be
    computed. Returns metric key -> (layer, head).

    >>> import torch
    >>> table = head_table(torch.eye(2).reshape(1, 1, 2, 2))
    >>> table["self_token"], "special_token" in table
    (tensor([[1.]]), False)
    """
    pattern, _ = check_pattern(pattern)
    texts, visible = check_facts(facts, pattern)
    needs = text_facts(texts).keys() | {"allowed"}
    if visible.repeats is not None and visible.repeats.any():
        needs.add("repeats")
    sinks = check_sink(sink, pattern)
    if sinks is not None:
        needs.add("sink")
    reductions = pattern_reductions(needs, only)
    table = reduce_pattern(pattern, texts, visible, reductions, sinks, checked=True)
    if z is not None and len(W_O):
        table |= reduce_outputs(outputs_of(z, W_O), output_metrics(needs, only))
    return {key: table[key] for key in METRICS if key in table}


def pattern_reductions(
    needs: Collection[str], only: Collection[str] | None = None
) -> dict[str, Reduction]:
    """Return the metrics of patterns that need no more than this; see `Metric`."""
    return {m.key: reduction_of(m) for m in _of_heads(needs, only, written=False)}


def output_metrics(
    needs: Collection[str], only: Collection[str] | None = None
) -> dict[str, Callable[[Outputs], Tensor]]:
    """Return the metrics of what heads write that need no more than this."""
    return {m.key: of_outputs(m) for m in _of_heads(needs, only, written=True)}


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

    values = {}
    for key, metric in METRICS.items():
        subject = z if "outputs" in metric.needs else pattern
        if metric.of == "pair" and subject is not None:
            values[key] = float(metric.function(subject[None])[0, 1])
    return pd.Series(values, dtype=float)


_Measure = TypeVar("_Measure", bound=Callable[..., Any])
_ALLOWED = ("special", "ids", "causal", "allowed", "period", "self", "neighbours", "outputs")


def register_metric(
    function: _Measure,
    *,
    key: str = "",
    title: str = "",
    unit: str = "",
    limits: tuple[float, float | None] = (0.0, None),
    needs: Collection[str] = (),
    by_blocks: bool = False,
) -> _Measure:
    """Register a custom metric of every head, beside those of `METRICS`.

    From then on `head_report` has a column for it, with its baselines, and so have the grid of a
    record, its facts, studies and the app, in this process. Registering the same key again replaces
    a custom metric, never one of the library.

    Args:
        function: (pattern) -> (layer, head), tensor or array, of a float32 pattern (layer, head,
            query, key). Its docstring's first line is what the metric means.
        key: its name in tables; if not given, the function's.
        title: its name on screen; if not given, made of the key.
        unit: such as "nats" or "tokens"; "" for a plain number.
        limits: its lowest and highest value; None where the highest grows with the text.
        needs: what else it is called with, by keyword: "special" (is_special), "ids", "causal",
            "allowed" (causal and, or None, allowed: bool (layer, query, key)), "period"; or what
            must be there: "self" (self-attention), "neighbours" (of two tokens or more), "outputs"
            (called with z and W_O in place of the pattern).
        by_blocks: whether the function is called with a `RowBlock` alone and returns a number for
            each of its rows, (batch, head, row), 0 in padding: the metric is their mean. Of a long
            text or a batch it never needs all weights at once.

    Returns:
        The function, so that this serves as a decorator.

    Raises:
        ArgumentError: a key that is taken or is no name, or unknown needs.

    >>> import mha_viz as mv
    >>> @mv.register_metric
    ... def strongest(pattern):
    ...     "The largest weight of all."
    ...     return pattern.amax((-2, -1))
    >>> "strongest" in mv.head_report(mv.load("tiny-bert").trace("The cat sat"))
    True
    >>> _ = METRICS.pop("strongest")
    """
    key = key or getattr(function, "__name__", "")
    if not key.isidentifier():
        raise ArgumentError(f"key must be a name such as my_metric, got {key!r}.")
    if key in BUILT_IN:
        raise ArgumentError(f"{key!r} is a metric of the library: give yours another key.")
    if unknown := sorted(set(needs) - set(_ALLOWED)):
        raise ArgumentError(f"needs may hold {', '.join(_ALLOWED)}; got {', '.join(unknown)}.")
    METRICS[key] = Metric(
        key=key,
        title=title or key.replace("_", " ").capitalize(),
        unit=unit,
        limits=limits,
        direction="",
        meaning=(inspect.getdoc(function) or "A metric of your own.").partition("\n")[0],
        formula="",
        source="",
        function=_checked(key, _of_pattern(function) if by_blocks else function),
        needs=frozenset(need for need in get_args(Need) if need in needs),
    )
    return function


def _of_pattern(of_rows: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function of a whole pattern that averages a number of each row."""
    reduction = row_mean(of_rows)

    @reduction
    @functools.wraps(of_rows)
    def of_pattern(pattern: Tensor, **about: Any) -> Tensor:
        return reduced(reduction, pattern, TokenFacts(**about))

    return of_pattern


def _checked(key: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Wrap the function so that its result must be a float tensor with a number for each head."""

    @functools.wraps(function)
    def measured(subject: Tensor, *arrays: Any, **named: Any) -> Tensor:
        scores = torch.as_tensor(function(subject, *arrays, **named))
        heads = tuple(subject.shape[:2])
        if tuple(scores.shape) != heads:
            raise ShapeError(
                f"The metric {key} must return a number for each of (layer, head) = {heads}, got "
                f"shape {tuple(scores.shape)}."
            )
        return scores.to(torch.promote_types(scores.dtype, torch.float32))

    return measured
