"""The graph of a prediction, or of one token's state; and its chosen head, decomposed."""

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
from mha_viz.prediction.logits import objective
from mha_viz.ui.circuits import TEXTS, logit_parts, scores, targets
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.views import MAX_TESTED, SHARES, TITLES, Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components import flow_graph as graphs
from mha_viz.ui.widgets.controls import choosing, controls
from mha_viz.ui.widgets.messages import words

FINEST = 0.005  # the least share of a state that the slider can bring in
MAX_PINS = 24


def draw(scene: Scene) -> None:
    """Draw the graph, why its chosen head looks where it does, and what that head writes."""
    known = objective(targets.model().network) in ("causal", "masked")
    if known:
        label, offered = "The graph of", TITLES["graphs"]
        choosing.segments("graph_of", label, offered, label_visibility="collapsed")
    signed = known and state.of(Circuits).graph_of == "prediction"
    chosen = targets.over_pairs() if signed else None
    if chosen is not None:
        _controls()
        _signed(scene, (chosen.source,), partial(task_graph, task=chosen.task))
        st.caption(TEXTS("graph.pairs"))
        return
    place = _prediction(scene) if signed else _state(scene)
    _add_to_circuit()
    name = words.head_name(*state.of(Circuits).chosen)
    st.header(f"Why {name} looks there", anchor=False)
    scores.draw_score(scene)
    st.header(f"What {name} writes", anchor=False)
    if not signed:
        st.caption(TEXTS("graph.writes"))
    with targets.known_parts():
        logit_parts.of_head(scene, place)


def _state(scene: Scene) -> int:
    """Draw what one token's state is made of; return its position."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = targets.place_menu(scene, "Into this token")
        choosing.segments("flow", "Shares by", TITLES["flows"])
    measure = state.of(Circuits).flow
    size = 2_000_000
    found = targets.of_text(scene, graph_of, place, FINEST, measure=measure, size=size)
    graphs.flow_graph(found, key="flow_graph", dark=look.dark(), on_choose=_choose_edge)
    words.notes(found.notes)
    return place


def _prediction(scene: Scene) -> int:
    """Draw what a prediction is the sum of; return the position that it is made at."""
    place = targets.pickers(scene, quantity=False)
    _controls()
    view = state.of(Circuits)
    token, versus = view.target.strip() or None, view.against.strip() or None
    make = partial(prediction_of, text=scene.text, token=token, versus=versus, position=place)
    found = _signed(scene, (place, token, versus), make)
    st.caption(TEXTS("graph.prediction"))
    if found is not None and found.versus is None:
        st.caption(TEXTS("logit_parts.one_logit"))
    return place


def _controls() -> None:
    """Draw the choices of threshold and folds, and the pins."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        looks = TEXTS.control("explained") | {"min_value": min(SHARES), "max_value": max(SHARES)}
        state.bound("explained", st.slider, **looks)
        choosing.segments("fold", "Columns", TITLES["folds"])
        choosing.segments("together", "Heads", TITLES["together"])
        controls.open_file("graph_upload", "open-graph", "A graph that was saved here", _take_file)
    if pins := _split(state.of(Circuits).graph_pins):  # a click on one takes its pin away
        offered = {name: f"{name} ✕" for name in pins} | {"": "Clear all pins"}
        label, names = TEXTS("graph.pinned"), {name: (name,) for name in pins} | {"": pins}
        choosing.chips("pinned", label, offered, chosen=None, take=lambda one: _toggle(names[one]))


def _signed(
    scene: Scene, asked: tuple[Hashable, ...], make: Callable[..., PredictionGraph]
) -> PredictionGraph | None:
    """Compute and draw the graph of a prediction, or one that was saved; None where refused."""
    view = state.of(Circuits)
    pins, share = _split(view.graph_pins), view.explained / 100
    drawn: PredictionGraph | None = None
    with targets.known_parts():
        found: PredictionGraph = targets.computed(
            scene,
            *("prediction graph", *asked, view.explained, pins),
            make=lambda model: make(model, share=share, pins=pins),
            size=5_000_000,
        )
        saved = _opened(found)
        drawn = found if saved is None else saved
        labels = _labels(scene)
        graphs.prediction_graph(
            drawn.grouped(view.fold, labels),
            pins=_folded_pins(found, pins, labels) if saved is None else [],
            key="prediction_graph",
            dark=look.dark(),
            on_choose=_choose_edge,
            on_pin=lambda node: None if saved else _toggle(_members(found, node, labels)),
        )
        words.notes(drawn.notes)
    return drawn


