"""The likeness of heads: an order, clusters, a map, nearest twins, a few that cover all."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float, Int, Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError

Order = Literal["layer", "cluster"]
PerPair = Num[np.ndarray | Tensor, "head2 head2"]  # a number for each pair of heads
_MOST_ORDERED = 512  # beyond, the best order of the leaves takes seconds; any order is a valid one


@dataclass(frozen=True)
class Clustering:
    """Heads in the order they are drawn in, and the tree of their likeness."""

    by: Order  # "layer" or "cluster": what the order follows
    order: tuple[int, ...]  # every head once, as indices into the distance matrix
    # the heads that the tree has as leaves, ascending; a leaf's number is its place here
    heads: tuple[int, ...]
    undefined: tuple[int, ...]  # the heads for which the measure is not defined; in no cluster
    linkage: Float[
        np.ndarray, "merge 4"
    ]  # scipy's (leaves - 1, 4) table of merges, average linkage

    def labels(self, k: int) -> Int[np.ndarray, " head2"]:
        """Return which of at most `k` clusters each head is in, numbered in the tree's order.

        Equal heads are never split, so that there may be fewer; -1 where the measure is not
        defined.
        """
        from scipy.cluster.hierarchy import fcluster

        if k < 1:
            raise ArgumentError(f"k must be at least 1, got {k}.")
        labels = np.full(len(self.order), -1)
        if not self.heads:
            return labels
        clusters = fcluster(self.linkage, k, "maxclust") if len(self.heads) > 1 else np.ones(1, int)
        numbers: dict[int, int] = {}
        for leaf in self.leaves():
            numbers.setdefault(int(clusters[leaf]), len(numbers))
        labels[list(self.heads)] = [numbers[int(cluster)] for cluster in clusters]
        return labels

    def leaves(self) -> list[int]:
        """Return the tree's leaves from left to right, as indices into `heads`."""
        from scipy.cluster.hierarchy import leaves_list

        return leaves_list(self.linkage).tolist() if len(self.heads) > 1 else [0] * len(self.heads)


class Cover(NamedTuple):
    """Heads that stand for all, the first choice first, and the share covered after each."""

    heads: list[int]
    covered: list[float]


def head_order(distance: PerPair, by: str = "cluster") -> Clustering:
    """Order the heads so that similar ones stand together, and return the tree behind it.

    Average linkage on the distances; the branches are turned such that neighbours are as alike as
    they can be (up to 512 heads).

    `distance` is symmetric, 0 or more, any unit; NaN: not defined. Where a pair has no distance,
    the head with the most such pairs is left out, until none is left. By "cluster" heads that are
    left out come last, by "layer" all stand as they are numbered. Raises ShapeError: a matrix that
    is not square, or empty. ArgumentError: distances that are not symmetric or negative; an unknown
    order. Source: Bar-Joseph, Gifford and Jaakkola 2001 (order of the leaves).

    >>> head_order(np.array([[0.0, 9, 1], [9, 0, 9], [1, 9, 0]])).order
    (0, 2, 1)
    """
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    if by not in ("layer", "cluster"):
        raise ArgumentError(f'by must be "layer" or "cluster", got {by!r}.')
    table = _distances(distance)
    defined_heads = _defined(table)
    tree = np.empty((0, 4))
    if len(defined_heads) > 1:
        condensed = squareform(table[np.ix_(defined_heads, defined_heads)], checks=False)
        tree = linkage(condensed, "average")
        if len(defined_heads) <= _MOST_ORDERED:
            tree = optimal_leaf_ordering(tree, condensed)
        ends = leaves_list(tree)[[0, -1]]
        if ends[0] > ends[1]:  # the tree and its mirror image say the same: show one of them
            tree[:, :2] = tree[:, 1::-1].copy()
    undefined = tuple(i for i in range(len(table)) if i not in set(defined_heads))
    clustering = Clustering(
        "layer", tuple(range(len(table))), tuple(defined_heads), undefined, tree
    )
    if by == "layer":
        return clustering
    order = tuple(defined_heads[leaf] for leaf in clustering.leaves()) + undefined
    return Clustering("cluster", order, tuple(defined_heads), undefined, tree)


