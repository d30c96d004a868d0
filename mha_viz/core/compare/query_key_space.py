"""Queries and keys of heads in one space, where near means a high score, and the plane of it."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import visible_keys
from mha_viz.errors import ArgumentError
from mha_viz.extras import require

N_STRONGEST = 4  # keys of a query that a map knows by their weights
N_PAIRS = 20_000  # of a query and a key, that the numbers of a layer are made of
_MOST_CELLS = 2_000_000  # of a text's mask in which pairs are looked for
_SCALES = 2.0 ** (torch.arange(-24, 25, dtype=torch.float64) / 4)  # of c², about equal lengths
Vectors = Float[Tensor, "head token d_head"]  # queries or keys of all heads of a layer
Places = Float[Tensor, "head token place"]  # the same in a plane, or in any space


@dataclass(frozen=True, eq=False)
class SampledPairs:
    """Pairs of a query and a key that it sees, and another key that it sees, of one layer."""

    # `query`, `key`, `other`: numbers of tokens among all texts
    query: Int[Tensor, " pair"]
    key: Int[Tensor, " pair"]
    other: Int[Tensor, " pair"]
    product: Float[Tensor, "head pair"]  # of query and key
    # `score`, `other_score`: of query and key, less the mean over all keys that the query sees
    score: Float[Tensor, "head pair"]
    other_score: Float[Tensor, "head pair"]


def layer_vectors(
    records: Sequence[AttentionRecord], layer: int, tokens: int
) -> tuple[Vectors, Vectors]:
    """Return queries and keys of a layer over all texts, the first `tokens` of each.

    Their products are the scores: the scale is in the queries. Each query head has its key head.
    Raises NotKeptError: a record without queries or keys.
    """
    first = slice(tokens)
    queries, keys = (
        torch.cat([record.for_query_heads(name, layer)[:, first] for record in records], 1)
        for name in ("query", "key")
    )
    scale = records[0].scale[layer] if records[0].scale else 1.0
    return queries * scale, keys


def sample_pairs(
    records: Sequence[AttentionRecord],
    layer: int,
    vectors: tuple[Vectors, Vectors],
    tokens: int,
    generator: torch.Generator,
) -> SampledPairs:
    """Draw pairs of a query and a key of one text that the query may see, all where they are few.

    `vectors` are queries and keys of the layer, as `layer_vectors` gives them; `tokens` of each
    text take part.
    """
    sizes = [min(len(record.tokens), tokens) for record in records]
    squares, first = sum(n * n for n in sizes), 0
    drawn = []
    for record, n in zip(records, sizes, strict=True):
        quota = -(-N_PAIRS * n * n // squares)
        queries, keys = (side[:, first : first + n] for side in vectors)
        visible = visible_keys(record, layer, slice(n))[:, :n]
        rows, key, other, *scores = _pairs_of_text(visible, queries, keys, quota, generator)
        drawn.append((rows + first, key + first, other + first, *scores))
        first += n
    return SampledPairs(*(torch.cat(part, -1) for part in zip(*drawn, strict=True)))


def _pairs_of_text(
    visible: Tensor, queries: Tensor, keys: Tensor, quota: int, generator: torch.Generator
) -> tuple[Tensor, ...]:
    rows = (visible.sum(1) > 1).nonzero()[:, 0]  # a query that sees one key has no choice
    rows = rows[
        torch.randperm(len(rows), generator=generator)[: max(1, _MOST_CELLS // len(visible))]
    ]
    visible = visible[rows]
    row, key = visible.nonzero(as_tuple=True)
    counts = visible.sum(1)
    drawn = torch.randperm(len(row), generator=generator)[:quota]
    rank = (torch.rand(len(drawn), generator=generator) * counts[row[drawn]]).long()
    other = key[(counts.cumsum(0) - counts)[row[drawn]] + rank]
    row, key = row[drawn], key[drawn]
    products = queries[:, rows] @ keys.mT
    scores = products - (products * visible).sum(-1, keepdim=True) / counts[:, None]
    rounding = 1e-6 * products.abs().amax(-1, keepdim=True)
    scores = scores.masked_fill(scores.abs() <= rounding, 0.0)  # of keys that are all the same
    numbers = products[:, row, key], scores[:, row, key], scores[:, row, other]
    return rows[row], key, other, *numbers


def best_scale(
    queries: Vectors, keys: Vectors, pairs: SampledPairs
) -> tuple[Float[Tensor, " head"], Float[Tensor, " head"]]:
    """Return the c with which nearness follows the scores of pairs best, and their correlation.

    With the keys moved, -‖c q − k / c‖² is 2 q · k − c² ‖q‖² − ‖k‖² / c²: its correlation with the
    scores follows, for every c, from the covariances of four numbers of a pair.
    """
    moved = met(queries, keys)
    shift = moved[:, :1] - keys[:, :1]
    products = pairs.product + (queries * shift).sum(-1)[:, pairs.query]
    lengths = queries.square().sum(-1)[:, pairs.query], moved.square().sum(-1)[:, pairs.key]
    numbers = torch.stack([pairs.score, products, *lengths], 1).double()
    even = (numbers[:, 3].mean(1) / numbers[:, 2].mean(1)).sqrt().nan_to_num(1.0, posinf=1.0)
    tried = even.clamp(min=1e-12)[:, None] * _SCALES
    numbers = numbers - numbers.mean(-1, keepdim=True)
    covariance = numbers @ numbers.mT
    weights = torch.stack([torch.full_like(tried, 2.0), -tried, -1 / tried], -1)
    along = (weights @ covariance[:, 1:, :1])[..., 0]
    spread = ((weights @ covariance[:, 1:, 1:]) * weights).sum(-1)
    fit = along / (spread * covariance[:, :1, 0]).sqrt()
    best = fit.nan_to_num(-2.0).argmax(1, keepdim=True)
    return tried.gather(1, best)[:, 0].sqrt().float(), fit.gather(1, best)[:, 0].float()


def met(queries: Vectors, keys: Vectors) -> Vectors:
    """Return the keys moved until their mean is that of the queries: no weight changes."""
    return keys - keys.mean(1, keepdim=True) + queries.mean(1, keepdim=True)


def one_space(
    queries: Vectors, keys: Vectors, scale: Float[Tensor, " head"]
) -> tuple[Vectors, Vectors]:
    """Return c q and (k − k̄ + q̄) / c around the mean of them all.

    Their products, before that mean is taken off, give the same weights as q · k.
    """
    keys = met(queries, keys) / scale[:, None, None]
    queries = queries * scale[:, None, None]
    middle = (queries.mean(1, keepdim=True) + keys.mean(1, keepdim=True)) / 2
    return queries - middle, keys - middle


def nearness(
    queries: Places, keys: Places, query: Int[Tensor, " pair"], key: Int[Tensor, " pair"]
) -> Float[Tensor, "head pair"]:
    """Return minus the squared distance of each pair of a query and a key."""
    return -(queries[:, query] - keys[:, key]).square().sum(-1)


def correlation(
    x: Float[Tensor, "head pair"], y: Float[Tensor, "head pair"]
) -> Float[Tensor, " head"]:
    """Return Pearson's correlation of two rows of numbers; NaN where one is constant."""
    x, y = (row.double() - row.double().mean(-1, keepdim=True) for row in (x, y))
    return ((x * y).sum(-1) / (x.norm(dim=-1) * y.norm(dim=-1))).float()


