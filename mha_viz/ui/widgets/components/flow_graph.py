"""The flow graph and the graph of a prediction in Streamlit: the picture, its table, its files.

What is drawn is decided in flow_graph.js.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from mha_viz.circuits.attribution.flow_graph import FlowGraph
from mha_viz.circuits.attribution.pins import Pin
from mha_viz.circuits.attribution.signed_graph import PredictionGraph
from mha_viz.core.amounts import format_share
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser
from mha_viz.ui.widgets.components.component import LateComponent, event_of
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.exports.downloads import data_and_page, download, safe_name
from mha_viz.ui.widgets.messages.notices import number_columns
from mha_viz.web.payload import KINDS, flow_payload, signed_payload
from mha_viz.web.standalone import flow_html
from mha_viz.web.theme import format_number

START = 0.02  # where the slider stands at first
NAME = "What flows into a token"
SIGNED_NAME = "What a prediction is the sum of"

_graph = LateComponent("flow_graph")


class HeadPair(NamedTuple):
    """A head, and the two tokens of one of its edges; -1 for both where tokens are folded."""

    layer: int
    head: int
    query: int
    key: int


class DrawnNode(NamedTuple):
    """A node of a graph as it is drawn: a residual position, a head or an MLP."""

    layer: int
    kind: str  # `what` of a `Pin`
    head: int
    position: int  # -1 where all tokens are folded


def flow_graph(
    graph: FlowGraph, *, key: str, dark: bool, on_choose: Callable[[HeadPair], None] | None = None
) -> None:
    """Draw a graph, with a slider for its threshold in the browser, and what belongs to it."""
    file = safe_name(f"flow_{graph.model}_{graph.position}", "flow")
    share = format_share(graph.cut, 1)
    cut = f"parts below {format_share(graph.threshold, 2)} ({share} of the state) cut"
    labels, choose = (file, NAME, describe(graph), cut), _on_choose(graph, key, on_choose)
    _draw(graph, graph_payload(graph), labels, key, dark, choose=choose)


def prediction_graph(
    graph: PredictionGraph,
    *,
    pins: Sequence[Pin],
    key: str,
    dark: bool,
    on_choose: Callable[[HeadPair], None],
    on_pin: Callable[[DrawnNode], None],
) -> None:
    """Draw a graph of one prediction with its pinned nodes, and what belongs to it."""
    file = safe_name(f"graph_{graph.model}_{graph.position}", "graph")
    parts = (graph.path_sum, graph.value - graph.final_bias)
    explained = "{} of {} logits".format(*(format_number(part, signed=True) for part in parts))
    share = f"the largest edges, {format_share(graph.share)} of all: {explained}"

    @guarded
    def pin() -> None:
        node = pinned(from_browser(key), graph)
        if node is not None:
            on_pin(node)

    labels = file, SIGNED_NAME, describe_signed(graph), share
    choose = _on_choose(graph, key, on_choose)
    _draw(graph, prediction_payload(graph, pins), labels, key, dark, choose=choose, pin=pin)


def _on_choose(
    graph: FlowGraph | PredictionGraph, key: str, take: Callable[[HeadPair], None] | None
) -> Callable[[], None]:
    @guarded
    def on_event() -> None:
        pair = chosen(from_browser(key), graph)
        if pair is not None and take is not None:
            take(pair)

    return on_event


def _draw(
    graph: FlowGraph | PredictionGraph,
    payload: bytes,
    labels: tuple[str, str, str, str],
    key: str,
    dark: bool,
    **events: Callable[[], None] | None,
) -> None:
    """Draw picture, table and files; `said`: the name of these, a title, the graph, its cut."""
    file, name, caption, cut = labels

    def files() -> None:
        page = partial(flow_html, payload, title=name, caption=caption, dark=dark)
        data_and_page(file, graph.edges, f"{name}\n{caption}; {cut}", page, key=key)
        if isinstance(graph, PredictionGraph):
            download("Graph (JSON)", f"{file}.json", graph.to_bytes, key=f"{key}-json")

    columns, nothing = number_columns(graph.edges), guarded(lambda: None)
    rows = partial(st.dataframe, graph.edges, hide_index=True, column_config=columns)
    with st.container(gap=None):
        _graph.bring(f"{key}-script")
        changes = {f"on_{name}_change": event or nothing for name, event in events.items()}
        _graph(key=key, data=payload, **changes)
    table = partial(rows, key=f"{key}-rows", placeholder="–")
    lazy_sections.table_and_export(key, table, files)


def graph_payload(graph: FlowGraph) -> bytes:
    """Pack a graph for the browser."""
    options: dict[str, Any] = {"position": graph.position, "layers": graph.n_layers}
    options |= {"slider": (graph.threshold, START), "title": f"{NAME}: {describe(graph)}"}
    texts, special = zip(*((token.text, token.is_special) for token in graph.tokens), strict=True)
    return flow_payload(graph.edges, texts, special, **options)


def describe(graph: FlowGraph) -> str:
    """Name token, model, text and measure in one line."""
    token = graph.tokens[graph.position].text
    at = f"at position {graph.position} of “{graph.text}” in {graph.model}"
    return f"“{token}” {at}, shares by {graph.measure}"


def prediction_payload(graph: PredictionGraph, pins: Sequence[Pin] = ()) -> bytes:
    """Pack a graph of one prediction for the browser."""
    token = f"“{graph.token}”" + ("" if graph.versus is None else f" less “{graph.versus}”")
    step = graph.step
    nodes = [
        [
            2 * pin.layer + (pin.kind in ("mid", "H") or 2 * (pin.kind == "MLP")),
            {"H": KINDS.index("source"), "MLP": KINDS.index("MLP")}.get(pin.kind, 0),
            pin.head,
            pin.position,
        ]
        for pin in pins
    ]
    if step == 2:
        nodes = [[level + (kind == 1), kind, *details] for level, kind, *details in nodes]
    signed = {name: getattr(graph, name) for name in ("value", "held", "token")}
    signed["rest"] = graph.final_bias
    options: dict[str, Any] = {"position": graph.position, "layers": graph.n_layers, "step": step}
    options |= {"folded": len(graph.tokens) == 1 and graph.tokens[0].id < 0}
    options |= {"title": f"{SIGNED_NAME}: {describe_signed(graph)}"}
    texts, special = zip(
        *((token_of_graph.text, token_of_graph.is_special) for token_of_graph in graph.tokens),
        strict=True,
    )
    signed |= {"name": token, "pins": nodes}
    return signed_payload(graph.edges, texts, special, graph.names, signed=signed, **options)


def describe_signed(graph: PredictionGraph) -> str:
    """Name tokens, position, model and text in one line."""
    less = "" if graph.versus is None else f" less that of “{graph.versus}”"
    at = f"at position {graph.position} of “{graph.text}” in {graph.model}"
    return f"the logit of “{graph.token}”{less} {at}"


def pinned(event: Any, graph: PredictionGraph) -> DrawnNode | None:
    """Return the node that the browser sent, if the graph may have it: anyone can send anything."""
    sent = event_of(event, "pin")
    names = ("layer", "kind", "level", "head", "position")
    values: list[Any] = [sent.get(name) for name in names]
    if not all(type(value) is int for value in values):
        return None
    layer, kind, level, head, position = values
    if not 0 <= layer < graph.n_layers or not -1 <= position < len(graph.tokens):
        return None
    if kind == KINDS.index("source") and 0 <= head < graph.n_heads:
        return DrawnNode(layer, "H", head, position)
    if kind == KINDS.index("MLP"):
        return DrawnNode(layer, "MLP", -1, position)
    if kind != 0 or not 0 <= level - 2 * layer <= (graph.step == 1):
        return None
    return DrawnNode(layer, "mid" if level % 2 else "in", -1, position)


def chosen(event: Any, graph: FlowGraph | PredictionGraph) -> HeadPair | None:
    """Return the edge that the browser sent, if there is one: anyone can send anything.

    Of a node that stands for several heads there is none.
    """
    sent = event_of(event, "choose")
    values: list[Any] = [sent.get(name) for name in HeadPair._fields]
    is_folded = values[2:] == [-1, -1] or any(token.id < 0 for token in graph.tokens)
    values[2:] = [-1, -1] if is_folded else values[2:]
    tokens = range(-1, 0) if is_folded else range(len(graph.tokens))
    ranges = range(graph.n_layers), range(graph.n_heads), tokens, tokens
    pairs = zip(values, ranges, strict=True)
    if not all(type(value) is int and value in known_values for value, known_values in pairs):
        return None
    layer, head, query, key = values
    is_group = isinstance(graph, PredictionGraph) and (layer, head) in graph.names
    return None if is_group else HeadPair(layer, head, query, key)
