"""The task that a circuit is tested on: a built-in one, or pairs of the visitor's own."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from mha_viz.circuits.tasks.task_runs import LEAST, task_accuracy
from mha_viz.circuits.tasks.tasks import Example, Task, make_task
from mha_viz.text.encoding import label_of
from mha_viz.ui.circuits import TEXTS
from mha_viz.ui.jobs.ticket import Work
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.state import allowed, state
from mha_viz.ui.state.views import TASKS, Circuits
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.messages.messages import plain

OWN = "own"
MAX_TYPED = 20_000  # characters
N_SHOWN = 3  # texts of a task
N_LEFT_OUT = 5  # sentences on what was left out
AROUND = 12  # tokens on both sides of where the texts of a long pair differ


class Chosen(NamedTuple):
    """A task, and what it was made of: a name or lines."""

    task: Task
    source: str


def over_pairs() -> Chosen | None:
    """Draw the switch from the typed text to the pairs of a task; return the task if it is on."""
    state.bound("averaged", st.toggle, "Mean over the pairs of a task")
    return choose() if state.of(Circuits).averaged else None


def choose() -> Chosen:
    """Draw the choice of a task, how well the model does it, and some of its texts.

    Raises:
        ArgumentError: a vocabulary that lacks the task's words, or no pair that fits.
        LimitError: lines that are too long for this server.
    """
    choosing.segments("task", "Task", TASKS)
    view = state.of(Circuits)
    source = view.task if view.task != OWN else _typed(view) + "\n"  # never the name of another
    allowed.check_text(source)
    model = memory.model(*view.checkpoint)
    with st.spinner("Writing texts …"):
        task = memory.cache().get(
            (*view.checkpoint, "task", source),
            partial(make_task, model, source),
            lambda task: 500 * sum(len(one.clean.tokens) for one in task.examples),
        )
    _accuracy(task, source)
    _left_out(task)
    _examples(task)
    return Chosen(task, source)


def work_on(function: Callable[..., Any], chosen: Chosen, *heads: object, passes: int) -> Work:
    """Return work on a task; its time is estimated by its passes over all texts."""
    checkpoint = state.of(Circuits).checkpoint
    n_tokens = sum(len(one.clean.input_ids) for one in chosen.task.examples)
    return heavy.work(
        partial(function, heavy.model_of(checkpoint), chosen.task, *heads),
        (checkpoint, function.__name__, chosen.source, heads),
        heavy.seconds(memory.model(*checkpoint), passes * n_tokens),
    )


def _typed(view: Circuits) -> str:
    """Draw the editor of own pairs and return what it holds; an example where that is nothing."""
    shown = view.pairs if view.pairs.strip() else TEXTS("tasks.example").strip()
    state.bound(
        "pairs",
        st.text_area,
        TEXTS("tasks.label"),
        displayed=shown,
        height=150,
        max_chars=MAX_TYPED,
    )
    st.caption(TEXTS("tasks.form"))
    return shown


def _accuracy(task: Task, source: str) -> None:
    checkpoint = state.of(Circuits).checkpoint
    model = memory.model(*checkpoint)

    def measure() -> tuple[bool, str]:
        with turn_for(model, "".join(one.clean.text for one in task.examples)):
            found = task_accuracy(model, task)
        return found.share >= LEAST, found.sentence

    enough, sentence = memory.cache().get((*checkpoint, "accuracy", source), measure, lambda _: 500)
    (st.success if enough else st.warning)(plain(sentence))


def _left_out(task: Task) -> None:
    if not task.left_out:
        return
    more = len(task.left_out) - N_LEFT_OUT
    lines = [f"- {plain(sentence)}" for sentence in task.left_out[:N_LEFT_OUT]]
    lines += [f"- … and {more:,} more"] if more > 0 else []
    st.info("\n".join(lines), icon=":material/content_cut:")


def _examples(task: Task) -> None:
    tokenizer = memory.model(*state.of(Circuits).checkpoint).tokenizer
    lines = [
        f"- {aligned(one)} → **{plain(label_of(tokenizer, one.right))}**, not "
        f"{plain(label_of(tokenizer, one.wrong))}"
        for one in task.examples[:N_SHOWN]
    ]
    st.markdown(TEXTS("tasks.examples", n=len(task.examples), lines="\n".join(lines)))


def aligned(one: Example) -> str:
    """Write a pair token by token, both tokens where they differ; of a long one, what is near."""
    pairs = list(zip(one.clean.tokens, one.corrupt.tokens, strict=True))
    marked = [i for i, (clean, corrupt) in enumerate(pairs) if clean.id != corrupt.id] + [one.place]
    near = {i for at in marked for i in range(at - AROUND, at + AROUND + 1)}
    words, before = list[str](), -1
    for i, (clean, corrupt) in enumerate(pairs):
        if i not in near:
            continue
        words += ["…"] if i > before + 1 else []
        both = f"**{plain(clean.text)} / {plain(corrupt.text)}**"
        words.append(plain(clean.text) if clean.id == corrupt.id else both)
        before = i
    return " · ".join(words + (["…"] if before + 1 < len(pairs) else []))
