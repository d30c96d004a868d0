"""Two models: each head beside its counterpart, matched by what both do on the same texts."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.core.compare.matching import HeadMatches, match_heads
from mha_viz.core.layer_numbers import layer_names, number_at
from mha_viz.core.metrics import METRICS
from mha_viz.core.names import MATCH_MEASURES, PAIR_MEASURES
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.plots.difference import head_changes
from mha_viz.ui.compare import TEXTS, panels
from mha_viz.ui.compare.pairs import AT_RATE
from mha_viz.ui.run import memory, reporting, scene
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import allowed, selection, views
from mha_viz.ui.state.layer_numbers import chosen_pin
from mha_viz.ui.state.link_values import Pin
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.board import board
from mha_viz.ui.widgets.controls import choosing, lazy_sections, model_menus
from mha_viz.ui.widgets.exports import downloads, figures
from mha_viz.ui.widgets.messages import words
from mha_viz.web.board import BoardAxes, board_payload

N_TEXTS = 8  # short sentences beside the one typed: one text is a small sample of what heads do
N_CHANGED = 5  # heads that are named above the figures
Head = tuple[int, int]


class _Match(NamedTuple):
    """The match of both models, and the mean distance of that with random weights."""

    matches: HeadMatches
    n_texts: int
    untrained: float | None

    @property
    def names(self) -> dict[Head, Head]:
        """The counterpart of each head that has one."""
        sides = (
            [divmod(head, n) for head in side.tolist()]
            for side, n in zip((self.matches.a, self.matches.b), self.matches.n_heads, strict=True)
        )
        return dict(zip(*sides, strict=True))

    def by_head(self, values: NDArray[np.floating], shape: Head) -> NDArray[np.float64]:
        """Return a number of each match as (layer, head) of the first model; NaN: no match."""
        grid = np.full(shape[0] * shape[1], np.nan)
        grid[self.matches.a] = values
        return grid.reshape(shape)


def draw(first: Scene, view: Compare) -> None:
    """Draw the answer, the map of distances, where counterparts sit, and the chosen head's."""
    names = [name for name in model_menus.other_models() if name not in ("", first.model)]
    if not names:
        st.info("There is no other model here. Choose one above to make it known to this page.")
        return
    name = view.model_b if view.model_b in names else names[0]
    pin = panels.same_head(first, chosen_pin(view), model=name)
    second = scene.other(replace(view, model=pin.model, pair=pin.pair, part=pin.part))
    view = _controls(first, second, view, names, name)
    if first.record.is_cross or second.record.is_cross:
        st.info("Cross attention has two texts of its own; choose another part to compare.")
        return
    both = (view, replace(view, model=second.model))
    with_random = all(map(reporting.has_random, both))
    by, size = view.match, 8 * first.head_count * second.head_count
    make = partial(_match, first, second, by, with_random)
    key = ("matches", second.key, by, with_random)
    match = reporting.cached(first, *key, make=make, size=size)
    if match is None:
        st.info("The two models have no token in common, so that no row can be compared.")
        return
    _answer(match, second)
    for side in [side for side in both if not reporting.has_random(side)][:1]:
        reporting.offer_random(side)
    _named(second, view, match)
    parts = partial(_map, first, second, view, match), partial(_pair, first, second, view, match)
    look.beside([2, 3], *parts)
    layers = partial(_layers, first, second, view, match)
    lazy_sections.expander("Where counterparts sit", "matched-layers", layers)


def _controls(
    first: Scene, second: Scene, view: Compare, names: Sequence[str], name: str
) -> Compare:
    written = first.record.z is not None and second.record.z is not None
    offered_measures = [key for key in MATCH_MEASURES if written or PAIR_MEASURES[key] == "pattern"]
    measures = {key: METRICS[key].title for key in offered_measures}
    if view.match not in measures:
        selection.change(match=next(iter(measures)))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        model_menus.other_model_menu(names, width=300, displayed=name)
        choosing.menu("match", "Matched by", measures, width=240)
        choosing.head_menus(first.record.n_layers, first.record.n_heads)
        choosing.menu("scale", "Colour scale", views.SCALES, width=150)
    return selection.of(Compare)


