"""Explore: type a sentence, see every head, read one. Pick, compute, draw."""

from __future__ import annotations

import streamlit as st

from mha_viz.ui import controls, look, memory, messages, state


def page() -> None:
    """The Explore page."""
    look.page_style()
    st.title("Every attention head, on your sentence", anchor=False)
    with st.sidebar:
        st.header("mha_viz", anchor=False)
        controls.model_picker()
        controls.hardware()
    second = controls.text_box()
    warnings = st.container()
    with messages.shown():
        drawing = memory.drawing()
        model = drawing.load_model(state.current())
        with second:
            controls.pair_box(model.parts, model.accepts_pair)
        controls.part_picker(model.parts)
        with st.sidebar:
            drawing.model_facts(model)
        scene = drawing.compute(state.current(), model)
        drawing.fit_head(scene)
    with warnings:
        for problem in state.problems():
            st.warning(messages.plain(problem), icon=":material/link_off:")
    if hint := controls.look_for():
        st.caption(f":material/lightbulb: {hint}")
    drawing.heads(scene)
    state.publish()
