"""Lab 6's second half on screen: sharpness, borders, one head, and what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st
import torch

from mha_viz.core.amounts import of_bytes
from mha_viz.labs import convolution_measures as measures
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.learn.convolution_controls import Chosen, tensors
from mha_viz.web.theme import format_number


def sharpness(choices: Choices, chosen: Chosen) -> None:
    """How far the heads are from the convolution, the sharper they get."""
    frame.step(
        "How sharp must a head be?",
        "A weight of e to the power −α d² falls on a pixel d away from the right one. Whatever "
        "misses cannot change the output by more than the picture’s range, so the error has a "
        "bound that does not depend on how many pixels there are:",
        r"\begin{gathered} |\text{error}| \le \big(1 - \theta(\alpha)^{-2}\big) \\"
        r"\cdot\, \lVert K \rVert_1\,(\max x - \min x) \\"
        r"\textstyle\theta(\alpha) = \sum_{d=-\infty}^{\infty} e^{-\alpha d^2} \end{gathered}",
    )
    found = _sharpness_of(*chosen.key)
    alphas = list(found.alphas)
    rounding = float(chosen.kernel.abs().sum((1, 2, 3)).max()) * float(np.finfo(np.float32).eps)
    measured = [error or float("nan") for error in found.error]  # no logarithm of 0
    charts.lines(
        choices.key("sharpness"),
        {
            "measured": (alphas, measured),
            "bound": (alphas, found.bound),
            "rounding in float32": (alphas, [rounding] * len(alphas)),
        },
        title="Largest difference from Conv2d",
        x_title="α",
        y_title="difference",
        y_axis="log",
        name="Sharpness of the heads",
        table={"alpha": alphas, "measured": found.error, "bound": found.bound},
        caption=chosen.about,
        how_to_read="Measured on the middle of the picture, 16 x 16 pixels at most. Each step of α "
        "divides the error by e until float32 ends it. Exactly 0 cannot be drawn on this axis and "
        "leaves a gap.",
    )


@frame.part
def border(choices: Choices, chosen: Chosen) -> None:
    """Where heads look whose pixel lies outside the picture."""
    frame.step(
        "At the border",
        "A pixel at the border has no neighbour outside. Softmax must still put its weights "
        "somewhere.",
    )
    frame.predict(
        choices,
        "border",
        "A head looks for a pixel that lies outside of the picture, and nothing "
        "is masked. Where does its weight go?",
        [
            "Nowhere: it gives zeros",
            "To the nearest pixel that is there",
            "To the opposite side, as on a torus",
        ],
        1,
        "The score is highest where the distance to the wanted place is smallest, and rows sum "
        "to 1: the heads repeat the border (padding_mode='replicate' in torch). To get zeros, mask "
        "every key of such a head; a row that may see nothing gives zeros in our attention.",
    )
    gaps = _border_gaps(*chosen.key[:3])
    ours = {"zeros": "masked heads", "nearest": "no mask"}
    lines = [
        f"| {ours[own]} | {format_number(gaps[own, 'zeros'])} | "
        f"{format_number(gaps[own, 'nearest'])} |"
        for own in ours
    ]
    st.markdown(
        "Largest difference on the middle of the picture (16 × 16 pixels at most) at α = 20:\n\n"
        "| heads | Conv2d with zeros | Conv2d with the nearest pixel |\n|---|---|---|\n"
        + "\n".join(lines)
    )


@frame.part
def one_head(choices: Choices, chosen: Chosen) -> None:
    """One head alone is a convolution of one pixel."""
    frame.step(
        "One head is a 1 × 1 convolution",
        "With h heads the kernel has √h × √h places. One head has one: it looks at "
        "its own pixel, and W_V W_O only mixes its colours.",
    )
    frame.predict(
        choices,
        "shuffle",
        "All pixels of the picture are shuffled, and only their colours move. "
        "Which heads give the same output, shuffled the same way?",
        ["One head (1 × 1)", "Nine heads (3 × 3)", "Both"],
        0,
        "A 1 × 1 kernel sees no neighbours, so it does not matter which they are. Choose 1 × 1 "
        "above: no pixel of the output depends on another one.",
    )
    alone, many = _shuffle_gaps(chosen.picture.numpy())
    st.markdown(
        "Measured on the middle of this picture: shuffling before or after one head differs by "
        f"**{format_number(alone)}**, before or after nine heads that blur by "
        f"**{format_number(many)}**."
    )


def cost(chosen: Chosen) -> None:
    """What attention pays for looking everywhere, against the convolution."""
    frame.step(
        "What it costs",
        "Attention can look anywhere, and pays for it even where it looks at one place only: every "
        "pixel is compared with every other, in each head.",
        r"\begin{gathered} \text{attention: } h\,n^2(d_k + d_v) + \text{projections} \\"
        r"\text{convolution: } n\,k^2\,C_\text{in}\,C_\text{out} \end{gathered}",
    )
    rows, columns = chosen.picture.shape[:2]
    bill = measures.cost(rows, columns, chosen.kernel)
    st.markdown(
        f"For these {rows * columns:,} pixels: **{bill.attention:,}** multiplications against "
        f"**{bill.convolution:,}**, which is **{bill.attention / bill.convolution:,.0f} times** as "
        f"many; and {of_bytes(bill.pattern_bytes)} of weights that a convolution does not "
        "have. (All patterns at once; here they are made a few rows at a time.)"
    )


# -- kept ------------------------------------------------------------------------------------------


@st.cache_data(max_entries=16, show_spinner=False)
def _sharpness_of(  # type: ignore[no-untyped-def]
    picture: np.ndarray, written: Any, size: int, border: str
):
    """On the picture's middle: the curve would else take longer than a click may."""
    image, kernel = tensors(picture, written, size)
    return measures.sharpness(measures.middle(image), kernel, border)


@st.cache_data(max_entries=16, show_spinner=False)
def _border_gaps(picture: np.ndarray, written: Any, size: int):  # type: ignore[no-untyped-def]
    image, kernel = tensors(picture, written, size)
    return measures.border_gaps(measures.middle(image), kernel)


@st.cache_data(max_entries=16, show_spinner=False)
def _shuffle_gaps(picture: np.ndarray):  # type: ignore[no-untyped-def]
    return measures.shuffle_gaps(measures.middle(torch.from_numpy(picture)))
