"""A small app that shows the browser components with made-up attention, for their tests.

Query parameters choose its size (layers, heads, n, keys, lines) and what is shown (only=grid or
bench); those of a link say what the workbench shows.
"""

import numpy as np
import streamlit as st
from streamlit import runtime

from mha_viz.core.record.fields import Token
from mha_viz.core.record.record import AttentionRecord
from mha_viz.text.from_weights import record
from mha_viz.ui.run.ready import fragment
from mha_viz.ui.state.views import BENCH, SCALES, SHOWS, from_params
from mha_viz.ui.widgets.components.head_grid import head_grid
from mha_viz.ui.widgets.components.workbench import workbench
from mha_viz.web.payload import grid_payload

WORDS = (
    "[CLS] The cat sat on the mat because it was <b>warm</b> . [SEP] السلام عليكم "
    "👍🏽 naïve 東京 $x$ <script>alert(1)</script> antidisestablishmentarianism"
).split()


@st.cache_data(max_entries=8)
def made_up(layers: int, heads: int, queries: int, keys: int) -> np.ndarray:
    """Heads of the well-known kinds, each with noise: previous, next, self, first, block, broad."""
    rng = np.random.default_rng(7)
    q = np.arange(queries)[:, None]
    k = np.arange(keys)[None, :]
    kinds = [
        -np.abs(k - q + 1) * 3.0,
        -np.abs(k - q - 1) * 3.0,
        -np.abs(k - q) * 2.5,
        np.where(k == 0, 5.0, 0.0) + 0 * q,
        np.where(k // 6 == q // 6, 2.5, 0.0),
        np.zeros((queries, keys)),
        -np.abs(k - q) * 0.25,
        np.where(k % 5 == q % 5, 2.0, 0.0),
    ]
    scores = np.stack(
        [
            np.stack(
                [
                    kinds[(3 * h + 5 * layer) % len(kinds)] * rng.uniform(0.6, 1.4)
                    + rng.normal(0, 0.7, (queries, keys))
                    for h in range(heads)
                ]
            )
            for layer in range(layers)
        ]
    )
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def entropy_of(pattern: np.ndarray) -> np.ndarray:
    return -(pattern * np.log(np.maximum(pattern, 1e-30))).sum(-1).mean(-1)


def number(name: str, default: int) -> int:
    return int(st.query_params.get(name, default))


def attention(layers: int, heads: int, queries: int, keys: int) -> AttentionRecord:
    return record(
        made_up(layers, heads, queries, keys),
        [_token(i, queries) for i in range(queries)],
        [_token(i, keys) for i in range(keys)] if keys != queries else (),
        model="made-up attention",
    )


def asked_for() -> AttentionRecord:
    """Return attention of the sizes in the address."""
    queries = number("n", 12)
    return attention(number("layers", 4), number("heads", 8), queries, number("keys", queries))


def _token(i: int, count: int) -> Token:
    word = WORDS[i % len(WORDS)]
    return Token(word, i, is_special=word.startswith("["), segment=int(i > count // 2))


def exact_url(pattern: np.ndarray) -> str:
    """The pattern as the real app serves it: from Streamlit's own media store."""
    return runtime.get_instance().media_file_mgr.add(
        pattern.tobytes(), "application/octet-stream", coordinates="demo-pattern"
    )


@fragment()
def explore() -> None:
    st.session_state["fragment_runs"] = st.session_state.get("fragment_runs", 0) + 1
    made = asked_for()
    pattern = made.pattern.numpy()
    payload = grid_payload(made, {"entropy": entropy_of(pattern)}, exact_url=exact_url(pattern))
    head = st.session_state.get("head", (1, 2))
    scale = st.segmented_control("Scale", ["sqrt", "linear", "log"], default="sqrt")

    def choose(head: tuple[int, int]) -> None:
        st.session_state["head"] = head
        st.session_state["events"] = st.session_state.get("events", 0) + 1

    head_grid(
        payload,
        selected=head,
        scale=scale or "sqrt",
        fact="entropy",
        key="grid",
        on_select=choose,
    )
    runs, events = st.session_state["fragment_runs"], st.session_state.get("events", 0)
    st.text(f"python: L{head[0]} H{head[1]} events {events} runs {runs}")


@fragment()
def bench() -> None:
    """Both parts of the workbench, one below the other, each as wide as the page."""
    made = asked_for()
    payload = grid_payload(made, exact_url=exact_url(made.pattern.numpy()))
    linked, _ = from_params({name: st.query_params[name] for name in st.query_params})
    opened = {name: getattr(linked, name) for name in BENCH}
    opened |= {"layer": max(linked.layer, 0), "head": max(linked.head, 0)}
    opened["heads"] = [(0, head) for head in range(min(made.n_heads, number("lines", 0)))]
    view = st.session_state.setdefault("view", opened)
    settings = {"view": dict(view), "shows": SHOWS, "scales": SCALES}
    for part in ("grid", "head"):
        workbench(part, payload, settings, key="bench", take=view.update)
    st.text(f"python: L{view['layer']} H{view['head']} pair ({view['query']}, {view['key']})")


def main() -> None:
    st.set_page_config(layout="wide")
    st.session_state["app_runs"] = st.session_state.get("app_runs", 0) + 1
    only = st.query_params.get("only")
    if only in (None, "grid"):
        explore()
    if only in (None, "bench"):
        bench()
    st.text(f"app runs {st.session_state['app_runs']}")


if runtime.exists():  # not while a test runner looks for doctests
    main()