def classical_mds(distance: PerPair) -> tuple[Float[np.ndarray, "head2 2"], float]:
    """Place heads in a plane so that their distances come close to the given ones.

    Axes are turned such that later heads tend to lie right and up: a small change of the distances
    does not mirror the map. Returns (head2, 2), in the unit of the distances; NaN for heads that
    are left out. And the explained share in [0, 1]: the two eigenvalues' part of all positive ones;
    NaN where there is nothing to explain (one head, or heads that are all equal). Source: Torgerson
    1952.

    >>> points, explained = classical_mds(np.array([[0.0, 2], [2, 0]]))
    >>> points.round(6).tolist(), round(explained, 6)
    ([[-1.0, 0.0], [1.0, 0.0]], 1.0)
    """
    table = _distances(distance)
    defined_heads = _defined(table)
    points = np.full((len(table), 2), np.nan)
    if not defined_heads:
        return points, float("nan")
    points[defined_heads] = 0.0
    inner = table[np.ix_(defined_heads, defined_heads)]
    if len(defined_heads) == 1 or not inner.any():
        return points, float("nan")
    square = inner**2
    mean = square.mean(axis=0)
    products = (mean[:, None] + mean - square - mean.mean()) / 2  # of the centred points
    values, vectors = np.linalg.eigh(products)
    values = np.clip(values[::-1], 0.0, None)  # the largest first; distances may be no plane's
    real = values[:2] > 1e-12 * values[0]
    for column in np.flatnonzero(real):
        axis = np.sqrt(values[column]) * vectors[:, -1 - column]
        points[defined_heads, column] = axis * _sign(axis)
    return points, float(values[:2][real].sum() / values.sum())


