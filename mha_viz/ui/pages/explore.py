"""Explore: type a sentence, see every head, read one. Pick, compute, draw."""

from __future__ import annotations

import streamlit as st

from mha_viz.ui import controls, memory, messages, state

# Streamlit leaves six rem above a page and ten below; a projector and a phone have better uses.
STYLE = """<style>
[data-testid="stMainBlockContainer"] { padding: 3.75rem 3rem 2rem; }
[data-testid="stMainBlockContainer"] h1 { padding-top: 0; font-size: 1.6rem; }
@media (max-width: 640px) {
  [data-testid="stMainBlockContainer"] { padding: 3.6rem 1rem 2rem; }
  [data-testid="stMainBlockContainer"] h1 { font-size: 1.35rem; }
}
</style>"""


def page() -> None:
    """The Explore page."""
    st.html(STYLE)
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
    look = controls.look_for()
    if look:
        st.caption(f":material/lightbulb: {look}")
    drawing.heads(scene)
    state.publish()
