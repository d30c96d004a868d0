"""Matrices of many heads as products of two thin factors, which are never multiplied out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor

from mha_viz.circuits.weights.fold import Fold, Passage

_CELLS = 2**22  # of a table in between: 16 MiB of float32
_SMALLEST_TILE = 16


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
        (left, R), (right, S) = torch.linalg.qr(self.A), torch.linalg.qr(self.B.mT)
        first, values, second = torch.linalg.svd(R @ S.mT)
        return left @ first, values, right @ second.mT

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


def n_blocks(left: Float[Tensor, "m k"], right: Float[Tensor, "n k2"]) -> int:
    """Count the blocks that `product_blocks` gives."""
    return -(-len(left) // _rows(right))


def product_blocks(
    left: Float[Tensor, "m k"], right: Float[Tensor, "n k"]
) -> Iterator[Float[Tensor, "block n"]]:
    """Yield left @ right^T, some rows at a time, which take 32 MiB of float32."""
    return (rows @ right.mT for rows in left.split(_rows(right)))


def _rows(right: Tensor) -> int:
    return max(1, 2 * _CELLS // len(right))


def largest(
    blocks: Iterable[Float[Tensor, "block n"]], top: int
) -> tuple[Float[Tensor, " top"], Int[Tensor, " top"]]:
    """Find the largest cells of a matrix given by blocks of rows, and their places in it, flat."""
    values, places, first = torch.empty(0), torch.empty(0, dtype=torch.long), 0
    for block in blocks:
        least = values[-1] if len(values) == top else -torch.inf
        rows = (block.amax(1) > least).nonzero()  # few of them once there are so many large cells
        best = block[rows[:, 0]].flatten().topk(min(top, len(rows) * block.shape[1]))
        row, column = best.indices // block.shape[1], best.indices % block.shape[1]
        values = torch.cat([values.to(best.values), best.values])
        found = first + rows[row, 0] * block.shape[1] + column
        places = torch.cat([places.to(found), found])
        order = values.argsort(descending=True, stable=True)[:top]
        values, places = values[order], places[order]
        first += block.numel()
    return values, places


def squared_products(
    writes: Sequence[Float[Tensor, "head k d_model"]],
    reads: Sequence[Float[Tensor, "head d_model k2"]],
    passing: Sequence[Sequence[Fold]],
) -> Float[Tensor, "sender receiver"]:
    """Compute ||write @ T @ read||_F^2 of all heads with those of later layers, NaN for the rest.

    The heads are in order of layer. T is all that stands in the stream between both layers. Where
    norms stand there, it differs for any two layers; so the layers are halved, what the first half
    writes is carried to the middle, what the second half reads is pulled back to it, and the halves
    are treated alike.
    """
    n_layers, n_heads = len(writes), len(writes[0])
    found = writes[0].new_full((n_layers * n_heads,) * 2, torch.nan)
    if not any(passing):  # one T for all: what is worked out for a head serves all its pairs
        later = torch.ones(n_layers, n_layers, dtype=torch.bool, device=found.device).triu(1)
        later = later.repeat_interleave(n_heads, 0).repeat_interleave(n_heads, 1)
        return all_squared_norms(torch.cat([*writes]), torch.cat([*reads])).where(later, found)

    def between(layer: int, later: int) -> Passage:
        return Passage.of(chain.from_iterable(passing[layer:later]), writes[0])

    for first, middle, last in _halves(0, n_layers):
        early, late = (
            slice(a * n_heads, b * n_heads) for a, b in ((first, middle), (middle, last))
        )
        arriving = [between(i, middle).carry(writes[i]) for i in range(first, middle)]
        read = [between(middle, i).pull_back(reads[i]) for i in range(middle, last)]
        found[early, late] = all_squared_norms(torch.cat(arriving), torch.cat(read))
    return found


def _halves(first: int, last: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first, middle, last) of blocks that hold any two layers, earlier and later, once."""
    if last - first > 1:
        middle = (first + last) // 2
        yield first, middle, last
        yield from _halves(first, middle)
        yield from _halves(middle, last)


def all_squared_norms(
    left: Float[Tensor, "m j d_model"], right: Float[Tensor, "n d_model k"]
) -> Float[Tensor, "m n"]:
    """Compute ||left_i @ right_j||_F^2 of any two, by whichever way multiplies less.

    Either the products themselves, j x k for each pair; or, where there are many pairs, by
    ||A B||_F^2 = <A^T A, B B^T>, tile by tile of these symmetric matrices, which takes one
    multiplication for each of their cells and pair. Multiplications in tiles take twice as long.
    """
    (m, j, d_model), (n, _, k) = left.shape, right.shape
    products = 2 * m * n * j * k * d_model
    tiles = 2 * d_model**2 * (m * j + n * k + m * n)
    return (_by_tiles if tiles < products else _by_products)(left, right)


def _by_products(left: Tensor, right: Tensor) -> Tensor:
    m, j, _ = left.shape
    rows, k = left.flatten(0, 1), right.shape[-1]
    found = []
    for part in right.split(max(1, 4 * _CELLS // (m * j * k))):
        product = rows @ part.transpose(0, 1).flatten(1)
        found.append(product.square_().view(m, j, len(part), k).sum((1, 3)))
    return torch.cat(found, dim=1)


def _by_tiles(left: Tensor, right: Tensor) -> Tensor:
    (m, _, d_model), n = left.shape, len(right)
    side = min(d_model, max(_SMALLEST_TILE, int((_CELLS / (m + n)) ** 0.5)))
    total = left.new_zeros(m, n)
    for i in range(0, d_model, side):
        across = slice(i, i + side)
        for j in range(0, i + 1, side):
            down = slice(j, j + side)
            a = (left[:, :, across].mT @ left[:, :, down]).flatten(1)
            b = (right[:, across] @ right[:, down].mT).flatten(1)
            total += (1 if i == j else 2) * (a @ b.mT)  # the tile above the diagonal is the same
    return total.clamp_(min=0.0)
