"""The importance of each head for the loss, and the time that measuring heads takes."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.layer_numbers import head_name
from mha_viz.core.names import METHODS, Method
from mha_viz.core.reprs import count, head_rows, table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.prediction.replay import OnProgress, Progress, ReplayingPass, in_passes, losses
from mha_viz.prediction.targets import MASKED_SHARE, Labels, PredictionTargets, prediction_targets

CONFIDENCE = 0.95
_MOST = 10  # heads that a notebook shows
GRADIENT_TOKENS = 512  # in one pass, whose every layer's activations are kept for the way back


@dataclass(frozen=True, eq=False)
class HeadImportance:
    """The dependence of the loss on each head, on one text or several."""

    method: Method  # "ablation" or "gradient", which say different things (`head_importance`)
    mean: Float[Tensor, "layer head"]  # mean over the texts, in `unit`
    # low, high: its 95 % t-interval over the texts; NaN for one text.
    low: Float[Tensor, "layer head"]
    high: Float[Tensor, "layer head"]
    values: Float[Tensor, "text layer head"]  # of each text
    loss: Float[Tensor, " text"]  # the loss with all heads on; a regression's number
    n_tokens: int  # how many tokens (or classes) were predicted for it, over all texts
    # what was cut off, and whether an interval is missing for want of a second text.
    notes: tuple[str, ...] = ()
    unit: str = "nats per token"  # of classifiers per text, label or end of an answer
    layer_numbers: tuple[int, ...] = ()  # the model's own, of the layer axis; none: 0, 1, 2 ...

    @property
    def n_texts(self) -> int:
        """The number of texts that the means are over."""
        return len(self.values)

    def table(self) -> pd.DataFrame:
        """Return a row per head: layer, head, importance, low, high."""
        columns = {"importance": self.mean, "low": self.low, "high": self.high}
        return head_rows(self.layer_numbers, **columns)

    def __repr__(self) -> str:
        layers, heads = self.mean.shape
        layer, head = divmod(int(self.mean.argmax()), heads)
        name = head_name(layer, head, numbers=self.layer_numbers)
        return (
            f"HeadImportance({self.method}, {layers} layers × {heads} heads, "
            f"{count(self.n_texts, 'text')}, most: "
            f"{name} {self.mean[layer, head]:.3g} {self.unit})"
        )

    def _repr_html_(self) -> str:
        """Draw the ten heads that matter most; `table` has them all."""
        most = self.table().sort_values("importance", ascending=False).head(_MOST)
        shown = most.dropna(axis="columns", how="all")  # one text has no interval
        all_in_table = f"{self.unit[0].upper()}{self.unit[1:]}; all heads are in .table()."
        return table_html(repr(self), shown, " ".join((all_in_table, *self.notes)))


class Agreement(NamedTuple):
    """Spearman's rank correlation in [-1, 1], and of how many heads; NaN where undefined."""

    rho: float
    n_heads: int


def head_importance(
    model: AttentionModel,
    texts: str | Sequence[str],
    method: Method | str = "ablation",
    on_progress: OnProgress | None = None,
    *,
    masked_share: float = MASKED_SHARE,
    labels: Labels = None,
    text_pair: str | Sequence[str] | None = None,
) -> HeadImportance:
    """Measure what each head, alone, does for the loss of one text or several (see `losses`).

    "ablation": loss with the head off (z times 0, its share of b_O stays) - loss with all on. Below
    0 where the model predicts these texts better without it. "gradient": |dL / d gate| of each
    text at gate 1, then the mean over texts: how steeply the loss answers to turning the head down
    a little, whichever way; 0 or more. A model that predicts a number has no loss: that number
    takes its place, and above 0 it is larger without the head.

    Args:
        model: a causal or masked model, a classifier or a question answerer, of one stack, through
            our attention function.
        texts: each counts the same, however long it is.
        method: "ablation" takes about half a forward pass for every head and text, in batches;
            "gradient" one forward and one backward pass for every text.
        on_progress: called with how much is done, and of how much; an exception it raises stops
            the work.
        masked_share: see `prediction_targets`.
        labels: classifiers and question answerers only: what the loss is -ln p of, for all texts
            or for each: a class; a label of several, or {label: True or False}; "3:PER" or
            {3: "PER"} of tokens; "start", "end", "end:7" or {"start": 5, "end": 7} of an answer.
            If not given, what the model itself finds likeliest, at all tokens, labels and ends.
        text_pair: the second segment of all texts, or of each: the context of a question.

    Returns:
        HeadImportance, (layer, head), in its `unit`, float64; the same at every call.

    Raises:
        ArgumentError: an unknown method; and what `prediction_targets` raises.

    Source: Michel et al. 2019, eq. 2 (gradient) and section 3 (one head off). They divide each
    layer's gradients by their norm; here they stay as they are, so that layers compare.

    >>> import mha_viz as mv
    >>> model, texts = mv.load("tiny-gpt2"), ["The cat sat on the mat.", "A dog ran."]
    >>> importance = head_importance(model, texts)
    >>> importance.mean.shape, importance.n_texts, importance.n_tokens > 8
    (torch.Size([4, 8]), 2, True)
    >>> agreement(importance, head_importance(model, texts, "gradient")).n_heads
    32
    >>> importance.table().columns.tolist()
    ['layer', 'head', 'importance', 'low', 'high']
    """
    if method not in METHODS:
        raise ArgumentError(f'method must be "ablation" or "gradient", got {method!r}.')
    targets = prediction_targets(model, texts, masked_share, labels, text_pair)
    if method == "ablation":
        n_layers, n_heads = model.n_layers, model.n_heads
        each = ([head] for head in range(n_layers * n_heads))
        text_losses = losses(model, targets, [[], *each], on_progress)
        values, loss = (
            (text_losses[1:] - text_losses[0]).T.reshape(-1, n_layers, n_heads),
            text_losses[0],
        )
    else:
        values, loss = _gradients(model, targets, on_progress)
    checked_method: Method = "ablation" if method == "ablation" else "gradient"
    n_tokens = int(targets.n_answers.sum())
    about = targets.notes, targets.unit, model.layer_numbers
    return HeadImportance(checked_method, *t_interval(values), values, loss, n_tokens, *about)


