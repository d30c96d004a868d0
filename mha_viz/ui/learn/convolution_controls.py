"""Lab 6's controls: a picture, a kernel, how sharp the heads are, and one pixel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import streamlit as st
import torch

from mha_viz.labs import convolution, convolution_inputs
from mha_viz.labs.convolution import Kernel, Picture
from mha_viz.labs.convolution_measures import SHARP
from mha_viz.ui.learn import frame
from mha_viz.ui.learn.choices import Choices, Numbers
from mha_viz.ui.learn.motion import play
from mha_viz.ui.session import allowed, views
from mha_viz.ui.widgets.messages import plain

YOURS = "yours"
PICTURES = {
    "house": "A house",
    "rings": "Rings",
    "dot": "One white pixel",
    YOURS: "A picture of yours",
}
KERNELS = {
    "identity": "Identity",
    "blur": "Blur",
    "sharpen": "Sharpen",
    "edge": "Edges",
    "emboss": "Emboss",
    "grey": "To grey",
    "swap": "Swap red and blue",
    "brighten": "Brighten",
}
BORDERS = {"zeros": "Zeros", "nearest": "The nearest pixel"}
SHARPENING = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, SHARP)
MOST = 99.0  # a kernel's largest number


@dataclass(frozen=True)
class Chosen:
    """What is chosen: a picture, a kernel, and how the heads look."""

    picture: Picture
    numbers: Numbers
    size: int
    kernel: Kernel
    border: str
    about: str
    alpha: float = SHARP

    @property
    def key(self) -> tuple[Any, ...]:
        """All of it, to be cached by."""
        return self.picture.numpy(), self.numbers, self.size, self.border


def chosen(choices: Choices) -> Chosen:
    """The controls, and what they say."""
    with frame.row():
        name = choices.menu("picture", "Picture", PICTURES, "house", width=190)
        side = choices.slide("side", "Pixels a side", convolution.SIDES, 24, width=140)
        colour = choices.segments("colour", "Colours", {False: "Grey", True: "RGB"}, False)
        sizes = {k: f"{k} × {k}" for k in convolution.SIZES}
        size = choices.segments("size", "Kernel", sizes, 3)
    picture, about = _picture(name, side, colour)
    with frame.row():
        written, preset = _kernel(choices, size, colour)
        border = choices.segments("border", "Outside the picture", BORDERS, "zeros")
    kernel = convolution_inputs.full_kernel(written, size, picture.shape[-1])
    about += f"; {preset}, {size} x {size}; outside: {border}"
    return Chosen(picture, written, size, kernel, border, about)


def sharpened(choices: Choices, chosen: Chosen) -> Chosen:
    """The same, with heads as sharp as the user wants them."""
    most = convolution.MAX_ALPHA
    with frame.row():
        alpha = choices.amount("alpha", "Sharpness α", 0.0, most, SHARP, step=0.5, width=260)
        play(choices, "alpha", alpha, SHARPENING, "the sharpness, from none to full")
    return replace(chosen, alpha=alpha, about=f"{chosen.about}; alpha {alpha:g}")


def _picture(name: str, side: int, colour: bool) -> tuple[Picture, str]:
    """The picture, and what it is, in words."""
    kind = "RGB" if colour else "grey"
    if name != YOURS:
        picture = convolution_inputs.picture(name, side, colour)
        return picture, f"{PICTURES[name]}, {side} x {side}, {kind}"
    file = st.file_uploader(
        "PNG or JPEG, at most 4 megapixels",
        type=["png", "jpg", "jpeg"],
        key="convolution-file",
        max_upload_size=allowed.upload_mb(),
    )
    if file is None:
        st.info(
            "Choose a file. It stays in this server’s memory and is not part of any link. Until "
            "then: the house."
        )
        return _picture("house", side, colour)
    picture, (rows, columns) = convolution_inputs.read_picture(file.getvalue(), side, colour)
    small = f"{picture.shape[0]} x {picture.shape[1]}"
    st.caption(
        f"{columns} × {rows} pixels made {plain(small)} (rows x columns): attention compares every "
        "pixel with every other."
    )
    return picture, f"a file, {small}, {kind}"


def _kernel(choices: Choices, size: int, colour: bool) -> tuple[Numbers, str]:
    """The kernel's numbers, as the preset has them or as they were typed, and its name."""
    tinted = size == 1 and colour  # from colours to colours
    if size == 1:
        options = [t for t in convolution_inputs.TINTS if colour or t not in ("grey", "swap")]
        name = f"tint{'rgb' * colour}"
        default = "grey" if colour else "brighten"
    else:
        options, name, default = list(convolution_inputs.PRESETS), "preset", "sharpen"
    offered = {option: KERNELS[option] for option in options}
    preset = choices.menu(name, "Start from", offered, default, width=190)
    begin = (
        convolution_inputs.tint_numbers(preset, colour)
        if size == 1
        else convolution_inputs.kernel_numbers(preset, size)
    )
    n = len(begin)
    names = ["red", "green", "blue"] if tinted else [str(i - n // 2) for i in range(n)]
    written = frame.editor(
        choices,
        f"{preset}{size}{'rgb' * tinted}",
        begin,
        names,
        names,
        title="kernel",
        most=MOST,
        step=None,
        cell=64,
    )
    return written, KERNELS[preset]


def pixel(choices: Choices, picture: Picture) -> tuple[int, int]:
    """The pixel looked at: a click, a slider or a link says which."""
    rows, columns = picture.shape[:2]
    read = views.whole(0, convolution.MAX_SIDE - 1)
    row = min(choices.get("row", rows // 2, read), rows - 1)
    column = min(choices.get("column", columns // 2, read), columns - 1)
    return row, column


def tensors(picture: np.ndarray, written: Numbers, size: int) -> tuple[Picture, Kernel]:
    """Picture and kernel of a `Chosen.key`."""
    image = torch.from_numpy(picture)
    return image, convolution_inputs.full_kernel(written, size, image.shape[-1])