def nearest_twins(distance: PerPair, n_heads: int) -> pd.DataFrame:
    """Find for every head the nearest other one; the first of several.

    Returns a row per head: layer, head, twin_layer, twin_head (missing where there is none),
    distance (NaN where there is none).

    >>> nearest_twins(np.array([[0.0, 9, 1], [9, 0, 8], [1, 8, 0]]), 1).twin_layer.tolist()
    [2, 2, 0]
    """
    twin, nearest = nearest_others(distance)
    if n_heads < 1 or len(twin) % n_heads:
        raise ArgumentError(f"{len(twin)} heads do not fill layers of {n_heads}.")
    lone = twin < 0
    layer, head = np.divmod(np.arange(len(twin)), n_heads)
    return pd.DataFrame(
        {
            "layer": layer,
            "head": head,
            "twin_layer": pd.Series(twin // n_heads, dtype="Int64").mask(lone),
            "twin_head": pd.Series(twin % n_heads, dtype="Int64").mask(lone),
            "distance": nearest,
        }
    )


def nearest_others(
    distance: PerPair,
) -> tuple[Int[np.ndarray, " head2"], Float[np.ndarray, " head2"]]:
    """Find the nearest heads as `nearest_twins` does, as arrays: a table takes longer to build.

    Returns for every head the number of the nearest other one, -1 where there is none, and how far
    away it is (NaN where there is none).

    >>> nearest_others(np.array([[0.0, 9, 1], [9, 0, 8], [1, 8, 0]]))[0].tolist()
    [2, 2, 0]
    """
    table = _distances(distance)
    np.fill_diagonal(table, np.nan)
    distances = np.where(np.isnan(table), np.inf, table)
    twin = distances.argmin(axis=1)
    nearest = distances[np.arange(len(table)), twin]
    lone = np.isinf(nearest)
    return np.where(lone, -1, twin), np.where(lone, np.nan, nearest)


def covering_heads(similarity: PerPair, k: int) -> Cover:
    """Choose `k` heads such that every head is close to one of them.

    Greedy: each step adds the head that raises sum_i max_{j chosen} similarity_ij the most, the
    first of several. The sum is submodular, so that it reaches at least 1 - 1/e of what the best
    choice of k would.

    Row i of `similarity` is how well each j stands for i; negative counts as 0. Heads whose row or
    column is NaN throughout are left out; other NaN count as 0. Returns the chosen heads, fewer
    where there are fewer than `k`, and after each the sum's share, in [0, 1], of what all heads
    together reach (NaN where that is 0). Source: facility location; Nemhauser, Wolsey and Fisher
    1978 (the bound).

    >>> covering_heads(np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]), 2)
    Cover(heads=[0, 2], covered=[0.666..., 1.0])
    """
    table = _square(similarity, "similarity")
    if k < 1:
        raise ArgumentError(f"k must be at least 1, got {k}.")
    missing = np.isnan(table)
    defined_heads = np.flatnonzero(~(missing.all(axis=0) | missing.all(axis=1)))
    inner = np.clip(np.nan_to_num(table[np.ix_(defined_heads, defined_heads)]), 0.0, None)
    best = np.zeros(len(defined_heads))
    total = inner.max(axis=1).sum() if len(defined_heads) else 0.0
    chosen: list[int] = []
    covered: list[float] = []
    for _ in range(min(k, len(defined_heads))):
        gain = np.maximum(inner, best[:, None]).sum(axis=0)
        gain[chosen] = -np.inf
        step = int((gain >= gain.max() * (1 - 1e-12)).argmax())  # rounding does not break ties
        chosen.append(step)
        best = np.maximum(best, inner[:, step])
        covered.append(float(best.sum() / total) if total else float("nan"))
    return Cover(defined_heads[chosen].tolist(), covered)


def _square(matrix: Any, name: str) -> NDArray[np.float64]:
    """Return a float64 copy in which NaN stands for what is not finite."""
    if isinstance(matrix, Tensor):
        matrix = matrix.detach().cpu().double().numpy()
    table = np.array(matrix, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not table.size:
        raise ShapeError(f"{name} must be a square matrix, got shape {table.shape}.")
    table[~np.isfinite(table)] = np.nan
    return table


def _distances(distance: Any) -> NDArray[np.float64]:
    """Check distances and make them exactly symmetric, with 0 on the diagonal where defined."""
    table = _square(distance, "distance")
    size = float(np.nanmax(np.abs(table), initial=0.0))
    if not np.allclose(table, table.T, rtol=1e-3, atol=1e-4 * size, equal_nan=True):
        raise ArgumentError("distance must be symmetric.")
    off = table[~np.eye(len(table), dtype=bool)]
    if float(np.nanmin(off, initial=0.0)) < -1e-4 * size:
        raise ArgumentError("distances must not be negative; 1 - similarity is one.")
    table = np.clip((table + table.T) / 2, 0.0, None)
    diagonal = np.diag(table).copy()
    np.fill_diagonal(table, np.where(np.isnan(diagonal), np.nan, 0.0))
    return table


def _defined(table: NDArray[np.float64]) -> list[int]:
    """Return heads that all have distances to each other; fill their diagonal with 0."""
    missing = np.isnan(table)
    alone = np.diag(missing).copy()
    np.fill_diagonal(missing, False)
    is_kept = np.ones(len(table), dtype=bool)
    while (counts := missing[is_kept][:, is_kept].sum(axis=1)).any():
        worst = np.flatnonzero(is_kept)[counts == counts.max()]
        is_kept[worst[alone[worst].argmax()]] = False
    if is_kept.sum() == 1 and alone[is_kept].all():
        is_kept[:] = False
    defined_heads: list[int] = np.flatnonzero(is_kept).tolist()
    table[defined_heads, defined_heads] = 0.0
    return defined_heads


def _sign(axis: NDArray[np.float64]) -> float:
    """Return 1 or -1: the sign that makes later heads lie further along the axis."""
    reach = np.abs(axis).max()
    trend = float(axis @ (np.arange(len(axis)) - (len(axis) - 1) / 2))
    if abs(trend) > 1e-9 * reach * len(axis):
        return 1.0 if trend > 0 else -1.0
    return 1.0 if axis[np.abs(axis) > 1e-9 * reach][0] < 0 else -1.0
