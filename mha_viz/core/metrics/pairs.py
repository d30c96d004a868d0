"""Distances of the patterns of two heads on one text, for all pairs of heads.

Each result is symmetric, (layer * head, layer * head): head h of layer l stands at l * heads + h.
They are 0 on the diagonal. If a row of a pattern sums to less than 1 (to 0, for
a query that may see nothing), the rest counts as weight on one more key, "nowhere": two rows of
zeros are alike, a row of zeros and a full one have nothing in common.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import iadd

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics.blocks import LEAST
from mha_viz.core.metrics.checks import Pattern, check_pattern, widest, with_float64
from mha_viz.core.threads import in_threads

BLOCK = 2**12  # weights of each head at a time: in the cache, and no second pattern is held
STRIP = 48  # heads whose products with those before them are left out, being known
CLOSE = 1e-5  # squared distances below this are too near to be differences of float32 sums
ROUNDING = 0.01  # a row's sum may miss 1 by so much in half precision


@dataclass(frozen=True)
class AllRows:
    """The rows of all heads of all layers, some queries at a time: no more of them is ever held."""

    n_query: int  # the number of queries
    step: int  # how many of them make a block
    # (queries, numbers of heads or None for all) -> rows (head, some queries, key)
    rows: Callable[[slice, Tensor | None], Float[Tensor, "all_heads row key"]]

    @classmethod
    def of(cls, pattern: Pattern, block: int = BLOCK) -> "AllRows":
        """Cut a pattern into blocks of about so many weights of each head."""
        every = check_pattern(pattern)[0].detach().flatten(0, 1)
        n_query, n_key = every.shape[-2:]

        def rows(queries: slice, heads: Tensor | None) -> Tensor:
            return every[:, queries] if heads is None else every[:, queries][heads]

        return cls(n_query, max(1, block // n_key), rows)

    @property
    def spans(self) -> list[slice]:
        """The queries of each block."""
        return [slice(begin, begin + self.step) for begin in range(0, self.n_query, self.step)]

    def block(self, queries: slice, heads: Tensor | None = None) -> Tensor:
        """Return some heads' rows, all of a head in one; "nowhere" is a key where any looks."""
        rows = self.rows(queries, heads)
        rows = rows.to(torch.promote_types(rows.dtype, torch.float32))
        lacking = 1 - rows.sum(-1, keepdim=True)
        nowhere = torch.where(lacking > ROUNDING, lacking, 0.0)
        return (torch.cat([rows, nowhere], -1) if nowhere.any() else rows).flatten(1)


def hellinger(pattern: Pattern | AllRows) -> Float[Tensor, "all_heads all_heads"]:
    """Compute the Hellinger distance of two heads' rows: sqrt(1 - mean_q sum_k sqrt(A_i A_j)).

    Rows sum to 1 or are all zero. Returns (layer * head, layer * head) in [0, 1]: 0 for the same
    pattern, 1 for patterns that never look at the same key. Heads nearer than 0.003 are compared in
    float64: as a difference of float32 sums, that would be rounding. Source: Hellinger 1909; the
    root of the mean over queries of the squared distance of rows.

    >>> hellinger(torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]], [[0.64, 0.36]]]]))
    tensor([[0.0000, 1.0000, 0.4472],
            [1.0000, 0.0000, 0.6325],
            [0.4472, 0.6325, 0.0000]])
    """
    rows, wide = _all_rows(pattern)
    squared = _squared_hellinger(rows, None, lambda block: block)
    close = (squared < CLOSE).triu(1)
    near = close.any(0) | close.any(1)
    if near.any():
        within = near[:, None] & near
        (heads,) = near.nonzero(as_tuple=True)
        exact = _squared_hellinger(rows, heads, lambda block: with_float64(block).double())
        squared[within] = exact.flatten().to(squared)
    return symmetrized(squared.clamp(0.0, 1.0).sqrt(), 0.0, wide)


