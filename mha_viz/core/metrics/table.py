"""The one table that names every quantity, and one call for all that apply to a text."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.checks import Anything
from mha_viz.core.metrics import (
    flow_rows,
    layer_rows,
    output_rows,
    pair_rows,
    parameter_rows,
    pattern_rows,
)
from mha_viz.core.metrics.checks import check_pattern, check_per_key
from mha_viz.core.metrics.metric import RENAMED as RENAMED
from mha_viz.core.metrics.metric import MetricTable, Need
from mha_viz.core.metrics.outputs import compact_outputs
from mha_viz.core.metrics.spread import row_entropy

METRICS = MetricTable(
    (metric.key, metric)
    for rows in (pattern_rows, output_rows, pair_rows, parameter_rows, layer_rows, flow_rows)
    for metric in rows.ROWS
)


def head_table(
    pattern: Anything,
    *,
    ids: Anything | None = None,
    is_special: Anything | None = None,
    causal: bool = False,
    period: int | None = None,
    z: Anything | None = None,
    W_O: Sequence[Tensor] = (),
) -> dict[str, Float[Tensor, "layer head"]]:
    """Every metric that applies to this pattern, in the order of `METRICS`.

    A metric is left out where it has no meaning or nothing to go on: positions in
    cross-attention, neighbours of a single token, repetitions where no token repeats. Of a head
    that attends to nothing, what is made of its pattern is NaN (not defined).

    Args:
        pattern: (layer, head, query, key).
        ids: integers (key,), token ids.
        is_special: bool (key,).
        causal: whether the future was hidden.
        period: tokens in one copy, if the text is one said twice from its first token on.
        z: (layer, head, query, d_head), and W_O (head, d_head, d_model) for each layer: with both,
            what a head writes is measured, too.

    Returns:
        metric key -> (layer, head).

    Raises:
        ShapeError, DTypeError, ArgumentError: as the metrics do.

    >>> import torch
    >>> table = head_table(torch.eye(2).reshape(1, 1, 2, 2))
    >>> table["self_token"], "special_token" in table
    (tensor([[1.]]), False)
    """
    check_pattern(pattern)
    for name, per_key in (("ids", ids), ("is_special", is_special)):
        if per_key is not None:
            check_per_key(name, per_key, pattern)
    n_query, n_key = pattern.shape[-2:]
    met: set[Need] = {"causal", "rows"}
    met |= {"self"} if n_query == n_key else set()
    met |= {"neighbours"} if n_query == n_key > 1 else set()
    met |= {"special"} if is_special is not None else set()
    met |= {"ids"} if ids is not None and len(set(ids.tolist())) < len(ids) else set()
    met |= {"period"} if period is not None else set()
    met |= {"outputs", "compact"} if z is not None and W_O else set()
    given: dict[Need, dict[str, object]] = {
        "special": {"is_special": is_special},
        "ids": {"ids": ids},
        "causal": {"causal": causal},
        "period": {"period": period},
        "rows": {"rows": row_entropy(pattern)},  # three metrics are made of these
        # and all of what heads write of these
        "compact": {"compact": compact_outputs(z, W_O) if z is not None and W_O else None},
    }
    table: dict[str, Tensor] = {}
    for metric in METRICS.values():
        if metric.of == "head" and metric.needs <= met:
            extra = {k: v for need in metric.needs for k, v in given.get(need, {}).items()}
            subject = (z, W_O) if "outputs" in metric.needs else (pattern,)
            table[metric.key] = metric.function(*subject, **extra)
    idle = table["confidence"] == 0
    if idle.any():
        for key, values in table.items():
            if "outputs" not in METRICS[key].needs:
                table[key] = torch.where(idle, torch.nan, values)
    return table
