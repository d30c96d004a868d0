"""The graph: what flows into a token, and the head that was pointed at, below it."""

from __future__ import annotations

import streamlit as st

from mha_viz.circuits.flow import FlowGraph
from mha_viz.circuits.flow import flow_graph as graph_of
from mha_viz.engine.model import AttentionModel
from mha_viz.ui.circuits import asked, looks, writes
from mha_viz.ui.session import state
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.session.views import FLOWS, MAX_TESTED
from mha_viz.ui.widgets import choosing, look, words
from mha_viz.ui.widgets.flow_graph import HeadPair, flow_graph
from mha_viz.ui.widgets.messages import plain
from mha_viz.web.labels import head_name

FINEST = 0.005  # the least share that the slider can bring in


def draw(scene: Scene) -> None:
    """The graph into the chosen token, and why its chosen head looks where it does."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        place = asked.place_menu(scene, "Into this token")
        choosing.segments("flow", "Shares by", FLOWS)
    measure = state.current().flow

    def make(model: AttentionModel) -> FlowGraph:
        return graph_of(model, scene.text, place, FINEST, measure=measure)

    found = asked.computed(scene, "flow", place, measure, make=make, size=2_000_000)
    flow_graph(found, key="flow_graph", dark=look.dark(), on_choose=_choose)
    for note in found.notes:
        st.caption(plain(note))
    _add_to_circuit()
    st.header(f"Why {head_name(*state.current().chosen)} looks there", anchor=False)
    looks.draw(scene)
    st.header(f"What {head_name(*state.current().chosen)} writes", anchor=False)
    st.caption(
        "For the prediction at the token that the graph leads into. A masked model predicts a "
        "token that is masked; the graph is of the sentence as it is."
    )
    with asked.known_parts():
        writes.of_head(scene, place)


def _add_to_circuit() -> None:
    """A button that puts the chosen head among those that "Test a circuit" tests."""
    view = state.current()

    @guarded
    def add() -> None:
        heads = dict.fromkeys((*view.tested, view.chosen))
        state.change(tested=tuple(heads)[:MAX_TESTED])

    with st.container(horizontal=True, vertical_alignment="center"):
        name = head_name(*view.chosen)
        st.button(f"Add {name} to the circuit", icon=":material/add:", key="add_head", on_click=add)
        st.caption(f"Circuit to test: {words.listed(view.tested, 8) or 'no head yet'}.")


def _choose(pair: HeadPair) -> None:
    state.change(layer=pair.layer, head=pair.head, query=pair.query, key=pair.key, versus_key=-1)
