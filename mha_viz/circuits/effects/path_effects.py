"""All paths from head to head: estimated in a few passes, the strongest of them measured."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, Unpack, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.circuits.effects.experiment import (
    Other,
    PatchingExperiment,
    Tracked,
    patching_experiment,
)
from mha_viz.circuits.effects.patched_run import INPUTS, Input
from mha_viz.core.arguments import one_of
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.interventions.importance import agreement, t_interval
from mha_viz.prediction.replay import OnProgress, Progress

Way = Literal["direct", "total"]
WAYS: tuple[Way, ...] = get_args(Way)
MAX_PATHS = 2**25  # each takes 8 bytes, estimated and exact
N_MEASURED = 20  # paths with the largest estimates, which are measured at once

Paths = Float64[np.ndarray, "layer head layer head input"]
Heads = Float64[np.ndarray, "layer head"]


class PathEffects:
    """The effects of all paths of one way: from each head to what each later head reads.

    Made by `path_effects` of one pair of texts and by `task_paths` of several, with all estimates
    and the exact effects of the largest ones. `measure` fills in the others; where it is stopped,
    what it has found stays, and the next call goes on from there.

    Args:
        experiments: of each pair the two runs, and the behaviour.
        way: "direct" or "total", see `path_effect`.
        n_measured: how many paths to measure at once, those with the largest estimates.
        on_progress: called with how many pairs' paths are estimated, and of how many.

    Attributes:
        estimate, exact: (layer, head, layer, head, input): the sender, the receiver, and which of
            its query, key and value; means over pairs. NaN where the receiver is not later, where
            the exact effect is not measured yet, and for the estimates of "kl".
        low, high: the 95 % t-interval over pairs of what is measured; NaN of one pair.
        at_logits, low_at_logits, high_at_logits, estimate_at_logits: (layer, head), the same of
            the paths from each head to the logits.
        clean: the behaviour with nothing patched, a mean over pairs.
        target, against, notes: as of `PathEffect`; "" where each pair has its own.
        layer_numbers: the model's own numbers of the layers, which `table` names.
    """

    def __init__(
        self,
        experiments: Sequence[PatchingExperiment],
        way: str,
        n_measured: int = N_MEASURED,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.way: Way = one_of("way", way, WAYS)
        if n_measured < 0:
            raise ArgumentError(f"n_measured must be 0 or more, got {n_measured}.")
        first = experiments[0]
        self._experiments, self.metric = experiments, first.behaviour.metric
        self.clean = float(np.mean([float(experiment.clean) for experiment in experiments]))
        self.target, self.against = first.target, first.against
        self.notes = tuple(
            dict.fromkeys(note for experiment in experiments for note in experiment.notes)
        )
        n_layers, n_heads = heads = first.runs.z.shape[:2]
        self.layer_numbers = first.runs.model.layer_numbers
        if 3 * (n_layers * n_heads) ** 2 > MAX_PATHS:
            raise ArgumentError(
                f"{n_layers * n_heads:,} heads have more paths than fit into memory here: ask "
                "about single ones by path_effect."
            )
        shape = n_layers, n_heads, n_layers, n_heads, 3
        sender, _, receiver, _, _ = np.ogrid[tuple(map(slice, shape))]
        self._exists = np.broadcast_to(receiver > sender, shape)
        unknown = np.nan if self.metric == "kl" else 0.0
        self.estimate: Paths = np.where(self._exists, unknown, np.nan)
        self.estimate_at_logits: Heads = np.full(heads, unknown)
        self.exact, self.low, self.high = np.full((3, *shape), np.nan)
        progress, each = Progress(on_progress, self.n_pairs), []
        for experiment in experiments:
            each.append(self._estimate(experiment))
            progress.add(1)
        ends = (end.numpy() for end in t_interval(torch.stack(each)))
        self.at_logits, self.low_at_logits, self.high_at_logits = ends
        for head in np.ndindex(n_layers, n_heads):
            if not any(experiment.runs.differs(head) for experiment in experiments):
                self.at_logits[head] = 0.0
                self.exact[head][head[0] + 1 :] = 0.0
                self.estimate[head][head[0] + 1 :] *= 0.0
        largest = np.zeros(shape, bool)  # those that are not known to be 0
        missing = np.where(np.isfinite(self.exact), np.nan, self.estimate)
        largest.ravel()[_largest(missing, n_measured)] = True
        self._measure(largest, Progress(None, n_measured))

    @property
    def n_pairs(self) -> int:
        """The number of pairs of texts that the effects are means over."""
        return len(self._experiments)

    @property
    def n_paths(self) -> int:
        """The number of paths from head to head."""
        return int(self._exists.sum())

    @property
    def n_measured(self) -> int:
        """The number of paths whose exact effect is known."""
        return int(np.isfinite(self.exact).sum())

    @property
    def effect(self) -> Paths:
        """The exact effect of each path where it is measured, else its estimate."""
        return np.where(np.isfinite(self.exact), self.exact, self.estimate)

    @property
    def agreement(self) -> float:
        """Spearman's rank correlation of the estimates with the exact effects measured so far.

        In [-1, 1]; NaN where there are none to compare. It is a mean over all ranks: it may be
        near 1 where the strongest path of all is missed, which `recall` tells.
        """
        both = (torch.from_numpy(values) for values in (self.estimate, self.exact))
        return agreement(*both).rho

    def recall(self, top: int = N_MEASURED) -> float:
        """Compute the share of the strongest paths that are among as many largest estimates.

        In [0, 1]; NaN until every path is measured, and where there are no estimates. The strongest
        are the `top` ones that are furthest from 0, whatever the sign.
        """
        if self.n_measured < self.n_paths or not np.isfinite(self.estimate).any():
            return float("nan")
        first, guessed = (
            set(_largest(values, top).tolist()) for values in (self.exact, self.estimate)
        )
        return len(first & guessed) / len(first) if first else float("nan")

    def measure(self, on_progress: OnProgress | None = None) -> None:
        """Measure every path that is not measured yet.

        `on_progress` is called with how many paths are done, and of how many; an exception it
        raises stops the work, and what is done stays.
        """
        progress = Progress(on_progress, self.n_paths)
        progress.add(self.n_measured)
        self._measure(self._exists & np.isnan(self.exact), progress)

    def table(self) -> pd.DataFrame:
        """Make a row per path: both ends, the effect, and whether that is measured or an estimate.

        Columns: sender_layer, sender_head, layer, head, input, effect, known, estimate, exact, low,
        high.
        """
        ends = np.array(np.nonzero(self._exists))
        origin = np.where(np.isnan(self.estimate), "", "estimate")
        origin = np.where(np.isnan(self.exact), origin, "measured")
        columns = dict(effect=self.effect, known=origin, estimate=self.estimate, exact=self.exact)
        columns |= dict(low=self.low, high=self.high)
        numbers = np.array(self.layer_numbers)
        return pd.DataFrame(
            {"sender_layer": numbers[ends[0]], "sender_head": ends[1]}
            | {"layer": numbers[ends[2]], "head": ends[3], "input": np.array(INPUTS)[ends[4]]}
            | {name: values[self._exists] for name, values in columns.items()}
        )

    def __repr__(self) -> str:
        pairs = f"mean over {self.n_pairs} pairs, " * (self.n_pairs > 1)
        return (
            f"PathEffects({self.way}, {self.metric} {self.clean:.4g}, {pairs}{self.n_measured:,} "
            f"of {self.n_paths:,} paths measured)"
        )

    def _estimate(self, experiment: PatchingExperiment) -> Float64[Tensor, "layer head"]:
        """Add one pair's estimates to the means; return its exact effects at the logits."""
        runs, direct, slope, ahead = experiment.runs, self.way == "direct", None, None
        if self.metric != "kl":
            slope = ahead = runs.gradients(experiment.behaviour, direct=False)
        if slope is not None and direct:
            ahead = runs.gradients(experiment.behaviour, direct=True)
        n_layers, n_heads = self.estimate_at_logits.shape
        at_logits = torch.zeros(n_layers, n_heads, dtype=torch.float64)
        for layer in range(n_layers):
            if ahead is not None:
                estimates = runs.estimated_logit_effects(ahead, layer)
                self.estimate_at_logits[layer] += estimates.cpu().numpy() / self.n_pairs
            for heads in _batches(range(n_heads), runs.n_settings):
                later = range(layer + 1, n_layers) if slope is not None else ()
                senders = [(layer, head) for head in heads]
                inputs, logits = runs.receiver_inputs(senders, direct, later)
                assert logits is not None
                at_logits[layer, heads] = experiment.effect(logits).cpu()
                for reader, reads in inputs.items():
                    assert slope is not None  # or nothing is read
                    estimates = runs.estimated_effects(slope, reads, reader)
                    self.estimate[layer, heads, reader] += estimates.cpu().numpy() / self.n_pairs
        return at_logits

    def _measure(self, chosen: NDArray[np.bool_], progress: Progress) -> None:
        """Measure some paths; `chosen` is like `exact`."""
        at_once = min(experiment.runs.n_settings for experiment in self._experiments)
        for layer, of_layer in enumerate(chosen):
            senders = np.flatnonzero(of_layer.any((1, 2, 3))).tolist()
            for heads in _batches(senders, at_once // self.n_pairs):
                paths = of_layer[heads]
                layers = np.flatnonzero(paths.any((0, 2, 3))).tolist()
                # All pairs side by side, so that whatever stops this leaves whole means.
                arriving = [
                    experiment.runs.receiver_inputs(
                        [(layer, head) for head in heads], self.way == "direct", layers, False
                    )[0]
                    for experiment in self._experiments
                ]
                for later in layers:
                    missing = np.argwhere(paths[:, later])
                    for part in np.split(missing, range(at_once, len(missing), at_once)):
                        sender, head, name = part.T
                        reads = [inputs[later] for inputs in arriving]
                        ends = t_interval(self._effects(later, reads, part))
                        at = layer, np.array(heads)[sender], later, head, name
                        self.exact[at], self.low[at], self.high[at] = ends
                        progress.add(len(part))

    def _effects(
        self,
        layer: int,
        reads: Sequence[Mapping[Input, Tensor]],
        paths: Int[np.ndarray, "path 3"],
    ) -> Float64[Tensor, "pair path"]:
        """Measure paths into one layer in each pair: sender's number, head and input of each."""
        readers = [(head, INPUTS[name]) for _, head, name in paths.tolist()]
        senders = paths[:, 0].tolist()
        each = []
        for experiment, inputs in zip(self._experiments, reads, strict=True):
            read = [inputs[name][i, j] for i, (j, name) in zip(senders, readers, strict=True)]
            each.append(experiment.effect(experiment.runs.patch_receiver(layer, readers, read)))
        return torch.stack(each).cpu()


def expected_passes(model: AttentionModel, way: Way | str) -> float:
    """Estimate how many bare passes of a text `path_effects` takes with its default `n_measured`.

    For each head the attention of later layers is computed twice, with other queries and with other
    keys. Were a pass attention alone, that made n_heads (n_layers - 1) passes. Of GPT-2 and Llama
    from 60 to 900 tokens it is a third of that, and half where all between runs on.
    """
    share = 0.3 if way == "direct" else 0.5
    return 4 + share * model.n_heads * (model.n_layers - 1)


def path_effects(
    model: AttentionModel,
    clean: str,
    corrupt: Other,
    metric: str = "logit_difference",
    way: str = "direct",
    *,
    n_measured: int = N_MEASURED,
    **tracked: Unpack[Tracked],
) -> PathEffects:
    """Estimate the effects of all paths from head to head, and measure the strongest.

    An estimate computes the receiver's attention again with its patched query, key or value; the
    change of its z is exact, and is multiplied with the behaviour's gradient there. The estimates
    take the clean run, the other one, a pass back, and for each sender the queries, keys and values
    of later layers, many senders in a batch. Of direct paths nothing else is computed again; of
    total ones all that lies between is, a pass from the sender's layer on. An exact effect takes a
    pass from the receiver's layer on, many in a batch, too; `.measure()` measures all paths.

    Args:
        model: as for `path_effect`, which says what an effect is.
        clean: the text.
        corrupt: the other text or texts.
        metric: "logit_difference", "logit", "loss" or "kl" (which has no estimates).
        way: "direct" or "total".
        target: as for `path_effect`.
        against: as for `path_effect`.
        position: as for `path_effect`.
        n_measured: how many paths to measure at once, those with the largest estimates.

    Returns:
        PathEffects: estimates and measured effects, (layer, head, layer, head, input) from sender
        to receiver, in the units of `path_effect`.

    Raises:
        ArgumentError: an unknown way, a negative number of paths, more heads than fit into memory,
            and what `path_effect` raises.
        TextError, AttentionUnavailableError: as `path_effect`.

    Source: as of `path_effect`.

    >>> import mha_viz as mv
    >>> texts = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
    >>> effects = path_effects(mv.load("tiny-gpt2"), *texts, target="cat", against="dog")
    >>> effects
    PathEffects(direct, logit_difference ..., 20 of 1,152 paths measured)
    >>> effects.measure()
    >>> effects.n_measured, effects.agreement > 0.9, effects.recall() > 0.9
    (1152, True, True)
    >>> effects.table().known.unique().tolist()
    ['measured']
    """
    experiment = patching_experiment(model, clean, corrupt, metric, **tracked)
    return PathEffects([experiment], way, n_measured)


def _batches(heads: Sequence[int], at_once: int) -> Iterator[list[int]]:
    """Split heads of a layer into as many as one pass takes."""
    size = max(1, at_once)
    for start in range(0, len(heads), size):
        yield list(heads[start : start + size])


def _largest(values: Paths, top: int) -> NDArray[np.intp]:
    """Find the flat places of the values furthest from 0; NaN and 0 are none."""
    sizes = np.nan_to_num(np.abs(values)).ravel()
    order = np.argsort(-sizes, kind="stable")[:top]
    return order[sizes[order] > 0]