def jensen_shannon(pattern: Pattern | AllRows) -> Float[Tensor, "all_heads all_heads"]:
    """Average the Jensen-Shannon divergence of two heads' rows: mean_q JS(A_i(q), A_j(q)).

    JS(a, b) = H((a + b) / 2) - (H(a) + H(b)) / 2. Rows are as for `hellinger`. Returns (layer *
    head, layer * head), nats in [0, ln 2]: 0 for the same pattern, ln 2 for patterns that never
    look at the same key. Source: Lin 1991; between heads, Clark et al. 2019, section 6, who sum it
    over the tokens.

    >>> jensen_shannon(torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]]))
    tensor([[0.0000, 0.6931],
            [0.6931, 0.0000]])
    """
    rows, wide = _all_rows(pattern)

    def mixed(span: slice) -> Tensor:
        block = rows.block(span)
        return _mixed(block) if block.device.type == "cpu" else _mixed_on_device(block)

    sums = reduce(iadd, in_threads(mixed, rows.spans))
    sums = sums.triu() + sums.triu(1).mT
    # sums_ij = sum of s ln s over s = A_i + A_j; factors 2 and masses drop out against its diagonal
    alone = sums.diagonal()
    divergence = ((alone[:, None] + alone) / 4 - sums / 2) / rows.n_query
    rounding = 4 * torch.finfo(wide).eps  # of equal heads, whose rows are sums in another order
    divergence = divergence.masked_fill(divergence <= rounding, 0.0)
    return symmetrized(divergence.clamp(0.0, float(np.log(2))), 0.0, wide)


def _all_rows(pattern: Pattern | AllRows) -> tuple[AllRows, torch.dtype]:
    """Return the rows, and the dtype of what is made of them."""
    rows = pattern if isinstance(pattern, AllRows) else AllRows.of(pattern)
    return rows, torch.promote_types(rows.rows(slice(0, 1), None).dtype, torch.float32)


def _squared_hellinger(
    rows: AllRows, heads: Tensor | None, convert: Callable[[Tensor], Tensor]
) -> Tensor:
    """Compute the squared distances of some heads, (heads, heads)."""
    blocks = (convert(rows.block(span, heads)) for span in rows.spans)
    affinity = products(block.sqrt() for block in blocks)
    # half the squared distance of the roots: the same as 1 - affinity where rows sum to 1, and
    # still 0 for the same rows where they do so only up to rounding
    masses = affinity.diagonal()
    return ((masses[:, None] + masses) / 2 - affinity) / rows.n_query


def products(blocks: Iterable[Tensor]) -> Tensor:
    """Sum block block^T over blocks, in the `widest` floats; only the upper half is filled."""
    return reduce(iadd, map(_products, blocks))


def _products(block: Tensor) -> Tensor:
    """Multiply one block: two thirds of the work for 144 heads, since the matrix is symmetric."""
    check_cancelled()
    upper = block.new_zeros(len(block), len(block), dtype=widest(block.device))
    for begin in range(0, len(block), STRIP):
        upper[begin : begin + STRIP, begin:] = block[begin : begin + STRIP] @ block[begin:].mT
    return upper


def _mixed(block: Tensor) -> Tensor:
    """Sum s ln s over s = block_i + block_j, for j >= i: float64 (heads, heads)."""
    heads = block.numpy()
    sums = np.zeros((len(heads), len(heads)))
    mixtures, logarithms = np.empty_like(heads), np.empty_like(heads)
    for i, first in enumerate(heads):
        mixture, logarithm = mixtures[i:], logarithms[i:]
        np.add(first + LEAST, heads[i:], out=mixture)
        np.log(mixture, out=logarithm)
        sums[i, i:] = np.vecdot(mixture, logarithm)
    return torch.from_numpy(sums)


def _mixed_on_device(block: Tensor) -> Tensor:
    """Sum as `_mixed`, by torch's own operations."""
    sums = block.new_zeros(len(block), len(block), dtype=widest(block.device))
    for i, first in enumerate(block):
        mixture = first + block[i:]
        sums[i, i:] = torch.xlogy(mixture, mixture).sum(-1)
    return sums


def symmetrized(matrix: Tensor, self_value: float | None, dtype: torch.dtype) -> Tensor:
    """Make the upper half symmetric, with `own` on the diagonal where that is a number."""
    matrix = matrix.triu() + matrix.triu(1).mT
    if self_value is not None:
        diagonal = matrix.diagonal()
        diagonal.copy_(torch.where(diagonal.isnan(), diagonal, self_value))
    return matrix.to(dtype)
