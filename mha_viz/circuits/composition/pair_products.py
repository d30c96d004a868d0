"""Squared norms of all products of what one head writes with what a later head reads.

Where norms stand in the stream between two layers, a product passes them. A norm is
x -> C x * gain / scale + bias. The scale differs from token to token and is but a factor, which
turns no direction; centring C and gain are the same for all tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.attribution.linear_maps import LinearNorm

_CELLS = 2**23  # of a table in between: 32 MiB of float32
_SMALLEST_TILE = 16
_BLOCKS = 4  # of sending layers, each with all layers behind its first
_SMALL = 1e-9  # products of gains below that, of the largest, are not divided by

Block = tuple[slice, slice]  # of senders and receivers
_ALL: Block = (slice(None), slice(None))


@dataclass(frozen=True, eq=False)
class StreamFrame:
    """Coordinates of the stream in which each norm on its way is I - u v^T.

    A coordinate is a number of the stream over the product of the gains that it has passed, each
    of the largest, so that gains are gone, and centring takes off the mean by one product of two
    vectors. A product near 0 is not divided by: its last gain has a u v^T of its own.
    """

    scale: Float[Tensor, "layer d_model"]  # the gains passed, at each layer's heads
    u: Float[Tensor, "d_model rank"]
    v: Float[Tensor, "rank d_model"]
    passed: tuple[int, ...]  # how many of the u v^T stand before each layer's heads

    @classmethod
    def of(cls, passing: Sequence[Sequence[LinearNorm]], like: Tensor) -> "StreamFrame":
        """Return the frame of a stack with these norms; `like` has d_model, dtype and device."""
        d_model = like.shape[-1]
        scale, directions, passed = [like.new_ones(d_model)], list[tuple[Tensor, Tensor]](), [0]
        units = torch.eye(d_model, dtype=like.dtype, device=like.device)
        for norms in passing[:-1]:
            product = scale[-1]
            for norm in norms:
                if norm.centred:
                    directions.append((product / d_model, 1 / product))
                gain = norm.factor / norm.factor.abs().max()
                behind = product * gain
                small = behind.abs() < _SMALL * behind.abs().max()
                for i in small.nonzero().flatten().tolist():
                    directions.append((units[i], (1 - gain[i]) * units[i]))
                product = behind.where(~small, product)
            scale.append(product)
            passed.append(len(directions))
        u, v = (
            (torch.stack(ends) for ends in zip(*directions, strict=True))
            if directions
            else (2 * (like.new_zeros(0, d_model),))
        )
        return cls(torch.stack(scale), u.T, v, tuple(passed))

    def leaving(
        self, written: Float[Tensor, "head k d_model"], layer: int
    ) -> tuple[Float[Tensor, "head k d_model"], Float[Tensor, "head k rank"]]:
        """Return coordinates W behind the layer's own norms, and what further ones take off.

        Behind the first n of all norms it is W less the sum over i < n of c_i v_i^T.
        """
        first, n = self.passed[layer : layer + 2]
        W = written if self._is_plain(layer) else written / self.scale[layer]
        if n > first:
            W = W - self._taken_off(W, slice(first, n)) @ self.v[first:n]
        c = W.new_zeros(*W.shape[:2], len(self.v))
        c[..., n:] = self._taken_off(W, slice(n, None))
        return W, c

    def _taken_off(self, W: Tensor, norms: slice) -> Tensor:
        """Solve c_i = (W - sum over j < i of c_j v_j^T) u_i for some norms that follow W."""
        mixed = (self.v[norms] @ self.u[:, norms]).triu(1)
        mixed.diagonal().fill_(1.0)
        return torch.linalg.solve_triangular(mixed, W @ self.u[:, norms], upper=True, left=False)

    def arrivals(
        self, written: Float[Tensor, "head k d_model"], layer: int
    ) -> Iterator[tuple[int, Float[Tensor, "head k d_model"]]]:
        """Yield what heads of a layer write as it arrives at the next layer, and after any norm."""
        W, c = self.leaving(written, layer)
        for later in range(layer + 1, len(self.scale)):
            if later == layer + 1 or not torch.equal(*self.scale[later - 1 : later + 1]):
                n = self.passed[later]
                x = W if n == 0 else (c[..., :n] @ self.v[:n]).neg_().add_(W)
                yield later, x if self._is_plain(later) else x * self.scale[later]

    def read(
        self, read: Float[Tensor, "head d_model k"], layer: int
    ) -> Float[Tensor, "head d_model k"]:
        """Map what a layer's heads read by to the coordinates."""
        return read if self._is_plain(layer) else read * self.scale[layer][:, None]

    def _is_plain(self, layer: int) -> bool:
        return bool((self.scale[layer] == 1).all())


