"""Lab 6: k x k heads with relative positions are a k x k convolution."""

from dataclasses import dataclass
from typing import Annotated

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.checks import Number
from mha_viz.core.attention.multi_head import AttentionWeights, MultiHeadAttention
from mha_viz.core.stored_runs import StoredRun
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.learn.labs.convolution.learning import Learned, learn

BORDERS = ("zeros", "nearest")  # what stands outside of the picture
SIZES = (1, 3, 5)
SIDES = (16, 24, 32)  # pixels of the longer side
MAX_SIDE = SIDES[-1]
MAX_ALPHA = 30.0
CODE = 4  # numbers of a token that say where it is: row, column, their squares' sum, one
# Their shapes are checked below, where a wrong one is said in our words.
Picture = Annotated[Tensor, "row column channel"]
Kernel = Annotated[Tensor, "out in size size"]
# Weights that are held at a time. Smaller parts fit a cache better, and are slower where another
# program takes a core: each of their steps waits for all threads.
_AT_ONCE = 2**20


def tokens(picture: Picture, width: int | None = None) -> Float[Tensor, "pixel d_model"]:
    """Make a token of each pixel: its colours, then (row, column, row^2 + column^2, 1).

    Rows and columns are counted from the middle of the picture, which keeps scores small.

    Args:
        picture: (row, column, channel), at most 32 x 32.
        width: numbers for colours, the rest 0; as many as there are channels if not given.

    Raises:
        ShapeError: no picture. ArgumentError: a picture that is too large.

    >>> tokens(torch.ones(1, 3, 1))
    tensor([[ 1.,  0., -1.,  1.,  1.],
            [ 1.,  0.,  0.,  0.,  1.],
            [ 1.,  0.,  1.,  1.,  1.]])
    """
    _check_picture(picture)
    rows, columns, channels = picture.shape
    row = torch.arange(rows, dtype=picture.dtype) - (rows - 1) / 2
    column = torch.arange(columns, dtype=picture.dtype) - (columns - 1) / 2
    place = torch.stack(torch.meshgrid(row, column, indexing="ij"), -1).reshape(-1, 2)
    colours = F.pad(picture.reshape(-1, channels), (0, (width or channels) - channels))
    square = (place**2).sum(-1, keepdim=True)
    return torch.cat([colours, place, square, torch.ones_like(square)], -1)


def offsets(size: int) -> Int[Tensor, "head 2"]:
    """Return each head's offset from its pixel, (rows down, columns right), in the kernel's order.

    Raises:
        ArgumentError: a kernel of another size than 1, 3 or 5.

    >>> offsets(3)[:2].tolist()
    [[-1, -1], [-1, 0]]
    """
    if size not in SIZES:
        raise ArgumentError(f"the lab takes kernels of 1, 3 or 5 pixels, got {size}.")
    step = torch.arange(size) - size // 2
    return torch.cartesian_prod(step, step).reshape(-1, 2)


def heads(kernel: Kernel, alpha: Number) -> MultiHeadAttention:
    """Build multi-head attention that is this convolution: a head for each place of the kernel.

    W_Q and W_K make the score of a pixel p and a pixel k -alpha |k - p - offset|^2, up to what is
    the same for all k; W_V takes the colours, and the head's slice of W_O is the kernel's slice.

    Args:
        kernel: (out, in, size, size), as torch's Conv2d has it; size 1, 3 or 5.
        alpha: sharpness in [0, 30]; at 20 all of a head's weight lies on one pixel, in float32.

    Raises:
        ShapeError: no such kernel. ArgumentError: an alpha or a size that the lab does not take.

    Source: Cordonnier, Loukas and Jaggi 2020, theorem 1 and lemma 2. They add the quadratic
    encoding to the scores as a relative position; here, multiplied out, it is in the tokens.

    >>> heads(torch.ones(1, 1, 3, 3), alpha=10).W_O.shape
    torch.Size([9, 1, 5])
    """
    _check_kernel(kernel)
    if not 0 <= alpha <= MAX_ALPHA:
        raise ArgumentError(f"alpha must lie in 0..{MAX_ALPHA:g}, got {alpha}.")
    n_out, n_in, size, _ = kernel.shape
    where = offsets(size).to(kernel.dtype)
    n_heads, colours = len(where), max(n_in, n_out)
    row, square, one = colours, colours + 2, colours + 3
    W_Q = kernel.new_zeros(n_heads, colours + CODE, 3)
    W_Q[:, row, 0] = W_Q[:, row + 1, 1] = 2 * alpha  # 2 alpha (p + offset) ...
    W_Q[:, one, :2] = 2 * alpha * where
    W_Q[:, one, 2] = -alpha  # ... and -alpha, which meets |k|^2
    W_K = kernel.new_zeros(n_heads, colours + CODE, 3)
    W_K[:, row, 0] = W_K[:, row + 1, 1] = W_K[:, square, 2] = 1
    W_V = torch.eye(colours + CODE, n_in, dtype=kernel.dtype).repeat(n_heads, 1, 1)
    W_O = F.pad(kernel.flatten(2).permute(2, 1, 0), (0, colours + CODE - n_out))
    return MultiHeadAttention.from_weights(AttentionWeights(W_Q, W_K, W_V, W_O, scale=1.0)).eval()


