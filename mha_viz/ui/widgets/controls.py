"""What the user chooses: model, text, and how the heads are shown."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.checkpoints.catalog import ModelInfo, find_model, list_models
from mha_viz.core.names import DEVICES, DTYPES
from mha_viz.errors import MhaVizError
from mha_viz.ui.session import state, views
from mha_viz.ui.session.examples import EXAMPLES
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.widgets import choosing
from mha_viz.ui.widgets.messages import plain

OTHER = "Another model …"
MERGED = "Sub-words merged: weights to the parts of a word are summed, from them averaged."
KINDS = (
    "A kind of head is a label that a head earns on this text, Induction on random texts said "
    "twice: see the chosen head's card."
)
LEFT_OUT = "Left out; the rest of each row is scaled back to a sum of 1."


def model_picker() -> None:
    """The model, in the sidebar. A name typed under `OTHER` is looked up before it is accepted."""
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

    @guarded
    def choose() -> None:
        st.session_state.problems = []
        chosen = st.session_state.ask_model
        if chosen != OTHER:
            state.change(model=chosen, query=-1, key=-1)
        st.session_state.asking = chosen == OTHER

    state.show("ask_model", OTHER if st.session_state.get("asking") else view.model)
    st.selectbox(
        "Model",
        [*known, OTHER],
        key="ask_model",
        on_change=choose,
        format_func=lambda name: _describe(name, models.get(name)),
        help="Shipped models, models in this machine's Hugging Face cache, or any BERT, GPT-2, "
        "Llama, T5 … from a folder or the Hub.",
    )
    if st.session_state.get("asking"):
        _other_model()


def _other_model() -> None:
    @guarded
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
        "Folder or Hub id",
        key="ask_other",
        on_change=take,
        max_chars=4096,
        placeholder="/path/to/model  or  owner/name",
    )
    if st.session_state.get("refused"):
        st.error(plain(st.session_state.refused))


def _describe(name: str, info: ModelInfo | None) -> str:
    if info is None or not info.family:
        return name
    return f"{name} · {info.family} {info.n_layers}×{info.n_heads}"


def hardware() -> None:
    """Device and number format, in the sidebar; the defaults are right for most people."""
    with st.expander("Device and precision"):
        choosing.menu("device", "Run on", DEVICES)
        shown = "Attention weights are always shown as float32."
        choosing.menu("dtype", "Weights as", DTYPES, help=shown)


def text_box() -> DeltaGenerator:
    """The sentence and examples; returns the place between them for a second sentence."""
    columns = st.columns([5, 3, 2], vertical_alignment="bottom")
    with columns[0]:
        hint = "Type a sentence and press Enter"
        state.bound("text", st.text_input, "Sentence", placeholder=hint)
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
        choosing.segments("part", "Part", {part: views.PARTS[part] for part in parts})


def _examples() -> None:
    titles = {example.title: example for example in EXAMPLES}

    @guarded
    def take() -> None:
        chosen = titles.get(st.session_state.ask_example or "")
        if chosen is not None:
            st.session_state.problems = []
            st.session_state.asking = False
            state.change(text=chosen.text, pair=chosen.pair, model=chosen.model, query=-1, key=-1)
            if chosen.head is not None:
                state.change(layer=chosen.head[0], head=chosen.head[1])

    st.selectbox(
        "Examples",
        list(titles),
        index=None,
        key="ask_example",
        on_change=take,
        placeholder="Try an example",
    )


def look_for() -> str:
    """What to look for in the text, where it is one of the examples; or ""."""
    text = state.current().text
    return next((example.look for example in EXAMPLES if example.text == text), "")


def grid_options(metrics: dict[str, str], labels: dict[str, str], has_special: bool) -> None:
    """Which heads are shown, and how. `metrics` and `labels` map keys to titles."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        choosing.menu("sort", "Sort heads by", {"": "Layer and head", **metrics}, width=190)
        if state.current().sort:
            state.bound(
                "least",
                st.number_input,
                "At least",
                min_value=0.0,
                max_value=1e6,
                step=0.05,
                width=110,
                help="Heads with less of it are left out.",
            )
        choosing.menu("only", "Show", {"": "All heads", **labels}, width=170, help=KINDS)
        choosing.segments("scale", "Colour scale", views.SCALES)
        with st.container(horizontal=True, width="content", vertical_alignment="bottom"):
            state.bound("words", st.checkbox, "Whole words", help=MERGED)
            if has_special:
                state.bound("no_special", st.checkbox, "No special tokens", help=LEFT_OUT)
            state.bound("no_first", st.checkbox, "No first token", help=LEFT_OUT)


def head_options(n_layers: int, n_heads: int) -> None:
    """Which head, and which picture of it; the same choice as a click on the grid."""
    head_menus(n_layers, n_heads)
    choosing.segments("show", "Picture", views.SHOWS)


def head_menus(n_layers: int, n_heads: int, hint: str = "") -> None:
    """Layer and number of the chosen head; `hint` says what it is chosen for."""
    choosing.menu("layer", "Layer", choosing.numbered("L", n_layers), width=85, help=hint)
    choosing.menu("head", "Head", choosing.numbered("H", n_heads), width=85)


def pair_pickers(n_layers: int, n_heads: int, other: tuple[int, int] | None = None) -> None:
    """Two heads; the second may be of another model with `other` (layers, heads)."""
    layers_b, heads_b = other or (n_layers, n_heads)
    pickers = (
        ("layer", "L", n_layers, "First layer"),
        ("head", "H", n_heads, "First head"),
        ("layer_b", "L", layers_b, "Second layer"),
        ("head_b", "H", heads_b, "Second head"),
    )
    for name, letter, size, label in pickers:
        choosing.menu(name, label, choosing.numbered(letter, size), width=120)


def open_in_explore() -> None:
    """A button that leads to everything about the chosen head."""
    if st.button("Open in Explore", icon=":material/open_in_new:", key="open_in_explore"):
        # With the address that the page would write itself: otherwise Back would stop there twice.
        st.switch_page(st.session_state.pages["explore"], query_params=state.link())


def other_models() -> list[str]:
    """Models to compare with; "" is the model itself."""
    typed, asked = st.session_state.get("typed_models", ()), state.current().model_b
    linked = [asked] if asked in state.folders() else []
    return ["", *dict.fromkeys((*(info.name for info in list_models()), *typed, *linked))]


def other_side() -> None:
    """A second text, a second model, or neither, to compare two heads of one run."""
    models = {info.name: info for info in list_models()}
    columns = st.columns([5, 3], vertical_alignment="bottom")
    with columns[0]:
        hint = "(the same sentence)"
        state.bound("text_b", st.text_input, "Other sentence", placeholder=hint, also=_same_head)
    with columns[1]:
        titles = {name: _describe(name, models.get(name)) for name in other_models()}
        choosing.menu("model_b", "Other model", titles | {"": "The same"}, also=_same_head)


def _same_head() -> None:
    """Another text or model is first seen through the head with the same number."""
    view = state.current()
    state.change(layer_b=view.layer, head_b=view.head)
