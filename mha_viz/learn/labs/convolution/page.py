"""Lab 6 on screen: pick, compute, draw."""

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.reprs import count
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.convolution import controls, measures_page
from mha_viz.learn.labs.convolution import numbers as convolution
from mha_viz.learn.labs.convolution.controls import Chosen
from mha_viz.learn.labs.convolution.measures import leak, most_error
from mha_viz.learn.labs.convolution.numbers import Picture
from mha_viz.plots.pictures import cells_figure, picture_cells, tile_cells
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.number_table import number_tables
from mha_viz.ui.widgets.exports import figures
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
_attended = controls.kept(convolution.attended)


def draw(choices: Choices) -> None:
    """Draw the heads, one pixel, sharpness, borders, one head, and the cost."""
    _statement(choices)
    chosen = controls.chosen(choices)
    _heads(choices, chosen)
    measures_page.sharpness(choices, chosen)
    measures_page.border(choices, chosen)
    measures_page.one_head(choices, chosen)
    measures_page.cost(chosen)
    measures_page.learning(choices)


@frame.part
def _heads(choices: Choices, chosen: Chosen) -> None:
    chosen = controls.sharpened(choices, chosen)
    row, column = controls.pixel(choices, chosen.picture)
    exact = convolution.convolved(chosen.picture, chosen.kernel, chosen.border)
    ours = _attended(chosen.picture, chosen.kernel, chosen.alpha, chosen.border)
    _difference(chosen, exact, ours)
    left, right = st.columns(2, gap="medium")
    with left:
        _both(choices, chosen, (row, column), exact, ours)
    with right:
        found = convolution.at_pixel(
            chosen.picture, chosen.kernel, chosen.alpha, chosen.border, row, column
        )
        _one_pixel(choices, chosen, (row, column), found)
    _sum(chosen, found, float(exact[row, column, 0]))


@frame.part
def _statement(choices: Choices) -> None:
    TEXTS.step("statement")
    TEXTS.caption("statement.source")
    TEXTS.predict(choices, "alpha", leak=leak(4.0), sharp=leak(20.0))


def _difference(chosen: Chosen, exact: Picture, ours: Picture) -> None:
    largest = float((ours - exact).abs().max())
    scale = max(float(chosen.kernel.abs().sum((1, 2, 3)).max()), 1.0)
    bound = most_error(chosen.picture, chosen.kernel, chosen.alpha)
    TEXTS.markdown(
        "difference.measured",
        heads=count(chosen.size**2, "head"),
        n=exact.numel(),
        largest=largest,
        most=exact.abs().max(),
        alpha=chosen.alpha,
        bound=bound,
        verdict=TEXTS("verdict.exact" if largest <= 4e-6 * scale else "verdict.blunt"),
    )


def _both(
    choices: Choices, chosen: Chosen, pixel: tuple[int, int], exact: Picture, ours: Picture
) -> None:
    difference = (ours - exact).abs()
    largest = float(difference.max())
    factor = 10.0 ** np.floor(-np.log10(largest)) if largest > 0 else 1.0
    signed = abs(float(chosen.kernel.sum())) < 0.1 and float(exact.min()) < 0

    def choose(row: int, column: int) -> None:
        choices.set("row", row)
        choices.set("column", column)

    st.header("The same twice", anchor=False)
    made, dark = count(chosen.size**2, "head"), look.dark()
    panels = {
        "Picture": chosen.picture,
        "Conv2d": exact,
        made: ours,
        "Difference" + (f" × {factor:,.0f}" if factor > 1 else ""): difference * factor,
    }
    zero = {"Conv2d": 0.5, made: 0.5} if signed else {}
    scale = TEXTS("scale.signed" if signed else "scale.clipped")
    side = 160 if look.phone() else 210
    drawn = [
        picture_cells(values, title, zero=zero.get(title, 0.0), marked=pixel, side=side)
        for title, values in panels.items()
    ]
    number_tables(drawn, dark=dark, key=choices.key("pictures"), across=2, on_click=choose)
    figures.explain(
        lambda: cells_figure(drawn, across=2, dark=dark),
        key=choices.key("both"),
        table=_pixels(chosen.picture, exact, ours),
        **TEXTS.figure("both", about=chosen.about, scale=scale),
    )