def nearer_has_more(queries: Places, keys: Places, pairs: SampledPairs) -> Float[Tensor, " head"]:
    """Return how often the nearer of two keys that a query sees has the larger weight, in [0, 1].

    By chance it is 0.5; NaN where no query sees two keys of different score.
    """
    first, second = (nearness(queries, keys, pairs.query, key) for key in (pairs.key, pairs.other))
    differ = (pairs.score != pairs.other_score) & (pairs.key != pairs.other) & first.isfinite()
    right = ((first > second) == (pairs.score > pairs.other_score)) & differ
    return right.sum(-1) / differ.sum(-1)


def strongest_keys(
    records: Sequence[AttentionRecord], sizes: Sequence[int], layer: int
) -> tuple[Int[Tensor, "head token top"], Float[Tensor, "head token top"]]:
    """Return the keys with most weight of each query of a layer, and these weights."""
    top, first, by_text = min(N_STRONGEST, max(sizes)), 0, []
    for record, n in zip(records, sizes, strict=True):

        def largest(_: int, rows: Tensor, n: int = n) -> tuple[Tensor, Tensor]:
            rows = rows[..., :n]
            weights, keys = F.pad(rows, (0, max(top - rows.shape[-1], 0))).topk(top, -1)
            return keys.clamp(max=n - 1), weights

        blocks = zip(*record.patterns.each_block(layer, largest), strict=True)
        keys, weights = (torch.cat(part, 1)[:, :n] for part in blocks)
        by_text.append((keys + first, weights))
        first += n
    keys, weights = (torch.cat(part, 1) for part in zip(*by_text, strict=True))
    return keys.int(), weights.float()


METHODS = ("pca", "tsne", "umap")
_FEWEST = 16  # points that t-SNE and UMAP are given

LayOut = Callable[[int, tuple[Tensor, Tensor], Tensor], Float[Tensor, "head 2 token 2"]]


def layout_of(
    method: str, heads: Collection[tuple[int, int]] | None, n_points: int, seed: int
) -> LayOut:
    """Return what puts a layer's queries and keys in planes: by its number, them and projections.

    `method` is one of `METHODS`; t-SNE and UMAP lay out `heads` (layer, head), of `n_points` each,
    and others are NaN; None is all. Raises ArgumentError: an unknown method, too few points for it,
    or its library is missing.
    """
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    if method == "pca":
        return lambda layer, full, plane: torch.stack([side @ plane for side in full], 1)
    if n_points < _FEWEST:
        raise ArgumentError(f"{method} needs {_FEWEST} points or more, and these are {n_points}.")
    embed = _embedding(method, n_points, seed)

    def lay_out(layer: int, full: tuple[Tensor, Tensor], plane: Tensor) -> Tensor:
        queries, keys = full
        planes = torch.full((*queries.shape[:1], 2, queries.shape[1], 2), torch.nan)
        for head in range(len(queries)):
            if heads is None or (layer, head) in heads:
                check_cancelled()
                vectors = torch.cat([queries[head], keys[head]]).numpy()
                placed = np.asarray(embed(vectors), dtype=np.float32)
                planes[head] = torch.from_numpy(placed).unflatten(0, (2, -1))
        return planes

    return lay_out


def _embedding(method: str, n_points: int, seed: int) -> Callable[[Any], Any]:
    try:
        if method == "tsne":
            from sklearn.manifold import TSNE

            perplexity = min(30.0, n_points / 4)
            return lambda x: TSNE(perplexity=perplexity, random_state=seed).fit_transform(x)
        from umap import UMAP
    except ModuleNotFoundError:
        require("maps", f"A map by {method}")
        raise
    n_near = min(15, n_points - 2)
    return lambda x: UMAP(n_neighbors=n_near, random_state=seed, n_jobs=1).fit_transform(x)
