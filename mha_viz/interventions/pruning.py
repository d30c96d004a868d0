"""The loss of a model whose heads are removed one by one, in every order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.core.layer_numbers import layers_in_words, numbered
from mha_viz.core.measure import head_similarity
from mha_viz.core.names import METHODS, ORDERS, Method, Order
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, TextError
from mha_viz.interventions.importance import HeadImportance, head_importance, t_interval
from mha_viz.interventions.robustness import Robustness, robustness
from mha_viz.prediction.replay import OnProgress, losses
from mha_viz.prediction.targets import prediction_targets

Heads = Sequence[tuple[int, int]]
OnPart = Callable[[str, float], None]
IMPORTANCE, DRAWS = "importance", "draws"  # beside the orders: what is being measured
SAME_TEXTS = (
    "The order was chosen on the texts that the loss is taken of, which flatters the curve: give "
    "order_texts for a fair one."
)


@dataclass(frozen=True, eq=False)
class PruningCurve:
    """The loss of a model that keeps fewer and fewer of its heads."""

    order: str  # how the heads were put in order; "given" where the caller did
    n_off: Int[Tensor, " point"]  # how many heads are off, from 0 to all of them
    # nats per token. A run is one order: random ones have several.
    values: Float[Tensor, "run point text"]
    loss: Float[Tensor, " point"]  # mean over runs and texts
    low: Float[Tensor, " point"]  # low, high: its 95 % t-interval over the texts; NaN for one text
    high: Float[Tensor, " point"]
    # lowest, highest: over the runs, of their means over the texts: the band of random orders. One
    # run: both are its loss.
    lowest: Float[Tensor, " point"]
    highest: Float[Tensor, " point"]
    # of each run all heads as (layer, head), the first to go first; layers by the model's numbers
    removed: tuple[tuple[tuple[int, int], ...], ...]
    notes: tuple[str, ...] = ()  # what to know before reading it

    @property
    def share_left(self) -> Float[Tensor, " point"]:
        """The share of heads that are left, from 1 down to 0."""
        return 1 - self.n_off.double() / len(self.removed[0])

    @property
    def n_texts(self) -> int:
        """The number of texts that the means are over."""
        return self.values.shape[2]

    def table(self) -> pd.DataFrame:
        """Return a row per point; `change` is against no head off, with its own interval.

        Texts differ more in their loss than in its change: the change has the narrower interval.
        """
        change, low, high = t_interval((self.values - self.values[:, :1]).mean(0).T)
        statistics = ("share_left", "loss", "low", "high", "lowest", "highest")
        columns = {"heads_off": self.n_off} | {name: getattr(self, name) for name in statistics}
        columns |= {"change": change, "change_low": low, "change_high": high}
        return pd.DataFrame({name: column.numpy() for name, column in columns.items()}).assign(
            order=self.order, runs=len(self.values), texts=self.n_texts
        )


def pruning_curve(
    model: AttentionModel,
    texts: str | Sequence[str],
    order: Order | str | HeadImportance | Heads = "ablation",
    *,
    steps: int = 16,
    n_seeds: int = 5,
    order_texts: str | Sequence[str] | None = None,
    on_progress: OnProgress | None = None,
) -> PruningCurve:
    """Remove heads one by one, and take the loss of texts on the way.

    Orders: "ablation" and "gradient", the least important head (`head_importance`) first; it is
    measured once, with all other heads there. "redundancy": of the two most alike heads that are
    left (CKA of their outputs, mean over texts) the one that goes is the one with the nearer next
    twin; and again. "random": `n_seeds` orders, drawn with seeds 0, 1, ...

    Args:
        model: a causal or masked model of one stack, through our attention function.
        texts: each counts the same, however long it is.
        order: one of the above; or an importance measured before; or all heads as (layer, head),
            the first to go first.
        steps: how many points after the one with all heads on, 1 at least; spread evenly, the last
            one without any head; at most as many as there are heads.
        n_seeds: how many random orders.
        order_texts: the texts from which the order is found; the same as `texts` if not given,
            and a note says so.
        on_progress: called with how much is done, and of how much, from 0 for the order and from 0
            again for the curve; an exception it raises stops the work.

    Raises:
        ArgumentError: an unknown order, one that is not of all heads once, too few steps or seeds;
            and what `prediction_targets` raises.

    Source: Michel et al. 2019, figure 3 (orders by ablation and by gradient).

    >>> import mha_viz as mv
    >>> curve = pruning_curve(mv.load("tiny-gpt2"), "The cat sat on the mat.", "random", steps=4)
    >>> curve.share_left.tolist(), curve.values.shape
    ([1.0, 0.75, 0.5, 0.25, 0.0], torch.Size([5, 5, 1]))
    """
    if steps < 1 or n_seeds < 1:
        raise ArgumentError(f"steps and n_seeds must be 1 or more, got {steps} and {n_seeds}.")
    targets = prediction_targets(model, texts)
    order_sample = texts if order_texts is None else order_texts
    order_sample = [order_sample] if isinstance(order_sample, str) else list(order_sample)
    name, runs = _orders(model, order_sample, order, n_seeds, on_progress)
    total = model.n_layers * model.n_heads
    n_off = torch.linspace(0, total, min(steps, total) + 1, dtype=torch.float64).round().long()
    off = [removed[:n] for removed in runs for n in n_off.tolist()]
    text_losses = losses(model, targets, off, on_progress)
    values = text_losses.reshape(len(runs), len(n_off), -1)
    means = values.mean(2)
    chosen = order in ("ablation", "gradient") and order_texts is None
    return PruningCurve(
        *(name, n_off, values, *t_interval(values.mean(0).T)),
        lowest=means.amin(0),
        highest=means.amax(0),
        removed=tuple(_named(model, removed) for removed in runs),
        notes=targets.notes + (SAME_TEXTS,) * chosen,
    )


def _orders(
    model: AttentionModel,
    texts: Sequence[str],
    order: str | HeadImportance | Heads,
    n_seeds: int,
    on_progress: OnProgress | None,
) -> tuple[str, list[list[int]]]:
    """Return the name of the order and the orders themselves: every head's number once."""
    total = model.n_layers * model.n_heads
    if order == "random":
        seeds = (torch.Generator().manual_seed(seed) for seed in range(n_seeds))
        return order, [torch.randperm(total, generator=seed).tolist() for seed in seeds]
    if order == "redundancy":
        different = list(dict.fromkeys(texts))
        return order, [redundancy_order(mean_similarity(model, different, on_progress))]
    if order in METHODS:
        method: Method = "ablation" if order == "ablation" else "gradient"
        order = head_importance(model, texts, method, on_progress)
    if isinstance(order, HeadImportance):
        if tuple(order.mean.shape) != (model.n_layers, model.n_heads):
            raise ArgumentError(
                f"The importance is of {tuple(order.mean.shape)} layers and heads, {model.name} "
                f"has {model.n_layers} and {model.n_heads}."
            )
        return order.method, [torch.argsort(order.mean.flatten(), stable=True).tolist()]
    if isinstance(order, str):
        names = ", ".join(ORDERS)
        raise ArgumentError(f"order must be one of {names}, or heads; got {order!r}.")
    layers = model.layer_numbers
    inside = all(layer in layers and 0 <= head < model.n_heads for layer, head in order)
    numbers = [layers.index(layer) * model.n_heads + head for layer, head in order if inside]
    if sorted(numbers) != list(range(total)):
        raise ArgumentError(
            f"An order must hold each of the {total} heads as (layer, head) once; "
            f"{layers_in_words(layers)} and heads 0..{model.n_heads - 1}; got {len(order)} entries."
        )
    return "given", [numbers]


