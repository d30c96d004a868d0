"""Lab 4 on screen: one head of the user's model, step by step; every cell can be written out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.labs.activations import LayerActivations, record_activations
from mha_viz.labs.step_by_step import Crossed, cross, step_by_step, words_of
from mha_viz.labs.step_code import pytorch_code
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices, among
from mha_viz.ui.learn.step_tables import STEPS, step_table
from mha_viz.ui.learn.step_windows import one_step
from mha_viz.ui.session import memory, state
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.widgets import picking
from mha_viz.ui.widgets.messages import plain

SENTENCES = (
    ("write", "Queries from", "le chat dort"),
    ("read", "Keys and values from", "the cat sleeps on the mat"),
)
MASKS = {"own": "the model’s own", "causal": "causal: on", "none": "off: all tokens"}
_HIDES = {"own": None, "causal": True, "none": False}


def draw(choices: Choices) -> None:
    """The text run, then the walk through one head, and attention between two sentences."""
    scene = picking.picked()
    _statement(choices, scene)
    _real(choices, scene)
    _cross(choices)


@frame.part
def _real(choices: Choices, scene: Scene) -> None:
    with _apart():
        _walk(choices, scene, _model())
    choices.publish()


def _model() -> AttentionModel:
    view = state.current()
    return memory.model(view.model, view.device, view.dtype)


@contextmanager
def _apart() -> Iterator[None]:
    """An error inside is shown, and the other parts of the lab can be used all the same."""
    try:
        yield
    except MhaVizError as error:
        st.error(plain(str(error)), icon=":material/error:")


@frame.part
def _statement(choices: Choices, scene: Scene) -> None:
    frame.step(
        "Project, compute, concatenate, project",
        "A head reads every token through three matrices, compares queries with keys, mixes the "
        "values, and writes what comes out through a fourth. Here are all of these numbers for a "
        "head of the model above, computed from its weights, and at the end beside what the model "
        "itself computed.",
        r"\begin{gathered} z_i = \operatorname{softmax}\!\Big(\frac{Q_i K_i^\top}{\sqrt{d_k}} + "
        r"\text{mask}\Big)\, V_i \\[6pt] \text{output} = "
        r"[z_1 \; z_2 \;\dots\; z_h]\, W^O + b^O \end{gathered}",
    )
    record = scene.record
    if record.z is None:
        return  # such a model does not hand out its weights either, and the next part says so
    width = record.z.shape[-1]
    frame.predict(
        choices,
        "width",
        f"A head of this model makes {width} numbers for each token. How many numbers does a token "
        f"have when all {record.n_heads} heads are put side by side?",
        [
            f"{width}: heads are averaged",
            f"{width * record.n_heads}: they stand in a row",
            f"{width * record.n_heads * record.n_heads}",
        ],
        1,
        f"{record.n_heads} heads × {width} = {width * record.n_heads}. Only then does W_O mix "
        f"them, into d_model = {_model().d_model} numbers.",
    )


def _walk(choices: Choices, scene: Scene, model: AttentionModel) -> None:
    """What changes with the layer, the head and the step."""
    record = scene.record
    frame.layer_and_head(record.n_layers, record.n_heads)
    view = state.current()
    seen = activations_of(scene, model, view.layer)
    step = _chosen_step(choices)
    mask = "own" if record.is_cross else choices.segments("mask", "Mask", MASKS, "own")
    found = step_by_step(model, record, view.layer, view.head, seen, _HIDES[mask])
    one_step(choices, scene, step_table(step, found, record, view.head), found)
    st.header("The same in ten lines of PyTorch", anchor=False)
    st.markdown(
        "From X to the output, all heads of the layer at once; the lines above them fetch X and "
        "the matrices. Copy them with the button in the corner: they print the numbers above."
    )
    code = pytorch_code(found, record, view.model, view.layer, view.head, view.dtype)
    st.code(code, wrap_lines=True)  # else it scrolls, which the keyboard cannot


def activations_of(scene: Scene, model: AttentionModel, layer: int) -> LayerActivations:
    """What went into a layer of this run and came out of it; kept for a while."""
    return memory.cache().get(
        (scene.key, "activations", layer),
        lambda: record_activations(model, scene.record, layer),
        lambda seen: 4 * sum(part.numel() for part in (seen.X, seen.Y, seen.output)),
    )


def _chosen_step(choices: Choices) -> str:
    """Which step: by the slider (arrow keys, when it has the focus) or by two buttons."""
    keys = list(STEPS)
    step = choices.get("step", keys[0], among(keys))
    place = keys.index(step)
    with frame.row():
        for label, icon, to in (("Back", "arrow_back", -1), ("Next", "arrow_forward", 1)):
            inside_range = 0 <= place + to < len(keys)
            st.button(
                label,
                icon=f":material/{icon}:",
                key=choices.key(label),
                disabled=not inside_range,
                on_click=guarded(choices.set),
                args=("step", keys[place + to] if inside_range else step),
            )
        choices.slide(
            "step",
            "Step",
            {key: f"{i}. {title}" for i, (key, title) in enumerate(STEPS.items(), 1)},
            keys[0],
            width=420,
            help="With the focus on it, the arrow keys go back and forth.",
        )
    return step


# -- cross-attention -------------------------------------------------------------------------------


@frame.part
def _cross(choices: Choices) -> None:
    frame.step(
        "From one sentence to another: cross-attention",
        "Nothing says that queries and keys come from the same tokens. A decoder that translates "
        "takes its queries from what it has written and keys and values from the sentence it "
        "reads. The weights are then no square, and the output has a row for each **query**. This "
        "is a small random head (d_model 8, 2 heads): it shows shapes, not meaning.",
        r"\begin{gathered} Q = X_{\text{write}} W^Q \\ K = X_{\text{read}} W^K \qquad "
        r"V = X_{\text{read}} W^V \end{gathered}",
    )
    frame.predict(
        choices,
        "shuffle",
        "The words that are read are put in reverse order. What happens to the "
        "output? (There are no positions in this head.)",
        ["It is reversed, too", "It stays as it is", "Everything changes"],
        1,
        "Weights move with their words, and a weighted sum does not ask in which order its terms "
        "stand. This is why transformers need positions.",
    )
    with frame.row():
        queries, keys = (
            words_of(choices.text(name, title, default, most=200, width=260))
            for name, title, default in SENTENCES
        )
        turned = choices.toggle("turned", "Reverse what is read")
    with _apart():
        _crossed(choices, cross(queries, keys[::-1] if turned else keys))
    choices.publish()


def _crossed(choices: Choices, found: Crossed) -> None:
    window = charts.window()
    with st.container(horizontal=True):
        for i, pattern in enumerate(found.pattern):
            charts.weights(
                choices.key(f"cross-{i}"),
                pattern,
                f"weights, H{i}",
                found.queries,
                found.keys,
                shape=f"{len(found.queries)} × {len(found.keys)}",
                cell=window.cell,
            )
        charts.matrix(
            choices.key("cross-output"),
            found.output,
            "output",
            rows=found.queries,
            columns=[str(i) for i in range(found.output.shape[1])],
            shape=f"{len(found.queries)} × {found.output.shape[1]}",
            cell=window.cell,
        )
    st.caption(
        "Load an encoder-decoder (T5, BART …) and choose the part “Cross attention” above "
        "to walk through a trained one."
    )
