"""The folds of lab 4 that show code: the layer as PyTorch, and programs with one mistake each."""

from functools import partial

import streamlit as st
import torch

from mha_viz.core.attention.multi_head import MultiHeadAttention
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.learn.frame import charts, questions
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.labs.step_by_step.code import pytorch_code, run_taught, taught_code
from mha_viz.learn.labs.step_by_step.numbers import Steps, gap
from mha_viz.learn.labs.step_by_step.tables import BUGS, TEXTS
from mha_viz.ui.state import selection


def draw_code(steps: Steps, record: AttentionRecord) -> None:
    """Draw the layer with one matrix per head beside the usual code, and how far they differ."""
    view = selection.current()
    code = pytorch_code(steps, record, view.model, view.layer, view.head, view.dtype)
    for name, text in (("per-head", code), ("taught", taught_code())):
        TEXTS.markdown(f"code.{name}")
        st.code(text, wrap_lines=True)  # else it scrolls, which the keyboard cannot
    inputs = steps.matrices["X"], steps.matrices["Y"]
    output, pattern = run_taught(steps.weights, *inputs, steps.causal)
    with torch.no_grad():
        layer = MultiHeadAttention.from_weights(steps.weights)(*inputs, causal=steps.causal)
    of_pattern, (of_output, size) = gap(pattern, layer.pattern), gap(output, layer.output)
    TEXTS.markdown("code.measured", pattern=of_pattern[0], output=of_output, size=size)


def draw_bugs(choices: Choices, steps: Steps, record: AttentionRecord) -> None:
    """Draw the outcome of the usual code with a mistake, and ask for the mistake."""
    bug = TEXTS.choose(choices, "bug")
    run = partial(run_taught, steps.weights, steps.matrices["X"], steps.matrices["Y"], True)
    head, (output, pattern) = selection.current().head, run()
    try:
        wrong, wrong_pattern = run(BUGS[bug])
    except AttributeError as error:
        st.code(f"AttributeError: {error}", language=None, wrap_lines=True)
    else:
        names = record.labels, record.key_labels
        with st.container(horizontal=True):
            for title, weights in (("right", pattern), ("wrong", wrong_pattern)):
                key = choices.key(f"bug-{title}")
                title = f"weights, {title}"
                charts.corner(key, weights[head], title, *names, diverging=False, limits=(0.0, 1.0))
        apart, largest = gap(wrong, output)
        TEXTS.markdown("bugs.measured", apart=apart, largest=largest)
    reason = TEXTS(f"bugs.reasons.{bug}")
    question = TEXTS.question("bugs", right=list(BUGS).index(bug), reason=reason)
    questions.predict(choices, f"bug-{bug}", question)
