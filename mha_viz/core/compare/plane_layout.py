"""Planes of the queries and keys of heads: a projection, or a layout of t-SNE or UMAP."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.cancellation import check_cancelled
from mha_viz.errors import ArgumentError
from mha_viz.extras import require

METHODS = ("pca", "tsne", "umap")
_FEWEST = 16  # points that t-SNE and UMAP are given

LayOut = Callable[[int, tuple[Tensor, Tensor], Tensor], Float[Tensor, "head 2 token 2"]]


def layout_of(
    method: str, heads: Collection[tuple[int, int]] | None, n_points: int, seed: int
) -> LayOut:
    """Return what puts a layer's queries and keys in planes: by its number, them and projections.

    Args:
        method: one of `METHODS`.
        heads: (layer, head) of those that t-SNE and UMAP lay out, others are NaN; None is all.
        n_points: of a head.
        seed: of t-SNE and UMAP.

    Raises:
        ArgumentError: an unknown method, or too few points for it.
        MissingPackageError: its library is missing.
    """
    if method not in METHODS:
        raise ArgumentError(f"method must be one of {', '.join(METHODS)}, got {method!r}.")
    if method == "pca":
        return lambda layer, full, plane: torch.stack([one @ plane for one in full], 1)
    if n_points < _FEWEST:
        raise ArgumentError(f"{method} needs {_FEWEST} points or more, and these are {n_points}.")
    embed = _embedding(method, n_points, seed)

    def lay_out(layer: int, full: tuple[Tensor, Tensor], plane: Tensor) -> Tensor:
        queries, keys = full
        found = torch.full((*queries.shape[:1], 2, queries.shape[1], 2), torch.nan)
        for head in range(len(queries)):
            if heads is None or (layer, head) in heads:
                check_cancelled()
                vectors = torch.cat([queries[head], keys[head]]).numpy()
                placed = np.asarray(embed(vectors), dtype=np.float32)
                found[head] = torch.from_numpy(placed).unflatten(0, (2, -1))
        return found

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