def squared_products(
    writes: Sequence[Float[Tensor, "head k d_model"]],
    reads: Sequence[Float[Tensor, "head d_model k2"]],
    frame: StreamFrame,
) -> Float[Tensor, "sender receiver"]:
    """Compute ||write @ T @ read||_F^2 of all heads with those of later layers, NaN for the rest.

    The heads are in order of layer. T is all that stands in the stream between both layers. In the
    coordinates of the frame a product is W R, of all pairs alike, less c Y: c of the writing head
    and Y = V R of the reading one. Its square is |W R|^2 - 2 <W^T c, R Y^T> + <c^T c, Y Y^T>, of
    which the last two have few numbers a head.
    """
    n_layers, n_heads = len(writes), len(writes[0])
    squares = writes[0].new_full((n_layers * n_heads,) * 2, torch.nan)
    if n_layers == 1:
        return squares
    leaving = [frame.leaving(written, layer) for layer, written in enumerate(writes[:-1])]
    W, c = (torch.cat(parts) for parts in zip(*leaving, strict=True))
    R = torch.cat([frame.read(read, layer) for layer, read in enumerate(reads)][1:])
    total = later_squared_norms(W, R, n_heads)
    if len(frame.v):
        Y = (frame.v @ R).unflatten(0, (-1, n_heads))
        for of_layer, n in zip(Y, frame.passed[1:], strict=True):
            of_layer[:, n:] = 0.0
        Y = Y.flatten(0, 1)
        total -= 2 * (W.mT @ c).flatten(1) @ (R @ Y.mT).flatten(1).T
        total += (c.mT @ c).flatten(1) @ (Y @ Y.mT).flatten(1).T
    sender = torch.arange(len(W), device=W.device)[:, None] // n_heads
    later = sender <= sender.T  # receivers begin one layer above
    squares[:-n_heads, n_heads:] = total.clamp_(min=0.0).where(later, torch.nan)
    return squares


def later_squared_norms(
    writes: Float[Tensor, "m j d_model"], reads: Float[Tensor, "m d_model k"], n_heads: int
) -> Float[Tensor, "m m"]:
    """Compute ||writes_i @ reads_j||_F^2 of any two, j in a later layer than i.

    The reading heads begin one layer above the writing ones.

    By whichever way multiplies less: either the products themselves, j x k for each pair; or,
    where there are many pairs, by ||A B||_F^2 = <A^T A, B B^T>, tile by tile of these symmetric
    matrices, which takes one multiplication for each of their cells and pair. Multiplications in
    tiles take twice as long. Cells of other pairs are 0 or right.
    """
    (m, j, d_model), k = writes.shape, reads.shape[-1]
    products = 2 * m**2 * j * k * d_model
    tiles = 2 * d_model**2 * (m * j + m * k + m**2)
    norms = _by_tiles if tiles < products else _by_products
    return norms(writes, reads, list(_later(m, n_heads)))


def _later(m: int, n_heads: int) -> Iterator[Block]:
    """Split senders into blocks of layers, each with the receivers above its first layer."""
    step = -(-m // n_heads // _BLOCKS) * n_heads
    for first in range(0, m, step):
        yield slice(first, first + step), slice(first, None)


def _by_products(writes: Tensor, reads: Tensor, blocks: Sequence[Block] = (_ALL,)) -> Tensor:
    total = writes.new_zeros(len(writes), len(reads))
    j, k = writes.shape[1], reads.shape[2]
    for senders, receivers in blocks:
        rows = writes[senders].flatten(0, 1)
        parts = reads[receivers].split(max(1, 2 * _CELLS // (len(rows) * k)))
        squares = [
            (rows @ part.transpose(0, 1).flatten(1)).square_().view(-1, j, len(part), k).sum((1, 3))
            for part in parts
        ]
        total[senders, receivers] = torch.cat(squares, dim=1)
    return total


def _by_tiles(writes: Tensor, reads: Tensor, blocks: Sequence[Block] = (_ALL,)) -> Tensor:
    (m, _, d_model), n = writes.shape, len(reads)
    largest = max(_SMALLEST_TILE, int((_CELLS / (m + n)) ** 0.5))
    side = -(-d_model // -(-d_model // largest))  # tiles of one size
    total = writes.new_zeros(m, n)
    for i in range(0, d_model, side):
        across = slice(i, i + side)
        for j in range(0, i + 1, side):
            down = slice(j, j + side)
            a = (writes[:, :, across].mT @ writes[:, :, down]).flatten(1)
            b = (reads[:, across] @ reads[:, down].mT).flatten(1)
            weight = 1 if i == j else 2  # the tile above the diagonal is the same
            for senders, receivers in blocks:
                total[senders, receivers] += weight * (a[senders] @ b[receivers].mT)
    return total
