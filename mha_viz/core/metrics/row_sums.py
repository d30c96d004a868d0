"""The metrics of one layer whose weights are computed block by block and never held at once."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.attention.scoring import RowReduction
from mha_viz.core.metrics.blocks import RowBlock, Texts, Visible
from mha_viz.core.metrics.head_sums import HeadSums, Reduction
from mha_viz.core.metrics.metric import text_facts
from mha_viz.core.metrics.table import METRICS, pattern_reductions


class RowSums(RowReduction):
    """Sums over the rows of one layer of one text.

    The tensors of `texts` are where the weights are. `visible_rows` returns which keys some
    consecutive queries see, (row, key); `sinks` is the share of each row that a learned sink took,
    (head, query); None: what it lacks.
    """

    def __init__(
        self,
        texts: Texts,
        reductions: Mapping[str, Reduction],
        visible_rows: Callable[[slice], Bool[Tensor, "row key"]],
        sinks: Float[Tensor, "head query"] | None = None,
    ) -> None:
        self._texts, self._reductions = texts, reductions
        self._visible_rows, self._sinks = visible_rows, sinks
        self._sums = HeadSums(texts, reductions)
        self._repeats: list[Tensor] = []

    def reduce(
        self, first: int, pattern: Float[Tensor, "head row column"]
    ) -> tuple[HeadSums, Tensor | None]:
        """Return the sums of some rows, and whether one of them sees its own token elsewhere."""
        _, n_rows, width = pattern.shape
        rows, texts = slice(first, first + n_rows), _up_to_key(self._texts, width)
        keys = self._visible_rows(rows)[None, :, :width].to(pattern.device)
        visible = Visible.of(texts, keys, first)
        sinks = None if self._sinks is None else self._sinks[None, :, rows]
        sums = HeadSums(texts, self._reductions)
        weights = pattern.to(torch.promote_types(pattern.dtype, torch.float32))
        sums.add(RowBlock(weights[None], first, texts, visible, sinks))
        return sums, None if visible.repeats is None else visible.repeats.any()

    def collect(self, reduced: tuple[HeadSums, Tensor | None]) -> None:
        """Add the sums of the next rows."""
        sums, repeats = reduced
        self._sums.merge(sums)
        self._repeats += [] if repeats is None else [repeats]

    @property
    def has_repeats(self) -> bool:
        """True where a query sees its own token elsewhere."""
        return bool(self._repeats) and bool(torch.stack(self._repeats).any())

    def finish(self) -> tuple[dict[str, int], Float[Tensor, "place head"]]:
        """Return each metric's place, and all values; NaN where a metric is not defined."""
        return self._sums.row_of, self._sums.finish()[:, 0]


def _up_to_key(texts: Texts, n_keys: int) -> Texts:
    """Return texts without what is known of the keys from that number on."""
    ids, special = (
        None if part is None else part[:, :n_keys] for part in (texts.ids, texts.is_special)
    )
    return replace(texts, ids=ids, is_special=special)


class TextSums:
    """The metrics of all layers of one text, which is on the processor and tells what is known."""

    def __init__(self, texts: Texts, has_sinks: bool = False) -> None:
        self._texts = texts
        self.needs = set(text_facts(texts)) | {"allowed"}
        if texts.ids is not None and not texts.cross:
            self.needs.add("repeats")  # where a query sees one, which its rows will tell
        if has_sinks:
            self.needs.add("sink")
        self._reductions = pattern_reductions(self.needs)
        self._layers: list[RowSums] = []
        self._on: dict[torch.device | str, Texts] = {}

    @property
    def about(self) -> Hashable:
        """All that the numbers depend on besides the weights."""
        per_key = (self._texts.ids, self._texts.is_special)
        known_keys = tuple(None if t is None else tuple(t[0].tolist()) for t in per_key)
        return known_keys, self._texts.causal, self._texts.cross, tuple(self._reductions)

    def layer(
        self,
        visible_rows: Callable[[slice], Any],
        sinks: Float[Tensor, "head query"] | None = None,
        device: torch.device | str = "cpu",
    ) -> RowSums:
        """Return what takes the rows of the next layer, which is on a device; see `RowSums`."""
        if device not in self._on:
            self._on[device] = self._texts.to(device)
        self._layers.append(RowSums(self._on[device], self._reductions, visible_rows, sinks))
        return self._layers[-1]

    def finish(self) -> dict[str, Float[Tensor, "layer head"]]:
        """Return metric key -> (layer, head)."""
        rows, layers = zip(*[layer.finish() for layer in self._layers], strict=True)
        values = torch.stack([layer.to(layers[0].device) for layer in layers], 1).float().cpu()
        repeats = any(layer.has_repeats for layer in self._layers)
        return {
            key: values[row]
            for key, row in rows[0].items()
            if repeats or "repeats" not in METRICS[key].needs
        }
