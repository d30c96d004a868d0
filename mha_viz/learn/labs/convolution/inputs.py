"""Lab 6's pictures and kernels: drawn by formulas, or written down."""

import tomllib
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from mha_viz.learn.labs.convolution.numbers import Kernel, Picture

GREY = (0.299, 0.587, 0.114)  # what eyes make of red, green and blue (ITU-R BT.601)
KERNELS = tomllib.loads(Path(__file__).with_name("kernels.toml").read_text("utf-8"))
Numbers = tuple[tuple[float, ...], ...]


def picture(name: str, side: int, colour: bool = False) -> Picture:
    """Draw side x side pixels with numbers in [0, 1], in grey or in red, green and blue.

    Args:
        name: "house", "rings", or "dot": one white pixel, in which a convolution shows its kernel.
        side: pixels of each side, 4 to 64.
        colour: three channels (red, green, blue); else one.

    >>> picture("dot", 5).sum(), picture("house", 8, colour=True).shape
    (tensor(1.), torch.Size([8, 8, 3]))
    """
    line = (np.arange(side) + 0.5) / side
    down, right = np.meshgrid(line, line, indexing="ij")
    if name == "house":
        return as_channels(_house(down, right), colour)
    if name == "rings":
        radius = np.hypot(down - 0.5, right - 0.5)
        rings = [0.5 + 0.5 * np.cos(2 * np.pi * count * radius) for count in (4, 5, 6)]
        return as_channels(np.stack(rings, -1), colour)
    dot = np.zeros((side, side, 3))
    dot[side // 2, side // 2] = 1
    return as_channels(dot, colour)


def kernel_numbers(name: str, size: int, colour: bool = False) -> Numbers:
    """Return a kernel of `KERNELS`: size x size numbers, or (out, in) for one pixel.

    With `colour` a kernel of one pixel has three colours, else grey alone.

    >>> kernel_numbers("sharpen", 3)
    ((0.0, -1.0, 0.0), (-1.0, 5.0, -1.0), (0.0, -1.0, 0.0))
    >>> kernel_numbers("swap", 1, colour=True)
    ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
    """
    rows = np.array(KERNELS[name][f"rows{size}"], dtype=float) / KERNELS[name].get(f"over{size}", 1)
    rows = rows[:1, :1] if size == 1 and not colour else rows
    return tuple(map(tuple, rows.tolist()))


def full_kernel(numbers: Numbers, size: int, channels: int) -> Kernel:
    """Return Conv2d's weight: k x k numbers for each colour alone, or 1 x 1 between all colours.

    >>> full_kernel(((2.0,),), 1, 1).shape, full_kernel(kernel_numbers("blur", 3), 3, 3).shape
    (torch.Size([1, 1, 1, 1]), torch.Size([3, 3, 3, 3]))
    """
    kernel, colours = torch.tensor(numbers), torch.eye(channels)
    return kernel[:, :, None, None] if size == 1 else colours[:, :, None, None] * kernel


def as_channels(colours: Float[np.ndarray, "row column 3"], colour: bool) -> Picture:
    """Return red, green and blue, or the grey that eyes make of them, as float32 in [0, 1]."""
    numbers = colours if colour else (colours @ np.array(GREY) / sum(GREY))[..., None]
    return torch.from_numpy(np.clip(numbers, 0.0, 1.0).astype(np.float32))


def _house(down: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Draw (row, column, 3) from coordinates in [0, 1]."""
    sky = np.stack([0.45 + 0.4 * down, 0.65 + 0.25 * down, np.full_like(down, 0.95)], -1)
    parts = (
        (down > 0.8, (0.30, 0.55, 0.25)),  # meadow
        (np.hypot(down - 0.2, right - 0.8) < 0.12, (1.0, 0.85, 0.2)),  # sun
        ((down > 0.45) & (down < 0.85) & (abs(right - 0.42) < 0.24), (0.85, 0.78, 0.66)),
        ((down > 0.2) & (down <= 0.45) & (abs(right - 0.42) < (down - 0.2) * 1.25),
         (0.65, 0.18, 0.12)),  # roof
        ((down > 0.5) & (down < 0.85) & (abs(right - 0.5) < 0.07), (0.3, 0.18, 0.1)),  # door
        ((abs(down - 0.6) < 0.07) & (abs(right - 0.3) < 0.07), (0.15, 0.3, 0.5)),  # window
    )  # fmt: skip
    for inside, colour in parts:
        sky[inside] = colour
    return sky
