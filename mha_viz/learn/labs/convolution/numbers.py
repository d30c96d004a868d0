"""Lab 6: k x k heads with relative positions are a k x k convolution, measured."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.checks import Number
from mha_viz.core.attention.multi_head import AttentionWeights, MultiHeadAttention
from mha_viz.core.stored_runs import StoredRun
from mha_viz.learn.networks.strokes import Learned, learn

BORDERS = ("zeros", "nearest")  # outside of the picture
MAX_SIDE = 32  # pixels of the longer side
CODE = 4  # numbers of a token that encode its position: row, column, their squares' sum, one
ALPHAS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 25.0, 30.0)
SHARP_ALPHA = 20.0  # all weight on one pixel, in float32
Picture = Float[Tensor, "row column in"]
Output = Float[Tensor, "row column out"]
Kernel = Float[Tensor, "out in size size"]
# Weights that are in memory at a time. Smaller parts fit a cache better, and are slower where
# another program takes a core: each of their steps waits for all threads.
_MAX_WEIGHTS = 2**20
_ROUNDING = 4e-6  # of float32, in sums whose largest number is 1


def tokens(picture: Picture, width: int | None = None) -> Float[Tensor, "pixel d_model"]:
    """Make a token of each pixel: its colours, then (row, column, row^2 + column^2, 1).

    Rows and columns are counted from the middle of the picture, which keeps scores small. `width`
    is that of the colours, filled up with 0; as many as there are channels if not given.

    >>> tokens(torch.ones(1, 3, 1))
    tensor([[ 1.,  0., -1.,  1.,  1.],
            [ 1.,  0.,  0.,  0.,  1.],
            [ 1.,  0.,  1.,  1.,  1.]])
    """
    channels = picture.shape[-1]
    sides = (torch.arange(n, dtype=picture.dtype) - (n - 1) / 2 for n in picture.shape[:2])
    position = torch.cartesian_prod(*sides)
    colours = F.pad(picture.reshape(-1, channels), (0, (width or channels) - channels))
    square = (position**2).sum(-1, keepdim=True)
    return torch.cat([colours, position, square, torch.ones_like(square)], -1)


def offsets(size: int) -> Int[Tensor, "head 2"]:
    """Return each head's offset from its pixel, (rows down, columns right), in the kernel's order.

    >>> offsets(3)[:2].tolist()
    [[-1, -1], [-1, 0]]
    """
    step = torch.arange(size) - size // 2
    return torch.cartesian_prod(step, step)


def heads(kernel: Kernel, alpha: Number) -> MultiHeadAttention:
    """Build multi-head attention that is this convolution: a head for each pixel of the kernel.

    W_Q and W_K make the score of a pixel p and a pixel k -alpha |k - p - offset|^2, up to what is
    the same for all k; W_V takes the colours, and the head's slice of W_O is the kernel's slice.

    Args:
        kernel: as torch's Conv2d has it; size 1, 3 or 5.
        alpha: sharpness in [0, 30]; at 20 all of a head's weight lies on one pixel, in float32.

    Source: Cordonnier, Loukas and Jaggi 2020, theorem 1 and lemma 2. They add the quadratic
    encoding to the scores as a relative position; here, multiplied out, it is in the tokens.

    >>> heads(torch.ones(1, 1, 3, 3), alpha=10).W_O.shape
    torch.Size([9, 1, 5])
    """
    n_out, n_in, size, _ = kernel.shape
    offset = offsets(size).to(kernel.dtype)
    n_heads, row = len(offset), max(n_in, n_out)  # colours come first
    square, constant = row + 2, row + 3
    W_Q = kernel.new_zeros(n_heads, row + CODE, 3)
    W_Q[:, row, 0] = W_Q[:, row + 1, 1] = 2 * alpha  # 2 alpha (p + offset) ...
    W_Q[:, constant, :2] = 2 * alpha * offset
    W_Q[:, constant, 2] = -alpha  # ... and -alpha, which meets |k|^2
    W_K = kernel.new_zeros(n_heads, row + CODE, 3)
    W_K[:, row, 0] = W_K[:, row + 1, 1] = W_K[:, square, 2] = 1
    W_V = torch.eye(row + CODE, n_in, dtype=kernel.dtype).repeat(n_heads, 1, 1)
    W_O = F.pad(kernel.flatten(2).permute(2, 1, 0), (0, row + CODE - n_out))
    return MultiHeadAttention.from_weights(AttentionWeights(W_Q, W_K, W_V, W_O, scale=1.0)).eval()


@torch.no_grad()
def attend(
    picture: Picture, kernel: Kernel, alpha: Number = SHARP_ALPHA, border: str = "zeros"
) -> Output:
    """Apply the heads to a picture.

    Args:
        picture: at most 32 x 32 pixels.
        kernel: as in `heads`.
        alpha: sharpness of the heads, in [0, 30].
        border: "zeros": a head whose pixel lies outside may attend to nothing, which gives zeros.
            "nearest": no mask; its weight goes to the nearest pixel of the picture.

    >>> attend(torch.ones(2, 2, 1), torch.ones(1, 1, 3, 3))[:, :, 0]
    tensor([[4., 4.],
            [4., 4.]])
    """
    layer, x, mask = _prepared(picture, kernel, alpha, border)
    step = max(1, _MAX_WEIGHTS // (layer.n_heads * len(x)))
    starts = range(0, len(x), step)
    parts = [layer(x[i : i + step], x, mask=mask[:, i : i + step]).output for i in starts]
    return torch.cat(parts)[:, : len(kernel)].reshape(*picture.shape[:2], -1)


def convolve(picture: Picture, kernel: Kernel, border: str = "zeros") -> Output:
    """Apply torch's convolution to a picture surrounded by zeros or by the nearest pixels.

    >>> convolve(torch.ones(1, 2, 1), torch.ones(1, 1, 3, 3), border="nearest")[:, :, 0]
    tensor([[9., 9.]])
    """
    image, edge = picture.permute(2, 0, 1)[None], kernel.shape[-1] // 2
    around = "constant" if border == "zeros" else "replicate"
    return F.conv2d(F.pad(image, (edge,) * 4, mode=around), kernel)[0].permute(1, 2, 0)


class Pixel(NamedTuple):
    """One pixel of the output, and the heads' parts of it.

    Args:
        pattern: each head's weights on the picture; all 0 for a masked head.
        z: what each head gathers. parts: times its slice of the kernel; they sum to the output.
    """

    pattern: Float[Tensor, "head row column"]
    z: Float[Tensor, "head in"]
    parts: Float[Tensor, "head out"]


@torch.no_grad()
def at_pixel(
    picture: Picture, kernel: Kernel, alpha: Number, border: str, row: int, column: int
) -> Pixel:
    """Compute patterns, z and head outputs of one pixel; arguments as in `attended`.

    >>> at_pixel(torch.ones(4, 4, 1), torch.ones(1, 1, 3, 3), 20, "zeros", 0, 0).z[:, 0]
    tensor([0., 0., 0., 0., 1., 1., 0., 1., 1.])
    """
    layer, x, mask = _prepared(picture, kernel, alpha, border)
    i = row * picture.shape[1] + column
    attention = layer(x[i : i + 1], x, mask=mask[:, i : i + 1])
    parts = layer.head_output(attention.z)[:, 0, : len(kernel)]
    return Pixel(attention.pattern[:, 0].unflatten(-1, picture.shape[:2]), attention.z[:, 0], parts)


def _prepared(
    picture: Picture, kernel: Kernel, alpha: Number, border: str
) -> tuple[MultiHeadAttention, Tensor, Bool[Tensor, "head pixel 1"]]:
    """Return the heads, the tokens, and which heads may attend: with a target pixel, for zeros.

    >>> _prepared(torch.ones(1, 2, 1), torch.ones(1, 1, 3, 3), 1.0, "zeros")[2][:, 0, 0].int()
    tensor([0, 0, 0, 0, 1, 1, 0, 0, 0], dtype=torch.int32)
    """
    layer, size = heads(kernel, alpha), torch.tensor(picture.shape[:2])
    x = tokens(picture, layer.d_model - CODE)
    target = torch.cartesian_prod(*map(torch.arange, size)) + offsets(kernel.shape[-1])[:, None]
    is_inside = ((target >= 0) & (target < size)).all(-1, keepdim=True)
    return layer, x, is_inside | (border == "nearest")


def leak(alpha: Number) -> float:
    """Return the share of a head's weight that misses its pixel, at most, in [0, 1].

    1 - theta^-2 with theta = sum over all whole d of exp(-alpha d^2): softmax on an endless grid.
    A picture has fewer pixels to lose weight to.

    >>> leak(4.0), leak(0.0)
    (0.0694..., 1.0)
    """
    if alpha <= 0:
        return 1.0
    reach = 2 + math.ceil(math.sqrt(40 / alpha))  # beyond it e^-40
    missed = 2 * sum(math.exp(-alpha * d * d) for d in range(1, reach))
    return -math.expm1(-2 * math.log1p(missed))


def largest_difference(ours: Output, exact: Output) -> float:
    """Return the largest |ours - exact| over all numbers."""
    return float((ours - exact).abs().max())


class Difference(NamedTuple):
    """The difference of heads from a convolution.

    Args:
        alpha: sharpness of the heads.
        measured: largest |attention - convolution|.
        bound: its bound, but for rounding. Weight that misses its pixel lands on others, which
            differ by the picture's range at most: max_out sum_in (max - min of that channel)
            sum |kernel| * leak(alpha).
        rounding: of one sum, in float32.
        is_rounding: whether float32 explains what is measured.
        most: the convolution's largest |number|.
    """

    alpha: Number
    measured: float
    bound: float
    rounding: float
    is_rounding: bool
    most: float


def compare(
    picture: Picture, kernel: Kernel, alpha: Number, exact: Output, ours: Output
) -> Difference:
    """Compare the output of heads with that of the convolution; arguments as in `attend`.

    >>> equal, kernel = torch.ones(4, 4, 1), torch.ones(1, 1, 3, 3)
    >>> compare(equal, kernel, 1.0, convolve(equal, kernel), attend(equal, kernel, 1.0)).bound
    0.0
    """
    measured, norm = largest_difference(ours, exact), float(kernel.abs().sum((1, 2, 3)).max())
    extent = picture.amax((0, 1)) - picture.amin((0, 1))
    bound = float((kernel.abs().sum((2, 3)) @ extent).max()) * leak(alpha)
    rounding = norm * torch.finfo(torch.float32).eps
    is_rounding = measured <= _ROUNDING * max(norm, 1.0)
    return Difference(alpha, measured, bound, rounding, is_rounding, float(exact.abs().max()))


def sharpness(
    picture: Picture, kernel: Kernel, border: str = "zeros", alphas: Sequence[float] = ALPHAS
) -> pd.DataFrame:
    """Return a `Difference` for each alpha: how heads approach the convolution.

    >>> picture = torch.eye(4)[:, :, None]
    >>> error = sharpness(picture, torch.ones(1, 1, 3, 3), alphas=[1.0, 8.0]).measured
    >>> bool(error[1] < 0.01 * error[0])
    True
    """
    exact = convolve(picture, kernel, border)
    outputs = ((alpha, attend(picture, kernel, alpha, border)) for alpha in alphas)
    return pd.DataFrame([compare(picture, kernel, alpha, exact, ours) for alpha, ours in outputs])


def pixels(picture: Picture, exact: Output, ours: Output) -> pd.DataFrame:
    """Return a row for each pixel, with the numbers of each channel in picture and outputs."""
    colours = ("",) if exact.shape[2] == 1 else (" red", " green", " blue")
    columns = [kind + colour for kind in ("picture", "Conv2d", "attention") for colour in colours]
    sides = [range(side) for side in exact.shape[:2]]
    positions = pd.MultiIndex.from_product(sides, names=["row", "column"])
    numbers = torch.cat([picture, exact, ours], -1).flatten(0, 1).numpy()
    return pd.DataFrame(numbers, positions, columns).reset_index()


def head_table(pixel: Pixel, position: tuple[int, int]) -> pd.DataFrame:
    """Return a row for each head: its place in the kernel, its weights, what it sees and adds."""
    steps = offsets(math.isqrt(len(pixel.z)))
    reach = steps.abs().max()
    padded = F.pad(pixel.pattern, (int(reach),) * 4)  # no weight lies outside
    row, column = (steps + steps.new_tensor(position) + reach).unbind(-1)
    return pd.DataFrame(
        {
            "head": range(len(steps)),
            "rows down": steps[:, 0],
            "columns right": steps[:, 1],
            "weight on its pixel": padded[range(len(steps)), row, column],
            "all its weights": pixel.pattern.sum((1, 2)),
            "sees (first channel)": pixel.z[:, 0],
            "adds (first channel)": pixel.parts[:, 0],
        }
    )


STORED = (StoredRun("convolution", (0,), Learned, learn),)
