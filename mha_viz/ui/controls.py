"""What the user chooses: model, text, and how the heads are shown.

Knows streamlit's widgets and the view; must not import torch or transformers.
"""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.capture.catalog import ModelInfo, find_model, list_models
from mha_viz.errors import MhaVizError
from mha_viz.ui import state
from mha_viz.ui.examples import EXAMPLES
from mha_viz.ui.messages import plain

OTHER = "Another model …"
SCALE_NAMES = {"sqrt": "Square root", "linear": "Linear", "log": "Log"}
SHOW_NAMES = {
    "heatmap": "Heatmap",
    "lines": "Token lines",
    "pair": "Query · key",
    "table": "Strongest pairs",
}
PART_NAMES = {"encoder": "Encoder", "decoder": "Decoder", "cross": "Cross attention"}
MERGED = "Sub-words merged: weights to the parts of a word are summed, from them averaged."
LEFT_OUT = "Left out; the rest of each row is scaled back to a sum of 1."


def model_picker() -> None:
    """The model, in the sidebar. A name typed under `OTHER` is looked up before it is taken."""
    view = state.current()
    models = {info.name: info for info in list_models()}
    typed = st.session_state.setdefault(
        "typed_models", [view.model] if view.model in state.folders() else []
    )
    known = [*models, *(name for name in typed if name not in models)]
    if view.model not in known:
        state.tell(
            f"The model {view.model!r} that the link names is not on this machine. Showing "
            f"{known[0]}; type its name under “{OTHER}” to fetch it."
        )
        view = state.change(model=known[0])

    def choose() -> None:
        st.session_state.problems = []
        chosen = st.session_state.ask_model
        if chosen != OTHER:
            state.change(model=chosen, query=-1, key=-1)
        st.session_state.asking = chosen == OTHER

    st.session_state.ask_model = OTHER if st.session_state.get("asking") else view.model
    st.selectbox(
        "Model", [*known, OTHER], key="ask_model", on_change=choose,
        format_func=lambda name: _describe(name, models.get(name)),
        help="Shipped models, models in this machine's Hugging Face cache, or any BERT, GPT-2, "
        "Llama, T5 … from a folder or the Hub.",
    )  # fmt: skip
    if st.session_state.get("asking"):
        _other_model()


def _other_model() -> None:
    def take() -> None:
        name = st.session_state.ask_other.strip()
        st.session_state.refused = ""
        if not name:
            return
        try:
            find_model(name)
        except MhaVizError as error:
            st.session_state.refused = str(error)
            return
        st.session_state.typed_models.append(name)
        state.folders().add(name)
        st.session_state.asking = False
        state.change(model=name, query=-1, key=-1)

    st.text_input(
        "Folder or Hub id", key="ask_other", on_change=take, max_chars=4096,
        placeholder="/path/to/model  or  owner/name",
    )  # fmt: skip
    if st.session_state.get("refused"):
        st.error(plain(st.session_state.refused))


def _describe(name: str, info: ModelInfo | None) -> str:
    if info is None or not info.family:
        return name
    return f"{name} · {info.family} {info.n_layers}×{info.n_heads}"


def hardware() -> None:
    """Device and number format, in the sidebar; what stands there first is right for most."""
    with st.expander("Device and precision"):
        state.bound("device", st.selectbox, "Run on", list(state.DEVICES))
        state.bound(
            "dtype", st.selectbox, "Weights as", list(state.DTYPES),
            help="Attention weights are always shown as float32.",
        )  # fmt: skip


def text_box() -> DeltaGenerator:
    """The sentence and examples; returns the place between them for a second sentence."""
    columns = st.columns([5, 3, 2], vertical_alignment="bottom")
    with columns[0]:
        state.bound(
            "text", st.text_input, "Sentence",
            placeholder="Type a sentence and press Enter",
        )  # fmt: skip
    with columns[2]:
        _examples()
    return columns[1]


def pair_box(parts: tuple[str, ...], accepts_pair: bool) -> None:
    """The second text, for models that take one."""
    label = "Second sentence" if len(parts) == 1 else "Decoder's text"
    if accepts_pair:
        state.bound("pair", st.text_input, label, placeholder="(none)")
    else:
        state.change(pair="")
        st.text_input(label, disabled=True, placeholder="(this model takes one text)")


def part_picker(parts: tuple[str, ...]) -> None:
    """Which stack of an encoder-decoder is shown."""
    if state.current().part not in parts:
        state.change(part=parts[0])
    if len(parts) > 1:
        state.bound(
            "part", st.segmented_control, "Part", list(parts), format_func=PART_NAMES.__getitem__
        )


def _examples() -> None:
    titles = {example.title: example for example in EXAMPLES}

    def take() -> None:
        chosen = titles.get(st.session_state.ask_example or "")
        if chosen is not None:
            st.session_state.problems = []
            st.session_state.asking = False
            state.change(text=chosen.text, pair=chosen.pair, model=chosen.model, query=-1, key=-1)

    st.selectbox(
        "Examples", list(titles), index=None, key="ask_example", on_change=take,
        placeholder="Try an example",
    )  # fmt: skip


def look_for() -> str:
    """What to look for in the text, where it is one of the examples; or ""."""
    text = state.current().text
    return next((example.look for example in EXAMPLES if example.text == text), "")


def grid_options(metrics: dict[str, str], has_special: bool) -> None:
    """How all heads are shown. `metrics` maps keys to titles."""
    sorts = ["", *metrics]
    if state.current().sort not in sorts:
        state.change(sort="")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        state.bound(
            "sort", st.selectbox, "Sort heads by", sorts, width=190,
            format_func=lambda key: metrics.get(key, "Layer and head"),
        )  # fmt: skip
        state.bound(
            "scale", st.segmented_control, "Colour scale", list(state.SCALES), wrap=True,
            format_func=SCALE_NAMES.__getitem__,
        )  # fmt: skip
        with st.container(horizontal=True, width="content", vertical_alignment="bottom"):
            state.bound("words", st.checkbox, "Whole words", help=MERGED)
            if has_special:
                state.bound("no_special", st.checkbox, "No special tokens", help=LEFT_OUT)
            state.bound("no_first", st.checkbox, "No first token", help=LEFT_OUT)


def head_options(n_layers: int, n_heads: int) -> None:
    """Which head, and which picture of it; the same choice as a click on the grid."""
    layers, heads = list(range(n_layers)), list(range(n_heads))
    state.bound("layer", st.selectbox, "Layer", layers, width=90, format_func="L{}".format)
    state.bound("head", st.selectbox, "Head", heads, width=90, format_func="H{}".format)
    state.bound(
        "show", st.segmented_control, "Picture", list(state.SHOWS), wrap=True,
        format_func=SHOW_NAMES.__getitem__,
    )  # fmt: skip
