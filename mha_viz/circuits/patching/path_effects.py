"""All paths from head to head: estimated in a few passes, the strongest of them measured."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64
from numpy.typing import NDArray

from mha_viz.circuits.patching.experiment import (
    Other,
    PatchingExperiment,
    Word,
    patching_experiment,
)
from mha_viz.circuits.patching.patching import INPUTS, Input, ReceiverInputs
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.interventions.importance import agreement
from mha_viz.prediction.loss import OnProgress, Progress

Way = Literal["direct", "total"]
WAYS: tuple[Way, ...] = get_args(Way)
MAX_PATHS = 2**25  # of which a number takes 8 bytes, estimated and exact
N_MEASURED = 20  # paths with the largest estimates, which are measured at once

Paths = Float64[np.ndarray, "layer head layer head input"]
Heads = Float64[np.ndarray, "layer head"]


class PathEffects:
    """The effects of all paths of one way: from each head to what each later head reads.

    Made by `path_effects`, with all estimates and the exact effects of the largest ones. `measure`
    fills in the others; where it is stopped, what it has found stays, and the next call goes on
    from there.

    Args:
        experiment: the two runs, and the behaviour.
        way: "direct" or "total", see `path_effect`.
        n_measured: how many paths to measure at once, those with the largest estimates.

    Attributes:
        estimate, exact: (layer, head, layer, head, input): the sender, the receiver, and which of
            its query, key and value; NaN where the receiver is not later, where the exact effect
            is not measured yet, and for the estimates of "kl".
        at_logits, estimate_at_logits: (layer, head), from each head to the logits.
        clean: the behaviour with nothing patched.
        target, against, notes: as of `PathEffect`.
    """

    def __init__(
        self, experiment: PatchingExperiment, way: Way, n_measured: int = N_MEASURED
    ) -> None:
        self._experiment, self.way = experiment, way
        self.metric = experiment.behaviour.metric
        self.clean = float(experiment.behaviour(experiment.runs.logits[None]))
        self.target, self.against = experiment.target, experiment.against
        self.notes = experiment.notes
        n_layers, n_heads = experiment.runs.z.shape[:2]
        if 3 * (n_layers * n_heads) ** 2 > MAX_PATHS:
            raise ArgumentError(
                f"{n_layers * n_heads:,} heads have more paths than fit into memory here: ask "
                "about single ones by path_effect."
            )
        self.estimate: Paths = np.full((n_layers, n_heads, n_layers, n_heads, 3), np.nan)
        self.exact: Paths = self.estimate.copy()
        self.at_logits: Heads = np.full((n_layers, n_heads), np.nan)
        self.estimate_at_logits: Heads = self.at_logits.copy()
        self._estimate()
        largest = np.zeros(self.exact.shape, bool)  # those that are not known to be 0
        unknown = np.where(np.isfinite(self.exact), np.nan, self.estimate)
        largest.ravel()[_largest(unknown, n_measured)] = True
        self._measure(largest, Progress(None, n_measured))

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

        In [0, 1]; NaN until every path is measured, and where there are no estimates. Strong is
        far from 0, whatever the sign.

        Args:
            top: how many paths count as the strongest.
        """
        if self.n_measured < self.n_paths or not np.isfinite(self.estimate).any():
            return float("nan")
        first, found = (set(_largest(one, top).tolist()) for one in (self.exact, self.estimate))
        return len(first & found) / len(first) if first else float("nan")

    def measure(self, on_progress: OnProgress | None = None) -> None:
        """Measure every path that is not measured yet.

        Args:
            on_progress: called with how many paths are done, and of how many; an exception it
                raises stops the work, and what is done stays.
        """
        progress = Progress(on_progress, self.n_paths)
        progress.add(self.n_measured)
        self._measure(np.isnan(self.exact), progress)

    def table(self) -> pd.DataFrame:
        """Make a row per path: both ends, the effect, and whether that is measured or an estimate.

        Columns: sender_layer, sender_head, layer, head, input, effect, known, estimate, exact.
        """
        index = np.indices(self.exact.shape).reshape(5, -1)
        later = index[2] > index[0]
        known = np.where(np.isnan(self.estimate), "", "estimate")
        known = np.where(np.isnan(self.exact), known, "measured")
        names = ("sender_layer", "sender_head", "layer", "head")
        columns: dict[str, NDArray[Any]] = dict(zip(names, index[:4, later], strict=True))
        columns["input"] = np.array(INPUTS)[index[4, later]]
        each = dict(effect=self.effect, known=known, estimate=self.estimate, exact=self.exact)
        columns |= {name: values.reshape(-1)[later] for name, values in each.items()}
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        return (
            f"PathEffects({self.way}, {self.metric} {self.clean:.4g}, {self.n_measured:,} of "
            f"{self.n_paths:,} paths measured)"
        )

    def _estimate(self) -> None:
        """Make all estimates, and the exact effects at the logits, by the same passes."""
        runs, behaviour = self._experiment.runs, self._experiment.behaviour
        gradient = None if self.metric == "kl" else runs.gradients(behaviour, direct=False)
        ahead = gradient
        if gradient is not None and self.way == "direct":
            ahead = runs.gradients(behaviour, direct=True)
        for layer in range(len(self.exact)):
            if ahead is not None:
                self.estimate_at_logits[layer] = runs.estimated_logit_effects(ahead, layer).cpu()
            for heads in self._batches(range(self.exact.shape[1])):
                later = range(layer + 1, len(self.exact)) if gradient is not None else ()
                receivers = self._receiver_inputs(layer, heads, later, to_logits=True)
                assert receivers.logits is not None
                self.at_logits[layer, heads] = self._experiment.effect(receivers.logits).cpu()
                for reader, reads in receivers.inputs.items():
                    assert gradient is not None  # or nothing is read
                    found = runs.estimated_effects(gradient, reads, reader)
                    self.estimate[layer, heads, reader] = found.cpu()
        for layer, head in np.ndindex(*self.at_logits.shape):
            if runs.differs((layer, head)):
                continue
            self.at_logits[layer, head] = 0.0
            self.exact[layer, head, layer + 1 :] = 0.0
            self.estimate[layer, head, layer + 1 :] = 0.0 if gradient is not None else np.nan

    def _measure(self, chosen: NDArray[np.bool_], progress: Progress) -> None:
        """Measure some paths; `chosen` is like `exact`."""
        for layer in range(len(self.exact) - 1):
            senders = np.flatnonzero(chosen[layer, :, layer + 1 :].any((1, 2, 3)))
            for heads in self._batches(senders.tolist()):
                self._measure_from(layer, heads, chosen, progress)

    def _measure_from(
        self, layer: int, heads: Sequence[int], chosen: NDArray[np.bool_], progress: Progress
    ) -> None:
        runs, chosen = self._experiment.runs, chosen[layer, heads]
        layers = (np.flatnonzero(chosen[:, layer + 1 :].any((0, 2, 3))) + layer + 1).tolist()
        for later, reads in self._receiver_inputs(layer, heads, layers, False).inputs.items():
            missing = np.argwhere(chosen[:, later])
            for start in range(0, len(missing), runs.n_settings):
                paths = missing[start : start + runs.n_settings].tolist()
                readers: list[tuple[int, Input]] = [(head, INPUTS[name]) for _, head, name in paths]
                read = [
                    reads[name][sender, head]
                    for (sender, _, _), (head, name) in zip(paths, readers, strict=True)
                ]
                effects = self._experiment.effect(
                    runs.patch_receiver(later, readers, read)
                ).tolist()
                for (sender, head, name), effect in zip(paths, effects, strict=True):
                    self.exact[layer, heads[sender], later, head, name] = effect
                progress.add(len(paths))

    def _receiver_inputs(
        self, layer: int, heads: Sequence[int], readers: Sequence[int], to_logits: bool
    ) -> ReceiverInputs:
        direct = self.way == "direct"
        return self._experiment.runs.receiver_inputs(layer, heads, direct, readers, to_logits)

    def _batches(self, heads: Sequence[int]) -> Iterator[list[int]]:
        """Split heads of a layer into as many as one pass takes."""
        at_once = self._experiment.runs.n_settings
        for start in range(0, len(heads), at_once):
            yield list(heads[start : start + at_once])


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

    Raises:
        ArgumentError: an unknown way, a negative number of paths, more heads than fit into memory,
            and what `path_effect` raises.
        TextError, AttentionUnavailableError: as `path_effect`.

    >>> import mha_viz as mv
    >>> texts = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
    >>> found = path_effects(mv.load("tiny-gpt2"), *texts, target="cat", against="dog")
    >>> found
    PathEffects(direct, logit_difference ..., 20 of 1,152 paths measured)
    >>> found.measure()
    >>> found.n_measured, found.agreement > 0.9, found.recall() > 0.9
    (1152, True, True)
    """
    known: Way | None = next((one for one in WAYS if one == way), None)
    if known is None:
        raise ArgumentError(f'way must be "direct" or "total", got {way!r}.')
    if n_measured < 0:
        raise ArgumentError(f"n_measured must be 0 or more, got {n_measured}.")
    experiment = patching_experiment(model, clean, corrupt, metric, target, against, position)
    return PathEffects(experiment, known, n_measured)


def _largest(values: Paths, top: int) -> NDArray[np.intp]:
    """Find the flat places of the values furthest from 0; NaN and 0 are none."""
    sizes = np.nan_to_num(np.abs(values)).ravel()
    order = np.argsort(-sizes, kind="stable")[:top]
    return order[sizes[order] > 0]
