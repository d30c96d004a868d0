"""An edit alignment of the tokens of two texts, and matrices on common axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Num, Shaped
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError

Pair = tuple[int | None, int | None]


def align(
    tokens_a: Sequence[str], tokens_b: Sequence[str], *, ignore_case: bool = False
) -> list[Pair]:
    """Align two texts with as few tokens inserted, deleted or replaced as possible.

    Among alignments of equal cost, the one with the most equal tokens; then the one that has
    insertions and deletions as late as it can.

    With `ignore_case`, "The" and "the" are the same token. Returns pairs of places (in A, in B), in
    order; None where the other has no such token. Each place of either text is in exactly one pair.
    Source: Levenshtein 1966; Wagner and Fischer 1974.

    >>> align(["the", "cat", "sat"], ["the", "old", "cat", "ran"])
    [(0, 0), (None, 1), (1, 2), (2, 3)]
    """
    a, b = ([t.casefold() if ignore_case else t for t in tokens] for tokens in (tokens_a, tokens_b))
    cost = _costs(a, b)
    pairs: list[Pair] = []
    i, j = len(a), len(b)
    while i or j:
        step = _step(cost, a, b, i, j)
        i, j = i - (step != "b"), j - (step != "a")
        pairs.append((None if step == "b" else i, None if step == "a" else j))
    return pairs[::-1]


def align_all(
    texts: Sequence[Sequence[str]], *, ignore_case: bool = False
) -> list[list[int | None]]:
    """Align several texts on one axis, each with those before it.

    Returns for each text its token at every place of the axis, None where it has none: what
    `aligned` takes. A place is called after the first text that has a token there.

    >>> align_all([["the", "cat"], ["the", "old", "cat"], ["a", "cat", "sat"]])
    [[0, None, 1, None], [0, 1, 2, None], [0, None, 1, 2]]
    """
    axis, columns = list(texts[0]), [list[int | None](range(len(texts[0])))]
    for tokens in texts[1:]:
        pairs = align(axis, tokens, ignore_case=ignore_case)
        axis = [axis[i] if i is not None else tokens[j or 0] for i, j in pairs]
        columns = [[None if i is None else text[i] for i, _ in pairs] for text in columns]
        columns.append([j for _, j in pairs])
    return columns


def equal_places(
    tokens_a: Sequence[str],
    tokens_b: Sequence[str],
    pairs: Sequence[Pair],
    *,
    ignore_case: bool = False,
) -> list[tuple[int, int]]:
    """Return the pairs of an alignment whose tokens are equal.

    >>> equal_places("abc", "axc", align("abc", "axc"))
    [(0, 0), (2, 2)]
    """
    a, b = ([t.casefold() if ignore_case else t for t in tokens] for tokens in (tokens_a, tokens_b))
    return [(i, j) for i, j in pairs if i is not None and j is not None and a[i] == b[j]]


def _costs(a: list[str], b: list[str]) -> NDArray[np.int64]:
    """Compute the cost of the best alignment of each pair of beginnings, (a + 1, b + 1).

    An edit costs more than all equal tokens together give back, so that edits decide and equal
    tokens break ties. A row is computed at once: a run of insertions is a running minimum.
    """
    codes = {token: code for code, token in enumerate(dict.fromkeys(a + b))}
    edit = len(a) + len(b) + 1
    second = np.array([codes[token] for token in b], dtype=np.int64)
    ramp = np.arange(len(b) + 1) * edit
    cost = np.empty((len(a) + 1, len(b) + 1), dtype=np.int64)
    cost[0] = ramp
    for i, token in enumerate(a, start=1):
        best = cost[i - 1] + edit
        beside = cost[i - 1, :-1] + np.where(second == codes[token], -1, edit)
        best[1:] = np.minimum(best[1:], beside)
        cost[i] = np.minimum.accumulate(best - ramp) + ramp
    return cost


def _step(cost: NDArray[np.int64], a: list[str], b: list[str], i: int, j: int) -> str:
    """Return the last step of the best alignment of a[:i] and b[:j]: "both", "a" or "b"."""
    edit = len(a) + len(b) + 1
    if j and cost[i, j] == cost[i, j - 1] + edit:
        return "b"
    return "a" if i and cost[i, j] == cost[i - 1, j] + edit else "both"


def aligned(
    matrix: Num[np.ndarray | Tensor, "query key"],
    index: Sequence[int | None],
    key_index: Sequence[int | None] | None = None,
) -> Shaped[np.ndarray, "aligned_query aligned_key"]:
    """Take the rows and columns of a matrix at the places of an alignment; NaN where None.

    `index` has places of one text, such as one side of what `align` returns; `key_index` has those
    of the columns, where keys are another text than queries. Returns (aligned_query, aligned_key),
    of the matrix's own precision (float64 for whole numbers).

    >>> aligned(np.array([[1.0, 2.0], [3.0, 4.0]]), [0, None, 1]).tolist()
    [[1.0, nan, 2.0], [nan, nan, nan], [3.0, nan, 4.0]]
    """
    values: Any = matrix.detach().cpu() if isinstance(matrix, Tensor) else matrix
    if isinstance(values, Tensor):
        values = (values.double() if values.itemsize > 4 else values.float()).numpy()
    numbers = np.asarray(values)
    if not np.issubdtype(numbers.dtype, np.floating):
        numbers = numbers.astype(np.float64)
    rows, columns = index, index if key_index is None else key_index
    for positions, length in zip((rows, columns), numbers.shape, strict=True):
        wrong = [
            position
            for position in positions
            if position is not None and not 0 <= position < length
        ]
        if wrong:
            raise ArgumentError(f"The matrix has {length} places; there is no {wrong[0]}.")
    # One row and one column of NaN more, which is where None points to.
    padded = np.pad(numbers, ((0, 1), (0, 1)), constant_values=np.nan)
    down, across = (
        [-1 if position is None else position for position in p] for p in (rows, columns)
    )
    return padded[np.ix_(down, across)]


def pattern_change(
    pattern_a: Float[Tensor, "layer head query_a key_a"],
    pattern_b: Float[Tensor, "layer_b head_b query_b key_b"],
    pairs: Sequence[Pair],
    rows: Sequence[tuple[int, int]] | None = None,
) -> Float[Tensor, "layer head"]:
    """Measure how much each head's weights differ between two texts: total variation distance.

    mean over rows of 1/2 sum_k |A[q, k] - B[q', k']|, where a key that only one text has counts
    with its whole weight, and a key that replaces another is compared with that one.

    `pairs` is the alignment of their tokens, `rows` are the pairs that are averaged over, such as
    `equal_places`; None means all pairs with a place in both texts, even where one token replaces
    another. Returns (layer, head), probability in [0, 1]; NaN where there are no such rows. Raises
    ShapeError: different numbers of layers or heads.

    >>> one = torch.eye(2)[None, None]
    >>> pattern_change(one, one, [(0, 0), (1, 1)])
    tensor([[0.]])
    """
    if pattern_a.shape[:2] != pattern_b.shape[:2]:
        a, b = (tuple(p.shape[:2]) for p in (pattern_a, pattern_b))
        raise ShapeError(f"expected as many layers and heads on both sides, got {a} and {b}")
    both = [(i, j) for i, j in pairs if i is not None and j is not None]
    averaged = both if rows is None else list(rows)
    if not averaged:
        return torch.full(pattern_a.shape[:2], torch.nan)
    rows_a, rows_b = (list(side) for side in zip(*averaged, strict=True))
    keys_a, keys_b = (list(side) for side in zip(*both, strict=True))
    only_a = [i for i, j in pairs if j is None]
    only_b = [j for i, j in pairs if i is None]
    total = []
    # A head at a time, so that no second copy of all patterns is held.
    for a, b in zip(pattern_a.flatten(0, 1), pattern_b.flatten(0, 1), strict=True):
        a, b = a[rows_a].float(), b[rows_b].float()
        apart = (a[:, keys_a] - b[:, keys_b]).abs().sum(-1)
        total.append(apart + a[:, only_a].sum(-1) + b[:, only_b].sum(-1))
    return torch.stack(total).mean(-1).reshape(pattern_a.shape[:2]) / 2
