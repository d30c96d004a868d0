"""Lab 4 on screen: one head of the user's model, step by step; every cell can be written out."""

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
import torch

from mha_viz.core.attention.multi_head import MultiHeadAttention
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.engine.model import AttentionModel
from mha_viz.learn.activations import LayerActivations, record_activations
from mha_viz.learn.frame import charts, layout, matrix_step, questions
from mha_viz.learn.frame.choices import Choices, among
from mha_viz.learn.labs.step_by_step.code import BUGS, pytorch_code, run_taught, taught_code
from mha_viz.learn.labs.step_by_step.numbers import Steps, cross, gap, step_by_step
from mha_viz.learn.labs.step_by_step.tables import (
    STEPS,
    TEXTS,
    step_matrices,
    step_notes,
    step_text,
)
from mha_viz.plots.pictures import MatrixLook
from mha_viz.plots.vectors import layer_picture
from mha_viz.ui.heads import picking
from mha_viz.ui.run import memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error
from mha_viz.web.theme import format_number

MASKS = {"own": "the model’s own", "causal": "causal: on", "none": "off: all tokens"}
STAGES = ("PROJECT", "COMPUTE", "CONCATENATE", "PROJECT")
# The number of the stage of a step, by its key; all others are COMPUTE, 1.
_STAGES = {"x": 0, "q": 0, "k": 0, "v": 0, "concat": 2, "output": 3, "compare": 3}
_HIDES = {"own": None, "causal": True, "none": False}


def draw(choices: Choices) -> None:
    """Draw the text run, a layer as a whole, the walk through one head, and folds."""
    _layer(choices, picking.picked())


@layout.part
def _layer(choices: Choices, scene: Scene) -> None:
    with continue_on_error():
        _walk(choices, scene, memory.model(*selection.current().checkpoint))
    TEXTS.fold(choices, "cross", partial(_cross, choices))


def _walk(choices: Choices, scene: Scene, model: AttentionModel) -> None:
    record = scene.record
    n_heads, _, width = record.require("z").shape[1:]
    sizes = {"joined": width * n_heads, "squared": width * n_heads**2, "d_model": model.d_model}
    cover = TEXTS.predict(choices, "width", width=width, n_heads=n_heads, **sizes)
    picture = layout.placeholder(choices, "picture")
    with layout.row():
        choosing.head_menus(record.n_layers, record.n_heads)
        mask = "own" if record.is_cross else choices.segments("mask", "Mask", MASKS, "own")
    view = selection.current()
    activations = activations_of(scene, model, view.layer)
    steps = step_by_step(model, record, view.layer, view.head, activations, _HIDES[mask])
    with picture, cover():
        _draw_layer(choices, scene, steps)
    TEXTS.step("statement")
    _chosen_step(choices, scene, steps)
    code = pytorch_code(steps, record, view.model, view.layer, view.head, view.dtype)
    TEXTS.fold(choices, "code", partial(_code, steps, code))
    TEXTS.fold(choices, "bugs", partial(_bugs, choices, steps, record))


def _draw_layer(choices: Choices, scene: Scene, steps: Steps) -> None:
    """Draw the layer from its input to its output, with the shape of every tensor in the table."""
    view, X = selection.current(), steps.activations.X
    of_head = steps.query, steps.key, steps.value, steps.pattern, steps.z[view.head]
    tensors = X, *of_head, steps.joined, steps.W_O, steps.output
    blocks = ("X", X), ("side by side", steps.joined), ("output", steps.output)
    names = TEXTS.labels("tensors").values()
    rows = [(name, *tensor.shape) for name, tensor in zip(names, tensors, strict=True)]
    settings = words.settings(scene, words.layer_name(view.layer))
    figures.show(
        layer_picture(blocks, steps.patterns, view.head, dark=look.dark()),
        key=choices.key("layer"),
        table=pd.DataFrame(rows, columns=["tensor", "rows", "columns"]),
        **TEXTS.figure("whole", head=view.head, settings=settings),
    )


def _chosen_step(choices: Choices, scene: Scene, steps: Steps) -> None:
    """Choose a step by the slider (arrow keys, when it has the focus) or by a button, and draw it.

    The row above it says at which stage of the layer it is.
    """
    keys = list(STEPS)
    key = choices.get("step", keys[0], among(keys))
    number = keys.index(key)
    with layout.row():
        for label, icon, to in (("Back", "arrow_back", -1), ("Next", "arrow_forward", 1)):
            next_key = keys[min(max(number + to, 0), len(keys) - 1)]
            st.button(
                label,
                icon=f":material/{icon}:",
                key=choices.key(label),
                disabled=next_key == key,
                on_click=guarded(choices.set),
                args=("step", next_key),
            )
        called = {key: f"{i}. {title}" for i, (key, title) in enumerate(STEPS.items(), 1)}
        help_text = "With the focus on it, the arrow keys go back and forth."
        choices.slide("step", "Step", called, keys[0], width=420, help=help_text)
    view, record, stage = selection.current(), scene.record, _STAGES.get(key, 1)
    st.markdown(" → ".join(f"**{at}**" if i == stage else at for i, at in enumerate(STAGES)))
    name, values = step_text(key, steps, record)
    TEXTS.step(name, head=words.head_name(*view.chosen), **values)
    for note in step_notes(key, steps, record, view.head):
        st.info(note, icon=":material/info:")
    matrix_step.draw(choices, step_matrices(key, steps, record, view.head))
    if key == "compare":
        _compared(scene, steps)


