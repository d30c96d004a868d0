"""Lab 6 on screen: a picture convolved twice, the heads behind it, and folds."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
from torch import Tensor

from mha_viz.core.amounts import of_bytes
from mha_viz.core.reprs import count
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.convolution import inputs
from mha_viz.learn.labs.convolution import learning as lab
from mha_viz.learn.labs.convolution import numbers as convolution
from mha_viz.learn.labs.convolution.learning import Learned
from mha_viz.learn.labs.convolution.numbers import STORED, Kernel, Output, Picture, Pixel
from mha_viz.plots.curves import ticks
from mha_viz.plots.pictures import picture_cells, tile_cells
from mha_viz.ui.state import allowed
from mha_viz.ui.state.link_values import integer
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.number_table import number_tables
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
_cached = st.cache_data(max_entries=16, show_spinner=False, hash_funcs={Tensor: Tensor.numpy})
_sharpness_of, _border_gaps = _cached(convolution.sharpness), _cached(convolution.border_gaps)
_attended, _shuffle_gaps = _cached(convolution.attend), _cached(convolution.shuffle_gaps)


class Setup(NamedTuple):
    """The choices: a picture, a kernel, the heads' sharpness and borders, and one pixel."""

    picture: Picture
    kernel: Kernel
    alpha: float
    border: str
    pixel: tuple[int, int]
    about: str


def draw(choices: Choices) -> None:
    """Draw the same picture twice, the heads behind it, and folds."""
    _story(choices)
    # Not in the fragment: Stop must end the run that the button is drawn in.
    TEXTS.fold(choices, "learning", partial(_learning, choices))


@layout.part
def _story(choices: Choices) -> None:
    cover, question, pictures = TEXTS.opening(choices, "same")
    setup = _setup(choices)
    exact = convolution.convolve(setup.picture, setup.kernel, setup.border)
    ours = _attended(*setup[:4])
    with question, cover():
        largest = float((ours - exact).abs().max())
        scale = max(float(setup.kernel.abs().sum((1, 2, 3)).max()), 1.0)
        TEXTS.markdown(
            "difference.measured",
            heads=_head_count(setup),
            n=exact.numel(),
            largest=largest,
            most=exact.abs().max(),
            alpha=setup.alpha,
            bound=convolution.max_error(*setup[:3]),
            verdict=TEXTS("verdict.exact" if largest <= 4e-6 * scale else "verdict.blunt"),
        )
    with pictures, cover():
        _both(choices, setup, exact, ours)
    pixel = convolution.at_pixel(*setup[:4], *setup.pixel)
    tiles, terms = st.columns(2, gap="medium")
    with tiles:
        _one_pixel(choices, setup, pixel)
    with terms:
        TEXTS.step("statement")
        _sum(setup, pixel, float(exact[*setup.pixel, 0]))
    TEXTS.fold(choices, "sharpness", partial(_sharpness, choices, setup))
    TEXTS.fold(choices, "at-the-border", partial(_border, choices, setup))
    TEXTS.fold(choices, "one-head", partial(_one_head, choices, setup))
    TEXTS.fold(choices, "cost", partial(_cost, setup))


