"""A small app that shows the head switches, for their tests.

Query parameters: layers, heads, slow (seconds that a run takes).
"""

import time

import numpy as np
import streamlit as st
from streamlit import runtime

from mha_viz.text.from_weights import record
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.widgets.components.head_switches import head_switches
from mha_viz.web.payload import grid_payload, notes_payload


def importance(layers: int, heads: int, kind: str) -> np.ndarray:
    """Return a value for each head: "positive", "signed", or with "gaps"."""
    values = np.random.default_rng(5).gamma(0.7, 0.02, (layers, heads))
    values[0, 1] = 0.0123
    if kind == "signed":
        values -= 0.01
    if kind == "gaps":
        values[0, 2] = values[1, 0] = np.nan
    return values


def drawn(layers: int, heads: int) -> dict[str, bytes]:
    """Patterns of 60 tokens, of which head (1, 1) looks at the first; it has two labels."""
    pattern = np.random.default_rng(3).dirichlet(np.ones(60), (layers, heads, 60))
    pattern[1, 1] = np.eye(60)[0]
    names = [f"t{i}" for i in range(60)]
    labels = [["Sink", "<b>Other</b>"] if i == heads + 1 else [] for i in range(layers * heads)]
    payload = grid_payload(record(pattern.astype("f4"), names))
    badges = [held[0] if held else "" for held in labels]
    notes = notes_payload(payload, "notes", {"labels": labels, "badges": badges})
    return {"payload": payload, "notes": notes}


@fragment()
def intervene() -> None:
    asked, state = st.query_params, st.session_state
    layers, heads = int(asked.get("layers", 4)), int(asked.get("heads", 8))
    if st.button("Reset"):
        state["off"] = []
    if st.button("Preset"):
        state["off"] = [(1, 1), (0, 2)]
    st.button("Run again")

    def take(off: tuple[tuple[int, int], ...]) -> None:
        state["events"] = state.get("events", 0) + 1
        state["off"] = list(off)

    head_switches(
        layers,
        heads,
        off=state.get("off", []),
        value_name="importance",
        value=importance(layers, heads, "positive"),
        selected=(1, 2),
        key="switches",
        take=take,
    )
    time.sleep(float(asked.get("slow", 0)))
    off = " ".join(f"{layer}.{head}" for layer, head in state.get("off", []))
    st.text(f"python: [{off}] events {state.get('events', 0)}")


def main() -> None:
    st.set_page_config(layout="wide")
    st.session_state["app_runs"] = st.session_state.get("app_runs", 0) + 1
    intervene()
    st.text(f"app runs {st.session_state['app_runs']}")


if runtime.exists():  # not while a test runner looks for doctests
    main()
