"""Lab 6's pictures and kernels: drawn by formulas, written down, or read from a user's file."""

import io
import math
import warnings

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image, ImageOps
from torch import Tensor

from mha_viz.errors import ArgumentError

MAX_FILE = 5 * 10**6  # bytes
MAX_PIXELS = 4_000_000  # of a file, before it is made small
GREY = (0.299, 0.587, 0.114)  # what eyes make of red, green and blue (ITU-R BT.601)
PICTURES = ("house", "rings", "dot")
PRESETS = ("identity", "blur", "sharpen", "edge", "emboss")
TINTS = ("identity", "grey", "swap", "brighten")  # 1 x 1 kernels: from colours to colours


def picture(name: str, side: int, colour: bool = False) -> Float[Tensor, "row column channel"]:
    """Draw side x side pixels with numbers in [0, 1], in grey or in red, green and blue.

    Args:
        name: "house", "rings", or "dot": one white pixel, in which a convolution shows its kernel.
        side: pixels of each side, 4 to 64.
        colour: three channels (red, green, blue); else one.

    Raises:
        ArgumentError: another name; a side outside 4..64.

    >>> picture("dot", 5).sum(), picture("house", 8, colour=True).shape
    (tensor(1.), torch.Size([8, 8, 3]))
    """
    if name not in PICTURES or not 4 <= side <= 64:
        raise ArgumentError(f"there is no picture {name!r} of {side} pixels.")
    line = (np.arange(side) + 0.5) / side
    down, right = np.meshgrid(line, line, indexing="ij")
    made = {"house": _house, "rings": _rings, "dot": _dot}[name](down, right)
    return _channels(made, colour)


