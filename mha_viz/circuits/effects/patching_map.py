"""Activation patching maps: the layers, positions and heads that carry a behaviour."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, get_args

import numpy as np
import pandas as pd
from jaxtyping import Float64

from mha_viz.circuits.effects.activation_runs import PARTS, ActivationRuns, Part, pooled_axis
from mha_viz.circuits.effects.behaviour import Metric
from mha_viz.circuits.effects.experiment import Other, Tracked, as_run, patching_experiment
from mha_viz.core.amounts import format_number
from mha_viz.core.arguments import one_of
from mha_viz.core.reprs import table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.replay import OnProgress, Progress

Direction = Literal["denoise", "noise"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
AXES = {"heads": ("layer", "head"), "heads_by_position": ("layer", "head", "position")}
LEAST = 0.01  # logits or nats that both runs must differ by for a share of the difference
MAX_CELLS = 2**15  # of a map: each takes a run of its own


@dataclass(frozen=True, eq=False)
class PatchingMap:
    """The effect of each activation on a behaviour: the change that patching it alone makes.

    Args:
        part: what was patched: "residual", "attention", "mlp", "heads" or "heads_by_position".
        direction: "denoise" (clean into corrupted) or "noise" (corrupted into clean).
        metric: of the behaviour; its unit is nats for "loss" and "kl", else logits.
        effect: (layer, position); of "heads" (layer, head), of "heads_by_position" (layer, head,
            position). The behaviour with the cell patched less that of the run it is patched into.
        clean, corrupt: the behaviour of both runs.
        target, against: labels of the tokens that were followed; "" where there is none.
        tokens, corrupt_tokens: labels of both texts, position by position.
        notes: what was cut off.
        layer_numbers: the model's own, which the table names; none for 0, 1, 2 ...

    >>> import mha_viz as mv
    >>> texts = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
    >>> effects = mv.patching_map(mv.load("tiny-gpt2"), *texts, part="heads", target="cat")
    >>> effects.effect.shape, effects.target
    ((4, 8), 'cat')
    """

    part: Part
    direction: Direction
    metric: Metric
    effect: Float64[np.ndarray, "layer *cell"]
    clean: float
    corrupt: float
    target: str
    against: str
    tokens: tuple[str, ...]
    corrupt_tokens: tuple[str, ...]
    notes: tuple[str, ...] = ()
    layer_numbers: tuple[int, ...] = ()

    @property
    def difference(self) -> float:
        """The behaviour of the run that is patched from, less that of the run patched into."""
        difference = self.clean - self.corrupt
        return difference if self.direction == "denoise" else -difference

    @property
    def refusal(self) -> str:
        """The reason why effects have no shares; "" where they have."""
        if abs(self.difference) >= LEAST:
            return ""
        unit = "nats" if self.metric in ("loss", "kl") else "logits"
        clean, corrupt = format_number(self.clean), format_number(self.corrupt)
        return (
            f"Both texts give nearly the same behaviour, {clean} and {corrupt} "
            f"{unit}: a share of a difference below {LEAST} would be noise. Effects are given in "
            f"{unit}; for shares change a word that matters, or track other tokens."
        )

    @property
    def share(self) -> Float64[np.ndarray, "layer *cell"]:
        """The effects as shares of the difference between both runs.

        0: nothing changes. 1: the behaviour is that of the run that is patched from. ArgumentError:
        the runs differ too little for shares; see `refusal`.
        """
        if self.refusal:
            raise ArgumentError(self.refusal)
        return self.effect / self.difference

    @property
    def positions(self) -> tuple[str, ...]:
        """A label of each position: its token, or both where the texts differ."""
        pairs = zip(self.tokens, self.corrupt_tokens, strict=True)
        return tuple(
            clean if clean == corrupt else f"{clean} / {corrupt}" for clean, corrupt in pairs
        )

    def table(self) -> pd.DataFrame:
        """Make a row per cell: layer, head, position, token, corrupt_token, effect, share.

        Effects are in the unit of the behaviour; a share of 1 restores all of it. There is no head
        or position where cells have none, and no share where there is a `refusal`.

        >>> import mha_viz as mv
        >>> texts = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
        >>> cells = mv.patching_map(mv.load("tiny-gpt2"), *texts, part="heads", target="cat")
        >>> list(cells.table().columns)
        ['layer', 'head', 'effect', 'share']
        """
        axes = AXES.get(self.part, ("layer", "position"))
        cells = np.indices(self.effect.shape).reshape(len(axes), -1)
        columns: dict[str, Any] = dict(zip(axes, cells, strict=True))
        if self.layer_numbers:
            columns["layer"] = np.array(self.layer_numbers, int)[columns["layer"]]
        if "position" in columns:
            columns["token"] = np.array(self.tokens, object)[columns["position"]]
            columns["corrupt_token"] = np.array(self.corrupt_tokens, object)[columns["position"]]
        columns["effect"] = self.effect.ravel()
        if not self.refusal:
            columns["share"] = self.share.ravel()
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        return (
            f"PatchingMap({self.part}, {self.direction}, {self.metric}: clean {self.clean:.4g}, "
            f"corrupted {self.corrupt:.4g}, {self.effect.size:,} cells)"
        )

    def _repr_html_(self) -> str:
        strongest = self.table().sort_values("effect", key=abs, ascending=False, kind="stable")
        return table_html(repr(self), strongest.head(10), " ".join((self.refusal, *self.notes)))


def patching_map(
    model: AttentionModel,
    clean: str,
    corrupt: Other,
    metric: str = "logit_difference",
    part: str = "residual",
    direction: str = "denoise",
    *,
    on_progress: OnProgress | None = None,
    **tracked: Unpack[Tracked],
) -> PatchingMap:
    """Measure where in layers and positions one run's activations decide a behaviour.

    This is activation patching, cell by cell. One activation of a run takes the value that it has
    in the other run; all that follows responds to it, and the behaviour changes or does not. An
    activation is what a layer, its attention or its MLP gives at one position, or the output of one
    head at all positions or at one.

    - Denoising puts clean activations into the corrupted run: cells that restore the behaviour are
      enough for it.
    - Noising puts corrupted activations into the clean run: cells that break the behaviour are
      needed for it. Where two cells stand in for each other, neither is.

    "residual" is the residual stream behind the layer, normed where the family norms it there
    (BERT). "attention" is the sum of all heads through W_O, "mlp" the output of the MLP, both
    before any norm that stands behind them. A batch of cells takes one pass from their layer on.

    Args:
        model: a causal or masked language model of one stack, through our attention function.
        clean: the text; for a masked model with [MASK], or with `position`.
        corrupt: a text of as many tokens in which the behaviour is another one.
        metric: as for `path_effect`; the tokens and places are those of the clean text.
        part: "residual", "attention", "mlp", "heads" or "heads_by_position".
        direction: "denoise" or "noise".
        target: as for `path_effect`.
        against: as for `path_effect`.
        position: as for `path_effect`.
        on_progress: called with how many cells are done, and of how many; may raise to stop.

    Returns:
        PatchingMap; its `effect` is (layer, position), (layer, head) or (layer, head, position), in
        logits, or nats for "loss" and "kl".

    Raises:
        ArgumentError: an unknown part or direction, more than 32,768 cells, and what `path_effect`
            raises.
        TextError, AttentionUnavailableError: as `path_effect`.

    Source: Meng et al. 2022 (section 2, causal tracing; they corrupt by noise on the embeddings,
    here another text does it, as in Wang et al. 2023); denoising and noising as in Heimersheim and
    Nanda 2024 (arXiv:2404.15255).

    >>> import mha_viz as mv
    >>> texts = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
    >>> effects = patching_map(mv.load("tiny-gpt2"), *texts, target="cat", against="dog")
    >>> effects.effect.shape, effects.share[[0, 3], [4, -1]].round(2)
    ((4, 10), array([0.9, 1. ]))
    """
    if not isinstance(corrupt, str):
        raise ArgumentError(f"A patching map takes one corrupted text, got {corrupt!r:.60}.")
    chosen = one_of("part", part, PARTS)
    way = one_of("direction", direction, DIRECTIONS)
    experiment = patching_experiment(model, clean, corrupt, metric, **tracked)
    targets, behaviour = experiment.runs.targets, experiment.behaviour
    other = as_run(model, corrupt, targets.positions[0][0])[0]
    both = targets, replace(targets, rows=(other,))
    n_cells = model.n_layers * model.n_heads * len(other.tokens)
    if chosen == "heads_by_position" and n_cells > MAX_CELLS:
        raise ArgumentError(
            f"{model.n_layers * model.n_heads:,} heads at {len(other.tokens):,} positions are "
            f"{n_cells:,} cells, and {MAX_CELLS:,} are the most: take a shorter text or "
            'part="heads".'
        )
    runs = ActivationRuns(model, *(both[::-1] if way == "denoise" else both), chosen)
    before, after = (float(behaviour(logits[None])) for logits in (runs.logits, runs.other_logits))
    effect = np.zeros(runs.differs.shape)
    progress = Progress(on_progress, int(runs.differs.sum()))
    for layer, cells, mask in runs.batches():
        effect[layer].flat[cells] = behaviour(runs.patched(layer, mask)).cpu().numpy() - before
        progress.add(len(cells))
    pooled = pooled_axis(chosen)
    corrupted, cleaned = (before, after) if way == "denoise" else (after, before)
    return PatchingMap(
        chosen,
        way,
        behaviour.metric,
        effect if pooled is None else effect.squeeze(pooled),
        clean=cleaned,
        corrupt=corrupted,
        target=experiment.target,
        against=experiment.against,
        tokens=tuple(token.text for token in targets.rows[0].tokens),
        corrupt_tokens=tuple(token.text for token in other.tokens),
        notes=experiment.notes,
        layer_numbers=model.layer_numbers,
    )
