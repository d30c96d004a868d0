"""How the text goes on with all heads, and with the chosen ones changed."""

from __future__ import annotations

from collections.abc import Hashable

import streamlit as st

from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.generation import generate
from mha_viz.ui.session import allowed, memory, state
from mha_viz.ui.session.scene import Scene

MAX_NEW_TOKENS = 20
NOT_SO = (
    "Going on needs a change that does not depend on the whole text: choose zero, scaled or "
    "uniform."
)


def draw(scene: Scene, model: AttentionModel, change: Intervention | None) -> None:
    """Both texts side by side, where asked for; the one with all heads is written once."""
    if not st.toggle(f"Let it go on for {_most()} tokens", key="ask_goes_on"):
        return
    if change is not None and change.how in ("mean", "patch_z", "patch_pattern"):
        st.info(NOT_SO)
        return
    before = _text(scene, model, None)
    after = before if change is None else _text(scene, model, change)
    for column, name, text in zip(
        st.columns(2), ("All heads", "Changed"), (before, after), strict=True
    ):
        with column:
            st.markdown(f"**{name}**")
            st.text(text)
    st.caption("The likeliest token each time.")


def _most() -> int:
    return min(MAX_NEW_TOKENS, allowed.most_written())


def told_apart(change: Intervention) -> Hashable:
    """What a run under this change depends on."""
    return (change.heads, change.how, change.factor, change.source)


def _text(scene: Scene, model: AttentionModel, change: Intervention | None) -> str:
    text = state.current().text
    return memory.cache().get(
        (scene.key, "goes on", change and told_apart(change)),
        lambda: generate(model, text, None, change, _most()).text,
        len,
    )
