"""The sections of the Circuits page, a module each: pick, compute, draw.

Importing it imports torch, transformers and plotly, so the page does it late.
"""

from functools import partial
from typing import Any

import streamlit as st

from mha_viz.ui.circuits import (
    TEXTS,
    faithfulness,
    graph,
    importance,
    logit_parts,
    patching,
    paths,
    pruning,
    scores,
    weights,
)
from mha_viz.ui.circuits.targets import known_parts, say_what_is_measured
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.views import Circuits
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.messages.messages import stop_on_error


def _importance(scene: Scene) -> None:
    """Draw which heads matter, and how many can be removed."""
    view = state.of(Circuits)
    importance.draw(scene, view)
    pruning.draw(scene, view)
    with st.expander("What an ablation tells, and what it does not"):
        st.markdown(TEXTS("importance.tells"))


_SECTIONS = {
    "writes": logit_parts.draw,
    "looks": scores.draw_score,
    "weights": weights.draw_composition,
    "graph": graph.draw,
    "map": scores.draw_map,
}
_MEASURING = {
    "edges": faithfulness.draw_edges,
    "words": weights.draw_vocabulary,
    "patching": patching.draw,
    "effect": paths.draw,
    "test": faithfulness.draw,
    "importance": _importance,
}


def fit(scene: Scene) -> None:
    """Replace a token that a link asks for and this text does not have."""
    view, (queries, keys) = state.of(Circuits), scene.record.shape[2:]
    n_tokens = {"query": queries, "key": keys, "versus_key": keys}
    absent = {name: getattr(view, name) for name, n in n_tokens.items() if getattr(view, name) >= n}
    if absent:
        named = ", ".join(f"{name}={position}" for name, position in absent.items())
        state.add_problem(
            f"The link names a token that this text does not have ({named}). Showing another."
        )
        state.change(**dict.fromkeys(absent, -1))


def draw(scene: Scene) -> None:
    """Draw the chosen section."""
    with st.container():
        if scene.pair is not None and state.of(Circuits).circuit != "importance":
            st.info("This page is about one text: the second one plays no part in it.")
        lazy_sections.in_expander(TEXTS("way.title"), "way", _way)
        say_what_is_measured(scene)
    if state.of(Circuits).circuit in _MEASURING:
        with stop_on_error(), known_parts():
            _MEASURING[state.of(Circuits).circuit](scene)
    else:
        _section(scene)


@fragment
def _section(scene: Scene) -> None:
    """Draw the section in a fragment: a click reruns nothing else on the page."""
    with stop_on_error():
        with known_parts():
            _SECTIONS[state.of(Circuits).circuit](scene)
        state.push_url()


# Each step, and what it sets of the view.
_STEPS: dict[str, dict[str, Any]] = {
    "task": dict(circuit="test"),
    "heads": dict(circuit="test"),
    "writes": dict(circuit="writes", averaged=True),
    "looks": dict(circuit="looks"),
    "edges": dict(circuit="edges"),
    "test": dict(circuit="test"),
}


def _way() -> None:
    labels = TEXTS.labels("way.buttons")
    for step, changes in _STEPS.items():
        with st.container(horizontal=True, vertical_alignment="center"):
            go = partial(state.change, **changes)
            st.button(labels[step], key=f"way-{step}", on_click=guarded(go), width=220)
            st.markdown(TEXTS(f"way.{step}"), width="stretch")
