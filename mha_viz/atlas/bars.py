"""Bars of a study's tables, as shares of the room that a page gives them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float

from mha_viz.core.amounts import format_number, true_minus
from mha_viz.core.reprs import count
from mha_viz.paper.figures import DRAWN_OFFSETS


class Bar(NamedTuple):
    """A bar: its start, width and height in per cent, the name below it, and what it says."""

    start: str
    width: str
    height: str
    name: str
    says: str


class Bars(NamedTuple):
    """The bars of a picture, and the table that they are of."""

    bars: list[Bar]
    table: pd.DataFrame


def offset_bars(table: pd.DataFrame) -> Bars:
    """Return a bar for each near offset of a profile; the table goes on."""
    near = table[table["offset"].isin(DRAWN_OFFSETS)]
    weights, n = near["weight"].to_numpy(float), max(1, len(near))
    names = [true_minus(str(offset)) for offset in near["offset"]]
    hover_texts = [f"{name}: {format_number(of)}" for name, of in zip(names, weights, strict=True)]
    lefts = (np.arange(len(near)) + 0.1) / n
    return Bars(_bars(lefts, np.full(len(near), 0.8 / n), weights, names, hover_texts), table)


def kind_bars(table: pd.DataFrame) -> Bars:
    """Return a bar for each kind of key, as wide as its weight."""
    weights = table["weight"].to_numpy(float)
    hover_texts = [format_number(weight) for weight in weights]
    none = np.zeros(len(table))
    return Bars(_bars(none, weights, none, table["kind"].tolist(), hover_texts), table)


def histogram_bars(table: pd.DataFrame) -> Bars:
    """Return a bar for each range of scores that texts have."""
    low, high, counts = (table[name].to_numpy(float) for name in ("from", "to", "texts"))
    reach = high.max() - low.min()
    hover_texts = [
        f"{format_number(start)} to {format_number(end)}: {count(int(n), 'text')}"
        for start, end, n in zip(low, high, counts, strict=True)
    ]
    lefts, widths = (low - low.min()) / reach, (high - low) / reach
    return Bars(_bars(lefts, widths, counts, [""] * len(table), hover_texts), table)


def _bars(
    lefts: Float[np.ndarray, " bar"],
    widths: Float[np.ndarray, " bar"],
    heights: Float[np.ndarray, " bar"],
    names: list[str],
    hover_texts: list[str],
) -> list[Bar]:
    """Return bars of shares; heights are of the highest."""
    highest = max(heights.max(initial=0.0), 1e-12)
    sides = lefts, widths, heights / highest
    percents = ([f"{100 * share:.4g}" for share in shares] for shares in sides)
    return [Bar(*bar) for bar in zip(*percents, names, hover_texts, strict=True)]
