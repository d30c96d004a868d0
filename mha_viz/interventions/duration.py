"""The time that measuring heads takes, estimated before it begins from one batch of the work."""

import time
from collections.abc import Callable, Collection, Sequence

import torch

from mha_viz.core.names import METHODS, Method
from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.replay import ReplayingPass, in_passes
from mha_viz.prediction.targets import PredictionTargets, prediction_targets

_RUNS = 2  # the faster one counts: the first one of a model may be slow
# Parameters times tokens of a batch: about a second of one thread. Small models get a whole batch.
# A large model spends its time on products, so that a part of a batch is enough.
_MEASURED = 2 * 10**10


@torch.inference_mode()
def seconds_per_token(
    model: AttentionModel,
    texts: str | Sequence[str],
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Measure what a token costs in a forward pass through all layers, in a batch of the work.

    The batch has the rows and settings that `losses` gives one pass when it switches off the heads
    of a layer one at a time. What a pass costs however small it is, is then shared by as many
    tokens as in the work itself. On a busy machine a token costs more. Returns seconds, above 0,
    for the number of threads that torch has in the calling thread.
    """
    n_settings = model.n_heads
    rows = max(in_passes(prediction_targets(model, texts), n_settings), key=_tokens)
    size = sum(each.numel() for each in model.network.parameters())
    most = _MEASURED // (size * max(len(row.input_ids) for row in rows.rows))
    rows = rows.part(range(min(len(rows.rows), max(1, most))))
    batch = ReplayingPass(model, rows)
    n_settings = min(n_settings, batch.n_settings, max(1, most // len(rows.rows)))
    gates = torch.ones(n_settings, model.n_layers, model.n_heads)
    times = []
    for _ in range(_RUNS):
        begin = clock()
        batch.log_p(gates)
        times.append(clock() - begin)
    return min(times) / (n_settings * _tokens(rows))


def n_tokens(model: AttentionModel, texts: str | Sequence[str]) -> int:
    """Count the tokens that go through the model when the loss of texts is taken once."""
    return _tokens(prediction_targets(model, texts))


def _tokens(targets: PredictionTargets) -> int:
    return sum(len(row.input_ids) for row in targets.rows)


def importance_passes(model: AttentionModel, method: Method | str) -> float:
    """Estimate how many forward passes over all texts `head_importance` takes.

    By ablation, a head of layer l needs the layers from l on; a backward pass takes as long as two.

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
    """Estimate the forward passes over all texts of pruning and the pairs of `robustness`."""
    found = sum(importance_passes(model, method) for method in METHODS if method not in known)
    # Where many heads are off, one of the first layer nearly always is. Of two that are drawn, the
    # upper one lies a third of the way down on average.
    return found + n_orders * (steps + 1) + n_pairs * 2 / 3
