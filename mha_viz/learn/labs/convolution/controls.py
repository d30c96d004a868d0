"""Lab 6's controls: a picture, a kernel, how sharp the heads are, and one pixel."""

from dataclasses import dataclass

import streamlit as st
from torch import Tensor

from mha_viz.learn.frame import frame
from mha_viz.learn.frame.choices import Choices, Numbers
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.convolution import inputs
from mha_viz.learn.labs.convolution import numbers as convolution
from mha_viz.learn.labs.convolution.measures import SHARP
from mha_viz.learn.labs.convolution.numbers import Kernel, Picture
from mha_viz.ui.state import allowed, views
from mha_viz.ui.widgets.messages.messages import plain

TEXTS = read_texts(__package__)
YOURS = "yours"
PICTURES = TEXTS.labels("pictures")
KERNELS, BORDERS = TEXTS.labels("kernels"), TEXTS.labels("borders")
SHARPENING = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, SHARP)
MOST = 99.0  # a kernel's largest number


@dataclass(frozen=True)
class Chosen:
    """The choices: a picture, a kernel, and the heads' borders and sharpness."""

    picture: Picture
    size: int
    kernel: Kernel
    border: str
    about: str
    alpha: float


kept = st.cache_data(max_entries=16, show_spinner=False, hash_funcs={Tensor: Tensor.numpy})


def chosen(choices: Choices) -> Chosen:
    """Draw the controls and return their choices."""
    with frame.row():
        name = choices.menu("picture", "Picture", PICTURES, "house", width=165)
        side = choices.slide("side", "Pixels a side", convolution.SIDES, 24, width=140)
        colour = choices.segments("colour", "Colours", {False: "Grey", True: "RGB"}, False)
        sizes = {k: f"{k} × {k}" for k in convolution.SIZES}
        size = choices.segments("size", "Kernel", sizes, 3)
        alpha = choices.amount(
            "alpha", "Sharpness α", 0.0, convolution.MAX_ALPHA, SHARP, step=0.5, width=160
        )
        choices.play("alpha", alpha, SHARPENING, "the sharpness, from none to full")
    picture, about = _picture(name, side, colour)
    with frame.row():
        written, preset = _kernel(choices, size, colour)
        border = choices.segments("border", "Outside the picture", BORDERS, "zeros")
    kernel = inputs.full_kernel(written, size, picture.shape[-1])
    about += f"; {preset}, {size} x {size}; outside: {border}; alpha {alpha:g}"
    return Chosen(picture, size, kernel, border, about, alpha)


def _picture(name: str, side: int, colour: bool) -> tuple[Picture, str]:
    kind = "RGB" if colour else "grey"
    if name != YOURS:
        picture = inputs.picture(name, side, colour)
        return picture, f"{PICTURES[name]}, {side} x {side}, {kind}"
    file = st.file_uploader(
        "PNG or JPEG, at most 4 megapixels",
        type=["png", "jpg", "jpeg"],
        key="convolution-file",
        max_upload_size=allowed.upload_mb(),
    )
    if file is None:
        st.info(TEXTS("picture.missing"))
        return _picture("house", side, colour)
    picture, (rows, columns) = inputs.read_picture(file.getvalue(), side, colour)
    small = f"{picture.shape[0]} x {picture.shape[1]}"
    TEXTS.caption("picture.reduced", columns=columns, rows=rows, small=plain(small))
    return picture, f"a file, {small}, {kind}"


def _kernel(choices: Choices, size: int, colour: bool) -> tuple[Numbers, str]:
    """Return the kernel's numbers, preset or typed, and its name."""
    tinted = size == 1 and colour  # from colours to colours
    if size == 1:
        options = [t for t in inputs.TINTS if colour or t not in ("grey", "swap")]
        name = f"tint{'rgb' * colour}"
        default = "grey" if colour else "brighten"
    else:
        options, name, default = list(inputs.PRESETS), "preset", "sharpen"
    offered = {option: KERNELS[option] for option in options}
    preset = choices.menu(name, "Start from", offered, default, width=190)
    begin = (
        inputs.tint_numbers(preset, colour) if size == 1 else inputs.kernel_numbers(preset, size)
    )
    n = len(begin)
    names = ["red", "green", "blue"] if tinted else [str(i - n // 2) for i in range(n)]
    grid = frame.Grid("kernel", begin, names, names)
    edited = f"{preset}{size}{'rgb' * tinted}"
    written = frame.editor(choices, edited, grid, most=MOST, step=None, cell=64)
    return written, KERNELS[preset]


def pixel(choices: Choices, picture: Picture) -> tuple[int, int]:
    """Return the chosen pixel: a click, a slider or a link chooses it."""
    rows, columns = picture.shape[:2]
    read = views.whole(0, convolution.MAX_SIDE - 1)
    row = min(choices.get("row", rows // 2, read), rows - 1)
    column = min(choices.get("column", columns // 2, read), columns - 1)
    return row, column