def _match(first: Scene, second: Scene, by: str, with_random: bool) -> _Match | None:
    """Match the heads on this text and examples (no decoder's); None without common tokens."""
    alone = "decoder" in (first.part, second.part)
    more = [case.text for case in allowed.examples() if not (case.pair or case.n_tokens)]
    texts = [] if alone else [text for text in more if text != first.text][:N_TEXTS]
    models = [memory.model(side.model, side.device, side.dtype) for side in (first, second)]
    try:
        matches = _matched(first, second, models, texts, by)
    except ArgumentError:
        return None
    untrained = None
    if with_random:  # two copies of one model with one seed would be equal
        copies = [
            memory.untrained_copy(side.model, side.device, side.dtype, seed)
            for seed, side in enumerate((first, second))
        ]
        untrained_models = [copy for copy in copies if copy is not None]
        if len(untrained_models) == len(copies):
            distances = _matched(first, second, untrained_models, texts, by).distance
            untrained = float(distances.mean()) if len(distances) else None
    return _Match(matches, len(texts) + 1, untrained)


def _matched(
    first: Scene, second: Scene, models: Sequence[AttentionModel], texts: list[str], by: str
) -> HeadMatches:
    records: list[list[AttentionRecord]] = []
    for side, model in zip((first, second), models, strict=True):
        keep = ("pattern", "z") if model.backend == "mha_viz" else ("pattern",)
        records.append([])
        for text, pair in ((side.text, side.pair), *((text, None) for text in texts)):
            with turn_for(model, text):
                records[-1].append(model.trace(text, pair, part=side.part, keep=keep))
    return match_heads(records[0], records[1], by)


def _answer(match: _Match, second: Scene) -> None:
    """Say how many heads have a counterpart, how near, and how near by chance."""
    matches = match.matches
    n_found, n = int(matches.beyond_chance.sum()), len(matches.a)
    if matches.chance is None:
        st.info("On so few common tokens chance may bring any counterpart. Type a longer text.")
        return
    same = sum(head == other for head, other in match.names.items())
    untrained, heads = match.untrained, words.count(n, "head")
    values = {"found": n_found, "of": heads, "model": words.plain(second.model), "rate": AT_RATE}
    mean = float(matches.distance.mean())
    st.markdown(
        TEXTS("two_models.answer", **values, mean=mean, chance=matches.chance)
        + ("" if untrained is None else TEXTS("two_models.untrained", mean=untrained))
        + f" Same layer and head number: {same} of {n}."
    )
    texts = words.count(match.n_texts, "text")
    st.caption(TEXTS("two_models.texts", texts=texts, rows=matches.n_rows))