def agreement(
    a: HeadImportance | Float[Tensor, "..."], b: HeadImportance | Float[Tensor, "..."]
) -> Agreement:
    """Compare the order of the heads by two measures: Spearman's rank correlation.

    Args:
        a: an importance, or (layer, head) of any measure; heads with a NaN are left out.
        b: another one, of the same heads.

    >>> agreement(torch.tensor([[1.0, 2, 3]]), torch.tensor([[5.0, 7, 90]]))
    Agreement(rho=1.0, n_heads=3)
    """
    x, y = (
        importance.mean if isinstance(importance, HeadImportance) else importance
        for importance in (a, b)
    )
    if x.shape != y.shape:
        raise ShapeError(
            f"Both must be of the same heads, got {tuple(x.shape)} and {tuple(y.shape)}."
        )
    is_finite = torch.isfinite(x) & torch.isfinite(y)
    x, y = x[is_finite], y[is_finite]
    if len(x) < 2 or bool((x == x[0]).all() | (y == y[0]).all()):
        return Agreement(float("nan"), len(x))
    from scipy import stats  # late: it takes half a second

    return Agreement(float(stats.spearmanr(x.numpy(), y.numpy()).statistic), len(x))


def t_interval(values: Float[Tensor, "text *rest"]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean over texts and the ends of its 95 % t-interval; NaN for one text."""
    n, mean = len(values), values.mean(0)
    if n < 2:
        return mean, torch.full_like(mean, torch.nan), torch.full_like(mean, torch.nan)
    from scipy.special import stdtrit  # late, and not all of scipy.stats

    reach = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * values.std(0) / n**0.5
    return mean, mean - reach, mean + reach


def _gradients(
    model: AttentionModel, targets: PredictionTargets, on_progress: OnProgress | None
) -> tuple[Float[Tensor, "text layer head"], Float[Tensor, " text"]]:
    progress = Progress(on_progress, len(targets.rows))
    with torch.inference_mode(False), torch.enable_grad():
        values = torch.zeros(targets.n_texts, model.n_layers, model.n_heads, dtype=torch.float64)
        loss = torch.zeros(targets.n_texts, dtype=torch.float64)
        for part in targets.parts(GRADIENT_TOKENS):
            prepared = ReplayingPass(model, part)
            # Each row has gates of its own, so that one way back serves all rows.
            gates = torch.ones(
                *(len(part.rows), model.n_layers, model.n_heads),
                dtype=torch.promote_types(model.dtype, torch.float32),
                device=model.device,
                requires_grad=True,
            )
            text_losses = part.of_texts(-prepared.log_p_by_row(1, gates, on_layer=progress.report))[
                0
            ]
            # Only with respect to the gates: nothing is added to the parameters' own gradients.
            (slope,) = torch.autograd.grad(text_losses.sum(), gates)
            values.index_add_(0, torch.tensor(part.text), slope.cpu().double())
            loss += text_losses.detach().cpu().double()
            progress.add(len(part.rows))
        n_answers = targets.n_answers
        return (values / n_answers[:, None, None]).abs(), loss / n_answers


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
    model: AttentionModel, n_orders: int, steps: int, n_pairs: int, measured: Collection[str] = ()
) -> float:
    """Estimate the forward passes over all texts of pruning and the pairs of `robustness`."""
    n_passes = sum(importance_passes(model, method) for method in METHODS if method not in measured)
    # Where many heads are off, one of the first layer nearly always is. Of two that are drawn, the
    # upper one lies a third of the way down on average.
    return n_passes + n_orders * (steps + 1) + n_pairs * 2 / 3
