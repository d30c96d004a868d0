"""Maps of heads: all queries and keys of some texts in one plane, where near is a high weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.core.amounts import true_minus
from mha_viz.core.arguments import check_index
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.compare import query_key_space as space
from mha_viz.core.compare.token_spaces import TokenPoints, principal_directions
from mha_viz.core.layer_numbers import checked_position
from mha_viz.core.record import display
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import visible_keys
from mha_viz.core.reprs import head_rows
from mha_viz.errors import AttentionUnavailableError

MAX_POINTS = 10_000  # of a head
_CHECKED = 64  # tokens whose weights are compared with those of the products alone
_MORE = (
    "In this model weights do not follow from products of queries and keys alone (a position bias, "
    "a soft cap or a sink): distances do not show the rest."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class QueryKeyMap(TokenPoints):
    """All queries and keys of some texts, in one plane for each head.

    A head's queries q and keys k become c q and (k − k̄ + q̄) / c, where k̄ and q̄ are their means: the
    weights that follow from their products are the same.

    Args:
        points: first the queries, then the keys; a unit squared is 2 of the score before softmax.
        scale: c of each head.
        correlation: Pearson's, of minus the squared distance with the score less its query's mean,
            over pairs of a query and a key that it sees; before the vectors are put in a plane.
        plane_correlation: the same in the plane. baseline: likewise, keys of pairs exchanged.
        nearer_has_more: in the plane, how often the nearer of two keys has the larger weight.
        explained: the plane's share of the variance in [0, 1]; NaN where it is no projection.
        strongest: numbers of the keys with most weight of each query, the largest first.
        weights: of these, in [0, 1].
        method: "pca", "tsne" or "umap".
        layer_numbers: the model's own.

    >>> import mha_viz as mv
    >>> key_map = mv.query_key_map(mv.load("tiny-gpt2"), "The cat sat on the mat.")
    >>> key_map.points.shape, key_map.scale.shape
    (torch.Size([4, 8, 2, 7, 2]), torch.Size([4, 8]))
    """

    points: Float[Tensor, "layer head 2 token 2"]
    scale: Float[Tensor, "layer head"]
    correlation: Float[Tensor, "layer head"]
    plane_correlation: Float[Tensor, "layer head"]
    baseline: Float[Tensor, "layer head"]
    nearer_has_more: Float[Tensor, "layer head"]
    explained: Float[Tensor, "layer head"]
    strongest: Int[Tensor, "layer head token top"]
    weights: Float[Tensor, "layer head token top"]
    method: str = "pca"
    layer_numbers: tuple[int, ...] = ()

    def table(self) -> pd.DataFrame:
        """Make a row for each head: the map that follows its scores best comes first.

        Columns: layer, head; plane_correlation, baseline and correlation, in [-1, 1];
        nearer_has_more and explained, in [0, 1]; scale.

        >>> import mha_viz as mv
        >>> table = mv.query_key_map(mv.load("tiny-gpt2"), "The cat sat on the mat.").table()
        >>> len(table), bool(table.plane_correlation.is_monotonic_decreasing)
        (32, True)
        """
        names = ["plane_correlation", "baseline", "nearer_has_more", "correlation"]
        columns = {name: getattr(self, name) for name in (*names, "explained", "scale")}
        table = head_rows(self.layer_numbers, **columns)
        return table.sort_values("plane_correlation", ascending=False, ignore_index=True)

    def points_table(self, layer: int, head: int) -> pd.DataFrame:
        """Make a row for each query and key of a head; a query names the key it looks at most.

        Columns: kind, those of the token, x and y, looks_at and weight (in [0, 1]; NaN for keys).
        Raises ArgumentError: no such head.

        >>> import mha_viz as mv
        >>> points = mv.query_key_map(mv.load("tiny-gpt2"), "The cat sat.").points_table(1, 3)
        >>> points.kind.tolist(), points.looks_at[0]
        (['query', 'query', 'query', 'query', 'key', 'key', 'key', 'key'], 'The')
        """
        layer, head = self._head_index(layer, head)
        n, (x, y) = len(self.tokens), self.points[layer, head].reshape(-1, 2).T
        looks_at = [self.tokens[key].text for key in self.strongest[layer, head, :, 0].tolist()]
        weight = self.weights[layer, head, :, 0].tolist()
        table = pd.concat([self.token_table()] * 2, ignore_index=True)
        table.insert(0, "kind", ["query"] * n + ["key"] * n)
        return table.assign(
            x=x, y=y, looks_at=looks_at + [None] * n, weight=weight + [float("nan")] * n
        )

    def figure(self, layer: int, head: int, *, dark: bool = False) -> Any:
        """Draw the map of one head as a Plotly figure.

        Raises ArgumentError: no such head.

        Example:
            figure = mv.query_key_map(model, texts).figure(1, 3)
            figure.write_html("L1H3.html")
        """
        at = self._head_index(layer, head)
        numbers = self.plane_correlation, self.baseline, self.correlation
        near, chance, before = (true_minus(f"{of_heads[at]:.2f}") for of_heads in numbers)
        share = f"{self.nearer_has_more[at]:.0%}"
        notes = [
            f"Nearness and score correlate by {near} (with keys exchanged by {chance}; before the "
            f"projection by {before}).",
            f"The nearer of two keys has more weight in {share} of cases.",
        ]
        draw = display.installed(display.query_key_plotter)
        return draw(self.points_table(layer, head), (layer, head), notes, dark=dark)

    def _head_index(self, layer: int, head: int) -> tuple[int, int]:
        """Return the index of a head in arrays; ArgumentError where no layer has this number."""
        at = checked_position(self.layer_numbers, layer)
        check_index("layer", at, len(self.scale))
        check_index("head", head, self.scale.shape[1])
        return at, head

    def __repr__(self) -> str:
        layers, heads = self.scale.shape
        median = float(self.plane_correlation.nanmedian())
        return (
            f"QueryKeyMap({self.model!r}, {layers} × {heads} heads, {2 * len(self.tokens):,} "
            f"points of {len(self.texts):,} texts by {self.method}; correlation with scores "
            f"{median:.2f})"
        )


def map_of_records(
    records: Sequence[AttentionRecord],
    *,
    method: str = "pca",
    heads: Sequence[tuple[int, int]] | None = None,
    limit: int = MAX_POINTS // 2,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> QueryKeyMap:
    """Make the maps of one model's records, as `query_key_map` does of texts, with its errors.

    The records hold queries and keys, are not of cross attention (AttentionUnavailableError), and
    take part with `limit` tokens each at most. `notes` are given to the map besides its own.
    """
    if any(record.is_cross for record in records):
        raise AttentionUnavailableError(
            "Queries and keys of cross attention belong to different texts: choose another part."
        )
    n_layers, n_heads = records[0].shape[:2]
    numbers = records[0].layer_numbers
    if heads is not None:
        heads = [(checked_position(numbers, layer), head) for layer, head in heads]
    sizes = [min(len(record.tokens), limit) for record in records]
    for layer, head in heads or ():
        check_index("layer", layer, n_layers)
        check_index("head", head, n_heads)
    lay_out = space.layout_of(method, heads, 2 * sum(sizes), seed)
    notes = [*notes, *dict.fromkeys(note for record in records for note in record.notes)]
    if sizes != [len(record.tokens) for record in records]:
        notes.append(f"The map has the first {limit:,} tokens of a text.")
    if any(_more_than_products(records[0], layer) for layer in range(n_layers)):
        notes.append(_MORE)
    generator = torch.Generator().manual_seed(seed)
    samples, scales, correlations, spreads = _fit_scales(records, limit, generator)
    planes, shares = principal_directions(spreads, 2)
    flat, measured, strongest = [], [], []
    for layer in range(n_layers):
        check_cancelled()
        full = space.one_space(*space.layer_vectors(records, layer, limit), scales[layer])
        flat.append(lay_out(layer, full, planes[layer]))
        measured.append(_measured(flat[-1], samples[layer], generator))
        strongest.append(space.strongest_keys(records, sizes, layer))
    in_plane, chance, nearer = (torch.stack(part) for part in zip(*measured, strict=True))
    keys, weights = (torch.stack(part) for part in zip(*strongest, strict=True))
    return QueryKeyMap(
        points=torch.stack(flat),
        scale=scales,
        correlation=correlations,
        plane_correlation=in_plane,
        baseline=chance,
        nearer_has_more=nearer,
        explained=shares.sum(-1) if method == "pca" else torch.full(shares.shape[:-1], torch.nan),
        strongest=keys,
        weights=weights,
        tokens=tuple(
            t for of_text, n in zip(records, sizes, strict=True) for t in of_text.tokens[:n]
        ),
        text=torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)),
        position=torch.cat([torch.arange(n) for n in sizes]),
        texts=tuple(record.text for record in records),
        model=records[0].model,
        method=method,
        notes=tuple(notes),
        layer_numbers=numbers,
    )


def _fit_scales(
    records: Sequence[AttentionRecord], limit: int, generator: torch.Generator
) -> tuple[list[space.SampledPairs], Tensor, Tensor, Tensor]:
    """Sample pairs of each layer, and fit the scales that put its queries and keys in one space.

    Returns the pairs, the scales and correlations (layer, head), and the sums of outer products of
    all vectors in that space (layer, head, d, d).
    """
    samples, fits = [], []
    for layer in range(records[0].n_layers):
        check_cancelled()
        queries, keys = space.layer_vectors(records, layer, limit)
        samples.append(space.sample_pairs(records, layer, (queries, keys), limit, generator))
        scale, correlation = space.best_scale(queries, keys, samples[-1])
        both = torch.cat(space.one_space(queries, keys, scale), 1)
        fits.append((scale, correlation, both.mT @ both))
    scales, correlations, spreads = (torch.stack(part) for part in zip(*fits, strict=True))
    return samples, scales, correlations, spreads


def _measured(
    flat: Float[Tensor, "head 2 token 2"], pairs: space.SampledPairs, generator: torch.Generator
) -> tuple[Tensor, ...]:
    """Return the correlations in the planes of a layer, and how often nearer keys have more."""
    queries, keys = flat.unbind(1)
    exchanged = pairs.key[torch.randperm(len(pairs.key), generator=generator)]
    correlations = [
        space.correlation(space.nearness(queries, keys, pairs.query, key), pairs.score)
        for key in (pairs.key, exchanged)
    ]
    return *correlations, space.nearer_has_more(queries, keys, pairs)


def _more_than_products(record: AttentionRecord, layer: int) -> bool:
    """Return whether weights differ from the softmax of the products of queries and keys."""
    rows = slice(_CHECKED)
    queries, keys = space.layer_vectors([record], layer, len(record.tokens))
    visible = visible_keys(record, layer, rows)
    scores = (queries[:, rows] @ keys.mT).masked_fill(~visible, -torch.inf)
    alone = scores.softmax(-1).nan_to_num(0.0)
    return not torch.allclose(alone, record.patterns.full_rows(layer, rows), atol=0.02)