def in_sight(rows: int, columns: int, size: int) -> Bool[Tensor, "head pixel 1"]:
    """Tell whether each head's target pixel lies in the picture; as a mask, others see nothing.

    >>> in_sight(1, 2, 3)[:, 0, 0].int().tolist()  # of the left pixel's nine, two are there
    [0, 0, 0, 0, 1, 1, 0, 0, 0]
    """
    place = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).reshape(-1, 2)
    target = place + offsets(size)[:, None]
    return ((target >= 0) & (target < torch.tensor([rows, columns]))).all(-1, keepdim=True)


@torch.no_grad()
def attended(
    picture: Picture, kernel: Kernel, alpha: Number = 20.0, border: str = "zeros"
) -> Float[Tensor, "row column out"]:
    """Apply the heads to a picture.

    Args:
        picture: (row, column, in), at most 32 x 32.
        kernel: (out, in, size, size), as in `heads`.
        alpha: sharpness of the heads, in [0, 30].
        border: "zeros": a head whose pixel lies outside may attend to nothing, which gives zeros.
            "nearest": no mask; its weight goes to the nearest pixel that is there.

    Raises:
        ShapeError, ArgumentError: as `heads` and `tokens`; another border.

    >>> attended(torch.ones(2, 2, 1), torch.ones(1, 1, 3, 3))[:, :, 0]
    tensor([[4., 4.],
            [4., 4.]])
    """
    layer, x, mask = _prepared(picture, kernel, alpha, border)
    step = max(1, _AT_ONCE // (layer.n_heads * len(x)))
    parts = [
        layer(x[i : i + step], x, mask=None if mask is None else mask[:, i : i + step]).output
        for i in range(0, len(x), step)
    ]
    return torch.cat(parts)[:, : len(kernel)].reshape(*picture.shape[:2], -1)


def convolved(
    picture: Float[Tensor, "row column in"],
    kernel: Float[Tensor, "out in size size"],
    border: str = "zeros",
) -> Float[Tensor, "row column out"]:
    """Apply torch's convolution, outside of which there are zeros or the nearest pixels.

    >>> convolved(torch.ones(1, 2, 1), torch.ones(1, 1, 3, 3), border="nearest")[:, :, 0]
    tensor([[9., 9.]])
    """
    image, edge = picture.permute(2, 0, 1)[None], kernel.shape[-1] // 2
    around = "constant" if border == "zeros" else "replicate"
    return F.conv2d(F.pad(image, (edge,) * 4, mode=around), kernel)[0].permute(1, 2, 0)


@dataclass(frozen=True)
class Pixel:
    """One pixel of the output, and the heads' parts of it.

    Args:
        pattern: (head, row, column), where each head looks; all 0 for one that sees nothing.
        z: (head, in), what it sees. parts: (head, out), times its slice of the kernel; their sum
            over heads is the output.
    """

    pattern: Tensor
    z: Tensor
    parts: Tensor


@torch.no_grad()
def at_pixel(
    picture: Picture, kernel: Kernel, alpha: Number, border: str, row: int, column: int
) -> Pixel:
    """Compute patterns, z and head outputs of one pixel; arguments as in `attended`.

    Raises:
        ArgumentError: a pixel outside of the picture; and as `attended`.

    >>> at_pixel(torch.ones(4, 4, 1), torch.ones(1, 1, 3, 3), 20, "zeros", 0, 0).z[:, 0]
    tensor([0., 0., 0., 0., 1., 1., 0., 1., 1.])
    """
    layer, x, mask = _prepared(picture, kernel, alpha, border)
    rows, columns = picture.shape[:2]
    if not (0 <= row < rows and 0 <= column < columns):
        raise ArgumentError(f"there is no pixel {row}, {column} in {rows} x {columns}.")
    i = row * columns + column
    found = layer(x[i : i + 1], x, mask=None if mask is None else mask[:, i : i + 1])
    written = layer.head_output(found.z)[:, 0, : len(kernel)]
    return Pixel(found.pattern[:, 0].reshape(-1, rows, columns), found.z[:, 0], written)


def _prepared(
    picture: Tensor, kernel: Tensor, alpha: Number, border: str
) -> tuple[MultiHeadAttention, Tensor, Tensor | None]:
    if border not in BORDERS:
        raise ArgumentError(f"border must be one of {BORDERS}, got {border!r}.")
    layer = heads(kernel, alpha)
    _check_picture(picture)
    if picture.shape[-1] != kernel.shape[1]:
        raise ShapeError(
            f"the kernel reads {kernel.shape[1]} channels, the picture has {picture.shape[-1]}."
        )
    x = tokens(picture, layer.d_model - CODE)
    if border == "nearest":
        return layer, x, None
    return layer, x, in_sight(picture.shape[0], picture.shape[1], kernel.shape[-1])


def _check_picture(picture: Tensor) -> None:
    if picture.ndim != 3 or 0 in picture.shape:
        raise ShapeError(f"a picture must be (row, column, channel), got {tuple(picture.shape)}.")
    if max(picture.shape[:2]) > MAX_SIDE:
        raise ArgumentError(
            f"Attention compares every pixel with every other: a picture may have {MAX_SIDE} x "
            f"{MAX_SIDE} pixels, got {picture.shape[0]} x {picture.shape[1]}."
        )


def _check_kernel(kernel: Tensor) -> None:
    if kernel.ndim != 4 or kernel.shape[2] != kernel.shape[3] or 0 in kernel.shape:
        raise ShapeError(f"a kernel must be (out, in, size, size), got {tuple(kernel.shape)}.")
    if not kernel.isfinite().all():
        raise ArgumentError("the kernel's numbers must be finite.")


STORED = (StoredRun("convolution", (0,), Learned, learn),)
