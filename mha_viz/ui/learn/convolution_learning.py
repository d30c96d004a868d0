"""Lab 6's training on screen: a convolution and heads on few and on many pictures."""

from __future__ import annotations

from functools import partial

import streamlit as st

from mha_viz.labs import convolution_learning as lab
from mha_viz.labs.convolution_learning import Learned
from mha_viz.plots.curves import ticks
from mha_viz.plots.pictures import picture_cells, tile_cells
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.learn.long_work import trained
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.number_table import number_tables

NAMES = {"convolution": "Conv2d", "heads": "nine heads"}


def learning(choices: Choices) -> None:
    """Not in a fragment: Stop must end the run that the button is drawn in."""
    frame.step(
        "Heads need more data: measured",
        "Nine heads **can** be the convolution. But a convolution is told to look at neighbours, "
        "and heads have to find out. Here both learn how a stroke lies in a noisy picture: "
        "3 × 3 places with 8 channels, ReLU, the largest of each channel, a linear layer. The "
        "heads’ score for each distance k − p is a free number, and begins near 0: they look "
        "everywhere.",
        r"\begin{gathered} \text{Conv2d: } \textstyle\sum_{\Delta} x_{p + \Delta} K_\Delta \\ "
        r"\text{heads: } \sum_h \sum_k \operatorname{softmax}_k\big(b_h[k - p]\big)\, x_k\, w_h "
        r"\end{gathered}",
    )
    frame.predict(
        choices,
        "data",
        "Both learn from 32 pictures, in as many steps, until they know those by heart. How many "
        "of 500 new ones do they judge right? (Guessing: 25 %.)",
        [
            "Both nearly all: they can do the same",
            "The convolution nearly all, the heads about half",
            "Both about half",
        ],
        1,
        "What a network can express says nothing about what few examples teach it. Train both "
        "below and see how the gap closes with more pictures.",
    )
    examples, _ = lab.strokes(len(lab.CLASSES), seed=1)
    number_tables(
        [
            picture_cells(picture[:, :, None], name, side=110)
            for name, picture in zip(lab.CLASSES, examples, strict=True)
        ],
        dark=look.dark(),
        key=choices.key("strokes"),
        across=len(lab.CLASSES),
    )
    seed = choices.seed("learnseed", "Seed of the training", width=200)
    total = lab.STEPS * len(lab.COUNTS) * len(lab.KINDS)
    found = trained(
        choices,
        (seed,),
        total,
        partial(lab.learn, seed=seed),
        label="Train both",
    )
    if found is None:
        counts = ", ".join(map(str, lab.COUNTS))
        st.caption(f"On {counts} pictures, {lab.STEPS} steps each: about half a minute.")
        return
    _learned(choices, found, seed)


def _learned(choices: Choices, found: Learned, seed: int) -> None:
    lines = {
        f"{name}, {which}": (found.counts, shares[kind])
        for which, shares in (("new pictures", found.unseen), ("learned ones", found.seen))
        for kind, name in NAMES.items()
    }
    least = {kind: _enough(found, kind) for kind in NAMES}
    numbers = found.parameters
    st.markdown(
        "To judge nine in ten new pictures right, the convolution needs to learn from "
        f"**{least['convolution']}**, the heads from **{least['heads']}**. The heads have "
        f"{numbers['heads']:,} parameters to find, the convolution {numbers['convolution']:,}."
    )
    charts.lines(
        choices.key("learning"),
        lines,
        title="Strokes judged right",
        x_title="pictures to learn from",
        y_title="share",
        x_axis="log",
        levels={"guessing": lab.CHANCE},
        more=dict(xaxis=ticks(found.counts)),
        table={"pictures": found.counts} | {name: line[1] for name, line in lines.items()},
        caption=f"{lab.UNSEEN} new pictures, {lab.STEPS} steps of Adam, seed {seed}",
        how_to_read="Learned pictures are known by heart by both. What few of them do not tell the "
        "heads is that only neighbours matter: the convolution is built that way.",
    )
    middle = lab.SIDE // 2
    at = found.pattern[:, middle * lab.SIDE + middle].reshape(-1, lab.SIDE, lab.SIDE)
    number_tables(
        tile_cells(
            at, (middle, middle), [f"head {i}" for i in range(len(at))], radius=3, cell=12.0
        ),
        dark=look.dark(),
        key=choices.key("learned-tiles"),
        across=3,
    )
    near = at[:, middle - 1 : middle + 2, middle - 1 : middle + 2].sum() / len(at)
    st.markdown(
        f"Where each head looks from the framed pixel, learned from {found.counts[-1]} pictures: "
        f"{float(near):.0%} of a head’s weight lies on the 3 × 3 pixels around it, where a head "
        f"that looks everywhere has {9 / lab.SIDE**2:.0%} and a convolution all."
    )


def _enough(found: Learned, kind: str) -> str:
    """The fewest pictures after which nine in ten new ones are judged right."""
    good = [n for n, share in zip(found.counts, found.unseen[kind], strict=True) if share >= 0.9]
    return f"{good[0]} pictures" if good else f"more than {found.counts[-1]} pictures"
