"""One head, or two heads side by side with their difference and every number between them."""

import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.chance import RATE
from mha_viz.core.names import PRODUCTS
from mha_viz.core.record.record import AttentionRecord
from mha_viz.plots.difference import difference_heatmap
from mha_viz.plots.heatmap import MOST, head_heatmap, mark_cells
from mha_viz.reports.report import Report
from mha_viz.ui.compare import TEXTS, described
from mha_viz.ui.heads.card import labels
from mha_viz.ui.heads.head_words import in_words
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state, views
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls, lazy_sections, token_window
from mha_viz.ui.widgets.exports import exports, figures
from mha_viz.ui.widgets.messages import words

Place = tuple[int, int]
Cells = Sequence[tuple[int, int]]  # (query, key)
OWN_BASIS = " (in each head’s own basis)"  # a number that changes when a head is turned inside
NARROW = 290  # pixels that a picture beside another one has on a laptop
_BY_WEIGHTS = {"subspace_overlap": "overlap", "cosine": "cos"}


def one_head(scene: Scene, report: Report) -> None:
    """Draw the chosen head's weights and labels, and a button that leads to all about it."""
    view = state.of(Compare)
    place = view.chosen
    with st.container(horizontal=True, vertical_alignment="center"):
        st.header(words.head_name(*place), anchor=False)
        controls.open_in_heads()
    name = words.head_name(*place)
    _heatmap(scene.record, place, "chosen", words.settings(scene), name, NARROW)
    exports.pin_button(scene.record, lambda: place, "pin_chosen", name)
    st.markdown(words.plain(in_words(scene.record, place)))
    labels(report, place)


def chosen_pair(scene: Scene) -> None:
    """Draw the two chosen heads, controls to choose others, and every number between the two."""
    headed_pickers(scene)
    pictures(scene)
    numbers(scene)


def headed_pickers(scene: Scene, other: AttentionRecord | None = None) -> None:
    """Draw `heading` and the menus in a row; the second head may be of an `other` run."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        heading(other)
        controls.pair_pickers(scene.record.n_layers, scene.record.n_heads, other)
        colour_scale(scene)


def beside(scene: Scene, picture: Callable[[], None], large: bool = False) -> None:
    """Draw a picture of all heads, perhaps a large one, and the pair that a click in it opens."""
    left, right = st.columns([2, 1] if large else [2, 3], gap="medium")
    with left:
        picture()
    with right:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            heading()
            if large:
                colour_scale(scene)
        pictures(scene, NARROW, across=1 if large else 2)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            controls.pair_pickers(scene.record.n_layers, scene.record.n_heads)
            if not large:
                colour_scale(scene)


def heading(other: AttentionRecord | None = None) -> None:
    """Draw the names of the chosen pair."""
    st.header(" and ".join(names(other=other)), anchor=False, width="content")


def names(a: str = "", b: str = "", other: AttentionRecord | None = None) -> tuple[str, str]:
    """Return the names of the chosen pair, behind what says whose head each is."""
    view = state.of(Compare)
    numbers = None if other is None else other.layer_numbers
    return a + words.head_name(*view.chosen), b + words.head_name(*view.second, numbers=numbers)


def colour_scale(scene: Scene) -> None:
    """Draw the scale of all heatmaps of weights, the same as in Heads, and their tokens."""
    choosing.menu("scale", "Colour scale", views.SCALES, width=150)
    token_window.slider(scene.record.shape[2])


def strongest(
    scene: Scene, key: str, label: str, pairs: NDArray[np.intp], values: NDArray[np.floating]
) -> None:
    """Draw pairs of heads (pair, 2) that stand out, each a button that opens it."""
    heads = words.names(scene)
    offered = {
        (min(i, j), max(i, j)): f"{heads[i]} – {heads[j]}: {words.format_number(value)}"
        for (i, j), value in zip(pairs.tolist(), values, strict=True)
    }
    i, j = chosen_places(scene)

    def take(pair: tuple[int, int]) -> None:
        words.choose_pair(list(pair), scene)

    choosing.chips(key, label, offered, chosen=(min(i, j), max(i, j)), take=take)


def indices(scene: Scene) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the numbers of both heads of every pair."""
    return np.triu_indices(scene.head_count, 1)


def chosen_places(scene: Scene) -> tuple[int, int]:
    """Return the chosen pair by the numbers of its heads."""
    view, heads = state.of(Compare), scene.record.n_heads
    return view.layer * heads + view.head, view.layer_b * heads + view.head_b


def choosable(
    table: pd.DataFrame, pairs: NDArray[np.intp], scene: Scene, *, key: str, **size: Any
) -> None:
    """Draw `words.choosable`, in which only the row of the chosen pair may be ticked.

    Streamlit's tick stays where it is when the table gets other rows, and when another pair is
    chosen elsewhere; here the table then becomes a new one.
    """
    rows, count = zlib.crc32(pairs.tobytes()), f"{key}-count"

    def name() -> str:
        return f"{key}-{rows}-{st.session_state.setdefault(count, 0)}"

    ticks = st.session_state.get(name(), {}).get("selection", {}).get("rows", [])
    if ticks and pairs[ticks[0] : ticks[0] + 1].tolist() != [list(chosen_places(scene))]:
        st.session_state[count] += 1

    def take(row: int) -> None:
        words.choose_pair(pairs[row].tolist(), scene)

    words.choosable(table, take, key=name(), **size)


