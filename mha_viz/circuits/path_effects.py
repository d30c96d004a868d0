"""All paths from head to head: estimated in a few passes, measured one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from jaxtyping import Float64
from numpy.typing import NDArray

from mha_viz.circuits.patching import INPUTS, Input, Received
from mha_viz.circuits.question import Other, Question, Word, ask_about
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.interventions.importance import agreement
from mha_viz.prediction.loss import OnProgress, Progress

if TYPE_CHECKING:
    import pandas as pd

Way = Literal["direct", "total"]
WAYS: tuple[Way, ...] = get_args(Way)
MAX_PATHS = 2**25  # of which a number takes 8 bytes, estimated and exact

Paths = Float64[np.ndarray, "layer head layer head input"]
Heads = Float64[np.ndarray, "layer head"]


class PathEffects:
    """The effects of all paths of one way: from each head to what each later head reads.

    Made by `path_effects`, with all estimates. `measure` fills in the exact effects; where it is
    stopped, what it has found stays, and the next call goes on from there.

    Args:
        question: the two runs, and the behaviour.
        way: "direct" or "total", see `path_effect`.

    Attributes:
        estimate, exact: (layer, head, layer, head, input): the sender, the receiver, and which of
            its query, key and value; NaN where the receiver is not later, where the exact effect
            is not measured yet, and for the estimates of "kl".
        at_logits, estimate_at_logits: (layer, head), from each head to the logits.
        clean: the behaviour with nothing patched.
        target, against, notes: as of `PathEffect`.
    """

    def __init__(self, question: Question, way: Way) -> None:
        self._question, self.way = question, way
        self.metric = question.behaviour.metric
        self.clean = float(question.behaviour(question.runs.logits[None]))
        self.target, self.against, self.notes = question.target, question.against, question.notes
        n_layers, n_heads = question.runs.z.shape[:2]
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

    @property
    def n_paths(self) -> int:
        """How many paths there are from head to head."""
        n_layers, n_heads = self.at_logits.shape
        return 3 * n_heads**2 * (n_layers * (n_layers - 1) // 2)

    @property
    def n_measured(self) -> int:
        """Of how many of them the exact effect is known."""
        return int(np.isfinite(self.exact).sum())

    @property
    def agreement(self) -> float:
        """Spearman's rank correlation of the estimates with the exact effects measured so far.

        In [-1, 1]; NaN where there are none to compare. Near 1, the estimates may be trusted to
        say which paths come first.
        """
        both = (torch.from_numpy(one) for one in (self.estimate, self.exact))
        return agreement(*both).rho

    def measure(self, on_progress: OnProgress | None = None) -> None:
        """Measure every path that is not measured yet.

        Args:
            on_progress: called with how many paths are done, and of how many; an exception it
                raises stops the work, and what is done stays.
        """
        progress = Progress(on_progress, self.n_paths)
        progress.add(self.n_measured)
        for layer in range(len(self.exact) - 1):
            for heads in self._batches(layer):
                if np.isnan(self.exact[layer, heads, layer + 1 :]).any():
                    self._measure(layer, heads, progress)

    def table(self) -> pd.DataFrame:
        """A row per path: sender_layer, sender_head, layer, head, input, estimate, exact."""
        import pandas as pd

        index = np.indices(self.exact.shape).reshape(5, -1)
        later = index[2] > index[0]
        names = ("sender_layer", "sender_head", "layer", "head")
        columns = dict(zip(names, index[:4, later], strict=True))
        return pd.DataFrame(
            columns
            | {
                "input": np.array(INPUTS)[index[4, later]],
                "estimate": self.estimate.reshape(-1)[later],
                "exact": self.exact.reshape(-1)[later],
            }
        )

    def __repr__(self) -> str:
        return (
            f"PathEffects({self.way}, {self.metric} {self.clean:.4g}, {self.n_measured:,} of "
            f"{self.n_paths:,} paths measured)"
        )

    # -- inside ------------------------------------------------------------------------------------

    def _estimate(self) -> None:
        """All estimates, and the exact effects at the logits, which come with the same passes."""
        runs, knows = self._question.runs, self.metric != "kl"
        direct = self.way == "direct"
        slopes = runs.slopes(self._question.behaviour, direct=direct) if knows else None
        for layer in range(len(self.exact)):
            if slopes is not None:
                slope = slopes.direct if slopes.direct is not None else slopes.total
                self.estimate_at_logits[layer] = runs.expected_at_logits(slope, layer).cpu()
            for heads in self._batches(layer):
                received = self._received(layer, heads)
                self.at_logits[layer, heads] = self._question.effect(received.logits).cpu()
                for later in range(layer + 1, len(self.exact)) if slopes is not None else ():
                    assert slopes is not None
                    found = runs.expected(slopes, received, later)
                    self.estimate[layer, heads, later] = found.cpu()
        for layer, head in self._silent():
            self.at_logits[layer, head] = 0.0
            self.exact[layer, head, layer + 1 :] = 0.0
            self.estimate[layer, head, layer + 1 :] = 0.0 if knows else np.nan

    def _measure(self, layer: int, heads: Sequence[int], progress: Progress) -> None:
        """The paths from some heads of a layer that are not measured yet."""
        received, runs = self._received(layer, heads), self._question.runs
        for later in range(layer + 1, len(self.exact)):
            missing = np.argwhere(np.isnan(self.exact[layer, heads, later]))
            for start in range(0, len(missing), runs.n_settings):
                paths = missing[start : start + runs.n_settings].tolist()
                readers: list[tuple[int, Input]] = [(head, INPUTS[name]) for _, head, name in paths]
                read = [
                    received.of(later, name)[sender, head]
                    for (sender, _, _), (head, name) in zip(paths, readers, strict=True)
                ]
                effects = self._question.effect(runs.answered(later, readers, read)).tolist()
                for (sender, head, name), effect in zip(paths, effects, strict=True):
                    self.exact[layer, heads[sender], later, head, name] = effect
                progress.add(len(paths))

    def _received(self, layer: int, heads: Sequence[int]) -> Received:
        return self._question.runs.received(layer, heads, direct=self.way == "direct")

    def _batches(self, layer: int) -> Iterator[list[int]]:
        """The heads of a layer in as many as one pass takes."""
        heads, at_once = list(range(self.exact.shape[1])), self._question.runs.n_settings
        for start in range(0, len(heads), at_once):
            yield heads[start : start + at_once]

    def _silent(self) -> NDArray[np.int64]:
        """The heads that say the same in both runs."""
        says = self._question.runs.says_otherwise
        n_layers, n_heads = self.at_logits.shape
        all_heads = [(layer, head) for layer in range(n_layers) for head in range(n_heads)]
        return np.array([one for one in all_heads if not says(one)], np.int64).reshape(-1, 2)


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
) -> PathEffects:
    """The effects of all paths from head to head, estimated; `.measure()` makes them exact.

    The estimates take one pass there and back and one of each sender, many of them in a batch, in
    which MLPs (of direct paths) are not computed again. An exact effect takes a pass of its own
    from the receiver's layer on, many in a batch, too.

    Args:
        model: as for `path_effect`, which says what an effect is.
        clean: the text.
        corrupt: the other text or texts.
        metric: "logit_difference", "logit", "loss" or "kl" (which has no estimates).
        way: "direct" or "total".
        target: as for `path_effect`.
        against: as for `path_effect`.
        position: as for `path_effect`.

    Raises:
        ArgumentError: an unknown way, more heads than fit into memory, and what `path_effect`
            raises.
        TextError, AttentionUnavailableError: as `path_effect`.

    >>> import mha_viz as mv
    >>> texts = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
    >>> found = path_effects(mv.load("tiny-gpt2"), *texts, target="cat", against="dog")
    >>> found
    PathEffects(direct, logit_difference ..., 0 of 1,152 paths measured)
    >>> found.measure()
    >>> found.n_measured, found.agreement > 0.9
    (1152, True)
    """
    known: Way | None = next((one for one in WAYS if one == way), None)
    if known is None:
        raise ArgumentError(f'way must be "direct" or "total", got {way!r}.')
    question = ask_about(model, clean, corrupt, metric, target, against, position)
    return PathEffects(question, known)
