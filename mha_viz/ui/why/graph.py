"""The graph of a prediction, of a task's, or of one token's state; its pins and its file."""

from collections.abc import Callable, Hashable, Mapping
from functools import partial

import numpy as np
import streamlit as st

from mha_viz.circuits.attribution.flow_graph import flow_graph as graph_of
from mha_viz.circuits.attribution.pins import Pin
from mha_viz.circuits.attribution.prediction_graph import prediction_graph as prediction_of
from mha_viz.circuits.attribution.signed_graph import PredictionGraph
from mha_viz.circuits.effects.over_pairs import task_graph
from mha_viz.core.record.fields import merge
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import SHARES, TITLES, Why
from mha_viz.ui.why import TEXTS, targets, tasks
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components import flow_graph as graphs
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error, notes

FINEST = 0.005  # the least share of a state that the slider can bring in
MAX_PINS = 24


def draw(scene: Scene, view: Why, position: int) -> None:
    """Draw what the prediction at a position is the sum of."""
    token, versus = view.target.strip() or None, view.against.strip() or None
    make = partial(prediction_of, text=scene.text, token=token, versus=versus, position=position)
    shown = _signed(scene, view, (position, token, versus), make)
    st.caption(TEXTS("graph.prediction"))
    if shown is not None and shown.versus is None:
        st.caption(TEXTS("parts.one_logit"))


def draw_task(scene: Scene, view: Why, chosen: tasks.Chosen) -> None:
    """Draw the same as a mean over the pairs of a task."""
    _signed(scene, view, (chosen.source,), partial(task_graph, task=chosen.task))
    st.caption(TEXTS("graph.pairs"))


def draw_state(scene: Scene, view: Why, position: int) -> None:
    """Draw what one token's state is made of."""
    measure, size = view.flow, 2_000_000
    flow = targets.of_text(scene, graph_of, position, FINEST, measure=measure, size=size)
    graphs.flow_graph(flow, key="flow_graph", dark=look.dark(), on_choose=_choose_edge)
    notes(flow.notes)


def controls_of_signed() -> None:
    """Draw the choices of threshold and folds, and the file of a saved graph."""
    options = TEXTS.control("explained") | {"min_value": min(SHARES), "max_value": max(SHARES)}
    selection.bound("explained", st.slider, **options)
    choosing.segments("fold", "Columns", TITLES["folds"])
    choosing.segments("together", "Heads", TITLES["together"])
    choosing.open_file("graph_upload", "open-graph", "A graph that was saved here", _take_file)


def _signed(
    scene: Scene, view: Why, key: tuple[Hashable, ...], make: Callable[..., PredictionGraph]
) -> PredictionGraph | None:
    """Compute and draw the graph of a prediction, or one that was saved; None where refused."""
    pins, share = _split(view.graph_pins), view.explained / 100
    drawn: PredictionGraph | None = None
    with continue_on_error():
        computed: PredictionGraph = targets.computed(
            scene,
            *("prediction graph", *key, view.explained, pins),
            make=lambda model: make(model, share=share, pins=pins),
            size=5_000_000,
        )
        saved = _opened(computed)
        drawn = computed if saved is None else saved
        labels = _labels(scene, view)
        graphs.prediction_graph(
            drawn.grouped(view.fold, labels),
            pins=_folded_pins(computed, view, labels) if saved is None else [],
            key="prediction_graph",
            dark=look.dark(),
            on_choose=_choose_edge,
            on_pin=lambda node: None if saved else _toggle(_members(computed, node, view, labels)),
        )
        notes(drawn.notes)
    if pins:  # a click on one takes its pin away
        offered = {name: f"{name} ✕" for name in pins} | {"": "Clear all pins"}
        label, names = TEXTS("graph.pinned"), {name: (name,) for name in pins} | {"": pins}
        choosing.chips(
            "pinned", label, offered, chosen=None, take=lambda name: _toggle(names[name])
        )
    return drawn


# -- a saved graph ---------------------------------------------------------------------------------


def _take_file(content: bytes) -> None:
    session().opened_graph = PredictionGraph.from_bytes(content, "This file")


