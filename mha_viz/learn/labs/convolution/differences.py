"""Differences of heads and a convolution: cost, borders, and pixels in another order."""

from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.learn.labs.convolution.inputs import full_kernel, kernel_numbers
from mha_viz.learn.labs.convolution.numbers import (
    BORDERS,
    CODE,
    Kernel,
    Picture,
    attend,
    convolve,
    largest_difference,
)

_MIDDLE_SIDE = 16  # pixels


def cost(n: int, kernel: Kernel) -> dict[str, float]:
    """Count multiply-adds of `attend` and `convolve` for n pixels, without the softmax.

    Returns:
        Pixels, multiplications of each way, their ratio, and the bytes of all patterns in float32.

    >>> cost(100, torch.ones(1, 1, 3, 3))
    {'pixels': 100, 'attention': 396000, 'convolution': 900, 'ratio': 440.0, 'pattern': 360000}
    """
    n_out, n_in, size, _ = kernel.shape
    n_heads, d_model = size * size, max(n_in, n_out) + CODE
    project = n * d_model * (3 + 3 + n_in + n_in)  # W_Q, W_K, W_V, W_O of a head
    attend = n_heads * (project + n * n * (3 + n_in))  # Q K^T, pattern V
    convolve = n * size * size * n_in * n_out
    costs = {"pixels": n, "attention": attend, "convolution": convolve, "ratio": attend / convolve}
    return costs | {"pattern": 4 * n_heads * n * n}


def middle(picture: Picture) -> Float[Tensor, "row2 column2 in"]:
    """Cut at most 16 x 16 pixels from the middle, for quantities that are measured often.

    >>> middle(torch.ones(30, 9, 1)).shape
    torch.Size([16, 9, 1])
    """
    starts = (max(0, (length - _MIDDLE_SIDE) // 2) for length in picture.shape[:2])
    rows, columns = (slice(start, start + _MIDDLE_SIDE) for start in starts)
    return picture[rows, columns]


def border_gaps(picture: Picture, kernel: Kernel) -> dict[str, float]:
    """Measure the largest |heads with one border - Conv2d with the other|, at alpha = 20.

    >>> gaps = border_gaps(torch.ones(4, 4, 1), torch.ones(1, 1, 3, 3))
    >>> gaps["zeros_zeros"], gaps["nearest_zeros"]  # the heads' border, Conv2d's
    (0.0, 5.0)
    """
    exact = {border: convolve(picture, kernel, border) for border in BORDERS}
    ours = {border: attend(picture, kernel, border=border) for border in BORDERS}
    return {
        f"{border}_{other}": largest_difference(ours[border], exact[other])
        for border, other in product(BORDERS, BORDERS)
    }


def shuffle_gaps(picture: Picture) -> dict[str, float]:
    """Compare shuffling pixels before and after, for one head and for nine: largest difference.

    The one head mixes the colours by random numbers, the nine blur.

    >>> gaps = shuffle_gaps(torch.eye(4)[:, :, None])
    >>> gaps["one"] < 1e-6, gaps["nine"] > 0.1
    (True, True)
    """
    channels, random = picture.shape[-1], torch.Generator().manual_seed(0)
    mix = torch.randn(channels, channels, 1, 1, generator=random)
    order = torch.randperm(picture[..., 0].numel(), generator=random)

    shuffled, gaps = picture.flatten(0, 1)[order].view_as(picture), {}
    blur = full_kernel(kernel_numbers("blur", 3), 3, channels)
    for heads, kernel in (("one", mix), ("nine", blur)):
        output = attend(picture, kernel)
        expected = output.flatten(0, 1)[order].view_as(output)
        gaps[heads] = largest_difference(attend(shuffled, kernel), expected)
    return gaps
