"""The flow graph in Streamlit: the picture, its table and its files.

What is drawn is decided in flow_graph.js.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from mha_viz.circuits.flow.graph import FlowGraph
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets.components.component import LateComponent, event_of
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.exports.exports import data_and_page, safe_name
from mha_viz.web.payload import flow_payload
from mha_viz.web.standalone import flow_html

START = 0.02  # where the slider stands at first
NAME = "What flows into a token"

_graph = LateComponent("flow_graph")


class HeadPair(NamedTuple):
    """A head, and the two tokens of one of its edges."""

    layer: int
    head: int
    query: int
    key: int


def flow_graph(
    graph: FlowGraph, *, key: str, dark: bool, on_choose: Callable[[HeadPair], None] | None = None
) -> None:
    """Draw a graph, with a slider for its threshold in the browser, and what belongs to it."""
    caption = describe(graph)
    payload = graph_payload(graph)

    @guarded
    def on_event() -> None:
        pair = chosen(st.session_state.get(key), graph)
        if pair is not None and on_choose is not None:
            on_choose(pair)

    with st.container(gap=None):
        _graph.bring(f"{key}-script")
        _graph(key=key, data=payload, on_choose_change=on_event)
    lazy_sections.table_and_export(
        key,
        lambda: st.dataframe(graph.edges, hide_index=True, key=f"{key}-rows", placeholder=""),
        lambda: _files(graph, payload, caption, key, dark),
    )


def graph_payload(graph: FlowGraph) -> bytes:
    """Pack a graph for the browser."""
    return flow_payload(
        graph.edges,
        [token.text for token in graph.tokens],
        [token.is_special for token in graph.tokens],
        position=graph.position,
        n_layers=graph.n_layers,
        threshold=graph.threshold,
        start=START,
        title=f"{NAME}: {describe(graph)}",
    )


def describe(graph: FlowGraph) -> str:
    """Name token, model, text and measure in one line."""
    token = graph.tokens[graph.position].text
    return (
        f"“{token}” at position {graph.position} of “{graph.text}” in {graph.model}, "
        f"shares by {graph.measure}"
    )


def chosen(event: Any, graph: FlowGraph) -> HeadPair | None:
    """Return the edge that the browser sent, if there is one: anyone can send anything."""
    sent = event_of(event, "choose")
    values: list[Any] = [sent.get(name) for name in HeadPair._fields]
    n = len(graph.tokens)
    sizes = (graph.n_layers, graph.n_heads, n, n)
    known = all(
        type(value) is int and 0 <= value < size for value, size in zip(values, sizes, strict=True)
    )
    return HeadPair(*values) if known else None


def _files(graph: FlowGraph, payload: bytes, caption: str, key: str, dark: bool) -> None:
    file = safe_name(f"flow_{graph.model}_{graph.position}", "flow")
    cut = f"{caption}; parts below {graph.threshold:.2%} ({graph.cut:.1%} of the state) cut"
    page = partial(flow_html, payload, title=NAME, caption=caption, dark=dark)
    data_and_page(file, graph.edges, f"{NAME}\n{cut}", page, key=key)
