"""All paths from head to head: estimated in a few passes, the strongest of them measured."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.circuits.effects.experiment import (
    Other,
    PatchingExperiment,
    Word,
    patching_experiment,
)
from mha_viz.circuits.effects.path_runs import INPUTS, Input
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.interventions.importance import agreement, t_interval
from mha_viz.prediction.replay import OnProgress, Progress

Way = Literal["direct", "total"]
WAYS: tuple[Way, ...] = get_args(Way)
MAX_PATHS = 2**25  # of which a number takes 8 bytes, estimated and exact
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
        known: Way | None = next((one for one in WAYS if one == way), None)
        if known is None:
            raise ArgumentError(f'way must be "direct" or "total", got {way!r}.')
        if n_measured < 0:
            raise ArgumentError(f"n_measured must be 0 or more, got {n_measured}.")
        first = experiments[0]
        self._experiments, self.way, self.metric = experiments, known, first.behaviour.metric
        self.clean = float(np.mean([float(one.clean) for one in experiments]))
        self.target, self.against = first.target, first.against
        self.notes = tuple(dict.fromkeys(note for one in experiments for note in one.notes))
        n_layers, n_heads = first.runs.z.shape[:2]
        self.layer_numbers = first.runs.model.layer_numbers
        if 3 * (n_layers * n_heads) ** 2 > MAX_PATHS:
            raise ArgumentError(
                f"{n_layers * n_heads:,} heads have more paths than fit into memory here: ask "
                "about single ones by path_effect."
            )
        self.estimate: Paths = np.full((n_layers, n_heads, n_layers, n_heads, 3), np.nan)
        self.exact: Paths = self.estimate.copy()
        self.low, self.high = self.exact.copy(), self.exact.copy()
        unknown = np.nan if self.metric == "kl" else 0.0
        sender, receiver = np.indices((n_layers, n_layers))
        self.estimate.swapaxes(1, 2)[receiver > sender] = unknown
        self.estimate_at_logits: Heads = np.full((n_layers, n_heads), unknown)
        progress, each = Progress(on_progress, self.n_pairs), []
        for experiment in experiments:
            each.append(self._estimate(experiment))
            progress.add(1)
        ends = (one.numpy() for one in t_interval(torch.stack(each)))
        self.at_logits, self.low_at_logits, self.high_at_logits = ends
        for head in np.ndindex(n_layers, n_heads):
            if not any(one.runs.differs(head) for one in experiments):
                self.at_logits[head] = 0.0
                self.exact[head][head[0] + 1 :] = 0.0
                self.estimate[head][head[0] + 1 :] *= 0.0
        largest = np.zeros(self.exact.shape, bool)  # those that are not known to be 0
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
        n_layers, n_heads = self.at_logits.shape
        return 3 * n_heads**2 * (n_layers * (n_layers - 1) // 2)

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
        both = (torch.from_numpy(one) for one in (self.estimate, self.exact))
        return agreement(*both).rho

    def recall(self, top: int = N_MEASURED) -> float:
        """Compute the share of the strongest paths that are among as many largest estimates.

        In [0, 1]; NaN until every path is measured, and where there are no estimates. The strongest
        are the `top` ones that are furthest from 0, whatever the sign.
        """
        if self.n_measured < self.n_paths or not np.isfinite(self.estimate).any():
            return float("nan")
        first, found = (set(_largest(one, top).tolist()) for one in (self.exact, self.estimate))
        return len(first & found) / len(first) if first else float("nan")

    def measure(self, on_progress: OnProgress | None = None) -> None:
        """Measure every path that is not measured yet.

        `on_progress` is called with how many paths are done, and of how many; an exception it
        raises stops the work, and what is done stays.
        """
        progress = Progress(on_progress, self.n_paths)
        progress.add(self.n_measured)
        self._measure(np.isnan(self.exact), progress)

    def table(self) -> pd.DataFrame:
        """Make a row per path: both ends, the effect, and whether that is measured or an estimate.

        Columns: sender_layer, sender_head, layer, head, input, effect, known, estimate, exact, low,
        high.
        """
        index = np.indices(self.exact.shape).reshape(5, -1)
        later = index[2] > index[0]
        known = np.where(np.isnan(self.estimate), "", "estimate")
        known = np.where(np.isnan(self.exact), known, "measured")
        names = ("sender_layer", "sender_head", "layer", "head")
        ends = index[:4, later]
        ends[::2] = np.array(self.layer_numbers)[ends[::2]]
        columns: dict[str, NDArray[Any]] = dict(zip(names, ends, strict=True))
        columns["input"] = np.array(INPUTS)[index[4, later]]
        each = dict(effect=self.effect, known=known, estimate=self.estimate, exact=self.exact)
        each |= dict(low=self.low, high=self.high)
        columns |= {name: values.reshape(-1)[later] for name, values in each.items()}
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        pairs = f"mean over {self.n_pairs} pairs, " * (self.n_pairs > 1)
        return (
            f"PathEffects({self.way}, {self.metric} {self.clean:.4g}, {pairs}{self.n_measured:,} "
            f"of {self.n_paths:,} paths measured)"
        )

    @property
    def _direct(self) -> bool:
        return self.way == "direct"

    def _estimate(self, experiment: PatchingExperiment) -> Float64[Tensor, "layer head"]:
        """Add one pair's estimates to the means; return its exact effects at the logits."""
        runs, behaviour = experiment.runs, experiment.behaviour
        gradient = None if self.metric == "kl" else runs.gradients(behaviour, direct=False)
        ahead = gradient
        if gradient is not None and self._direct:
            ahead = runs.gradients(behaviour, direct=True)
        at_logits = torch.zeros(self.estimate_at_logits.shape, dtype=torch.float64)
        for layer in range(len(self.exact)):
            if ahead is not None:
                found = runs.estimated_logit_effects(ahead, layer)
                self.estimate_at_logits[layer] += found.cpu().numpy() / self.n_pairs
            for heads in _batches(range(self.exact.shape[1]), runs.n_settings):
                later = range(layer + 1, len(self.exact)) if gradient is not None else ()
                inputs, logits = runs.receiver_inputs(layer, heads, self._direct, later)
                assert logits is not None
                at_logits[layer, heads] = experiment.effect(logits).cpu()
                for reader, reads in inputs.items():
                    assert gradient is not None  # or nothing is read
                    found = runs.estimated_effects(gradient, reads, reader)
                    self.estimate[layer, heads, reader] += found.cpu().numpy() / self.n_pairs
        return at_logits

    def _measure(self, chosen: NDArray[np.bool_], progress: Progress) -> None:
        """Measure some paths; `chosen` is like `exact`."""
        at_once = min(one.runs.n_settings for one in self._experiments)
        for layer in range(len(self.exact) - 1):
            senders = np.flatnonzero(chosen[layer, :, layer + 1 :].any((1, 2, 3)))
            for heads in _batches(senders.tolist(), at_once // self.n_pairs):
                # All pairs side by side, so that whatever stops this leaves whole means.
                each = (
                    self._effects(one, layer, heads, chosen[layer, heads], at_once)
                    for one in self._experiments
                )
                for found in zip(*each, strict=True):
                    ends = t_interval(torch.stack([effects for _, effects in found]))
                    for kept, of_part in zip((self.exact, self.low, self.high), ends, strict=True):
                        kept[found[0][0]] = of_part
                    progress.add(len(found[0][1]))

    def _effects(
        self,
        experiment: PatchingExperiment,
        layer: int,
        heads: Sequence[int],
        chosen: NDArray[np.bool_],
        at_once: int,
    ) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
        """Measure chosen paths from heads of a layer in one pair; yield places and effects."""
        layers = (np.flatnonzero(chosen[:, layer + 1 :].any((0, 2, 3))) + layer + 1).tolist()
        runs = experiment.runs
        arriving, _ = runs.receiver_inputs(layer, heads, self._direct, layers, to_logits=False)
        for later, reads in arriving.items():
            missing = np.argwhere(chosen[:, later])
            for paths in np.split(missing, range(at_once, len(missing), at_once)):
                sender, head, name = paths.T
                readers: list[tuple[int, Input]]
                readers = [(j, INPUTS[i]) for j, i in zip(head.tolist(), name, strict=True)]
                read = [reads[i][s, j] for s, (j, i) in zip(sender, readers, strict=True)]
                effects = experiment.effect(runs.patch_receiver(later, readers, read)).cpu()
                yield (layer, np.array(heads)[sender], later, head, name), effects


def path_effects(
    model: AttentionModel,
    clean: str,
    corrupt: Other,
    metric: str = "logit_difference",
    way: str = "direct",
    *,
    target: Word = None,
    against: Word = None,
    position: int | None = None,
    n_measured: int = N_MEASURED,
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
    >>> found = path_effects(mv.load("tiny-gpt2"), *texts, target="cat", against="dog")
    >>> found
    PathEffects(direct, logit_difference ..., 20 of 1,152 paths measured)
    >>> found.measure()
    >>> found.n_measured, found.agreement > 0.9, found.recall() > 0.9
    (1152, True, True)
    """
    experiment = patching_experiment(model, clean, corrupt, metric, target, against, position)
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
