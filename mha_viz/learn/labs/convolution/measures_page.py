"""Lab 6's second half on screen: sharpness, borders, one head, and what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st
import torch

from mha_viz.core.amounts import of_bytes
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.convolution import measures
from mha_viz.learn.labs.convolution.controls import Chosen, tensors

TEXTS = read_texts(__package__)


def sharpness(choices: Choices, chosen: Chosen) -> None:
    """Draw the heads' distance from the convolution, against their sharpness."""
    TEXTS.step("sharpness")
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
        y_axis="log",
        table={"alpha": alphas, "measured": found.error, "bound": found.bound},
        **TEXTS.lines("sharpness.curves", about=chosen.about),
    )


@frame.part
def border(choices: Choices, chosen: Chosen) -> None:
    """Draw the effect of the border on heads whose pixel lies outside the picture."""
    TEXTS.step("at-the-border")
    TEXTS.predict(choices, "border")
    gaps = _border_gaps(*chosen.key[:3])
    TEXTS.markdown("border-gaps.table", **{"_".join(key): gap for key, gap in gaps.items()})


@frame.part
def one_head(choices: Choices, chosen: Chosen) -> None:
    """Show that one head alone is a convolution of one pixel."""
    TEXTS.step("one-head")
    TEXTS.predict(choices, "shuffle")
    alone, many = _shuffle_gaps(chosen.picture.numpy())
    TEXTS.markdown("one-head.measured", alone=alone, many=many)


def cost(chosen: Chosen) -> None:
    """Compare the cost of attention with that of the convolution."""
    TEXTS.step("cost")
    rows, columns = chosen.picture.shape[:2]
    bill = measures.cost(rows, columns, chosen.kernel)
    TEXTS.markdown(
        "cost.measured",
        pixels=rows * columns,
        attention=bill.attention,
        convolution=bill.convolution,
        ratio=bill.attention / bill.convolution,
        memory=of_bytes(bill.pattern_bytes),
    )


# -- kept ------------------------------------------------------------------------------------------


@st.cache_data(max_entries=16, show_spinner=False)
def _sharpness_of(  # type: ignore[no-untyped-def]
    picture: np.ndarray, written: Any, size: int, border: str
):
    """Measure on the picture's middle: the curve would else take longer than a click may."""
    image, kernel = tensors(picture, written, size)
    return measures.sharpness(measures.middle(image), kernel, border)


@st.cache_data(max_entries=16, show_spinner=False)
def _border_gaps(picture: np.ndarray, written: Any, size: int):  # type: ignore[no-untyped-def]
    image, kernel = tensors(picture, written, size)
    return measures.border_gaps(measures.middle(image), kernel)


@st.cache_data(max_entries=16, show_spinner=False)
def _shuffle_gaps(picture: np.ndarray):  # type: ignore[no-untyped-def]
    return measures.shuffle_gaps(measures.middle(torch.from_numpy(picture)))
