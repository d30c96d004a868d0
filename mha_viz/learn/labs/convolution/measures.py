"""Lab 6, measured: how sharp heads must be, what happens at borders, what it all costs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float

from mha_viz.core.attention.checks import Number
from mha_viz.learn.labs.convolution.inputs import full_kernel, kernel_numbers
from mha_viz.learn.labs.convolution.numbers import (
    BORDERS,
    CODE,
    Kernel,
    Picture,
    attended,
    convolved,
)

ALPHAS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 25.0, 30.0)
SHARP = 20.0  # all weight on one pixel, in float32


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
    others = 2 * sum(math.exp(-alpha * d * d) for d in range(1, reach))
    return -math.expm1(-2 * math.log1p(others))


def most_error(picture: Picture, kernel: Kernel, alpha: Number) -> float:
    """Bound |attention - convolution| over all pixels, but for rounding.

    What misses its pixel lands on others, which differ by the picture's range at most:
    max_out sum_in (max - min of that channel) sum |kernel| * leak(alpha).

    >>> most_error(torch.ones(4, 4, 1), torch.ones(1, 1, 3, 3), alpha=1.0)  # all alike
    0.0
    """
    extent = picture.amax((0, 1)) - picture.amin((0, 1))
    return float((kernel.abs().sum((2, 3)) @ extent).max()) * leak(alpha)


@dataclass(frozen=True)
class Sharpness:
    """Largest |attention - convolution| for each alpha, beside the bound."""

    alphas: tuple[float, ...]
    error: list[float]
    bound: list[float]


def sharpness(
    picture: Picture, kernel: Kernel, border: str = "zeros", alphas: Sequence[float] = ALPHAS
) -> Sharpness:
    """Measure how heads approach the convolution as alpha grows; arguments as in `attended`.

    >>> picture = torch.eye(4)[:, :, None]
    >>> found = sharpness(picture, torch.ones(1, 1, 3, 3), alphas=[1.0, 8.0])
    >>> found.error[1] < 0.01 * found.error[0]
    True
    """
    exact = convolved(picture, kernel, border)
    error = [float((attended(picture, kernel, a, border) - exact).abs().max()) for a in alphas]
    return Sharpness(tuple(alphas), error, [most_error(picture, kernel, a) for a in alphas])


@dataclass(frozen=True)
class Cost:
    """Multiplications of each way, and the bytes of all patterns in float32."""

    attention: int
    convolution: int
    pattern_bytes: int


def cost(rows: int, columns: int, kernel: Kernel) -> Cost:
    """Count multiply-adds of `attended` and `convolved` for one picture, without the softmax.

    >>> cost(10, 10, torch.ones(1, 1, 3, 3))
    Cost(attention=396000, convolution=900, pattern_bytes=360000)
    """
    n_out, n_in, size, _ = kernel.shape
    n, n_heads, d_model = rows * columns, size * size, max(n_in, n_out) + CODE
    project = n * d_model * (3 + 3 + n_in + n_in)  # W_Q, W_K, W_V, W_O of a head
    attend = n * n * (3 + n_in)  # Q K^T, pattern V
    return Cost(n_heads * (project + attend), n * size * size * n_in * n_out, 4 * n_heads * n * n)


def middle(
    picture: Float[torch.Tensor, "row column channel"], side: int = 16
) -> Float[torch.Tensor, "row2 column2 channel"]:
    """Cut at most side x side pixels from the middle, for quantities that are measured often.

    >>> middle(torch.ones(30, 9, 1)).shape
    torch.Size([16, 9, 1])
    """
    top, left = (max(0, (length - side) // 2) for length in picture.shape[:2])
    return picture[top : top + side, left : left + side]


def border_gaps(picture: Picture, kernel: Kernel) -> dict[tuple[str, str], float]:
    """Measure the largest |heads with that border - Conv2d with that border|, at alpha = 20.

    >>> gaps = border_gaps(torch.ones(4, 4, 1), torch.ones(1, 1, 3, 3))
    >>> gaps["zeros", "zeros"], gaps["nearest", "zeros"]
    (0.0, 5.0)
    """
    exact = {border: convolved(picture, kernel, border) for border in BORDERS}
    ours = {border: attended(picture, kernel, SHARP, border) for border in BORDERS}
    return {
        (own, other): float((ours[own] - exact[other]).abs().max())
        for own in BORDERS
        for other in BORDERS
    }


def shuffle_gaps(picture: Picture, seed: int = 0) -> tuple[float, float]:
    """Compare shuffling pixels before and after, for one head and for nine: largest difference.

    The one head mixes the colours by random numbers, the nine blur.

    >>> one, nine = shuffle_gaps(torch.eye(4)[:, :, None])
    >>> one < 1e-6, nine > 0.1
    (True, True)
    """
    channels, random = picture.shape[-1], torch.Generator().manual_seed(seed)
    mix = torch.randn(channels, channels, 1, 1, generator=random)
    order = torch.randperm(picture[..., 0].numel(), generator=random)

    def shuffled(pixels: Picture) -> Picture:
        return pixels.flatten(0, 1)[order].view_as(pixels)

    gaps = (
        attended(shuffled(picture), kernel) - shuffled(attended(picture, kernel))
        for kernel in (mix, full_kernel(kernel_numbers("blur", 3), 3, channels))
    )
    one, nine = (float(gap.abs().max()) for gap in gaps)
    return one, nine