def _compared(scene: Scene, steps: Steps) -> None:
    rows = []
    for name, title in TEXTS.labels("compared").items():
        apart, largest = steps.differences[name]
        is_computed = "no" if name in steps.from_model else "yes"
        rows.append((title, format_number(apart, digits=2), format_number(largest), is_computed))
    columns = ["What", "Largest difference", "Largest number", "From the matrices"]
    table = pd.DataFrame(rows, columns=columns)
    st.dataframe(table, hide_index=True, width="content", key="step-by-step-compared")
    st.caption(words.settings(scene))


def _code(steps: Steps, code: str) -> None:
    """Draw the layer with one matrix per head beside the usual code, and how far they differ."""
    for name, text in (("per-head", code), ("taught", taught_code())):
        TEXTS.markdown(f"code.{name}")
        st.code(text, wrap_lines=True)  # else it scrolls, which the keyboard cannot
    inputs = steps.activations.X, steps.activations.Y
    output, pattern = run_taught(steps.weights, *inputs, steps.causal)
    with torch.no_grad():
        layer = MultiHeadAttention.from_weights(steps.weights)(*inputs, causal=steps.causal)
    of_pattern, (of_output, size) = gap(pattern, layer.pattern), gap(output, layer.output)
    TEXTS.markdown("code.measured", pattern=of_pattern[0], output=of_output, size=size)


def _bugs(choices: Choices, steps: Steps, record: AttentionRecord) -> None:
    """Draw the outcome of the usual code with a mistake, and ask for the mistake."""
    called = {bug: f"Code {letter}" for bug, letter in zip(BUGS, "ABC", strict=True)}
    bug = choices.segments("bug", "Code with one mistake", called, next(iter(BUGS)))
    run = partial(run_taught, steps.weights, steps.activations.X, steps.activations.Y, True)
    head, (output, pattern) = selection.current().head, run()
    try:
        wrong, wrong_pattern = run(bug)
    except AttributeError as error:
        st.code(f"AttributeError: {error}", language=None, wrap_lines=True)
    else:
        names = record.labels, record.key_labels
        shares: dict[str, Any] = {"diverging": False, "limits": (0.0, 1.0)}
        with st.container(horizontal=True):
            for title, weights in (("right", pattern), ("wrong", wrong_pattern)):
                key = choices.key(f"bug-{title}")
                charts.corner(key, weights[head], f"weights, {title}", *names, **shares)
        apart, largest = gap(wrong, output)
        TEXTS.markdown("bugs.measured", apart=apart, largest=largest)
    reason = TEXTS(f"bugs.reasons.{bug}")
    question = TEXTS.question("bugs", right=list(BUGS).index(bug), reason=reason)
    questions.predict(choices, f"bug-{bug}", question)


def _cross(choices: Choices) -> None:
    cover = TEXTS.predict(choices, "shuffle")
    with layout.row():
        text = partial(choices.text, most=200, width=260)
        queries = text("write", "Queries from", "le chat dort").split()
        keys = text("read", "Keys and values from", "the cat sleeps on the mat").split()
        keys = keys[::-1] if choices.toggle("turned", "Reverse what is read") else keys
    crossed, cell = cross(queries, keys), charts.window().cell
    assert crossed.pattern is not None
    n_rows, width = crossed.output.shape
    columns, shape = [str(i) for i in range(width)], f"{n_rows} × {len(keys)}"
    with cover(), st.container(horizontal=True):
        for i, weights in enumerate(crossed.pattern):
            key, title = choices.key(f"cross-{i}"), f"weights, H{i}"
            charts.weights(key, weights, title, queries, keys, shape=shape, cell=cell)
        key, shape = choices.key("cross-output"), f"{n_rows} × {width}"
        look_of: MatrixLook = {"rows": queries, "columns": columns, "shape": shape, "cell": cell}
        charts.matrix(key, crossed.output, "output", **look_of)
    TEXTS.caption("crossed.caption")


def activations_of(scene: Scene, model: AttentionModel, layer: int) -> LayerActivations:
    """Return a layer's inputs and output in this run; kept for a while."""
    return memory.cache().get(
        (scene.key, "activations", layer),
        lambda: record_activations(model, scene.record, layer),
        lambda run: 4 * sum(part.numel() for part in (run.X, run.Y, run.output)),
    )
