"""Lab 6 on screen: pick, compute, draw."""

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.amounts import of_bytes
from mha_viz.core.reprs import count
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.convolution import controls, measures
from mha_viz.learn.labs.convolution import learning as lab
from mha_viz.learn.labs.convolution import numbers as convolution
from mha_viz.learn.labs.convolution.controls import Chosen, kept
from mha_viz.learn.labs.convolution.learning import Learned
from mha_viz.learn.labs.convolution.measures import most_error
from mha_viz.learn.labs.convolution.numbers import STORED, Picture
from mha_viz.plots.curves import ticks
from mha_viz.plots.pictures import cells_figure, picture_cells, tile_cells
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.number_table import number_tables
from mha_viz.ui.widgets.exports import figures
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
NAMES = {"convolution": "Conv2d", "heads": "nine heads"}
_measured, _border_gaps = kept(measures.sharpness), kept(measures.border_gaps)
_attended, _shuffle_gaps = kept(convolution.attended), kept(measures.shuffle_gaps)


def draw(choices: Choices) -> None:
    """Draw the same picture twice, the heads behind it, and folds."""
    _story(choices)
    # Not in the fragment: Stop must end the run that the button is drawn in.
    TEXTS.fold(choices, "learning", partial(_learning, choices))


@frame.part
def _story(choices: Choices) -> None:
    asked, drawn = st.columns(2, gap="medium")
    with asked:
        cover = TEXTS.predict(choices, "same")
    chosen = controls.chosen(choices)
    row, column = controls.pixel(choices, chosen.picture)
    exact = convolution.convolved(chosen.picture, chosen.kernel, chosen.border)
    ours = _attended(chosen.picture, chosen.kernel, chosen.alpha, chosen.border)
    with asked, cover():
        _difference(chosen, exact, ours)
    with drawn, cover():
        _both(choices, chosen, (row, column), exact, ours)
    found = convolution.at_pixel(
        chosen.picture, chosen.kernel, chosen.alpha, chosen.border, row, column
    )
    looks, adds = st.columns(2, gap="medium")
    with looks:
        _one_pixel(choices, chosen, (row, column), found)
    with adds:
        TEXTS.step("statement")
        _sum(chosen, found, float(exact[row, column, 0]))
    TEXTS.fold(choices, "sharpness", partial(_sharpness, choices, chosen))
    TEXTS.fold(choices, "at-the-border", partial(_border, choices, chosen))
    TEXTS.fold(choices, "one-head", partial(_one_head, choices, chosen))
    TEXTS.fold(choices, "cost", partial(_cost, chosen))


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

    made, dark = count(chosen.size**2, "head"), look.dark()
    panels = {
        "Picture": chosen.picture,
        "Conv2d": exact,
        made: ours,
        "Difference" + (f" × {factor:,.0f}" if factor > 1 else ""): difference * factor,
    }
    zero = {"Conv2d": 0.5, made: 0.5} if signed else {}
    scale = TEXTS("scale.signed" if signed else "scale.clipped")
    side = 160 if look.phone() else 190
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
    line = r"\\[4pt]"
    st.latex(rf"\begin{{gathered}} {see} {line} \odot {times} {line} = {add} \end{{gathered}}")
    TEXTS.markdown("sum.total", sum=found.parts[:, 0].sum(), exact=exact)


def _sharpness(choices: Choices, chosen: Chosen) -> None:
    """Draw the heads' distance from the convolution, against their sharpness."""
    cover = TEXTS.predict(choices, "alpha", leak=measures.leak(4.0), sharp=measures.leak(20.0))
    # The curve of the whole picture would take longer than a click may.
    found = _measured(measures.middle(chosen.picture), chosen.kernel, chosen.border)
    alphas = list(found.alphas)
    rounding = float(chosen.kernel.abs().sum((1, 2, 3)).max()) * float(np.finfo(np.float32).eps)
    measured = [error or float("nan") for error in found.error]  # no logarithm of 0
    with cover():
        charts.lines(
            choices.key("sharpness"),
            {
                "measured": (alphas, measured),
                "bound": (alphas, found.bound),
                "rounding in float32": (alphas, [rounding] * len(alphas)),
            },
            table={"alpha": alphas, "measured": found.error, "bound": found.bound},
            **TEXTS.lines("sharpness.curves", about=chosen.about),
        )