def pictures(scene: Scene, width: int | None = None, marked: Cells = (), across: int = 2) -> None:
    """Draw the weights of both heads, each drawn in `width` pixels where that is narrow.

    They stand beside each other, or below each other where one is `across`. Pairs of tokens that
    are `marked`, (query, key), are framed.
    """
    sides = [
        (scene.record, place) for place in (state.of(Compare).chosen, state.of(Compare).second)
    ]
    caption = words.settings(scene)
    both_heatmaps(*sides, names=names(), caption=caption, width=width, marked=marked, across=across)


def numbers(scene: Scene) -> None:
    """Draw the difference of both heads' weights, and every number between the two."""
    view, (first, second) = state.of(Compare), names()
    shown, one, seen_a = token_window.shown_head(scene.record, view.chosen)
    _, two, seen_b = token_window.shown_head(scene.record, view.second)
    title = f"{second} minus {first}"
    looks: dict[str, Any] = {"names": (first, second), "title": title, "dark": look.dark()}
    drawn = difference_heatmap(one, two, shown.labels, masked=(~seen_a, ~seen_b), **looks)
    left, right = st.columns(2)
    with left:
        table = words.by_tokens(two - one, *shown.names, visible=seen_a & seen_b)
        caption = words.settings(scene, title)
        texts = TEXTS.figure("figures.difference", second=second, first=first)
        figures.show(drawn, table=table, caption=caption, **texts)
    with right:
        if scene.is_long:  # all heads of which are compared where somebody asks
            _measures(scene)
        else:
            described.metrics(scene, described.difference(scene), (first, second))
    if not scene.is_long:
        lazy_sections.expander("All measures between them", "measures", partial(_measures, scene))


def _measures(scene: Scene) -> None:
    """Draw what every measure says about the chosen pair."""
    view, (i, j) = state.of(Compare), chosen_places(scene)
    measured = scene.record.compare(view.chosen, view.second)
    rows = [
        (METRICS[str(key)].title, words.format_number(value)) for key, value in measured.items()
    ]
    for space in views.SPACES:
        for measure, title in _BY_WEIGHTS.items():
            matrix = reporting.parameter_likeness(view, space, measure)
            if matrix is not None:
                own = measure == "cosine" and space not in PRODUCTS
                rows.append(
                    (f"{title} of {space}{OWN_BASIS * own}", words.format_number(matrix[i, j]))
                )
    table = pd.DataFrame(rows, columns=["Measure", "between them"])
    st.table(table.set_index("Measure"))


def both_heatmaps(
    *sides: tuple[AttentionRecord, Place],
    names: tuple[str, str],
    caption: str,
    width: int | None = None,
    marked: Cells = (),
    across: int = 2,
) -> None:
    """Draw the weights on either side, each with its own tokens; the rest as for `pictures`."""
    columns = st.columns(across) * (2 // across)
    for column, (record, place), key, name in zip(columns, sides, "ab", names, strict=True):
        with column:
            _heatmap(record, place, key, caption, name, width, marked, explained=False)
    below = columns if across > 1 else [st.container(horizontal=True)] * 2
    for column, (record, place), key, name in zip(below, sides, "ab", names, strict=True):
        with column:
            exports.pin_button(record, partial(tuple[int, int], place), f"pin_{key}", name)
    figures.reading(TEXTS("pair.both"))


def _heatmap(
    record: AttentionRecord,
    place: Place,
    key: str,
    caption: str,
    name: str,
    width: int | None = None,
    marked: Cells = (),
    explained: bool = True,
) -> None:
    scale = state.of(Compare).scale
    shown, weights, seen = token_window.shown_head(record, place)
    title = "" if key == "chosen" else name  # a heading above it says so
    looks: dict[str, Any] = {"title": title, "scale": scale, "dark": look.dark()}
    looks |= look.square(width or 380, width)
    figure = head_heatmap(weights, shown.labels, visible=seen, **looks)
    places = shown.places(marked) if max(weights.shape) <= MOST else []
    figures.show(
        mark_cells(figure, places, look.dark()) if places else figure,
        table=words.by_tokens(weights, *shown.names, visible=seen),
        caption=f"{caption} · {name} · colours: {scale}",
        explained=explained,
        **TEXTS.figure("figures.heatmap", name=name) | {"key": f"heatmap_{key}"},
    )


TOO_SHORT = "On so few tokens chance may bring about any likeness: no pair is called alike."
AT_RATE = f"false-discovery rate {100 * RATE:g} %"


def count_beyond(found: reporting.Chance) -> str:
    """Say how many pairs are beyond chance."""
    if found.band is None:
        return TOO_SHORT
    pairs = words.count(int(np.isfinite(found.p).sum()), "pair")
    return f"**More alike than chance: {int(found.pairs.sum()):,} of {pairs}** ({AT_RATE})."


def given_by_chance(found: reporting.Chance) -> str:
    """Say how alike pairs are by chance; "" where too few tokens tell."""
    if found.band is None:
        return ""
    what = "coordinates" if found.measure.startswith("redundancy") else "tokens"
    told = TEXTS("pair.permuted", what=what, found=found)
    return told if found.untrained is None else told + TEXTS("pair.untrained", found=found)