def _pixels(picture: Picture, exact: Picture, ours: Picture) -> pd.DataFrame:
    rows, columns, channels = exact.shape
    place = np.indices((rows, columns)).reshape(2, -1)
    names = ("",) if channels == 1 else (" red", " green", " blue")
    table = {"row": place[0], "column": place[1]}
    for kind, values in (("picture", picture), ("Conv2d", exact), ("attention", ours)):
        for channel, name in enumerate(names):
            table[f"{kind}{name}"] = values[:, :, channel].flatten().numpy()
    return pd.DataFrame(table)


def _one_pixel(
    choices: Choices, chosen: Chosen, pixel: tuple[int, int], found: convolution.Pixel
) -> None:
    st.header("Where each head looks", anchor=False)
    with st.container(horizontal=True):
        for name, size in zip(("row", "column"), chosen.picture.shape[:2], strict=True):
            label, most = f"Pixel’s {name}", convolution.MAX_SIDE - 1
            if size > 1:
                choices.place(name, label, 0, size - 1, size // 2, most=most, width=180)
    notes = [f"× {format_number(number)}" for number in chosen.kernel[0, 0].flatten()]
    notes = notes if chosen.size > 1 else ["the head"]
    radius, dark = max(2, chosen.size // 2 + 1), look.dark()
    room = (look.ROOM if look.phone() else 420) // chosen.size - 8
    cell = min(28.0, room / (2 * radius + 1))
    tiles = tile_cells(found.pattern, pixel, notes, radius=radius, cell=cell)
    number_tables(tiles, dark=dark, key=choices.key("tiles-drawn"), across=chosen.size)
    figures.explain(
        lambda: cells_figure(tiles, across=chosen.size, dark=dark),
        key=choices.key("tiles"),
        table=_heads_table(found, chosen.size, pixel),
        **TEXTS.figure("tiles", row=pixel[0], column=pixel[1], about=chosen.about),
    )


def _heads_table(found: convolution.Pixel, size: int, pixel: tuple[int, int]) -> pd.DataFrame:
    lines = []
    for head, (down, right) in enumerate(convolution.offsets(size).tolist()):
        pattern = found.pattern[head]
        at = pixel[0] + down, pixel[1] + right
        inside = 0 <= at[0] < pattern.shape[0] and 0 <= at[1] < pattern.shape[1]
        lines.append(
            {
                "head": head,
                "rows down": down,
                "columns right": right,
                "weight on its pixel": float(pattern[at]) if inside else 0.0,
                "all its weights": float(pattern.sum()),
                "sees (first channel)": float(found.z[head, 0]),
                "adds (first channel)": float(found.parts[head, 0]),
            }
        )
    return pd.DataFrame(lines)


def _sum(chosen: Chosen, found: convolution.Pixel, exact: float) -> None:
    """Write out the arithmetic of one number of the output."""
    size, channels = chosen.size, chosen.picture.shape[-1]
    if size == 1:  # of all colours
        seen, kernel = found.z[:1], chosen.kernel[:1, :, 0, 0]
    else:  # of the first one, in all places
        seen, kernel = found.z[:, 0].reshape(size, size), chosen.kernel[0, 0]
    TEXTS.markdown("sum.heading", colour=" (red)" if channels > 1 else "")
    parts = ("heads see", seen), ("kernel", kernel), ("they add", seen * kernel)
    see, times, add = (charts.matrix_formula(values, title) for title, values in parts)
    line = r"\\[4pt]" if look.phone() or size > 3 else ""
    st.latex(rf"\begin{{gathered}} {see} {line} \odot {times} {line} = {add} \end{{gathered}}")
    TEXTS.markdown("sum.total", sum=found.parts[:, 0].sum(), exact=exact)
