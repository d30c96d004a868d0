"""Lab 4 on screen: one head of the user's model, step by step; every cell can be written out."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st
import torch

from mha_viz.core.attention.multi_head import MultiHeadAttention
from mha_viz.engine.model import AttentionModel
from mha_viz.learn.activations import LayerActivations, record_activations
from mha_viz.learn.frame import charts, frame, questions
from mha_viz.learn.frame.choices import Choices, among
from mha_viz.learn.frame.questions import Question
from mha_viz.learn.labs.step_by_step.code import pytorch_code
from mha_viz.learn.labs.step_by_step.numbers import Steps, cross, gap, step_by_step
from mha_viz.learn.labs.step_by_step.tables import STEPS, TEXTS, step_table
from mha_viz.learn.labs.step_by_step.taught import BUGS, run_taught, taught_code
from mha_viz.learn.labs.step_by_step.windows import one_step
from mha_viz.plots.vectors import layer_picture
from mha_viz.ui.heads import picking
from mha_viz.ui.run import memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import controls
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import continue_on_error

MASKS = {"own": "the model’s own", "causal": "causal: on", "none": "off: all tokens"}
_HIDES = {"own": None, "causal": True, "none": False}


def draw(choices: Choices) -> None:
    """Draw the text run, a layer as a whole, the walk through one head, and what is folded."""
    _layer(choices, picking.picked())


@frame.part
def _layer(choices: Choices, scene: Scene) -> None:
    with continue_on_error():
        _walk(choices, scene, memory.model(*state.current().checkpoint))
    TEXTS.fold(choices, "cross", partial(_cross, choices))


def _walk(choices: Choices, scene: Scene, model: AttentionModel) -> None:
    record = scene.record
    n_heads, _, width = record.kept("z").shape[1:]
    sizes = {"joined": width * n_heads, "squared": width * n_heads**2, "d_model": model.d_model}
    cover = TEXTS.predict(choices, "width", width=width, n_heads=n_heads, **sizes)
    picture = frame.place(choices, "picture")
    with frame.row():
        controls.head_menus(record.n_layers, record.n_heads)
        mask = "own" if record.is_cross else choices.segments("mask", "Mask", MASKS, "own")
    view = state.current()
    seen = activations_of(scene, model, view.layer)
    found = step_by_step(model, record, view.layer, view.head, seen, _HIDES[mask])
    with picture, cover():
        _whole(choices, scene, found)
    TEXTS.step("statement")
    step = _chosen_step(choices)
    one_step(choices, scene, step_table(step, found, record, view.head), found)
    code = pytorch_code(found, record, view.model, view.layer, view.head, view.dtype)
    TEXTS.fold(choices, "code", partial(_code, found, code))
    names = record.labels, record.key_labels
    TEXTS.fold(choices, "bugs", partial(_bugs, choices, found, names))


def _whole(choices: Choices, scene: Scene, found: Steps) -> None:
    """Draw the layer from its input to its output, with the shape of every tensor in the table."""
    view, names = state.current(), TEXTS.labels("tensors")
    X, joined, output = found.seen.X, found.joined, found.output
    own = [found.query, found.key, found.value, found.pattern, found.z[view.head]]
    tensors = [X, *own, joined, found.W_O, output]
    blocks = ("X", X), ("side by side", joined), ("output", output)
    rows = [(name, *made.shape) for name, made in zip(names.values(), tensors, strict=True)]
    figures.show(
        layer_picture(blocks, found.patterns, view.head, dark=look.dark()),
        key=choices.key("layer"),
        table=pd.DataFrame(rows, columns=["tensor", "rows", "columns"]),
        **TEXTS.figure(
            "whole", head=view.head, settings=words.settings(scene, words.layer_name(view.layer))
        ),
    )


def _code(found: Steps, code: str) -> None:
    """Draw the layer with one matrix per head beside the usual code, and how far they differ."""
    for name, text in (("per-head", code), ("taught", taught_code())):
        TEXTS.markdown(f"code.{name}")
        st.code(text, wrap_lines=True)  # else it scrolls, which the keyboard cannot
    weights, seen = found.weights, found.seen
    output, pattern = run_taught(weights, seen.X, seen.Y, found.causal)
    with torch.no_grad():
        ours = MultiHeadAttention.from_weights(weights)(seen.X, seen.Y, causal=found.causal)
    apart = gap(pattern, ours.pattern), gap(output, ours.output)
    TEXTS.markdown("code.measured", pattern=apart[0][0], output=apart[1][0], size=apart[1][1])


def _bugs(choices: Choices, found: Steps, names: tuple[Sequence[str], Sequence[str]]) -> None:
    """Draw the outcome of the usual code with a mistake, and ask for the mistake."""
    called = {bug: f"Code {letter}" for bug, letter in zip(BUGS, "ABC", strict=True)}
    bug = choices.segments("bug", "Code with one mistake", called, next(iter(BUGS)))
    run = partial(run_taught, found.weights, found.seen.X, found.seen.Y, True)
    head = state.current().head
    output, pattern = run()
    try:
        wrong, wrong_pattern = run(bug)
    except AttributeError as error:
        st.code(f"AttributeError: {error}", language=None, wrap_lines=True)
    else:
        with st.container(horizontal=True):
            for title, made in (("right", pattern[head]), ("wrong", wrong_pattern[head])):
                key, title = choices.key(f"bug-{title}"), f"weights, {title}"
                charts.corner(key, made, title, *names, diverging=False, limits=(0.0, 1.0))
        apart, largest = gap(wrong, output)
        TEXTS.markdown("bugs.measured", apart=apart, largest=largest)
    question = Question(
        TEXTS("bugs.question"),
        tuple(TEXTS.labels("bugs.options").values()),
        list(BUGS).index(bug),
        TEXTS(f"bugs.because.{bug}"),
        tuple(TEXTS.tables["bugs"]["wrong"]),
    )
    questions.predict(choices, f"bug-{bug}", question)


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


def _cross(choices: Choices) -> None:
    cover = TEXTS.predict(choices, "shuffle")
    with frame.row():
        text = partial(choices.text, most=200, width=260)
        queries = text("write", "Queries from", "le chat dort").split()
        keys = text("read", "Keys and values from", "the cat sleeps on the mat").split()
        turned = choices.toggle("turned", "Reverse what is read")
    keys = keys[::-1] if turned else keys
    found, cell = cross(queries, keys), charts.window().cell
    assert found.pattern is not None
    n_rows, width = found.output.shape
    rows, columns, shape = queries, [str(i) for i in range(width)], f"{n_rows} × {len(keys)}"
    with cover(), st.container(horizontal=True):
        for i, made in enumerate(found.pattern):
            key, title = choices.key(f"cross-{i}"), f"weights, H{i}"
            charts.weights(key, made, title, rows, keys, shape=shape, cell=cell)
        key, made, shape = choices.key("cross-output"), found.output, f"{n_rows} × {width}"
        charts.matrix(key, made, "output", rows=rows, columns=columns, shape=shape, cell=cell)
    TEXTS.caption("crossed.caption")
