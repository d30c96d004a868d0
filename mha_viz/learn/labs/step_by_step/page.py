"""Lab 4 on screen: one head of the user's model, step by step; every cell can be written out."""

from functools import partial

import pandas as pd
import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.learn.activations import record_activations
from mha_viz.learn.frame import charts, layout, matrix_step
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.labs.step_by_step import code_page
from mha_viz.learn.labs.step_by_step.numbers import Steps, cross, step_by_step
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
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error
from mha_viz.web.theme import format_number


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
        mask = "own" if record.is_cross else TEXTS.choose(choices, "mask")
    view = selection.current()
    read = partial(record_activations, model, record, view.layer)
    n_bytes = 12 * len(record.tokens) * model.d_model
    activations = reporting.cached(scene, "activations", view.layer, make=read, size=n_bytes)
    is_causal = {"causal": True, "none": False}.get(mask)
    steps = step_by_step(model, record, view.layer, view.head, activations, is_causal)
    with picture, cover():
        _draw_layer(choices, scene, steps)
    TEXTS.step("statement")
    _chosen_step(choices, scene, steps)
    TEXTS.fold(choices, "code", partial(code_page.draw_code, steps, record))
    TEXTS.fold(choices, "bugs", partial(code_page.draw_bugs, choices, steps, record))


def _draw_layer(choices: Choices, scene: Scene, steps: Steps) -> None:
    """Draw the layer from its input to its output, with the shape of every tensor in the table."""
    view, matrices = selection.current(), steps.matrices
    blocks = [(title, matrices[name]) for name, title in TEXTS.labels("blocks").items()]
    rows = [(title, *matrices[name].shape) for name, title in TEXTS.labels("tensors").items()]
    settings = words.settings(scene, words.layer_name(view.layer))
    figures.show(
        layer_picture(blocks, steps.patterns, view.head, dark=look.dark()),
        key=choices.key("layer"),
        table=pd.DataFrame(rows, columns=["tensor", "rows", "columns"]),
        **TEXTS.figure("whole", head=view.head, settings=settings),
    )


def _chosen_step(choices: Choices, scene: Scene, steps: Steps) -> None:
    """Choose a step and draw it; the row above it says at which stage of the layer it is."""
    with layout.row():
        called = {key: f"{i}. {title}" for i, (key, title) in enumerate(STEPS.items(), 1)}
        key = TEXTS.choose(choices, "step", options=called)
    view, record = selection.current(), scene.record
    TEXTS.markdown(f"stages.{TEXTS.labels('stage').get(key, 'compute')}")
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
    columns = list(TEXTS.labels("compared-columns").values())
    charts.table("step-by-step-compared", pd.DataFrame(rows, columns=columns))
    st.caption(words.settings(scene))


def _cross(choices: Choices) -> None:
    cover = TEXTS.predict(choices, "shuffle")
    with layout.row():
        queries, keys = (TEXTS.choose(choices, name).split() for name in ("write", "read"))
        keys = keys[::-1] if TEXTS.choose(choices, "turned") else keys
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
