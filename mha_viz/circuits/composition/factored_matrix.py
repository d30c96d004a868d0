"""Matrices of many heads as products of two thin factors, and norms between them as linear maps.

The products are never multiplied out. A norm is x -> C x * gain / scale + bias. Of these the scale
differs from token to token and is but a factor, which turns no direction; centring C and gain are
the same for all of them.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from mha_viz.errors import NotKeptError

_CELLS = 2**22  # of a table in between: 16 MiB of float32
_SMALLEST_TILE = 16
_LIKE = 1e-3  # by how much a norm may differ from its fold, of its own output's size


@dataclass(frozen=True, eq=False)
class Fold:
    """The linear part of a norm."""

    gain: Float[Tensor, " d_model"]  # (d_model,)
    centred: bool  # whether the mean over d_model is taken away first (LayerNorm; RMSNorm does not)

    @classmethod
    def of(cls, norm: nn.Module, dtype: torch.dtype) -> "Fold":
        """Read the linear part off a norm, and check on a vector that the norm does just that.

        Families differ in what their weights mean (the gain, or what is added to 1) and whether
        they centre: of these four the norm's own output selects one.
        """
        weight = getattr(norm, "weight", None)
        if isinstance(weight, Tensor) and weight.ndim == 1:
            gain = weight.detach().to(dtype)
            # cos, not a random draw: the same everywhere, far from centred, and no two alike
            probe = 1 + torch.arange(1.0, len(gain) + 1, dtype=dtype, device=gain.device).cos()
            bias = getattr(norm, "bias", None)
            with torch.inference_mode():
                made = norm(probe.to(weight.dtype))
                made = (made if bias is None else made - bias).to(dtype)
            tolerance = max(_LIKE, 4 * torch.finfo(weight.dtype).eps)
            for fold in (cls(g, c) for g in (gain, 1 + gain) for c in (True, False)):
                expected = fold.carry(probe)
                expected = expected * (made.norm() / expected.norm())
                if (made - expected).norm() <= tolerance * made.norm():
                    return fold
        raise NotKeptError(
            f"{type(norm).__name__} is neither a LayerNorm nor an RMSNorm with a gain, as expected "
            "between two heads: what one reads of the other cannot be told by weights here."
        )

    def carry(self, written: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        """Map vectors before the norm to vectors behind it."""
        return (centre(written) if self.centred else written) * self.gain

    def pull_back(self, read: Float[Tensor, "*rest d_model k"]) -> Float[Tensor, "*rest d_model k"]:
        """Map weights that read behind the norm to weights before it: `carry`, transposed."""
        read = read * self.gain[:, None]
        return read - read.mean(-2, keepdim=True) if self.centred else read


@dataclass(frozen=True, eq=False)
class Passage:
    """Several folds one after the other as one linear map: a diagonal and thin factors beside it.

    A fold takes off a mean, which is a product of two vectors: so many folds are carried by one
    multiplication of each number and a thin product, not by many steps through memory.
    """

    diagonal: Float[Tensor, " d_model"]
    left: Float[Tensor, "d_model rank"]
    right: Float[Tensor, "rank d_model"]

    @classmethod
    def of(cls, folds: Iterable[Fold], like: Tensor) -> "Passage":
        """Multiply the folds, in their order; `like` has d_model, dtype and device."""
        ones = like.new_ones(like.shape[-1])
        return cls(ones, ones[:, None][:, :0], ones[None][:0]).then(folds)

    def then(self, folds: Iterable[Fold]) -> "Passage":
        """Multiply by further folds."""
        made = self
        for fold in folds:
            diagonal, left, right = made.diagonal * fold.gain, made.left, made.right * fold.gain
            if fold.centred:
                mean = (made.diagonal + made.left @ made.right.sum(-1)) / len(diagonal)
                left = torch.cat([left, mean[:, None]], dim=1)
                right = torch.cat([right, -fold.gain[None]])
            made = Passage(diagonal, left, right)
        return made

    def carry(self, written: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
        """Map vectors before the first norm to vectors behind the last one."""
        # In the memory of what heads read: the factors of what they write are its transpose.
        across = written.mT * self.diagonal[:, None]
        return across.add_(self.right.T @ (self.left.T @ written.mT)).mT

    def pull_back(self, read: Float[Tensor, "*rest d_model k"]) -> Float[Tensor, "*rest d_model k"]:
        """Map weights that read behind the last norm to weights before the first: transposed."""
        return (read * self.diagonal[:, None]).add_(self.left @ (self.right @ read))


def centre(vectors: Float[Tensor, "*rest d_model"]) -> Float[Tensor, "*rest d_model"]:
    """Subtract the mean over d_model."""
    return vectors - vectors.mean(-1, keepdim=True)


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
        highest = block.amax(1)
        rows = highest.topk(min(top, len(block))).indices.sort().values  # no other row has one
        rows = rows[highest[rows] > least]
        best = block[rows].flatten().topk(min(top, len(rows) * block.shape[1]))
        row, column = best.indices // block.shape[1], best.indices % block.shape[1]
        values = torch.cat([values.to(best.values), best.values])
        found = first + rows[row] * block.shape[1] + column
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
