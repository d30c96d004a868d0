"""Why: what made a prediction or a score, and what tests it. Pick, compute, draw."""

from functools import partial
from types import ModuleType
from typing import Any

import streamlit as st

from mha_viz.ui.heads import WORDS, picking
from mha_viz.ui.run import late_imports
from mha_viz.ui.state import selection, views
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import to_browser
from mha_viz.ui.why import TEXTS
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, lazy_sections

# Each step, and what it sets of the view.
_STEPS: dict[str, dict[str, Any]] = {
    "task": dict(why="test", test="circuit"),
    "heads": dict(why="test", test="circuit"),
    "writes": dict(why="prediction", prediction="parts", averaged=True),
    "looks": dict(why="score", score="parts"),
    "edges": dict(why="connections", connections="task"),
    "test": dict(why="test", test="circuit"),
}


def page() -> None:
    """Draw the Why page."""
    if selection.address().get("circuit") == "words":  # an older link: words belong to the head
        selection.sync_from_url()
        to_browser(WORDS, True)
        choosing.open_page("heads")
    look.heading("Why: what made this, and what tests it")
    scene = picking.picked(
        lambda scene: _sections().fit(scene),
        lambda: not selection.of(views.Why).is_of_task,  # then it is about the sentence
    )
    with st.container(key="tabs", horizontal=True, vertical_alignment="center"):
        choosing.segments("why", "View", views.WHY, label_visibility="collapsed")
        lazy_sections.in_popover(TEXTS("way.title"), ":material/route:", "way", _steps)
    _sections().draw(scene)
    selection.push_url()


def _sections() -> ModuleType:
    late_imports.await_transformers()
    from mha_viz.ui.why import sections

    return sections


def _steps() -> None:
    labels = TEXTS.labels("way.buttons")
    for step, changes in _STEPS.items():
        with st.container(horizontal=True, vertical_alignment="center"):
            go = partial(selection.change, **changes)
            st.button(labels[step], key=f"way-{step}", on_click=guarded(go), width=190)
            st.markdown(TEXTS(f"way.{step}"), width="stretch")