def _named(model: AttentionModel, heads: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return heads, which are counted through all layers, as (layer, head)."""
    return tuple(numbered((divmod(i, model.n_heads) for i in heads), model.layer_numbers))


def mean_similarity(
    model: AttentionModel, texts: Sequence[str], on_progress: OnProgress | None = None
) -> Float[Tensor, "head2 head2"]:
    """Average the CKA of any two heads' outputs over texts; NaN where it has none."""
    if not texts:
        raise TextError("There is no text to find an order from: give at least one.")
    similarities = []
    for done, text in enumerate(texts):
        if on_progress is not None:
            on_progress(done, len(texts))
        similarities.append(head_similarity(model.trace(text), "cka"))
    return torch.stack(similarities).double().nanmean(0)


def redundancy_order(similarity: Float[Tensor, "head2 head2"]) -> list[int]:
    """Order heads by how well they can be spared, while a similar head is still there.

    Each step takes the two most alike heads that are left, and removes the one whose next twin is
    nearer (the later one of two equals). So a head never goes for a twin that went before it.

    >>> redundancy_order(torch.tensor([[1, 0.9, 0.8], [0.9, 1, 0.2], [0.8, 0.2, 1]]))
    [0, 2, 1]
    """
    n = len(similarity)
    alike = similarity.double().nan_to_num(nan=-1.0).clone()
    removed_mark = -2.0
    alike.fill_diagonal_(removed_mark)
    order: list[int] = []
    while len(order) < n - 1:
        i, j = divmod(int(alike.argmax()), n)
        i, j = min(i, j), max(i, j)
        next_twin = alike[[i, j]].clone()
        next_twin[:, [i, j]] = removed_mark
        nearest = next_twin.amax(1)
        removed_head = i if nearest[0] > nearest[1] else j
        order.append(removed_head)
        alike[removed_head, :] = alike[:, removed_head] = removed_mark
    return order + sorted(set(range(n)) - set(order))


class HeadRemoval(NamedTuple):
    """The results of removing a model's heads."""

    curves: dict[Order, PruningCurve]
    draws: Robustness


def remove_heads(
    model: AttentionModel,
    texts: Sequence[str],
    measured: Mapping[str, HeadImportance | None],
    *,
    steps: int,
    n_seeds: int,
    n_draws: int,
    on_progress: OnPart | None = None,
) -> HeadRemoval:
    """Compute `pruning_curve` of every order and `robustness`; reuse what was measured before.

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

    def progress_of(part: str) -> OnProgress | None:
        if on_progress is None:
            return None
        begin = parts.index(part)
        return lambda done, total: on_progress(part, (begin + done / max(total, 1)) / len(parts))

    importance = measured.get("ablation") or head_importance(
        model, texts, "ablation", progress_of(IMPORTANCE)
    )
    importances = {**measured, "ablation": importance}
    curves = {
        order: pruning_curve(
            model,
            texts,
            importances.get(order) or order,
            steps=steps,
            n_seeds=n_seeds,
            on_progress=progress_of(order),
        )
        for order in ORDERS
    }
    draws = robustness(model, texts, n_draws, importance=importance, on_progress=progress_of(DRAWS))
    return HeadRemoval(curves, draws)
