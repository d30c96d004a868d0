"""Lab 6's second half on screen: sharpness, borders, one head, the cost, and training."""

from functools import partial

import numpy as np
import streamlit as st

from mha_viz.core.amounts import of_bytes
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.convolution import learning as lab
from mha_viz.learn.labs.convolution import measures
from mha_viz.learn.labs.convolution.controls import Chosen, kept
from mha_viz.learn.labs.convolution.learning import Learned
from mha_viz.plots.curves import ticks
from mha_viz.plots.pictures import picture_cells, tile_cells
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.number_table import number_tables

TEXTS = read_texts(__package__)
NAMES = {"convolution": "Conv2d", "heads": "nine heads"}
_sharpness, _border_gaps = kept(measures.sharpness), kept(measures.border_gaps)
_shuffle_gaps = kept(measures.shuffle_gaps)


def sharpness(choices: Choices, chosen: Chosen) -> None:
    """Draw the heads' distance from the convolution, against their sharpness."""
    TEXTS.step("sharpness")
    # The curve of the whole picture would take longer than a click may.
    found = _sharpness(measures.middle(chosen.picture), chosen.kernel, chosen.border)
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
        table={"alpha": alphas, "measured": found.error, "bound": found.bound},
        **TEXTS.lines("sharpness.curves", about=chosen.about),
    )


@frame.part
def border(choices: Choices, chosen: Chosen) -> None:
    """Draw the effect of the border on heads whose pixel lies outside the picture."""
    TEXTS.step("at-the-border")
    TEXTS.predict(choices, "border")
    gaps = _border_gaps(measures.middle(chosen.picture), chosen.kernel)
    TEXTS.markdown("border-gaps.table", **{"_".join(key): gap for key, gap in gaps.items()})


@frame.part
def one_head(choices: Choices, chosen: Chosen) -> None:
    """Show that one head alone is a convolution of one pixel."""
    TEXTS.step("one-head")
    TEXTS.predict(choices, "shuffle")
    alone, many = _shuffle_gaps(measures.middle(chosen.picture))
    TEXTS.markdown("one-head.measured", alone=alone, many=many)


def cost(chosen: Chosen) -> None:
    """Compare the cost of attention with that of the convolution."""
    TEXTS.step("cost")
    rows, columns = chosen.picture.shape[:2]
    bill = measures.cost(rows, columns, chosen.kernel)
    ratio, memory = bill.attention / bill.convolution, of_bytes(bill.pattern_bytes)
    TEXTS.markdown("cost.measured", pixels=rows * columns, bill=bill, ratio=ratio, memory=memory)


def learning(choices: Choices) -> None:
    """Draw the training. Not in a fragment: Stop must end the run that the button is drawn in."""
    TEXTS.step("learning")
    TEXTS.predict(choices, "data")
    examples, _ = lab.strokes(len(lab.CLASSES), seed=1)
    drawn = [
        picture_cells(picture[:, :, None], name, side=110)
        for name, picture in zip(lab.CLASSES, examples, strict=True)
    ]
    number_tables(drawn, dark=look.dark(), key=choices.key("strokes"), across=len(drawn))
    seed = choices.seed("learnseed", "Seed of the training", width=200)
    total = lab.STEPS * len(lab.COUNTS) * len(lab.KINDS)
    found = trained(choices, (seed,), total, partial(lab.learn, seed=seed), label="Train both")
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
