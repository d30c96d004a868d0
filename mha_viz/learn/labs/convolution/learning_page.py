"""Lab 6's training on screen: a convolution and heads on few and on many pictures."""

from __future__ import annotations

from functools import partial

import streamlit as st

from mha_viz.learn.frame import charts
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.convolution import learning as lab
from mha_viz.learn.labs.convolution.learning import Learned
from mha_viz.plots.curves import ticks
from mha_viz.plots.pictures import picture_cells, tile_cells
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.number_table import number_tables

TEXTS = read_texts(__package__)
NAMES = {"convolution": "Conv2d", "heads": "nine heads"}


def learning(choices: Choices) -> None:
    """Draw the training. Not in a fragment: Stop must end the run that the button is drawn in."""
    TEXTS.step("learning")
    TEXTS.predict(choices, "data")
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
    TEXTS.markdown(
        "learned.enough",
        convolution=least["convolution"],
        heads=least["heads"],
        heads_parameters=numbers["heads"],
        convolution_parameters=numbers["convolution"],
    )
    charts.lines(
        choices.key("learning"),
        lines,
        x_axis="log",
        levels={"guessing": lab.CHANCE},
        more=dict(xaxis=ticks(found.counts)),
        table={"pictures": found.counts} | {name: line[1] for name, line in lines.items()},
        **TEXTS.lines("learned.curves", unseen=lab.UNSEEN, steps=lab.STEPS, seed=seed),
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
    near = float(at[:, middle - 1 : middle + 2, middle - 1 : middle + 2].sum()) / len(at)
    everywhere = 9 / lab.SIDE**2
    TEXTS.markdown("learned.near", n_pictures=found.counts[-1], near=near, everywhere=everywhere)


def _enough(found: Learned, kind: str) -> str:
    """Return the fewest pictures after which nine in ten new ones are judged right."""
    good = [n for n, share in zip(found.counts, found.unseen[kind], strict=True) if share >= 0.9]
    return f"{good[0]} pictures" if good else f"more than {found.counts[-1]} pictures"
