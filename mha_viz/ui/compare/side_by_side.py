"""Side by side: two heads, two texts, or two models, aligned token by token."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from mha_viz.core.compare.alignment import align, aligned, equal_places, pattern_change
from mha_viz.core.record.record import AttentionRecord
from mha_viz.core.record.visible import visible_keys
from mha_viz.plots.difference import difference_heatmap, head_changes
from mha_viz.ui.compare import TEXTS, described, pair
from mha_viz.ui.run import reporting, scene
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.layer_numbers import by_number
from mha_viz.ui.state.link_values import UNTRAINED
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls, lazy_sections, token_window
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

TITLE = "In words, and metric by metric"
N_CHANGED = 5  # heads that are named above the figures
Pairs = list[tuple[int | None, int | None]]


class _Runs(NamedTuple):
    """Two runs on common axes, the same for all heads; of two models, words are what both have."""

    a: AttentionRecord
    b: AttentionRecord
    pairs: Pairs  # that align their tokens
    common: list[tuple[int, int]]  # those with the same token
    change: np.ndarray | None  # (layer, head), known where heads agree

    @property
    def shared(self) -> bool:
        """A token is in both texts, other than those that every text has."""
        a, b = self.a.tokens, self.b.tokens
        return any(not (a[i].is_special and b[j].is_special) for i, j in self.common)


def draw(first: Scene) -> None:
    """Draw two heads of one run, or of two runs where a second text or model is chosen."""
    controls.other_side()
    view = state.of(Compare)
    if not view.text_b.strip() and view.model_b in ("", view.model):
        _one_run(first)
        return
    second = described.second_run(view.model_b, view.text_b)
    record = second.record
    words.cut_off(record)
    if not scene.is_head(record, view.second):
        missing = scene.no_such_head(record, by_number(view).layer_b, view.head_b)
        st.info(words.plain(f"{missing} Showing another one."))
        state.change(layer_b=0, head_b=0)
    if first.record.is_cross or record.is_cross:
        st.info("Cross attention has two texts of its own; choose another part to compare.")
        return
    make, size = partial(_align, first, second), 2 * first.record.held_bytes
    runs = reporting.cached(first, "sides", second.key, make=make, size=size)
    other = described.Other(second, (runs.a, runs.b))
    found = None if first.is_long or second.is_long else described.difference(first, other)
    if found is not None:
        described.sentences(found, framed=True)
    _answer(first, runs)
    pair.headed_pickers(first, record)
    view, names = state.of(Compare), pair.names("A ", "B ", record)
    sides = (runs.a, view.chosen), (runs.b, view.second)
    marked = () if found is None else described.marked(found)
    pair.both_heatmaps(*sides, names=names, caption=_settings(first, runs), marked=marked)
    st.caption(words.plain(f"A is {_about(runs.a)}. B is {_about(runs.b)}."))
    left, right = st.columns(2) if runs.shared else (st.container(), st.container())
    if runs.shared:
        with left:
            _difference(first, runs)
            if runs.change is not None:
                _most_changed(first, runs, runs.change)
    with right:
        if found is not None:
            described.metrics(first, found, names, other)


def _one_run(first: Scene) -> None:
    """Draw two heads of one run."""
    if first.is_long:  # of which all pairs of heads take long
        pair.chosen_pair(first)
        lazy_sections.expander(TITLE, "described", partial(_described_late, first))
        return
    found = described.difference(first)
    described.sentences(found, framed=True)
    pair.headed_pickers(first)
    pair.pictures(first, marked=described.marked(found))
    pair.numbers(first)


def _described_late(first: Scene) -> None:
    found = described.difference(first)
    described.sentences(found)
    described.metrics(first, found, pair.names())


def _align(first: Scene, second: Scene) -> _Runs:
    a, b = first.record, second.record
    vocabulary = first.model.removesuffix(UNTRAINED)
    apart = a.labels != b.labels and second.model.removesuffix(UNTRAINED) != vocabulary
    if apart:
        a, b = a.merge_words(), b.merge_words()
    pairs = align(a.labels, b.labels, ignore_case=apart)
    common = equal_places(a.labels, b.labels, pairs, ignore_case=apart)
    same = a.shape[:2] == b.shape[:2]
    change = _change(a, b, pairs, common) if same else None
    return _Runs(a, b, pairs, common, change)


def _change(
    a: AttentionRecord, b: AttentionRecord, pairs: Pairs, common: list[tuple[int, int]]
) -> NDArray[np.float32]:
    """Return how much each head changed, a layer at a time: not all weights fit the memory."""
    layers = ((a.patterns.layer(i)[None], b.patterns.layer(i)[None]) for i in range(a.n_layers))
    return np.concatenate([pattern_change(*both, pairs, common).numpy() for both in layers])


def _answer(first: Scene, runs: _Runs) -> None:
    """Name the heads that changed most, or say why none can be named."""
    a, b, change = runs.a, runs.b, runs.change
    if not runs.shared:
        st.info(TEXTS("side_by_side.answer"))
        return
    if change is None:
        st.info(words.plain(TEXTS("side_by_side.sizes", a=a, b=b)))
        return
    order = np.argsort(-change, axis=None, kind="stable")[:N_CHANGED]
    most = [divmod(int(i), change.shape[1]) for i in order]
    view = state.of(Compare)
    choosing.chips(
        "most_changed_heads",
        "**Which heads changed most** (share of a row’s weight that lies elsewhere)",
        {
            place: f"{words.head_name(*place)}: {words.format_number(change[place])}"
            for place in most
        },
        chosen=view.chosen if view.chosen == view.second else None,
        take=lambda place: words.choose_on_both_sides(list(place)),
    )


def _about(record: AttentionRecord) -> str:
    unit = "words" if record.merged else "tokens"
    return f"{record.model} on “{_short(record.text, 100)}”, {len(record.tokens)} {unit}"


def _settings(first: Scene, runs: _Runs) -> str:
    return words.settings(first, f"A; B: {runs.b.model} · {_short(runs.b.text, 200)}")


def _short(text: str, letters: int) -> str:
    return text if len(text) <= letters else text[: letters - 1] + "…"


def _difference(first: Scene, runs: _Runs) -> None:
    view, names = state.of(Compare), pair.names("A ", "B ", runs.b)
    left, hidden_left = _on_common(runs.a, view.chosen, [i for i, _ in runs.pairs])
    right, hidden_right = _on_common(runs.b, view.second, [j for _, j in runs.pairs])
    labels = [_label(runs, i, j) for i, j in runs.pairs]
    shown = token_window.Shown.of(labels, labels)
    left, right = shown.cut(left), shown.cut(right)
    masked = shown.cut(hidden_left), shown.cut(hidden_right)
    looks: dict[str, Any] = {"title": f"{names[1]} minus {names[0]}", "dark": look.dark()}
    looks |= {"names": names, "masked": masked, "side": 440}
    drawn = difference_heatmap(left, right, shown.labels, **looks)
    table = words.by_tokens(right - left, *shown.names, visible=~(masked[0] | masked[1]))
    caption = _settings(first, runs)
    texts = TEXTS.figure("figures.sides", common=len(runs.common), places=len(runs.pairs))
    figures.show(drawn, table=table, caption=caption, **texts)


def _on_common(
    record: AttentionRecord, place: tuple[int, int], places: list[int | None]
) -> tuple[NDArray[np.floating], NDArray[np.bool_]]:
    """Return a head's weights on common axes, and which of them the run's mask hides."""
    hidden = (~visible_keys(record, place[0])).float()
    return aligned(record.head(*place), places), aligned(hidden, places) == 1


def _most_changed(first: Scene, runs: _Runs, change: np.ndarray) -> None:
    st.markdown("**How much each head changed**")
    view = state.of(Compare)
    note = TEXTS("side_by_side.apart") if runs.a.model != runs.b.model else ""
    looks: dict[str, Any] = {"layer_numbers": words.layer_numbers(), "dark": look.dark()}
    drawn = head_changes(change, selected=view.chosen, **looks)
    table = words.head_values(first, {"Change": change}).sort_values("Change", ascending=False)
    caption = _settings(first, runs)
    texts = TEXTS.figure("figures.most_changed", note=note)
    figures.show(drawn, on_click=words.choose_on_both_sides, table=table, caption=caption, **texts)


def _label(runs: _Runs, i: int | None, j: int | None) -> str:
    one = None if i is None else runs.a.labels[i]
    two = None if j is None else runs.b.labels[j]
    if one is None or two is None:
        return one or two or ""
    return one if (i, j) in runs.common else f"{one} / {two}"
