"""Side by side: two heads, two texts, or two models, aligned token by token."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st
import torch

from mha_viz.core.alignment import align, aligned, pattern_change
from mha_viz.core.measure import measure
from mha_viz.core.record import AttentionRecord
from mha_viz.plots.difference import difference_heatmap, head_changes
from mha_viz.plots.labels import head_name
from mha_viz.ui import controls, figures, look, memory, scene, state
from mha_viz.ui.compare import words
from mha_viz.ui.compare.pair import both_heatmaps, changes, pair
from mha_viz.ui.scene import Scene

Pairs = list[tuple[int | None, int | None]]


def draw(first: Scene) -> None:
    """Two heads of one run, or of two runs where a second text or model is chosen."""
    controls.other_side()
    view = state.current()
    if not view.text_b.strip() and view.model_b in ("", view.model):
        controls.pair_pickers(first.record.n_layers, first.record.n_heads)
        view = state.current()
        pair(first, (view.layer, view.head), (view.layer_b, view.head_b))
        return
    second = _second()
    size = (second.record.n_layers, second.record.n_heads)
    state.change(
        layer_b=min(view.layer_b, size[0] - 1), head_b=min(view.head_b, size[1] - 1)
    )  # fmt: skip
    controls.pair_pickers(first.record.n_layers, first.record.n_heads, size)
    _runs(first, second)


def _second() -> Scene:
    """The other text through the other model, or through the same one."""
    view = state.current()
    text = view.text_b if view.text_b.strip() else view.text
    other = replace(view, model=view.model_b or view.model, text=text, pair="", part="self")
    model = memory.model(other.model, other.device, other.dtype)
    return scene.other(replace(other, part=model.parts[0]), model)


def _runs(first: Scene, second: Scene) -> None:
    """Both heads, their difference on common axes, every metric, and which heads changed most."""
    a, b = first.record, second.record
    if a.is_cross or b.is_cross:
        st.info("Cross attention has two texts of its own; choose another part to compare.")
        return
    if a.model != b.model:  # other tokens: words are what both have
        a, b = a.merge_words(), b.merge_words()
    view = state.current()
    places = ((view.layer, view.head), (view.layer_b, view.head_b))
    names = (_name(a, places[0], "A"), _name(b, places[1], "B"))
    pairs = align(a.labels, b.labels, ignore_case=a.model != b.model)
    st.subheader(f"{names[0]} and {names[1]}", anchor=False)
    both_heatmaps((a, places[0]), (b, places[1]))
    _difference(a, b, pairs, places, names, first)
    one, two = (measure(r) for r in (a, b))
    values = {
        key: (float(one[key][places[0]]), float(two[key][places[1]])) for key in one if key in two
    }
    changes(first, values, names)
    _most_changed(a, b, pairs, first)


def _difference(
    a: AttentionRecord,
    b: AttentionRecord,
    pairs: Pairs,
    places: tuple[tuple[int, int], tuple[int, int]],
    names: tuple[str, str],
    first: Scene,
) -> None:
    left = aligned(a.head(*places[0]), [i for i, _ in pairs])
    right = aligned(b.head(*places[1]), [j for _, j in pairs])
    labels = [_label(a, b, i, j) for i, j in pairs]
    figure = difference_heatmap(
        left, right, labels, labels, names=names, title=f"{names[1]} minus {names[0]}",
        dark=look.dark(),
    )  # fmt: skip
    numbered = [f"{i}:{label}" for i, label in enumerate(labels)]
    table = pd.DataFrame(right - left, columns=numbered, index=numbered)
    same = sum(i is not None and j is not None for i, j in pairs)
    figures.show(
        figure, key="sides", name="difference", table=table.reset_index(names="query"),
        caption=words.settings(first, f"beside {b.model} · {b.text[:200]}"),
        how_to_read=f"{same} of {len(pairs)} places stand in both texts (least edits); a place "
        "that only one text has is marked. Weights sum to 1 over all keys of a text, so a longer "
        "text has smaller weights: compare where they lie before how large they are.",
    )  # fmt: skip


def _most_changed(a: AttentionRecord, b: AttentionRecord, pairs: Pairs, first: Scene) -> None:
    st.markdown("**Which heads changed most**")
    if a.pattern.shape[:2] != b.pattern.shape[:2]:
        st.info(
            f"{a.model} has {a.n_layers} layers of {a.n_heads} heads and {b.model} {b.n_layers} "
            f"of {b.n_heads}: a head of one has no counterpart in the other. Choose any two above."
        )
        return
    change = pattern_change(a.pattern, b.pattern, pairs)
    if not torch.isfinite(change).any():
        st.info("The two texts have no token in common, so that no row can be compared.")
        return
    values = change.numpy()
    note = (
        " The two models were trained apart: head numbers agree by chance only."
        if a.model != b.model else ""
    )  # fmt: skip
    figures.show(
        head_changes(values, dark=look.dark()), key="most_changed", name="changes",
        on_click=words.choose_on_both_sides,
        table=words.head_values(first, {"Change": values}).sort_values("Change", ascending=False),
        caption=words.settings(first, f"beside {b.model} · {b.text[:200]}"),
        how_to_read="Share of a row’s weight that lies elsewhere in the other text (total "
        f"variation), averaged over the tokens that both have. Click a head to see it.{note}",
    )  # fmt: skip


def _name(record: AttentionRecord, place: tuple[int, int], side: str) -> str:
    return f"{side}: {record.model} {head_name(*place)}"


def _label(a: AttentionRecord, b: AttentionRecord, i: int | None, j: int | None) -> str:
    """The token, or both where one stands for the other."""
    one = None if i is None else a.labels[i]
    two = None if j is None else b.labels[j]
    if one is None or two is None:
        return one or two or ""
    return one if one.casefold() == two.casefold() else f"{one} / {two}"
