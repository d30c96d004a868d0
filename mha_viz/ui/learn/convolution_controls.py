"""Lab 6's controls: a picture, a kernel, how sharp the heads are, and one pixel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
import torch

from mha_viz.core.checks import Anything
from mha_viz.labs import convolution, convolution_inputs
from mha_viz.labs.convolution_measures import SHARP
from mha_viz.ui.learn.choices import Choices, among, numbers
from mha_viz.ui.session import views
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
MOST = 99.0  # a kernel's largest number


@dataclass(frozen=True)
class Chosen:
    """What is chosen: a picture, a kernel, and how the heads look."""

    picture: Anything  # (row, column, channel)
    numbers: tuple[tuple[float, ...], ...]
    size: int
    kernel: Anything
    border: str
    about: str
    alpha: float = SHARP

    @property
    def key(self) -> tuple[Any, ...]:
        """All of it, to be cached by."""
        return self.picture.numpy(), self.numbers, self.size, self.border


def chosen(choices: Choices) -> Chosen:
    """The controls, and what they say."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = choices.bound(
            "picture",
            st.selectbox,
            "Picture",
            list(PICTURES),
            default="house",
            read=among(tuple(PICTURES)),
            format_func=PICTURES.__getitem__,
            width=190,
        )
        side = choices.bound(
            "side",
            st.select_slider,
            "Pixels a side",
            convolution.SIDES,
            default=24,
            read=among(convolution.SIDES),
            width=140,
        )
        colour = choices.bound(
            "colour",
            st.segmented_control,
            "Colours",
            [False, True],
            default=False,
            read=among([False, True]),
            format_func=lambda on: "RGB" if on else "Grey",
        )
        size = choices.bound(
            "size",
            st.segmented_control,
            "Kernel",
            list(convolution.SIZES),
            default=3,
            read=among(convolution.SIZES),
            format_func=lambda k: f"{k} × {k}",
        )
    picture, about = _picture(name, side, colour)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        written, preset = _kernel(choices, size, colour)
        border = choices.bound(
            "border",
            st.segmented_control,
            "Outside the picture",
            list(BORDERS),
            default="zeros",
            read=among(tuple(BORDERS)),
            format_func=BORDERS.__getitem__,
        )
    kernel = convolution_inputs.full_kernel(written, size, picture.shape[-1])
    about += f"; {preset}, {size} x {size}; outside: {border}"
    return Chosen(picture, written, size, kernel, border, about)


def sharpened(choices: Choices, chosen: Chosen) -> Chosen:
    """The same, with heads as sharp as the user wants them."""
    alpha = choices.bound(
        "alpha",
        st.slider,
        "Sharpness α",
        0.0,
        convolution.MAX_ALPHA,
        default=SHARP,
        step=0.5,
        read=views.real(0.0, convolution.MAX_ALPHA),
        width=260,
    )
    return replace(chosen, alpha=alpha, about=f"{chosen.about}; alpha {alpha:g}")


def _picture(name: str, side: int, colour: bool) -> tuple[Anything, str]:
    """The picture, and what it is, in words."""
    kind = "RGB" if colour else "grey"
    if name != YOURS:
        picture = convolution_inputs.picture(name, side, colour)
        return picture, f"{PICTURES[name]}, {side} x {side}, {kind}"
    file = st.file_uploader(
        "PNG or JPEG, at most 4 megapixels",
        type=["png", "jpg", "jpeg"],
        key="convolution-file",
    )
    if file is None:
        st.info(
            "Choose a file. It stays on this server’s memory and is in no link. Until then: "
            "the house."
        )
        return _picture("house", side, colour)
    picture, (rows, columns) = convolution_inputs.read_picture(file.getvalue(), side, colour)
    small = f"{picture.shape[0]} x {picture.shape[1]}"
    st.caption(
        f"{columns} × {rows} pixels made {plain(small)} (rows x columns): attention compares every "
        "pixel with every other."
    )
    return picture, f"a file, {small}, {kind}"


def _kernel(choices: Choices, size: int, colour: bool) -> tuple[Any, str]:
    """The kernel's numbers, as the preset has them or as they were typed, and its name."""
    if size == 1:
        options = [t for t in convolution_inputs.TINTS if colour or t not in ("grey", "swap")]
        name = f"tint{'rgb' if colour else ''}"
        default = "grey" if colour else "brighten"
    else:
        options, name, default = list(convolution_inputs.PRESETS), "preset", "sharpen"
    preset = choices.bound(
        name,
        st.selectbox,
        "Start from",
        options,
        default=default,
        read=among(tuple(options)),
        format_func=KERNELS.__getitem__,
        width=190,
    )
    begin = (
        convolution_inputs.tint_numbers(preset, colour)
        if size == 1
        else convolution_inputs.kernel_numbers(preset, size)
    )
    slot = f"{preset}{size}{'rgb' if colour and size == 1 else ''}"
    return _edited(choices, slot, begin), KERNELS[preset]


def _edited(choices: Choices, slot: str, begin: tuple[tuple[float, ...], ...]) -> Any:
    """The numbers in an editor; the link carries what was typed."""
    n = len(begin)
    held = choices.get(slot, begin, numbers(n, n, -MOST, MOST))
    base = choices.fixed(f"{slot}-base", held)  # an editor keeps its edits of the same numbers
    names = (
        ["red", "green", "blue"]
        if n == 3 and slot.endswith("rgb")
        else [str(i - n // 2) for i in range(n)]
    )
    with st.container(width=70 + 68 * n):
        edited = st.data_editor(
            pd.DataFrame(base, index=names, columns=names),
            num_rows="fixed",
            key=choices.editor_key(f"{slot}-editor"),
            width="stretch",
            column_config={
                "_index": st.column_config.TextColumn("kernel", disabled=True),
                **{
                    name: st.column_config.NumberColumn(min_value=-MOST, max_value=MOST)
                    for name in names
                },
            },
        )
    filled = edited.astype(float).fillna(0.0).clip(-MOST, MOST).to_numpy()
    written = tuple(tuple(row) for row in filled.tolist())
    choices.keep(slot, written)
    return written


def pixel(choices: Choices, picture: Anything) -> tuple[int, int]:
    """The pixel looked at: a click, a slider or a link says which."""
    rows, columns = picture.shape[:2]
    read = views.whole(0, convolution.MAX_SIDE - 1)
    row = min(choices.get("row", rows // 2, read), rows - 1)
    column = min(choices.get("column", columns // 2, read), columns - 1)
    return row, column


def tensors(picture: np.ndarray, written: Any, size: int) -> tuple[Anything, Anything]:
    """Picture and kernel of a `Chosen.key`."""
    image = torch.from_numpy(picture)
    return image, convolution_inputs.full_kernel(written, size, image.shape[-1])
