"""One batch through a model: each layer is turned into sums as soon as it is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from mha_viz.core.metrics.outputs import output_root
from mha_viz.corpus.batch_trees import BatchTrees
from mha_viz.corpus.edges import Heaviest, LayerEdges, layer_edges
from mha_viz.corpus.padded import PaddedTexts, Sight
from mha_viz.corpus.profiles import Profile, rows_of, weight_of
from mha_viz.corpus.scores import (
    NO_BASELINE,
    OUTPUT_SCORES,
    PATTERN_SCORES,
    SCORES,
    PatternSums,
    chance_outputs,
    chance_patterns,
    output_scores,
    pattern_scores,
)
from mha_viz.engine.attention_function import LayerTensors
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.recording import reduce_texts
from mha_viz.engine.run import Run
from mha_viz.text.tokens import Encoded

CHANCE = tuple(key for key in SCORES if key not in NO_BASELINE)
WAYS = ("uniform", "offset")


@dataclass(frozen=True)
class Wanted:
    """What is made of a batch beside the scores.

    Args:
        min_weight: see `layer_edges`; None: no edges.
        profile: to add to, or None.
        chance: whether to score what heads that learned nothing look at.
        keep: what the run is to hold of all layers.
    """

    min_weight: float | None = None
    profile: Profile | None = None
    chance: bool = False
    keep: tuple[str, ...] = ()


@dataclass(eq=False)
class _Shared:
    """What is the same for all layers with one mask."""

    allowed: Tensor | None  # held, so that no other mask gets its id
    sight: Sight
    rows: dict[str, Tensor] = field(default_factory=dict)
    chance: Tensor | None = None  # patterns, (batch, 2, query, key)
    chance_scores: Tensor | None = None  # (batch, 2, score)


class BatchMeasure:
    """The scores of every head on every text of a batch, and what else is wanted.

    Args:
        model: whose first part is measured.
        encoded: the texts of the batch.
        wanted: beside the scores.
        trees: to hold every layer against, of the texts that have one.

    Attributes:
        left: what the run holds of all layers, as `Wanted.keep` asks.
        edges: of each layer, where wanted.
    """

    def __init__(
        self,
        model: AttentionModel,
        encoded: Sequence[Encoded],
        wanted: Wanted,
        trees: BatchTrees | None = None,
    ) -> None:
        texts = PaddedTexts.of(encoded, model.causal, model.device)
        weights = model.output_weights(model.parts[0]) if model.backend == "mha_viz" else ()
        roots = output_root(weights, torch.float32).to(model.device) if weights else None
        self._layers = LayerSums(texts, roots, wanted)

        def reduce(one: LayerTensors) -> None:
            sums = self._layers.add(one)
            if trees is not None:
                trees.add(one.layer, sums.pattern)

        self.left: Run = reduce_texts(model, encoded, reduce, wanted.keep)
        if trees is not None:
            trees.finish()
        self.edges = [
            found.fetched() if isinstance(found, Heaviest) else found
            for found in self._layers.edges
        ]
        if wanted.profile is not None:
            for layer, (weight, rows) in enumerate(self._layers.profiles):
                wanted.profile.add(layer, weight, rows)

    def scores(self) -> np.ndarray:
        """float32 (text, layer, head, score), in the order of `SCORES`; NaN where not defined."""
        return torch.stack(self._layers.scores, 1).cpu().numpy()

    def chance(self) -> np.ndarray:
        """float32 (text, layer, way, score): `WAYS`, and `CHANCE` in its order.

        Of scores of what heads write it is the mean over all heads of all layers, as in
        `core.metrics.baselines`.
        """
        found = torch.stack(self._layers.chance, 1)
        if self._layers.chance_outputs:
            means = torch.cat(self._layers.chance_outputs, 1).nanmean(
                1
            )  # over heads: (text, way, score)
            places = [CHANCE.index(key) for key in OUTPUT_SCORES]
            found[..., places] = means[:, None].expand(-1, found.shape[1], -1, -1)
        return found.cpu().numpy()

    def repeating_tokens(self) -> np.ndarray:
        """float32 (text, layer): how many different tokens a score of repeated ones stands on."""
        return torch.stack(self._layers.repeating, 1).cpu().numpy()


class LayerSums:
    """What is made of each layer as it comes: sums, which stay on the device that it is on.

    Nothing here waits for the device or reads from it; that is for when the run is done.

    Args:
        texts: of the batch.
        roots: (layer, head, d_head, d_head), see `output_root`; None: outputs are not measured.
        wanted: beside the scores.

    Attributes:
        scores: of each layer, (batch, head, score) in the order of `SCORES`.
        chance: of each layer, (batch, way, score) in the order of `CHANCE`.
        chance_outputs: of each layer, (batch, head, way, score) in the order of `OUTPUT_SCORES`.
        repeating: of each layer, (batch,), see `Sight.repeating_tokens`.
        edges: of each layer.
        profiles: of each layer, weight and rows by axis.
    """

    def __init__(self, texts: PaddedTexts, roots: Tensor | None, wanted: Wanted) -> None:
        self.texts, self.wanted, self._roots = texts, wanted, roots
        self.scores: list[Tensor] = []
        self.chance: list[Tensor] = []
        self.chance_outputs: list[Tensor] = []
        self.repeating: list[Tensor] = []
        self.edges: list[LayerEdges | Heaviest] = []
        self.profiles: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []
        self._shared: dict[int, _Shared] = {}

    def add(self, one: LayerTensors) -> PatternSums:
        """Reduce a layer.

        Args:
            one: the layer that follows the last one.

        Returns:
            The sums of its pattern, which hold it until the next layer comes.
        """
        shared = self._same_mask(one.allowed)
        sums = PatternSums(self.texts.cleared(one.pattern), self.texts, shared.sight)
        scores = pattern_scores(sums, one.has_sinks)
        root = None if self._roots is None else self._roots[one.layer]
        if root is not None and one.z is not None:
            scores |= output_scores(one.z, root, self.texts)
        self.scores.append(_stacked(scores, SCORES))
        if self.wanted.profile is not None:
            self.profiles.append((weight_of(sums), shared.rows))
        if self.wanted.min_weight is not None:
            self.edges.append(layer_edges(one.layer, sums, self.wanted.min_weight))
        if shared.chance is not None and shared.chance_scores is not None:
            self.chance.append(shared.chance_scores)
            self.repeating.append(shared.sight.repeating_tokens)
            if root is not None and one.value is not None:
                found = chance_outputs(shared.chance, one.value, root, self.texts)
                self.chance_outputs.append(found)
        return sums

    def _same_mask(self, allowed: Tensor | None) -> _Shared:
        if id(allowed) not in self._shared:
            shared = _Shared(allowed, Sight.of(self.texts, allowed))
            if self.wanted.profile is not None:
                shared.rows = rows_of(shared.sight)
            if self.wanted.chance:
                shared.chance = chance_patterns(shared.sight)
                sums = PatternSums(shared.chance, self.texts, shared.sight)
                shared.chance_scores = _stacked(pattern_scores(sums), CHANCE)
            self._shared[id(allowed)] = shared
        return self._shared[id(allowed)]


def _stacked(scores: dict[str, Tensor], names: Sequence[str]) -> Tensor:
    """(batch, head, score); NaN for what is not there."""
    missing = torch.full_like(scores[PATTERN_SCORES[0]], torch.nan)
    return torch.stack([scores.get(name, missing) for name in names], -1)
