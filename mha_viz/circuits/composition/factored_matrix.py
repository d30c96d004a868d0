"""Matrices of many heads as products of two thin factors, and the largest cells of such products.

The products are never multiplied out.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from mha_viz.circuits.composition.norm_placement import NormPlacement
from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.projections import repeat_heads

_CELLS = 2**23  # of a block of rows: 32 MiB of float32


@dataclass(frozen=True, eq=False)
class FactoredMatrix:
    """The matrix A B, of d_model x d_model and rank k, by its factors; one of each head.

    Norms, singular values and eigenvalues take k x k matrices alone. The word is TransformerLens'.

    >>> matrix = FactoredMatrix(torch.tensor([[[3.0], [4.0]]]), torch.tensor([[[1.0, 0.0]]]))
    >>> matrix.column_factor.mT, matrix.eigenvalues
    (tensor([[[0.6000, 0.8000]]]), tensor([[3.+0.j]]))
    """

    A: Float[Tensor, "head d_model k"]
    B: Float[Tensor, "head k d_model2"]

    @property
    def T(self) -> "FactoredMatrix":
        """The transpose of each matrix."""
        return FactoredMatrix(self.B.mT, self.A.mT)

    @property
    def column_factor(self) -> Float[Tensor, "head d_model k"]:
        """A R^T of B^T = Q R, scaled to Frobenius norm 1: NaN where the matrix is zero.

        It has the columns' space and, but for the scale, the singular values of A B: Q turns, and
        no norm changes.
        """
        factor = self.A @ torch.linalg.qr(self.B.mT, mode="r").R.mT
        return factor / torch.linalg.matrix_norm(factor, keepdim=True)

    @property
    def norm(self) -> Float[Tensor, " head"]:
        """The Frobenius norm of each matrix."""
        return ((self.A.mT @ self.A) * (self.B @ self.B.mT)).sum((-1, -2)).sqrt()

    @property
    def svd(
        self,
    ) -> tuple[
        Float[Tensor, "head d_model k"], Float[Tensor, "head k"], Float[Tensor, "head d_model2 k"]
    ]:
        """Left singular vectors, singular values, the largest first, and right ones, as columns."""
        (Q, R), (P, S) = torch.linalg.qr(self.A), torch.linalg.qr(self.B.mT)
        first, values, second = torch.linalg.svd(R @ S.mT)
        return Q @ first, values, P @ second.mT

    def only(self, head: int) -> "FactoredMatrix":
        """Return the matrix of one head, with its head axis."""
        return FactoredMatrix(self.A[head, None], self.B[head, None])

    def scaled_to(self, norm: Float[Tensor, " head"]) -> "FactoredMatrix":
        """Return the matrices scaled to these Frobenius norms."""
        return FactoredMatrix(self.A * (norm / self.norm)[:, None, None], self.B)

    @property
    def eigenvalues(self) -> Complex[Tensor, "head k"]:
        """The eigenvalues that may differ from 0, which are those of B A."""
        return torch.linalg.eigvals(self.B @ self.A)


def folded(
    model: AttentionModel, placement: NormPlacement, layer: int
) -> tuple[FactoredMatrix, FactoredMatrix]:
    """Return W_Q W_K^T and W_V W_O of each query head, the layer's own norms folded in."""
    dtype = torch.promote_types(model.dtype, torch.float32)
    weights: AttentionWeights = model.attention_weights(layer)
    reading, writing = placement.reading[layer], placement.writing[layer]
    read = [getattr(weights, name).to(dtype) for name in ("W_Q", "W_K", "W_V")]
    read = [W if reading is None else reading.pull_back(W.mT).mT for W in read]
    W_Q, W_K, W_V = (repeat_heads(W[None], model.n_heads)[0] for W in read)
    W_O = weights.W_O.to(dtype)
    W_O = W_O if writing is None else writing.carry(W_O)
    return FactoredMatrix(W_Q, W_K.mT), FactoredMatrix(W_V, W_O)


def n_blocks(rows: Float[Tensor, "m k"], columns: Float[Tensor, "n k2"]) -> int:
    """Count the blocks that `product_blocks` gives."""
    return -(-len(rows) // _rows(columns))


def product_blocks(
    rows: Float[Tensor, "m k"], columns: Float[Tensor, "n k"]
) -> Iterator[Float[Tensor, "block n"]]:
    """Yield rows @ columns^T, some rows at a time."""
    return (block @ columns.mT for block in rows.split(_rows(columns)))


def _rows(right: Tensor) -> int:
    return max(1, _CELLS // len(right))


def largest(
    blocks: Iterable[Float[Tensor, "block n"]], top: int
) -> tuple[Float[Tensor, " top"], Int[Tensor, " top"]]:
    """Find the largest cells of a matrix by blocks of rows, and their flat positions in it."""
    values, positions, first = torch.empty(0), torch.empty(0, dtype=torch.long), 0
    for block in blocks:
        least = values[-1] if len(values) == top else -torch.inf
        highest = block.amax(1)
        rows = highest.topk(min(top, len(block))).indices.sort().values  # no other row has one
        rows = rows[highest[rows] > least]
        best = block[rows].flatten().topk(min(top, len(rows) * block.shape[1]))
        row, column = best.indices // block.shape[1], best.indices % block.shape[1]
        values = torch.cat([values.to(best.values), best.values])
        flat = first + rows[row] * block.shape[1] + column
        positions = torch.cat([positions.to(flat), flat])
        order = values.argsort(descending=True, stable=True)[:top]
        values, positions = values[order], positions[order]
        first += block.numel()
    return values, positions
