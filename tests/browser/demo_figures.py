"""A small app that shows figures with all that belongs to them, for their tests.

Query parameter: hostile (names that look like markup).
"""

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit import runtime

from mha_viz.ui.run.ready import fragment, run_mark
from mha_viz.ui.widgets.exports import figures
from mha_viz.web import theme

HOSTILE = "<script>alert(1)</script> <b>bold</b> $x^2$ [link](http://x.test) # not a comment"
NOT_XML = "\ufffe\uffff\x0b"  # of which one makes an SVG that no reader opens
HEADS = [(layer, head) for layer in range(3) for head in range(4)]


def figure(title: str, dark: bool) -> go.Figure:
    """Twelve heads as dots, and a bar for each layer, which does not answer to clicks."""
    layers, heads = np.array(HEADS).T
    made = go.Figure()
    made.add_scatter(
        x=layers + heads / 8,
        y=(layers + 1) * 0.2 + heads * 0.05,
        mode="markers",
        name="a head",
        marker=dict(size=16, opacity=0.8),
        customdata=np.array(HEADS),
    )
    made.add_bar(x=[0, 1, 2], y=[0.1, 0.15, 0.2], name="a layer", opacity=0.5)
    made.update_layout(
        theme.layout(dark),
        title=title,
        height=360,
        margin=dict(l=40, r=16, t=40, b=32),
        legend=dict(orientation="h", y=0, yref="container", yanchor="bottom"),
    )
    return made


@fragment
def drawn(name: str, dark: bool) -> None:
    table = pd.DataFrame({"Head": [name, "#7 “a,b”"], "Weight": [1 / 3, 2e-7]})
    took = st.session_state.setdefault("took", [])
    figures.show(
        figure("Dots and bars" + NOT_XML * (name == HOSTILE), dark),
        key="dots",
        how_to_read=f"Each dot is a head of {name}.",
        table=table,
        caption=f"{name} · The old dog\nsquare-root colours",
        name=name,
        on_click=took.append,
    )
    st.text(f"clicked {took}")
    st.button("Run the fragment again")


def main() -> None:
    st.set_page_config(layout="wide")
    st.session_state["app_runs"] = st.session_state.get("app_runs", 0) + 1
    name = HOSTILE if "hostile" in st.query_params else "tiny-bert"
    drawn(name, dark=st.context.theme.type == "dark")
    st.button("Run all again")
    st.text(f"app runs {st.session_state['app_runs']}")


if runtime.exists():  # not while a test runner looks for doctests
    with run_mark():
        main()