def kernel_numbers(name: str, size: int) -> tuple[tuple[float, ...], ...]:
    """Return a kernel of 3 x 3 or 5 x 5 numbers.

    Raises:
        ArgumentError: no such kernel or size.

    >>> kernel_numbers("sharpen", 3)
    ((0.0, -1.0, 0.0), (-1.0, 5.0, -1.0), (0.0, -1.0, 0.0))
    """
    if name not in PRESETS or size not in (3, 5):
        raise ArgumentError(f"there is no kernel {name!r} of {size} pixels.")
    identity = np.zeros((size, size))
    identity[size // 2, size // 2] = 1
    binomial = np.array([1.0, 2, 1]) if size == 3 else np.array([1.0, 4, 6, 4, 1])
    cross = np.array([[0.0, -1, 0], [-1, 4, -1], [0, -1, 0]])
    rows = "0 0 -1 0 0; 0 -1 -2 -1 0; -1 -2 16 -2 -1; 0 -1 -2 -1 0; 0 0 -1 0 0"
    wide = np.array([row.split() for row in rows.split(";")], dtype=float) / 4
    edge = cross if size == 3 else wide
    slope = np.add.outer(np.arange(size), np.arange(size)) - (size - 1.0)
    made = {
        "identity": identity,
        "blur": np.outer(binomial, binomial) / binomial.sum() ** 2,
        "sharpen": identity + edge,
        "edge": edge,
        "emboss": identity + (slope if size == 3 else slope / 4),
    }[name]
    return tuple(tuple(row) for row in made.tolist())


def tint_numbers(name: str, colour: bool) -> tuple[tuple[float, ...], ...]:
    """Return a 1 x 1 kernel: (out, in), 3 x 3 from colours to colours or 1 x 1 for grey.

    Raises:
        ArgumentError: no such kernel; colours where there are none.

    >>> tint_numbers("swap", True)
    ((0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
    """
    if name not in TINTS or (not colour and name in ("grey", "swap")):
        raise ArgumentError(f"there is no 1 x 1 kernel {name!r} for this picture.")
    one = np.eye(3 if colour else 1)
    made = {"identity": one, "swap": one[::-1], "brighten": 1.5 * one, "grey": np.array([GREY] * 3)}
    return tuple(tuple(row) for row in made[name].tolist())


def full_kernel(
    numbers: tuple[tuple[float, ...], ...], size: int, channels: int
) -> Float[Tensor, "channel channel size size"]:
    """Return Conv2d's weight: k x k numbers for each colour alone, or 1 x 1 between all colours.

    >>> full_kernel(((2.0,),), 1, 1).shape, full_kernel(kernel_numbers("blur", 3), 3, 3).shape
    (torch.Size([1, 1, 1, 1]), torch.Size([3, 3, 3, 3]))
    """
    given = torch.tensor(numbers, dtype=torch.float32)
    if size == 1:
        return given[:, :, None, None]
    return torch.eye(channels)[:, :, None, None] * given


def read_picture(
    data: bytes, side: int, colour: bool = False
) -> tuple[Float[Tensor, "row column channel"], tuple[int, int]]:
    """Read a PNG or JPEG and make it small: its longer side has `side` pixels at most.

    Its size is read from its first bytes; a picture that is too large is never decoded.

    Returns:
        (row, column, channel) in [0, 1] on white where it is transparent, and the (rows, columns)
        that the file has.

    Raises:
        ArgumentError: no picture, a damaged one, one of more than 4 megapixels or 5 MB.
    """
    if len(data) > MAX_FILE:
        raise ArgumentError("This file is larger than 5 MB. Make the picture smaller.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the next lines do it
            image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG"))
        rows, columns = image.height, image.width
        if rows * columns > MAX_PIXELS:
            raise ArgumentError(
                f"This picture has {rows * columns / 1e6:.1f} megapixels; at most "
                f"{MAX_PIXELS / 1e6:.0f} are taken. Make it smaller first: the lab shows 32 pixels."
            )
        image.draft("RGB", (side, side))  # a JPEG can be decoded at an eighth of its size
        return _small(image, side, colour), (rows, columns)
    except ArgumentError:
        raise
    except Image.DecompressionBombError as error:
        raise ArgumentError("This picture has far more than 4 megapixels.") from error
    except Exception as error:  # decoders raise whatever a damaged file makes of them
        raise ArgumentError("This file cannot be read as a PNG or JPEG picture.") from error


def _small(image: Image.Image, side: int, colour: bool) -> Tensor:
    if image.mode.startswith("I"):  # 16 bits a pixel, which convert() would cut off
        image = Image.fromarray((np.asarray(image, dtype=np.float64) / 257).astype(np.uint8))
    image = ImageOps.exif_transpose(image)
    image = (image.convert("RGB") if image.mode == "CMYK" else image).convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    image = Image.alpha_composite(white, image).convert("RGB")
    shrunk = side / max(image.size)
    if shrunk < 1:
        size = tuple(max(1, math.floor(length * shrunk + 0.5)) for length in image.size)
        image = image.resize((size[0], size[1]), Image.Resampling.BOX)
    return _channels(np.asarray(image, dtype=np.float64) / 255, colour)


def _channels(made: np.ndarray, colour: bool) -> Tensor:
    """Return the colours, or the grey that eyes make of them, as float32."""
    numbers = made if colour else (made @ np.array(GREY) / sum(GREY))[..., None]
    return torch.from_numpy(np.clip(numbers, 0.0, 1.0).astype(np.float32))


# -- drawings: (row, column) places in [0, 1] -> (row, column, 3) ----------------------------------


def _house(down: np.ndarray, right: np.ndarray) -> np.ndarray:
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
    for where, colour in parts:
        sky[where] = colour
    return sky


def _rings(down: np.ndarray, right: np.ndarray) -> np.ndarray:
    away = np.hypot(down - 0.5, right - 0.5)
    return np.stack([0.5 + 0.5 * np.cos(2 * np.pi * rings * away) for rings in (4, 5, 6)], -1)


def _dot(down: np.ndarray, right: np.ndarray) -> np.ndarray:
    side = len(down)
    made = np.zeros((side, side, 3))
    made[side // 2, side // 2] = 1
    return made
