"""The upload of a picture: a stranger's file, checked before it is decoded."""

import io
import warnings

import numpy as np
import streamlit as st
from jaxtyping import Float
from PIL import Image, ImageOps

from mha_viz.errors import ArgumentError
from mha_viz.ui.state import allowed

MAX_FILE = 5 * 10**6  # bytes
MAX_PIXELS = 4_000_000  # of a file, before it is made small
Colours = Float[np.ndarray, "row column 3"]


def upload_picture(key: str, side: int) -> tuple[Colours, tuple[int, int]] | None:
    """Draw the upload of a picture; return it as `read_picture` does, or None without a file."""
    most = allowed.upload_mb()
    label = f"PNG or JPEG, at most {MAX_PIXELS // 10**6} megapixels"
    file = st.file_uploader(label, ["png", "jpg", "jpeg"], key=key, max_upload_size=most)
    if file is None:
        return None
    allowed.check_upload(file.size)
    return read_picture(file.getvalue(), side)


def read_picture(data: bytes, side: int) -> tuple[Colours, tuple[int, int]]:
    """Read a PNG or JPEG and make it small: its longer side has `side` pixels at most.

    Its size is read from its first bytes; a picture that is too large is never decoded.

    Returns:
        Red, green and blue in [0, 1], on white where it is transparent, and the (rows, columns)
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
        return _small(image, side), (rows, columns)
    except ArgumentError:
        raise
    except Image.DecompressionBombError as error:
        raise ArgumentError("This picture has far more than 4 megapixels.") from error
    except Exception as error:  # decoders raise whatever a damaged file makes of them
        raise ArgumentError("This file cannot be read as a PNG or JPEG picture.") from error


def _small(image: Image.Image, side: int) -> Colours:
    if image.mode.startswith("I"):  # 16 bits a pixel, which convert() would cut off
        image = Image.fromarray((np.asarray(image, dtype=np.float64) / 257).astype(np.uint8))
    image = ImageOps.exif_transpose(image)
    image = (image.convert("RGB") if image.mode == "CMYK" else image).convert("RGBA")
    white = Image.new("RGBA", image.size, "white")
    image = Image.alpha_composite(white, image).convert("RGB")
    image.thumbnail((side, side), Image.Resampling.BOX)
    return np.asarray(image, dtype=np.float64) / 255
