"""Lab 6 on screen: a picture convolved twice, the heads behind it, and folds."""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import streamlit as st
from torch import Tensor

from mha_viz.core.reprs import count
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.convolution import differences, inputs
from mha_viz.learn.labs.convolution import numbers as convolution
from mha_viz.learn.labs.convolution.numbers import STORED, Kernel, Output, Picture
from mha_viz.learn.networks import strokes
from mha_viz.plots.pictures import picture_cells, tile_cells
from mha_viz.ui.state.link_values import integer
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.number_table import number_tables
from mha_viz.ui.widgets.controls.picture_upload import upload_picture
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
_cached = st.cache_data(max_entries=16, show_spinner=False, hash_funcs={Tensor: Tensor.numpy})
_sharpness, _border_gaps = _cached(convolution.sharpness), _cached(differences.border_gaps)
_attended, _shuffle_gaps = _cached(convolution.attend), _cached(differences.shuffle_gaps)


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
    heads = count(setup.kernel[0, 0].numel(), "head")
    with question, cover():
        measured = convolution.compare(*setup[:3], exact, ours)
        verdict = TEXTS("verdict.exact" if measured.is_rounding else "verdict.blunt")
        values = {"heads": heads, "measured": measured, "verdict": verdict}
        TEXTS.markdown("difference.measured", n=exact.numel(), **values)
    with pictures, cover():
        _both(choices, setup, heads, exact, ours)
    _one_pixel(choices, setup, float(exact[*setup.pixel, 0]))
    middle = differences.middle(setup.picture)  # the whole picture would take longer than a click
    TEXTS.fold(choices, "sharpness", partial(_approach, choices, setup, middle))
    gaps = partial(_border_gaps, middle, setup.kernel)
    TEXTS.fold(choices, "at-the-border", partial(_answered, choices, "border", gaps))
    gaps = partial(_shuffle_gaps, middle)
    TEXTS.fold(choices, "one-head", partial(_answered, choices, "shuffle", gaps))
    bill = differences.cost(setup.picture[..., 0].numel(), setup.kernel)
    TEXTS.fold(choices, "cost", partial(TEXTS.markdown, "bill.measured", **bill))