def _opened(computed: PredictionGraph) -> PredictionGraph | None:
    """Return the opened graph if it is of what the page shows; else say that it is not."""
    saved: PredictionGraph | None = session().opened_graph
    if saved is None:
        return None
    if (saved.model, saved.text) != (computed.model, computed.text):
        st.warning(words.plain(TEXTS("graph.other", saved=saved)))
        saved = None
    else:
        st.info(TEXTS("graph.saved", pins=", ".join(saved.pins) or "none", share=saved.share))

    @guarded
    def close() -> None:
        session().opened_graph = None

    st.button("Close the saved graph", icon=":material/close:", key="close_graph", on_click=close)
    return saved


# -- pins ------------------------------------------------------------------------------------------


def _split(pins: str) -> tuple[str, ...]:
    return tuple(str(Pin.of(name)) for name in pins.split(",") if name)


def _toggle(names: tuple[str, ...]) -> None:
    """Pin these nodes, or take their pins away where all are pinned."""
    pins = _split(selection.of(Why).graph_pins)
    shown = tuple(name for name in pins if name not in names)
    shown = shown if set(names) <= set(pins) else (*shown, *names)[:MAX_PINS]
    selection.change(graph_pins=",".join(name.replace(" ", "") for name in shown))


def _members(
    graph: PredictionGraph,
    node: graphs.DrawnNode,
    view: Why,
    labels: Mapping[tuple[int, int], str],
) -> tuple[str, ...]:
    """Name all nodes that a drawn one stands for."""
    positions = [node.position]
    if node.position < 0 or view.fold == "text":
        positions = [-1]
    elif view.fold == "words":
        columns = merge(graph.tokens, graph.text, None)[0].tolist()
        positions = [i for i, column in enumerate(columns) if column == node.position]
    heads = [node.head]
    label = labels.get((node.layer, node.head))
    if node.kind == "H" and label is not None:
        heads = [j for (i, j), name in labels.items() if i == node.layer and name == label]
    return tuple(str(Pin(node.layer, node.kind, head, at)) for head in heads for at in positions)


def _folded_pins(
    graph: PredictionGraph, view: Why, labels: Mapping[tuple[int, int], str]
) -> list[Pin]:
    """Return the pins as nodes of the drawn graph."""
    pins, drawn = _split(view.graph_pins), list[Pin]()
    columns = merge(graph.tokens, graph.text, None)[0].tolist()
    for pin in map(Pin.of, pins):
        label = labels.get((pin.layer, pin.head))
        same = [j for (i, j), name in labels.items() if i == pin.layer and name == label]
        head = min(same) if label is not None else pin.head
        at = {"tokens": pin.position, "words": columns[pin.position], "text": -1}[view.fold]
        drawn.append(Pin(pin.layer, pin.kind, head, pin.position if pin.position < 0 else at))
    return drawn


def _labels(scene: Scene, view: Why) -> dict[tuple[int, int], str]:
    """Name the heads that are drawn as one node: those of a layer, or of a label they earned."""
    if (together := view.together) != "labels":
        heads = np.ndindex(scene.record.n_layers, scene.record.n_heads)
        return dict.fromkeys(heads, "all heads") if together == "layers" else {}
    earned_labels = reporting.report(scene, view).labels
    return {
        (layer, head): earned[0].label.title
        for layer, row in enumerate(earned_labels)
        for head, earned in enumerate(row)
        if earned
    }


# -- the chosen head -------------------------------------------------------------------------------


def pin_button(scene: Scene, view: Why) -> None:
    """Draw a button that pins the chosen head at all tokens, or takes its pin away."""
    pin = str(Pin(view.layer, "H", view.head, -1))
    is_pinned = pin in _split(view.graph_pins)
    label = f"{'Unpin' if is_pinned else 'Pin'} {words.head_name(*view.chosen)}"
    pins = partial(_toggle, (pin,))
    st.button(label, icon=":material/keep:", key="pin_head", on_click=guarded(pins))


def _choose_edge(pair: graphs.HeadPair) -> None:
    selection.change(
        layer=pair.layer, head=pair.head, query=pair.query, key=pair.key, versus_key=-1
    )