def _setup(choices: Choices) -> Setup:
    """Draw the controls and return their choices."""
    with layout.row():
        name, side = (TEXTS.choose(choices, name) for name in ("picture", "side"))
        colour = TEXTS.choose(choices, "colour", options={False: "Grey", True: "RGB"})
        size = TEXTS.choose(choices, "size", options={k: f"{k} × {k}" for k in (1, 3, 5)})
        alpha = TEXTS.choose(choices, "alpha")
    picture, about = _picture(name, side, colour)
    rows, columns, channels = picture.shape
    with layout.row():
        numbers, preset = _kernel(choices, size, colour)
        border = TEXTS.choose(choices, "border")
    read = integer(0, convolution.MAX_SIDE - 1)  # a click, a slider or a link chooses a pixel
    row = min(choices.get("row", rows // 2, read), rows - 1)
    column = min(choices.get("column", columns // 2, read), columns - 1)
    about += f"; {preset}, {size} x {size}; outside: {border}"
    kernel = inputs.full_kernel(numbers, size, channels)
    return Setup(picture, kernel, alpha, border, (row, column), f"{about}; alpha {alpha:g}")


def _picture(name: str, side: int, colour: bool) -> tuple[Picture, str]:
    kind = "RGB" if colour else "grey"
    if name != "yours":
        about = f"{TEXTS.labels('controls.picture.options')[name]}, {side} x {side}, {kind}"
        return inputs.picture(name, side, colour), about
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


def _kernel(choices: Choices, size: int, colour: bool) -> tuple[inputs.Numbers, str]:
    """Return the kernel's numbers, preset or typed, and its name."""
    is_tint = size == 1 and colour  # from colours to colours
    name = "preset" if size > 1 else "tintrgb" if colour else "tint"
    preset = TEXTS.choose(choices, name)
    begin = inputs.kernel_numbers(preset, size, colour)
    names = ["red", "green", "blue"] if is_tint else [str(i - size // 2) for i in range(size)]
    grid = layout.Grid("kernel", begin, names, names)
    edited = f"{preset}{size}{'rgb' * is_tint}"
    numbers = layout.editor(choices, edited, grid, most=99.0, step=None, cell=64)
    return numbers, TEXTS(f"controls.{name}.options.{preset}")


def _head_count(setup: Setup) -> str:
    return count(setup.kernel[0, 0].numel(), "head")


def _both(choices: Choices, setup: Setup, exact: Output, ours: Output) -> None:
    difference = (ours - exact).abs()
    largest = float(difference.max())
    factor = 10.0 ** np.floor(-np.log10(largest)) if largest > 0 else 1.0
    signed = abs(float(setup.kernel.sum())) < 0.1 and float(exact.min()) < 0
    times = f" × {factor:,.0f}" if factor > 1 else ""
    panels = (
        ("Picture", setup.picture, 0.0),
        ("Conv2d", exact, signed / 2),
        (_head_count(setup), ours, signed / 2),
        (f"Difference{times}", difference * factor, 0.0),
    )
    side = 160 if look.phone() else 190

    def choose(row: int, column: int) -> None:
        choices.set("row", row)
        choices.set("column", column)

    charts.cells(
        choices.key("both"),
        [
            picture_cells(values, title, zero=zero, marked=setup.pixel, side=side)
            for title, values, zero in panels
        ],
        across=2,
        on_click=choose,
        table=_pixels(setup.picture, exact, ours),
        **TEXTS.figure(
            "both", about=setup.about, scale=TEXTS(f"scale.{'signed' if signed else 'clipped'}")
        ),
    )


def _pixels(picture: Picture, exact: Output, ours: Output) -> pd.DataFrame:
    row, column = np.indices(exact.shape[:2]).reshape(2, -1)
    names = ("",) if exact.shape[2] == 1 else (" red", " green", " blue")
    columns = {
        f"{kind}{name}": values[:, :, channel].flatten().numpy()
        for kind, values in (("picture", picture), ("Conv2d", exact), ("attention", ours))
        for channel, name in enumerate(names)
    }
    return pd.DataFrame({"row": row, "column": column, **columns})


def _one_pixel(choices: Choices, setup: Setup, pixel: Pixel) -> None:
    st.header("Where each head looks", anchor=False)
    with st.container(horizontal=True):
        for name, length in zip(("row", "column"), setup.picture.shape, strict=False):
            if length > 1:
                TEXTS.choose(choices, name, positions=range(length), default=length // 2)
    size = setup.kernel.shape[-1]
    notes = [f"× {format_number(number)}" for number in setup.kernel[0, 0].flatten()]
    radius = max(2, size // 2 + 1)
    room = (look.ROOM if look.phone() else 420) // size - 8
    cell, notes = min(28.0, room / (2 * radius + 1)), notes if size > 1 else ["the head"]
    charts.cells(
        choices.key("tiles"),
        tile_cells(pixel.pattern, setup.pixel, notes, radius=radius, cell=cell),
        across=size,
        table=_heads_table(setup, pixel),
        **TEXTS.figure("tiles", row=setup.pixel[0], column=setup.pixel[1], about=setup.about),
    )


def _heads_table(setup: Setup, pixel: Pixel) -> pd.DataFrame:
    rows, columns, _ = setup.picture.shape
    offsets = convolution.offsets(setup.kernel.shape[-1])
    targets = (offsets + offsets.new_tensor(setup.pixel)).tolist()
    weights = [
        float(pattern[row, column]) if 0 <= row < rows and 0 <= column < columns else 0.0
        for pattern, (row, column) in zip(pixel.pattern, targets, strict=True)
    ]
    return pd.DataFrame(
        {
            "head": range(len(offsets)),
            "rows down": offsets[:, 0],
            "columns right": offsets[:, 1],
            "weight on its pixel": weights,
            "all its weights": pixel.pattern.sum((1, 2)),
            "sees (first channel)": pixel.z[:, 0],
            "adds (first channel)": pixel.parts[:, 0],
        }
    )


def _sum(setup: Setup, pixel: Pixel, exact: float) -> None:
    """Write out the arithmetic of one number of the output."""
    kernel = setup.kernel[0, 0]
    gathered = pixel.z[:, 0].reshape(kernel.shape)
    if len(kernel) == 1:  # all colours in one place
        gathered, kernel = pixel.z[:1], setup.kernel[:1, :, 0, 0]
    TEXTS.markdown("sum.heading", colour=" (red)" if setup.picture.shape[-1] > 1 else "")
    parts = ("heads see", gathered), ("kernel", kernel), ("they add", gathered * kernel)
    see, times, add = (charts.matrix_formula(values, title) for title, values in parts)
    line = r"\\[4pt]"
    st.latex(rf"\begin{{gathered}} {see} {line} \odot {times} {line} = {add} \end{{gathered}}")
    TEXTS.markdown("sum.total", sum=pixel.parts[:, 0].sum(), exact=exact)


def _sharpness(choices: Choices, setup: Setup) -> None:
    """Draw the heads' distance from the convolution, against their sharpness."""
    leak, sharp = convolution.leak(4.0), convolution.leak(20.0)
    cover = TEXTS.predict(choices, "alpha", leak=leak, sharp=sharp)
    # The curve of the whole picture would take longer than a click may.
    error, bound = _sharpness_of(convolution.middle(setup.picture), setup.kernel, setup.border)
    alphas = convolution.ALPHAS
    rounding = float(setup.kernel.abs().sum((1, 2, 3)).max()) * float(np.finfo(np.float32).eps)
    lines = {"measured": [e or float("nan") for e in error], "bound": bound}  # no logarithm of 0
    with cover():
        charts.lines(
            choices.key("sharpness"),
            lines | {"rounding in float32": [rounding] * len(alphas)},
            x=alphas,
            table={"alpha": alphas, "measured": error, "bound": bound},
            **TEXTS.lines("sharpness.curves", about=setup.about),
        )


@layout.part
def _border(choices: Choices, setup: Setup) -> None:
    """Draw the effect of the border on heads whose pixel lies outside the picture."""
    cover = TEXTS.predict(choices, "border")
    gaps = _border_gaps(convolution.middle(setup.picture), setup.kernel)
    with cover():
        TEXTS.markdown("border-gaps.table", **gaps)


@layout.part
def _one_head(choices: Choices, setup: Setup) -> None:
    """Show that one head alone is a convolution of one pixel."""
    cover = TEXTS.predict(choices, "shuffle")
    alone, many = _shuffle_gaps(convolution.middle(setup.picture))
    with cover():
        TEXTS.markdown("one-head.measured", alone=alone, many=many)


def _cost(setup: Setup) -> None:
    """Compare the cost of attention with that of the convolution."""
    rows, columns = setup.picture.shape[:2]
    bill = convolution.cost(rows, columns, setup.kernel)
    ratio, memory = bill.attention / bill.convolution, of_bytes(bill.pattern_bytes)
    TEXTS.markdown("cost.measured", pixels=rows * columns, bill=bill, ratio=ratio, memory=memory)


def _learning(choices: Choices) -> None:
    """Draw what both learn from few and from many pictures."""
    cover = TEXTS.predict(choices, "data")
    examples, _ = lab.strokes(len(lab.CLASSES), seed=1)
    strokes = [
        picture_cells(picture[:, :, None], name, side=110)
        for name, picture in zip(lab.CLASSES, examples, strict=True)
    ]
    number_tables(strokes, dark=look.dark(), key=choices.key("strokes"), across=len(strokes))
    seed = TEXTS.choose(choices, "learnseed")
    total = lab.STEPS * len(lab.COUNTS) * len(lab.KINDS)
    run = LabRun(partial(lab.learn, seed=seed), (seed,), total, STORED[0])
    learned = offer_run(choices, run, label="Train both")
    if learned is None:
        TEXTS.caption("learned.wait", counts=", ".join(map(str, lab.COUNTS)), steps=lab.STEPS)
        return
    with cover():
        _learned(choices, learned, seed)


def _learned(choices: Choices, learned: Learned, seed: int) -> None:
    names, counts = TEXTS.labels("kinds"), learned.counts
    accuracies = {"new pictures": learned.unseen, "learned ones": learned.training}
    lines = {
        f"{name}, {pictures}": shares[kind]
        for pictures, shares in accuracies.items()
        for kind, name in names.items()
    }
    TEXTS.markdown("learned.enough", least=lab.fewest(learned), parameters=learned.parameters)
    charts.lines(
        choices.key("learning"),
        lines,
        x=counts,
        levels={"guessing": lab.CHANCE},
        more=dict(xaxis=ticks(counts)),
        table={"pictures": counts, **lines},
        **TEXTS.lines("learned.curves", unseen=lab.N_UNSEEN, steps=lab.STEPS, seed=seed),
    )
    middle = lab.SIDE // 2
    at = learned.pattern[:, middle * lab.SIDE + middle].reshape(-1, lab.SIDE, lab.SIDE)
    titles = [f"head {i}" for i in range(len(at))]
    tiles = tile_cells(at, (middle, middle), titles, radius=3, cell=12.0)
    number_tables(tiles, dark=look.dark(), key=choices.key("learned-tiles"), across=3)
    near = float(at[:, middle - 1 : middle + 2, middle - 1 : middle + 2].sum()) / len(at)
    TEXTS.markdown("learned.near", n_pictures=counts[-1], near=near, everywhere=9 / lab.SIDE**2)