def _setup(choices: Choices) -> Setup:
    """Draw the controls and return their choices."""
    with layout.row():
        name, side = (TEXTS.choose(choices, name) for name in ("picture", "side"))
        colour = TEXTS.choose(choices, "colour", options={False: "Grey", True: "RGB"})
        size = TEXTS.choose(choices, "size", options={k: f"{k} × {k}" for k in (1, 3, 5)})
        alpha = TEXTS.choose(choices, "alpha")
    picture, source = _picture(name, side, colour)
    presets = "preset" if size > 1 else "tintrgb" if colour else "tint"
    is_tint = presets == "tintrgb"  # from colours to colours
    names = ["red", "green", "blue"] if is_tint else [str(i - size // 2) for i in range(size)]
    with layout.row():
        preset = TEXTS.choose(choices, presets)
        grid = layout.Grid("kernel", inputs.kernel_numbers(preset, size, colour), names, names)
        edited = f"{preset}{size}{'rgb' * is_tint}"
        numbers = layout.editor(choices, edited, grid, most=99.0, step=None, cell=64)
        border = TEXTS.choose(choices, "border")
    row, column = (  # a click, a slider or a link chooses a pixel
        min(choices.get(axis, length // 2, integer(0, convolution.MAX_SIDE - 1)), length - 1)
        for axis, length in zip(("row", "column"), picture.shape, strict=False)
    )
    values = {"source": source, "preset": TEXTS(f"controls.{presets}.options.{preset}")}
    about = TEXTS("setup.about", size=size, border=border, alpha=alpha, **values)
    kernel = inputs.full_kernel(numbers, size, picture.shape[2])
    return Setup(picture, kernel, alpha, border, (row, column), about)


def _picture(name: str, side: int, colour: bool) -> tuple[Picture, str]:
    """Return the chosen picture or the user's, and what it is."""
    kind = "RGB" if colour else "grey"
    if name == "yours":
        uploaded = upload_picture("convolution-file", side)
        if uploaded is not None:
            colours, (rows, columns) = uploaded
            small = f"{colours.shape[0]} x {colours.shape[1]}"
            TEXTS.caption("picture.reduced", columns=columns, rows=rows, small=plain(small))
            return inputs.as_channels(colours, colour), f"a file, {small}, {kind}"
        st.info(TEXTS("picture.missing"))
        name = "house"
    title = TEXTS.labels("controls.picture.options")[name]
    return inputs.picture(name, side, colour), f"{title}, {side} x {side}, {kind}"


def _both(choices: Choices, setup: Setup, heads: str, exact: Output, ours: Output) -> None:
    difference = (ours - exact).abs()
    largest = float(difference.max())
    factor = 10.0 ** math.floor(-math.log10(largest)) if largest > 0 else 1.0
    signed = abs(float(setup.kernel.sum())) < 0.1 and float(exact.min()) < 0
    pictures = {"Picture": setup.picture, "Conv2d": exact, heads: ours}
    pictures[f"Difference × {factor:,.0f}" if factor > 1 else "Difference"] = difference * factor
    zeros = dict.fromkeys(("Conv2d", heads), signed / 2)
    side = 160 if look.phone() else 190

    def choose(row: int, column: int) -> None:
        choices.set("row", row)
        choices.set("column", column)

    scale = TEXTS("scale.signed" if signed else "scale.clipped")
    charts.cells(
        choices.key("both"),
        picture_cells(pictures, zeros=zeros, marked=setup.pixel, side=side),
        across=2,
        on_click=choose,
        table=convolution.pixels(setup.picture, exact, ours),
        **TEXTS.figure("both", about=setup.about, scale=scale),
    )


def _one_pixel(choices: Choices, setup: Setup, exact: float) -> None:
    """Draw where the heads of a pixel look, beside the arithmetic of its output."""
    pixel = convolution.at_pixel(*setup[:4], *setup.pixel)
    kernel = setup.kernel[0, 0]
    size, gathered = len(kernel), pixel.z[:, 0].reshape(kernel.shape)
    tiles, terms = st.columns(2, gap="medium")
    with tiles:
        TEXTS.header("pixel.heading")
        with st.container(horizontal=True):
            for name, length in zip(("row", "column"), setup.picture.shape, strict=False):
                if length > 1:
                    TEXTS.choose(choices, name, positions=range(length), default=length // 2)
        notes = [f"× {format_number(number)}" for number in kernel.flatten()]
        notes, radius = notes if size > 1 else ["the head"], max(2, size // 2 + 1)
        room = (look.ROOM if look.phone() else 420) // size - 8
        cell = min(28.0, room / (2 * radius + 1))
        charts.cells(
            choices.key("tiles"),
            tile_cells(pixel.pattern, setup.pixel, notes, radius=radius, cell=cell),
            across=size,
            table=convolution.head_table(pixel, setup.pixel),
            **TEXTS.figure("tiles", row=setup.pixel[0], column=setup.pixel[1], about=setup.about),
        )
    with terms:
        TEXTS.step("statement")
        if size == 1:  # all colours in one place
            gathered, kernel = pixel.z[:1], setup.kernel[:1, :, 0, 0]
        TEXTS.markdown("sum.heading", colour=" (red)" if setup.picture.shape[-1] > 1 else "")
        parts = ("heads see", gathered), ("kernel", kernel), ("they add", gathered * kernel)
        see, times, add = (charts.matrix_formula(values, title) for title, values in parts)
        st.latex(
            rf"\begin{{gathered}} {see} \\[4pt] \odot {times} \\[4pt] = {add} \end{{gathered}}"
        )
        TEXTS.markdown("sum.total", sum=pixel.parts[:, 0].sum(), exact=exact)


def _approach(choices: Choices, setup: Setup, middle: Picture) -> None:
    """Draw the heads' distance from the convolution, against their sharpness."""
    leak, sharp = convolution.leak(4.0), convolution.leak(20.0)
    with TEXTS.predict(choices, "alpha", leak=leak, sharp=sharp)():
        table = _sharpness(middle, setup.kernel, setup.border)
        TEXTS.curves(choices, "sharpness-figure", table, about=setup.about)


@layout.part
def _answered(choices: Choices, question: str, measure: Callable[[], Mapping[str, float]]) -> None:
    """Draw a question, and the numbers that answer it."""
    with TEXTS.predict(choices, question)():
        TEXTS.markdown(f"{question}.measured", **measure())


def _learning(choices: Choices) -> None:
    """Draw what both learn from few and from many pictures."""
    cover = TEXTS.predict(choices, "data")
    examples, _ = strokes.draw(len(strokes.CLASSES), seed=1)
    drawn = picture_cells(dict(zip(strokes.CLASSES, examples, strict=True)), side=110)
    number_tables(drawn, dark=look.dark(), key=choices.key("strokes"), across=len(drawn))
    seed = TEXTS.choose(choices, "learnseed")
    run = LabRun(partial(strokes.learn, seed=seed), (seed,), strokes.TOTAL_STEPS, STORED[0])
    learned = offer_run(choices, run, label="Train both")
    if learned is None:
        TEXTS.caption("learned.wait", counts=", ".join(map(str, strokes.COUNTS)), task=strokes)
        return
    with cover():
        TEXTS.markdown("learned.enough", least=learned.fewest(), parameters=learned.parameters)
        axes = {"levels": {"guessing": strokes.CHANCE}}
        TEXTS.curves(choices, "learning-curves", learned.accuracy, axes, task=strokes, seed=seed)
        maps, middle, near = learned.from_middle()
        titles = [f"head {i}" for i in range(len(maps))]
        tiles = tile_cells(maps, (middle, middle), titles, radius=3, cell=12.0)
        number_tables(tiles, dark=look.dark(), key=choices.key("learned-tiles"), across=3)
        n_pictures, everywhere = learned.accuracy["pictures"].iloc[-1], 9 / strokes.SIDE**2
        TEXTS.markdown("learned.near", n_pictures=n_pictures, near=near, everywhere=everywhere)