# -- a saved graph ---------------------------------------------------------------------------------


def _take_file(content: bytes) -> None:
    st.session_state.opened_graph = PredictionGraph.from_bytes(content, "This file")


def _opened(found: PredictionGraph) -> PredictionGraph | None:
    """Return the opened graph if it is of what the page shows; else say that it is not."""
    saved: PredictionGraph | None = st.session_state.get("opened_graph")
    if saved is None:
        return None
    if (saved.model, saved.text) != (found.model, found.text):
        st.warning(words.plain(TEXTS("graph.other", saved=saved)))
        saved = None
    else:
        st.info(TEXTS("graph.saved", pins=", ".join(saved.pins) or "none", share=saved.share))

    @guarded
    def close() -> None:
        st.session_state.opened_graph = None

    st.button("Close the saved graph", icon=":material/close:", key="close_graph", on_click=close)
    return saved


# -- pins ------------------------------------------------------------------------------------------


def _split(pins: str) -> tuple[str, ...]:
    return tuple(str(Pin.of(name)) for name in pins.split(",") if name)


def _toggle(names: tuple[str, ...]) -> None:
    """Pin these nodes, or take their pins away where all are pinned."""
    pins = _split(state.of(Circuits).graph_pins)
    kept = tuple(name for name in pins if name not in names)
    kept = kept if set(names) <= set(pins) else (*kept, *names)[:MAX_PINS]
    state.change(graph_pins=",".join(name.replace(" ", "") for name in kept))


def _members(
    graph: PredictionGraph, node: graphs.NodePlace, labels: Mapping[tuple[int, int], str]
) -> tuple[str, ...]:
    """Name all nodes that a drawn one stands for."""
    view = state.of(Circuits)
    positions = [node.position]
    if node.position < 0 or view.fold == "text":
        positions = [-1]
    elif view.fold == "words":
        places = merge(graph.tokens, graph.text, None)[0].tolist()
        positions = [i for i, place in enumerate(places) if place == node.position]
    heads = [node.head]
    label = labels.get((node.layer, node.head))
    if node.what == "H" and label is not None:
        heads = [j for (i, j), name in labels.items() if i == node.layer and name == label]
    return tuple(str(Pin(node.layer, node.what, head, at)) for head in heads for at in positions)


def _folded_pins(
    graph: PredictionGraph, pins: tuple[str, ...], labels: Mapping[tuple[int, int], str]
) -> list[Pin]:
    """Return the pins as nodes of the drawn graph."""
    fold, found = state.of(Circuits).fold, list[Pin]()
    places = merge(graph.tokens, graph.text, None)[0].tolist()
    for pin in map(Pin.of, pins):
        label = labels.get((pin.layer, pin.head))
        same = [j for (i, j), name in labels.items() if i == pin.layer and name == label]
        head = min(same) if label is not None else pin.head
        at = {"tokens": pin.position, "words": places[pin.position], "text": -1}[fold]
        found.append(Pin(pin.layer, pin.what, head, pin.position if pin.position < 0 else at))
    return found


def _labels(scene: Scene) -> dict[tuple[int, int], str]:
    """Name the heads that are drawn as one node: those of a layer, or of a label they earned."""
    if (together := state.of(Circuits).together) != "labels":
        heads = np.ndindex(scene.record.n_layers, scene.record.n_heads)
        return dict.fromkeys(heads, "all heads") if together == "layers" else {}
    found = reporting.report(scene, state.of(Circuits)).labels
    return {
        (layer, head): earned[0].label.title
        for layer, row in enumerate(found)
        for head, earned in enumerate(row)
        if earned
    }


# -- the chosen head -------------------------------------------------------------------------------


def _add_to_circuit() -> None:
    view = state.of(Circuits)
    tested = tuple(dict.fromkeys((*view.tested, view.chosen)))[:MAX_TESTED]
    add = partial(state.change, tested=tested)
    label, icon = f"Add {words.head_name(*view.chosen)} to the circuit", ":material/add:"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(label, icon=icon, key="add_head", on_click=guarded(add))
        st.caption(f"Circuit to test: {words.listed(view.tested, 8) or 'no head yet'}.")


def _choose_edge(pair: graphs.HeadPair) -> None:
    state.change(layer=pair.layer, head=pair.head, query=pair.query, key=pair.key, versus_key=-1)
