"""How long it takes to measure heads: said before it begins, from a short run of the model."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from mha_viz.core.names import METHODS, Method
from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.loss import losses
from mha_viz.prediction.targets import prediction_targets

_RUNS = 2  # the faster one counts: the first one of a model may be slow


def seconds_per_token(model: AttentionModel, text: str) -> float:
    """What one token costs in a forward pass here and now, in a batch as `losses` makes them.

    Measured on a part of the text, with each head of the first layer off in turn: every layer is
    run. On a busy machine it is larger.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        text: what is to be measured over.

    Raises:
        TextError, AttentionUnavailableError: what `prediction_targets` raises.
    """
    row = prediction_targets(model, text).part([0])
    off = [[head] for head in range(min(model.n_heads, 8))]
    times = []
    for _ in range(_RUNS):
        begin = time.perf_counter()
        losses(model, row, off)
        times.append(time.perf_counter() - begin)
    return min(times) / (len(off) * len(row.rows[0].input_ids))


def n_tokens(model: AttentionModel, texts: str | Sequence[str]) -> int:
    """How many tokens go through the model when the loss of texts is taken once.

    Args:
        model: as for `prediction_targets`, which says what it raises.
        texts: one or several.
    """
    return sum(len(row.input_ids) for row in prediction_targets(model, texts).rows)


def importance_passes(model: AttentionModel, method: Method | str) -> float:
    """How many forward passes over all texts `head_importance` takes.

    Args:
        model: that heads are switched off in.
        method: "ablation", where a head of layer l needs the layers from l on; or "gradient", whose
            way back takes as long as two passes.

    >>> import mha_viz as mv
    >>> importance_passes(mv.load("tiny-gpt2"), "ablation")  # 32 heads, 4 layers
    21.0
    """
    if method == "gradient":
        return 3.0
    return 1 + model.n_heads * (model.n_layers + 1) / 2


def pruning_passes(
    model: AttentionModel, n_orders: int, steps: int, n_pairs: int, known: Collection[str] = ()
) -> float:
    """How many forward passes over all texts pruning and the pairs of `robustness` take, about.

    Args:
        model: that heads are switched off in.
        n_orders: in which heads go, random ones included.
        steps: points of a curve beside the one with all heads on.
        n_pairs: that are switched off together.
        known: methods of importance that have been measured before.
    """
    found = sum(importance_passes(model, method) for method in METHODS if method not in known)
    # Where many heads are off, one of the first layer nearly always is. Of two that are drawn, the
    # upper one lies a third of the way down on average.
    return found + n_orders * (steps + 1) + n_pairs * 2 / 3