def _named(second: Scene, view: Compare, match: _Match) -> None:
    """Name the heads that changed most and least, of those with a counterpart beyond chance."""
    matches, counterparts = match.matches, match.names
    order = np.argsort(matches.distance, kind="stable")
    order = order[matches.beyond_chance[order]]
    few = min(N_CHANGED, len(order) // 2)
    if not few:
        return
    ends = (("Changed most", order[: -few - 1 : -1]), ("Changed least", order[:few]))
    for column, (title, some) in zip(st.columns(2), ends, strict=True):
        offered = {}
        for i in some.tolist():
            head = divmod(int(matches.a[i]), matches.n_heads[0])
            other = words.head_name(*counterparts[head], numbers=second.record.layer_numbers)
            pair = f"{words.head_name(*head)} → {other}"
            offered[head] = f"{pair}: {words.format_number(matches.distance[i])}"
        with column:
            key = title.lower().replace(" ", "_")
            choosing.chips(key, title, offered, chosen=view.chosen, take=words.choose)


def _map(first: Scene, second: Scene, view: Compare, match: _Match) -> None:
    matches, shape = match.matches, (first.record.n_layers, first.record.n_heads)
    distance = match.by_head(matches.distance, shape)
    beyond = match.by_head(matches.beyond_chance.astype(float), shape) == 1
    numbers = second.record.layer_numbers
    counterparts = {
        head: words.head_name(*other, numbers=numbers) for head, other in match.names.items()
    }
    named = [[counterparts.get((i, j), "none") for j in range(shape[1])] for i in range(shape[0])]
    notes = [
        [f"counterpart: {name}{', beyond chance' * sure}" for name, sure in zip(*row, strict=True)]
        for row in zip(named, beyond.tolist(), strict=True)
    ]
    table = words.head_values(first, {"Distance": distance})
    table.insert(1, "Counterpart", np.ravel(named))
    table["Beyond chance"] = np.where(beyond.ravel(), "yes", "no")
    title = METRICS[view.match].title
    options: dict[str, Any] = {"selected": view.chosen, "hover_notes": notes}
    options |= {"layer_numbers": words.layer_numbers(), "dark": look.dark()}
    figures.show(
        head_changes(distance, **options),
        on_click=words.choose,
        table=table.sort_values("Distance", ascending=False, kind="stable"),
        caption=_settings(first, second, view, match),
        **TEXTS.figure("figures.matches", model=second.model, title=title),
    )


def _settings(first: Scene, second: Scene, view: Compare, match: _Match) -> str:
    title = METRICS[view.match].title
    more = f"and {words.count(match.n_texts - 1, 'example')}" * (match.n_texts > 1)
    return words.settings(first, *filter(None, (more, f"matched with {second.model} by {title}")))


def _counterpart(first: Scene, second: Scene, view: Compare, match: _Match) -> Head:
    """Return the counterpart of the chosen head; its nearest head where it has none."""
    head = view.chosen
    if head in match.names:
        return match.names[head]
    apart = match.matches.apart[head[0] * first.record.n_heads + head[1]]
    nearest = np.nan_to_num(apart, nan=np.inf).argmin()
    return divmod(int(nearest), second.record.n_heads)


def _pair(first: Scene, second: Scene, view: Compare, match: _Match) -> None:
    """Draw the chosen head beside its counterpart, with cells of one size."""
    layer, head = _counterpart(first, second, view, match)
    chosen = chosen_pin(view)
    number = number_at(second.record.layer_numbers, layer)
    other = Pin(second.model, second.text, second.pair or "", second.part, number, head)
    heads = panels.of_pins((chosen, other), view)
    panels.heading(" and ".join(panel.name for panel in heads), (chosen, other))
    if view.chosen not in match.names:
        st.caption(TEXTS("two_models.lone", model=words.plain(second.model)))
    shown = [panel.drawn() for panel in heads]
    payload = board_payload(shown, BoardAxes.of(shown))
    board(payload, key="matched-board", scale=view.scale)


def _layers(first: Scene, second: Scene, view: Compare, match: _Match) -> None:
    """Draw how many heads of each layer have their counterpart in each layer of the other."""
    counts = np.zeros((first.record.n_layers, second.record.n_layers), int)
    matches = match.matches
    a, b = (side[matches.beyond_chance] for side in (matches.a, matches.b))
    np.add.at(counts, (a // matches.n_heads[0], b // matches.n_heads[1]), 1)
    rows, columns = (
        [f"{side} {name}" for name in layer_names(of.n_layers, of.layer_numbers)]
        for side, of in (("A", first.record), ("B", second.record))
    )
    table = pd.DataFrame(counts, index=rows, columns=columns)
    st.dataframe(table.rename_axis("Layer"))
    st.caption(TEXTS("two_models.layers", a=words.plain(first.model), b=words.plain(second.model)))
    name, caption = "Layers of matched heads", _settings(first, second, view, match)
    numbers = table.reset_index(names="Layer")
    downloads.table_file(numbers, key="matched_layers", name=name, caption=caption)
