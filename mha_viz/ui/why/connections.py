"""The view Connections: which head reads which, by weights, by effect here, or over a task."""

import streamlit as st

from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import THROUGH, TITLES, Why
from mha_viz.ui.why import composed, edges, effects, pairs, tasks
from mha_viz.ui.widgets.controls import choosing


def draw(scene: Scene, view: Why) -> None:
    """Draw one matrix of heads by heads; over a task also the edges that carry it."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        titles = TITLES["connections"]
        choosing.segments("connections", "Connections", titles, label_visibility="collapsed")
        choosing.segments("through", "The later head reads into", THROUGH)
    has_pairs = scene.record.n_layers > 1
    if view.connections == "task":
        chosen = tasks.choose(scene, view, effects.task_controls)
        if has_pairs:
            effects.draw_task(scene, view, chosen)
        edges.draw(scene, view, chosen)
    elif not has_pairs:
        pairs.say_no_pairs()
    elif view.connections == "effect":
        effects.draw(scene, view)
    else:
        composed.draw(scene, view)
