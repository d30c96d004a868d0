"""How many heads can go: the curves of every order, and single heads off, over the same texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mha_viz.core.names import ORDERS, Order
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.importance import HeadImportance, head_importance
from mha_viz.interventions.pruning import PruningCurve, pruning_curve
from mha_viz.interventions.robustness import Robustness, robustness
from mha_viz.prediction.loss import OnProgress

IMPORTANCE, DRAWS = "importance", "draws"  # beside the orders: what is being measured
OnPart = Callable[[str, float], None]


class TakenAway(NamedTuple):
    """What becomes of a model without its heads.

    Args:
        curves: of each order.
        draws: one random head off, many times, and pairs.
    """

    curves: dict[Order, PruningCurve]
    draws: Robustness


def take_away(
    model: AttentionModel,
    texts: Sequence[str],
    measured: Mapping[str, HeadImportance | None],
    *,
    steps: int,
    n_seeds: int,
    n_draws: int,
    on_progress: OnPart | None = None,
) -> TakenAway:
    """`pruning_curve` of every order, and `robustness`; what was measured before is used.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        texts: each counts the same, however long it is.
        measured: method -> importance for this model and these texts, where it is known.
        steps: points of a curve, after the one with all heads on.
        n_seeds: random orders.
        n_draws: heads that are drawn, and pairs.
        on_progress: called with what is measured just now (`IMPORTANCE`, an order, or `DRAWS`) and
            the share of all that is done; an exception it raises stops the work.
    """
    parts = (IMPORTANCE, *ORDERS, DRAWS)

    def telling(part: str) -> OnProgress | None:
        if on_progress is None:
            return None
        begin = parts.index(part)
        return lambda done, total: on_progress(part, (begin + done / max(total, 1)) / len(parts))

    importance = measured.get("ablation") or head_importance(
        model, texts, "ablation", telling(IMPORTANCE)
    )
    known = {**measured, "ablation": importance}
    curves = {
        order: pruning_curve(
            model,
            texts,
            known.get(order) or order,
            steps=steps,
            n_seeds=n_seeds,
            on_progress=telling(order),
        )
        for order in ORDERS
    }
    draws = robustness(model, texts, n_draws, importance=importance, on_progress=telling(DRAWS))
    return TakenAway(curves, draws)
