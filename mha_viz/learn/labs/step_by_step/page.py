"""Lab 4 on screen: one head of the user's model, step by step; every cell can be written out."""

import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.learn.activations import LayerActivations, record_activations
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices, among
from mha_viz.learn.labs.step_by_step.code import pytorch_code
from mha_viz.learn.labs.step_by_step.numbers import Crossed, cross, step_by_step
from mha_viz.learn.labs.step_by_step.tables import STEPS, TEXTS, step_table
from mha_viz.learn.labs.step_by_step.windows import one_step
from mha_viz.ui.run import memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets.controls import controls, picking
from mha_viz.ui.widgets.messages.messages import continue_on_error

SENTENCES = (
    ("write", "Queries from", "le chat dort"),
    ("read", "Keys and values from", "the cat sleeps on the mat"),
)
MASKS = {"own": "the model’s own", "causal": "causal: on", "none": "off: all tokens"}
_HIDES = {"own": None, "causal": True, "none": False}


def draw(choices: Choices) -> None:
    """Draw the text run, the walk through one head, and attention between two sentences."""
    scene = picking.picked()
    _statement(choices, scene)
    _real(choices, scene)
    _cross(choices)


@frame.part
def _real(choices: Choices, scene: Scene) -> None:
    with continue_on_error():
        _walk(choices, scene, memory.model(*state.current().checkpoint))


@frame.part
def _statement(choices: Choices, scene: Scene) -> None:
    TEXTS.step("statement")
    record = scene.record
    if record.z is None:
        return  # such a model does not hand out its weights either, and the next part says so
    width, n_heads = record.z.shape[-1], record.n_heads
    sizes = {"width": width, "n_heads": n_heads, "joined": width * n_heads}
    sizes |= {"squared": width * n_heads**2}
    d_model = memory.model(*state.current().checkpoint).d_model
    TEXTS.predict(choices, "width", d_model=d_model, **sizes)


def _walk(choices: Choices, scene: Scene, model: AttentionModel) -> None:
    record = scene.record
    with frame.row():
        controls.head_menus(record.n_layers, record.n_heads)
    view = state.current()
    seen = activations_of(scene, model, view.layer)
    step = _chosen_step(choices)
    mask = "own" if record.is_cross else choices.segments("mask", "Mask", MASKS, "own")
    found = step_by_step(model, record, view.layer, view.head, seen, _HIDES[mask])
    one_step(choices, scene, step_table(step, found, record, view.head), found)
    st.header(TEXTS("code.heading"), anchor=False)
    TEXTS.markdown("code.explanation")
    code = pytorch_code(found, record, view.model, view.layer, view.head, view.dtype)
    st.code(code, wrap_lines=True)  # else it scrolls, which the keyboard cannot


def activations_of(scene: Scene, model: AttentionModel, layer: int) -> LayerActivations:
    """Return a layer's inputs and output in this run; kept for a while."""
    return memory.cache().get(
        (scene.key, "activations", layer),
        lambda: record_activations(model, scene.record, layer),
        lambda seen: 4 * sum(part.numel() for part in (seen.X, seen.Y, seen.output)),
    )


def _chosen_step(choices: Choices) -> str:
    """Choose a step by the slider (arrow keys, when it has the focus) or by two buttons."""
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
    TEXTS.step("cross")
    TEXTS.predict(choices, "shuffle")
    with frame.row():
        queries, keys = (
            choices.text(name, title, default, most=200, width=260).split()
            for name, title, default in SENTENCES
        )
        turned = choices.toggle("turned", "Reverse what is read")
    with continue_on_error():
        _crossed(choices, cross(queries, keys[::-1] if turned else keys))


def _crossed(choices: Choices, found: Crossed) -> None:
    rows, keys, cell = found.queries, found.keys, charts.window().cell
    shape, columns = f"{len(rows)} × {len(keys)}", [str(i) for i in range(found.output.shape[1])]
    with st.container(horizontal=True):
        for i, pattern in enumerate(found.pattern):
            key, title = choices.key(f"cross-{i}"), f"weights, H{i}"
            charts.weights(key, pattern, title, rows, keys, shape=shape, cell=cell)
        key, shape = choices.key("cross-output"), f"{len(rows)} × {len(columns)}"
        charts.matrix(
            key, found.output, "output", rows=rows, columns=columns, shape=shape, cell=cell
        )
    TEXTS.caption("crossed.caption")
