"""Tiles and metrics of a long text, made while the pass has its weights."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from mha_viz.core.attention.scoring import RowReduction, Scoring, Tiles
from mha_viz.core.measure import text_sums
from mha_viz.core.metrics.row_sums import TextSums
from mha_viz.core.record.patterns import ComputedPatterns
from mha_viz.core.record.record import AttentionRecord
from mha_viz.engine.loaded_network import TILES, LoadedNetwork
from mha_viz.text.tokens import Encoded


class PatternReductions:
    """The tiles and metrics of one text's only stack, layer by layer.

    `keep` has "tiles", "metrics" or both in it, see `trace`.
    """

    def __init__(self, model: LoadedNetwork, source: Encoded, keep: Sequence[str]) -> None:
        self._causal, self._tokens = model.causal, source.tokens
        self.wanted = {"tiles", "metrics"} & set(keep)
        self._tiles: list[Tiles] = []
        self._sums: TextSums | None = None

    def __call__(self, layer: int, scoring: Scoring, query: Tensor) -> list[RowReduction]:
        """Return what the rows of a layer are to be given to."""
        found: list[RowReduction] = []
        shape = (query.shape[1], len(self._tokens), len(self._tokens))
        if "tiles" in self.wanted:
            self._tiles.append(Tiles(shape, TILES, device=query.device))
            found.append(self._tiles[-1])
        if "metrics" in self.wanted:
            if self._sums is None:
                self._sums = text_sums(
                    self._tokens,
                    len(self._tokens),
                    self._causal,
                    has_sinks=scoring.sinks is not None,
                )
            n, sight = len(self._tokens), scoring.sight
            seen = partial(sight.seen, n_queries=n, n_keys=n, device=query.device)
            found.append(self._sums.layer(seen, device=query.device))
        return found

    def attach_to(self, record: AttentionRecord) -> None:
        """Give a record what the pass has made of its weights."""
        patterns = record.patterns
        if self._tiles and isinstance(patterns, ComputedPatterns):
            patterns.pooled[TILES, "max"] = torch.stack([one.found.cpu() for one in self._tiles])
        if self._sums is not None and isinstance(patterns, ComputedPatterns):
            patterns.measured[self._sums.about] = self._sums.finish()
