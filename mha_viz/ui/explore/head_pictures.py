"""The pictures of one head: weights, what they carry, token lines, one pair, strongest pairs."""

from typing import Any

import numpy as np
import streamlit as st
import torch

from mha_viz.core.metrics import value_weighted
from mha_viz.core.record.record import AttentionRecord
from mha_viz.core.record.visible import visible_keys
from mha_viz.plots.heatmap import head_heatmap
from mha_viz.plots.vectors import score_products
from mha_viz.ui.explore import TEXTS
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Explore
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls, token_window
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.web.theme import format_weight

Place = tuple[int, int]


def _looks(title: str) -> dict[str, Any]:
    square = look.square(620)
    return {"title": title, "scale": state.of(Explore).scale, "dark": look.dark(), **square}


def _plotly(scene: Scene, record: AttentionRecord) -> None:
    view = state.of(Explore)
    shown, weights, seen = token_window.shown_head(record, view.chosen)
    looks = _looks(words.head_name(*view.chosen))
    figure = head_heatmap(weights, shown.labels, visible=seen, **looks)
    figures.chart(figure, key="heatmap", alt=in_words(record))
    st.caption(TEXTS("head_pictures.plotly"))


def _carried(scene: Scene, record: AttentionRecord) -> None:
    """Draw weights times the length of the values, as shares of each row."""
    view, whole = state.of(Explore), scene.record
    if whole.value is None or not whole.W_O:
        st.info("This family does not show its values, only its attention weights.")
        return
    layer, head = view.chosen
    value, W_O = whole.for_query_heads("value", layer)[head], whole.W_O[layer][head]
    carried = value_weighted(whole.head(layer, head)[None, None], value[None, None], [W_O[None]])
    carried = carried[0, 0]
    total = carried.sum(-1, keepdim=True)
    shares = torch.where(total > 0, carried / total.clamp_min(1e-30), 0.0)
    shown = token_window.Shown.of(whole.labels, whole.key_labels)
    looks = _looks(f"{words.head_name(layer, head)}: weight × length of the value")
    seen = shown.cut(visible_keys(whole, layer).numpy())
    figure = head_heatmap(shown.cut(shares.numpy()), shown.labels, visible=seen, **looks)
    alt = f"Shares of what {words.head_name(layer, head)} carries to each token."
    figures.chart(figure, key="carried", alt=alt)
    st.caption(TEXTS("head_pictures.carried"))


def _pair(scene: Scene, record: AttentionRecord) -> None:
    view, whole = state.of(Explore), scene.record
    pattern = whole.head(*view.chosen).numpy()
    rows, columns = view.shown(*pattern.shape)
    best = strongest_pair(whole, view.chosen, rows, columns)
    query = view.query if view.query in rows else best[0]
    key = view.key if view.key in columns else best[1]
    menus = (
        ("query", "Looks (query)", whole.labels, rows, query),
        ("key", "Looked at (key)", whole.key_labels, columns, key),
    )
    for side, (name, label, labels, places, displayed) in zip(st.columns(2), menus, strict=True):
        titles = words.places(labels)
        with side:
            choosing.menu(name, label, {i: titles[i] for i in places}, displayed=displayed)
    if whole.query is None or whole.key is None:
        st.info("This family does not expose queries and keys, only its attention weights.")
        return
    q = whole.query[*view.chosen, query].numpy()
    k = whole.for_query_heads("key", view.layer)[view.head, key].numpy()
    weight, scale = float(pattern[query, key]), whole.scale[view.layer]
    ends = {"query_label": whole.labels[query], "key_label": whole.key_labels[key]}
    figure = score_products(q, k, scale=scale, weight=weight, dark=look.dark(), **ends)
    alt = f"Products of {whole.labels[query]} and {whole.key_labels[key]}, dimension by dimension."
    figures.chart(figure, key="pair", alt=alt)
    product = float(q.astype(np.float64) @ k)
    numbers = {"n": len(q), "product": product, "scale": scale, "score": product * scale}
    told = TEXTS("head_pictures.pair", **numbers, weight=format_weight(weight))
    st.caption(f"{told} {_row_check(whole, query)}")
    if not whole.is_cross:
        why = "Why this head looks there"
        controls.page_button("circuits", why, circuit="looks", query=query, key=key, versus_key=-1)


def _row_check(record: AttentionRecord, query: int) -> str:
    """Say whether the products alone explain the row, or the model adds something of its own."""
    view = state.of(Explore)
    row = record.rows(*view.chosen, [query])[0]
    keys, queries = (record.for_query_heads(name, view.layer) for name in ("key", "query"))
    products = keys[view.head] @ queries[view.head, query]
    scores = record.scale[view.layer] * products
    scores = scores.masked_fill(row == 0, float("-inf"))
    gap = float((scores.softmax(-1) - row).abs().max())
    return TEXTS("head_pictures.softmax" if gap < 1e-3 else "head_pictures.biased", gap=gap)


def in_words(record: AttentionRecord) -> str:
    """Describe the picture of the chosen head in a sentence."""
    view = state.of(Explore)
    name = words.head_name(*view.chosen)
    query, key = strongest_pair(record, view.chosen)
    weight = float(record.head(*view.chosen)[query, key])
    if weight == 0:
        return f"{name} attends to nothing on this text."
    first = "word" if record.merged else "token"
    lone = TEXTS("head_pictures.lone", first=first) if _lone(record) else ""
    ends = {"query": record.labels[query], "key": record.key_labels[key]}
    share = format_weight(weight)
    return TEXTS("head_pictures.largest", name=name, weight=share, **ends, lone=lone)


def strongest_pair(
    record: AttentionRecord, place: Place, rows: range | None = None, columns: range | None = None
) -> Place:
    """Return the query and key (of all, or these) of a head's largest weight that is its own."""
    queries, keys = (range(n) for n in record.shape[2:])
    rows, columns = queries if rows is None else rows, keys if columns is None else columns
    rows = range(max(rows.start, _lone(record)), rows.stop) or rows
    weights = record.head(*place)[rows.start : rows.stop, columns.start : columns.stop]
    query, key = divmod(int(weights.argmax()), len(columns))
    return rows[query], columns[key]


def _lone(record: AttentionRecord) -> int:
    """Return how many rows have weight 1 in every head: a causal model's first token."""
    # Where that token is the whole text, there is nothing else to name.
    return int(record.causal and not record.is_cross and len(record.tokens) > 1)


# What the workbench does not draw itself.
PICTURES = {"carried": _carried, "pair": _pair, "plotly": _plotly}
