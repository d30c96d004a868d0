"""One batch through a model: each layer is turned into sums as soon as it is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from mha_viz.core.metrics.outputs import output_root
from mha_viz.corpus.edges import LayerEdges, layer_edges
from mha_viz.corpus.gold import BatchTrees
from mha_viz.corpus.padded import PaddedTexts, Sight
from mha_viz.corpus.profiles import Profile, rows_of
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
        self.wanted, self.trees = wanted, trees
        self.texts = PaddedTexts.of(encoded, model.causal, model.device)
        self.edges: list[LayerEdges] = []
        self._shared: dict[int, _Shared] = {}
        self._scores: list[Tensor] = []
        self._chance: list[Tensor] = []
        self._chance_outputs: list[Tensor] = []
        self._repeating: list[Tensor] = []
        weights = model.output_weights(model.parts[0]) if model.backend == "mha_viz" else ()
        self._roots = output_root(weights, torch.float32) if weights else None
        self.left: Run = reduce_texts(model, encoded, self._reduce, wanted.keep)

    def scores(self) -> np.ndarray:
        """float32 (text, layer, head, score), in the order of `SCORES`; NaN where not defined."""
        return torch.stack(self._scores, 1).cpu().numpy()

    def chance(self) -> np.ndarray:
        """float32 (text, layer, way, score): `WAYS`, and `CHANCE` in its order.

        Of scores of what heads write it is the mean over all heads of all layers, as in
        `core.metrics.baselines`.
        """
        found = torch.stack(self._chance, 1)
        if self._chance_outputs:
            means = torch.cat(self._chance_outputs, 1).nanmean(1)  # over heads: (text, way, score)
            places = [CHANCE.index(key) for key in OUTPUT_SCORES]
            found[..., places] = means[:, None].expand(-1, found.shape[1], -1, -1)
        return found.cpu().numpy()

    def repeating_tokens(self) -> np.ndarray:
        """float32 (text, layer): how many different tokens a score of repeated ones stands on."""
        return torch.stack(self._repeating, 1).cpu().numpy()

    def _reduce(self, one: LayerTensors) -> None:
        shared = self._same_mask(one.allowed)
        sums = PatternSums(self.texts.cleared(one.pattern), self.texts, shared.sight)
        scores = pattern_scores(sums, one.has_sinks)
        root = None if self._roots is None else self._roots[one.layer].to(one.pattern.device)
        if root is not None and one.z is not None:
            scores |= output_scores(one.z, root, self.texts)
        self._scores.append(_stacked(scores, SCORES))
        if self.wanted.profile is not None:
            self.wanted.profile.add(one.layer, sums, shared.rows)
        if self.wanted.min_weight is not None:
            self.edges.append(layer_edges(one.layer, sums, self.wanted.min_weight))
        if self.trees is not None:
            self.trees.add(one.layer, sums.pattern)
        if shared.chance is not None and shared.chance_scores is not None:
            self._chance.append(shared.chance_scores)
            self._repeating.append(shared.sight.repeating_tokens)
            if root is not None and one.value is not None:
                found = chance_outputs(shared.chance, one.value, root, self.texts)
                self._chance_outputs.append(found)

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
