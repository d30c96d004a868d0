"""Custom metrics, measured and shown wherever the built-in ones are."""

import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, TypeVar, get_args

import torch
from torch import Tensor

from mha_viz.core.metrics.head_sums import row_mean
from mha_viz.core.metrics.metric import Metric, Need
from mha_viz.core.metrics.reduction import reduced
from mha_viz.core.metrics.table import BUILT_IN, METRICS
from mha_viz.errors import ArgumentError, ShapeError

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
    meaning = (inspect.getdoc(function) or "A metric of your own.").partition("\n")[0]
    METRICS[key] = Metric(
        key=key,
        title=title or key.replace("_", " ").capitalize(),
        unit=unit,
        limits=limits,
        direction="",
        meaning=meaning,
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
        return reduced(reduction, pattern, **about)

    return of_pattern


def _checked(key: str, function: Callable[..., Any]) -> Callable[..., Tensor]:
    """Wrap the function so that its result must be a float tensor with a number for each head."""

    @functools.wraps(function)
    def measured(subject: Tensor, *others: Any, **named: Any) -> Tensor:
        found = torch.as_tensor(function(subject, *others, **named))
        heads = tuple(subject.shape[:2])
        if tuple(found.shape) != heads:
            raise ShapeError(
                f"The metric {key} must return a number for each of (layer, head) = {heads}, got "
                f"shape {tuple(found.shape)}."
            )
        return found.to(torch.promote_types(found.dtype, torch.float32))

    return measured
