"""The view Prediction: a prediction by what wrote it, as parts or as a graph; its chosen head."""

from functools import partial

import streamlit as st

from mha_viz.prediction.logits import objective
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.views import MAX_TESTED, TITLES, Why
from mha_viz.ui.why import TEXTS, graph, parts, targets, tasks
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error

_SOURCES = {False: "Sentence", True: "Task"}


def draw(scene: Scene, view: Why) -> None:
    """Draw a prediction decomposed by what wrote it, or a task's; then the chosen head."""
    predicts = objective(targets.model(scene).network) in ("causal", "masked")
    is_state = view.prediction == "graph" and (view.graph_of == "state" or not predicts)
    picture = graph if view.prediction == "graph" else parts
    switches = partial(_switches, view, predicts, is_state)
    if view.is_of_task:
        picture.draw_task(scene, view, tasks.choose(scene, view, switches))
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        switches()
        if is_state:
            position = targets.position_menu(scene, view, "Into this token")
            choosing.segments("flow", "Shares by", TITLES["flows"])
        else:
            position = targets.pickers(scene, view)
    (graph.draw_state if is_state else picture.draw)(scene, view, position)
    _chosen_head(scene, view)
    if is_state:
        st.caption(TEXTS("graph.writes"))
    with continue_on_error():
        parts.of_head(scene, view, position)
        if view.prediction == "parts":
            parts.guesses(scene, view, position)


def _switches(view: Why, predicts: bool, is_state: bool) -> None:
    is_graph, hidden = view.prediction == "graph", "collapsed"
    choosing.segments("prediction", "Picture", TITLES["predictions"], label_visibility=hidden)
    if predicts and not is_state:
        choosing.segments("averaged", "Of", _SOURCES, label_visibility=hidden)
    if view.is_of_task:
        tasks.menu()
    if is_graph or not view.is_of_task:
        with choosing.more("prediction-more"):
            if not is_graph:
                targets.quantity_menu(view)
            elif predicts and not view.averaged:
                choosing.segments("graph_of", "The graph of", TITLES["graphs"])
            if is_graph and not is_state:
                graph.controls_of_signed()


def _chosen_head(scene: Scene, view: Why) -> None:
    """Draw the chosen head's name, where it leads, and the circuit that it may join."""
    name = words.head_name(*view.chosen)

    @guarded
    def add() -> None:
        tested = selection.of(Why).tested
        selection.change(tested=tuple(dict.fromkeys((*tested, view.chosen)))[:MAX_TESTED])

    @guarded
    def open_score() -> None:
        selection.change(why="score", score="parts")

    st.header(name, anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        choosing.open_in_heads()
        label, icon = "Why it looks there", ":material/search:"
        st.button(label, icon=icon, key="open_score", on_click=open_score)
        if view.prediction == "graph" and view.graph_of == "prediction":
            graph.pin_button(scene, view)
        st.button("Add to the circuit", icon=":material/add:", key="add_head", on_click=add)
        st.caption(f"Circuit to test: {words.listed(view.tested, 8) or 'no head yet'}.")
