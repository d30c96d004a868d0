"""Pairs of heads: one that writes, and a later one that reads it."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from mha_viz.core.compare.twins import head_order
from mha_viz.plots.similarity_matrix import HeadPairs, Marks, similarity_matrix
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import Why
from mha_viz.ui.why import TEXTS
from mha_viz.ui.why.targets import signed
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.texts import KeyedTexts

Pair = tuple[tuple[int, int], tuple[int, int]]  # the writer and the reader, as (layer, head)
N_NAMED = 5  # pairs that stand above a map


def shown_pair(view: Why, values: NDArray[np.floating], n_heads: int) -> Pair:
    """Return the chosen pair; the largest of `values` (writer, reader) until one is chosen."""
    writer, reader = view.second, view.chosen
    i, j = numbers((writer, reader), n_heads)
    is_pair = i >= 0 and max(writer[1], reader[1]) < n_heads
    if is_pair and max(i, j) < len(values) and i // n_heads < reader[0]:
        return writer, reader
    return _largest(values, n_heads)[0] if np.isfinite(values).any() else ((0, 0), (1, 0))


def fit_pair(view: Why, values: NDArray[np.floating], n_heads: int) -> Why:
    """Choose the largest pair where other numbers are shown than those it was chosen among.

    A pair stays that somebody has chosen elsewhere, or that is among the largest of these, too.
    """
    largest, shown = _largest(values, n_heads), shown_pair(view, values, n_heads)
    before, chosen = session().offered_pairs or (largest, None)
    if largest and before != largest and shown == chosen and shown not in largest:
        shown = largest[0]
        choose(shown)
    session().offered_pairs = largest, shown
    return selection.of(Why)


def _largest(values: NDArray[np.floating], n_heads: int) -> list[Pair]:
    sizes = np.nan_to_num(np.abs(values), nan=-1.0).ravel()  # NaN is no pair, and 0 is one
    order = np.argsort(-sizes, kind="stable")[:N_NAMED].tolist()
    cells = (divmod(i, len(values)) for i in order if sizes[i] >= 0)
    return [(divmod(i, n_heads), divmod(j, n_heads)) for i, j in cells]


def named(pair: Pair) -> str:
    """Return a pair's name."""
    return f"{words.head_name(*pair[0])} → {words.head_name(*pair[1])}"


def numbers(pair: Pair, n_heads: int) -> tuple[int, int]:
    """Return the numbers of both heads, counted over all layers."""
    writer, reader = (layer * n_heads + head for layer, head in pair)
    return writer, reader


def choose_numbers(n_heads: int, clicked: object) -> None:
    """Choose the clicked pair of heads by their numbers."""
    if isinstance(clicked, list | tuple) and len(clicked) == 2:
        choose([divmod(int(number), n_heads) for number in clicked])


def choose(clicked: object) -> None:
    """Make a clicked pair the chosen one; ignore other points."""
    if isinstance(clicked, list | tuple) and len(clicked) == 2:
        (layer_b, head_b), (layer, head) = clicked
        selection.change(layer=layer, head=head, layer_b=layer_b, head_b=head_b, query=-1, key=-1)


def chips(
    view: Why,
    key: str,
    label: str,
    values: NDArray[np.floating],
    n_heads: int,
    measured: NDArray[np.bool_] | None = None,
) -> None:
    """Offer the pairs with the largest numbers as buttons."""

    def number(pair: Pair) -> str:
        i, j = numbers(pair, n_heads)
        is_estimate = measured is not None and not measured[i, j]
        return signed(values[i, j]) + " (estimate)" * is_estimate

    offered = {pair: f"{named(pair)}: {number(pair)}" for pair in _largest(values, n_heads)}
    shown = shown_pair(view, values, n_heads)
    choosing.chips(key, label, offered, chosen=shown, take=choose)


def draw_map(
    scene: Scene,
    view: Why,
    values: NDArray[np.floating],
    *,
    unit: str = "",
    more: Mapping[str, NDArray[np.floating]],
    caption: str,
    measured: NDArray[np.bool_] | None = None,
    **texts: Unpack[KeyedTexts],
) -> None:
    """Draw every head by every later one; a click on a cell chooses the pair."""
    n_heads, names, title = scene.record.n_heads, words.names(scene), texts["name"]
    i, j = np.nonzero(np.isfinite(values))
    columns = {title: values, **more}
    table = {"Writes": [names[at] for at in i], "Reads": [names[at] for at in j]}
    if measured is not None:
        table["Known"] = np.where(measured[i, j], "measured", "estimate").tolist()
    order = head_order(np.zeros(values.shape), "layer")
    about: dict[str, Any] = {"unit": unit, "layer_numbers": words.layer_numbers()}
    every = HeadPairs(values, names, order, n_heads=n_heads, measured=measured, **about)
    marks = Marks(pair=numbers(shown_pair(view, values, n_heads), n_heads))
    figures.show(
        similarity_matrix(every, title=title, diverging=True, marks=marks, dark=look.dark()),
        on_click=partial(choose_numbers, n_heads),
        table=words.sorted_table(table, {name: column[i, j] for name, column in columns.items()}),
        caption=caption,
        **texts | {"how_to_read": TEXTS("pairs.map", how_to_read=texts["how_to_read"])},
    )