@frame.part
def _border(choices: Choices, chosen: Chosen) -> None:
    """Draw the effect of the border on heads whose pixel lies outside the picture."""
    cover = TEXTS.predict(choices, "border")
    gaps = _border_gaps(measures.middle(chosen.picture), chosen.kernel)
    with cover():
        TEXTS.markdown("border-gaps.table", **{"_".join(key): gap for key, gap in gaps.items()})


@frame.part
def _one_head(choices: Choices, chosen: Chosen) -> None:
    """Show that one head alone is a convolution of one pixel."""
    cover = TEXTS.predict(choices, "shuffle")
    alone, many = _shuffle_gaps(measures.middle(chosen.picture))
    with cover():
        TEXTS.markdown("one-head.measured", alone=alone, many=many)


def _cost(chosen: Chosen) -> None:
    """Compare the cost of attention with that of the convolution."""
    rows, columns = chosen.picture.shape[:2]
    bill = measures.cost(rows, columns, chosen.kernel)
    ratio, memory = bill.attention / bill.convolution, of_bytes(bill.pattern_bytes)
    TEXTS.markdown("cost.measured", pixels=rows * columns, bill=bill, ratio=ratio, memory=memory)


def _learning(choices: Choices) -> None:
    """Draw what both learn from few and from many pictures."""
    cover = TEXTS.predict(choices, "data")
    examples, _ = lab.strokes(len(lab.CLASSES), seed=1)
    drawn = [
        picture_cells(picture[:, :, None], name, side=110)
        for name, picture in zip(lab.CLASSES, examples, strict=True)
    ]
    number_tables(drawn, dark=look.dark(), key=choices.key("strokes"), across=len(drawn))
    seed = choices.seed("learnseed", "Seed of the training", width=200)
    total = lab.STEPS * len(lab.COUNTS) * len(lab.KINDS)
    train, (stored,) = partial(lab.learn, seed=seed), STORED
    found = trained(choices, (seed,), total, train, label="Train both", stored=stored)
    if found is None:
        counts = ", ".join(map(str, lab.COUNTS))
        st.caption(f"On {counts} pictures, {lab.STEPS} steps each: about half a minute.")
        return
    with cover():
        _learned(choices, found, seed)


def _learned(choices: Choices, found: Learned, seed: int) -> None:
    lines = {
        f"{name}, {which}": (found.counts, shares[kind])
        for which, shares in (("new pictures", found.unseen), ("learned ones", found.seen))
        for kind, name in NAMES.items()
    }
    least = {}
    for kind in NAMES:  # the fewest pictures after which nine in ten new ones are judged right
        shares = zip(found.counts, found.unseen[kind], strict=True)
        good = [n for n, share in shares if share >= 0.9]
        least[kind] = f"{good[0]} pictures" if good else f"more than {found.counts[-1]} pictures"
    TEXTS.markdown("learned.enough", least=least, parameters=found.parameters)
    charts.lines(
        choices.key("learning"),
        lines,
        levels={"guessing": lab.CHANCE},
        more=dict(xaxis=ticks(found.counts)),
        table={"pictures": found.counts} | {name: line[1] for name, line in lines.items()},
        **TEXTS.lines("learned.curves", unseen=lab.UNSEEN, steps=lab.STEPS, seed=seed),
    )
    middle = lab.SIDE // 2
    at = found.pattern[:, middle * lab.SIDE + middle].reshape(-1, lab.SIDE, lab.SIDE)
    names = [f"head {i}" for i in range(len(at))]
    tiles = tile_cells(at, (middle, middle), names, radius=3, cell=12.0)
    number_tables(tiles, dark=look.dark(), key=choices.key("learned-tiles"), across=3)
    near = float(at[:, middle - 1 : middle + 2, middle - 1 : middle + 2].sum()) / len(at)
    everywhere = 9 / lab.SIDE**2
    TEXTS.markdown("learned.near", n_pictures=found.counts[-1], near=near, everywhere=everywhere)
