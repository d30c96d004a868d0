"""Pairs of heads of one run: which one is chosen, those that stand out, and what chance gives."""

import zlib

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from mha_viz.core.layer_numbers import number_at
from mha_viz.core.metrics.chance import RATE
from mha_viz.ui.compare import TEXTS, panels
from mha_viz.ui.run.reporting import Chance
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.layer_numbers import chosen_pin
from mha_viz.ui.state.session import from_browser, to_browser
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.messages import words

TOO_SHORT = "On so few tokens chance may bring about any likeness: no pair is called alike."
AT_RATE = f"false-discovery rate {100 * RATE:g} %"


def chosen(scene: Scene, view: Compare) -> tuple[int, int]:
    """Return the chosen pair by the numbers of its heads."""
    heads = scene.record.n_heads
    return view.layer * heads + view.head, view.layer_b * heads + view.head_b


def heading(scene: Scene, view: Compare) -> None:
    """Draw the names of the chosen pair, and the way to the board with both heads."""
    numbers = scene.record.layer_numbers
    first = chosen_pin(view)
    second = first._replace(layer=number_at(numbers, view.layer_b), head=view.head_b)
    a, b = (words.head_name(pin.layer, pin.head, numbers=()) for pin in (first, second))
    panels.heading(f"{a} and {b}", (first, second))


def indices(scene: Scene) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the numbers of both heads of every pair."""
    return np.triu_indices(scene.head_count, 1)


def strongest(
    scene: Scene,
    view: Compare,
    labels: tuple[str, str],
    pairs: NDArray[np.intp],
    values: NDArray[np.floating],
) -> None:
    """Draw pairs of heads (pair, 2) that stand out as buttons; `labels` are key and title."""
    heads = words.names(scene)
    offered = {
        (min(i, j), max(i, j)): f"{heads[i]} – {heads[j]}: {words.format_number(value)}"
        for (i, j), value in zip(pairs.tolist(), values, strict=True)
    }
    i, j = chosen(scene, view)

    def take(pair: tuple[int, int]) -> None:
        words.choose_pair(list(pair), scene)

    choosing.chips(*labels, offered, chosen=(min(i, j), max(i, j)), take=take)


def choosable(
    table: pd.DataFrame, pairs: NDArray[np.intp], scene: Scene, view: Compare, key: str
) -> None:
    """Draw `words.choosable`, in which only the row of the chosen pair may be ticked.

    Streamlit's tick stays where it is when the table gets other rows, and when another pair is
    chosen elsewhere; here the table then becomes a new one.
    """
    rows, count = zlib.crc32(pairs.tobytes()), f"{key}-count"

    def name() -> str:
        return f"{key}-{rows}-{from_browser(count) or 0}"

    ticks = (from_browser(name()) or {}).get("selection", {}).get("rows", [])
    if ticks and pairs[ticks[0] : ticks[0] + 1].tolist() != [list(chosen(scene, view))]:
        to_browser(count, (from_browser(count) or 0) + 1)

    def take(row: int) -> None:
        words.choose_pair(pairs[row].tolist(), scene)

    words.choosable(table, take, key=name(), height=265)


def count_beyond(chance: Chance) -> str:
    """Say how many pairs are beyond chance."""
    if chance.band is None:
        return TOO_SHORT
    pairs = words.count(int(np.isfinite(chance.p).sum()), "pair")
    return f"**More alike than chance: {int(chance.pairs.sum()):,} of {pairs}** ({AT_RATE})."


def given_by_chance(chance: Chance) -> str:
    """Say how alike pairs are by chance; "" where too few tokens tell."""
    if chance.band is None:
        return ""
    units = "coordinates" if chance.measure.startswith("redundancy") else "tokens"
    sentence = TEXTS("pairs.permuted", what=units, found=chance)
    return (
        sentence if chance.untrained is None else sentence + TEXTS("pairs.untrained", found=chance)
    )
