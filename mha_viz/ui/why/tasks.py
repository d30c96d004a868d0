"""The task whose pairs a view measures: its choice, its texts, and work on them."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

import streamlit as st

from mha_viz.circuits.tasks.accuracy import LEAST, task_accuracy
from mha_viz.circuits.tasks.make_task import make_task
from mha_viz.circuits.tasks.task import Example, Task
from mha_viz.engine.model import AttentionModel
from mha_viz.text.encoding import label_of
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import allowed, selection
from mha_viz.ui.state.views import TASKS, Why
from mha_viz.ui.why import TEXTS, targets
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.messages import progress
from mha_viz.ui.widgets.messages.notices import plain

T = TypeVar("T")
OWN_TASK = "own"
N_SHOWN = 3  # texts of a task
N_LEFT_OUT = 5  # sentences on what was left out
AROUND = 12  # tokens on both sides of where the texts of a long pair differ


class Chosen(NamedTuple):
    """A task, and what it was made of: a name or lines."""

    task: Task
    source: str


def menu() -> None:
    """Draw the menu of tasks."""
    choosing.menu("task", "Task", TASKS, width=240)


def choose(scene: Scene, view: Why, draw_more: Callable[[], object] = menu) -> Chosen:
    """Draw the choice of a task, how well the model does it, and some of its texts.

    `draw_more` draws the row of the menu. Raises ArgumentError: a vocabulary that lacks the task's
    words, or no pair that fits. LimitError: lines that are too long for this server.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        draw_more()
        examples = st.empty()
    source = (
        view.task if view.task != OWN_TASK else _typed(view) + "\n"
    )  # never the name of another
    allowed.check_text(source)
    loaded = targets.model(scene)
    with st.spinner("Writing texts …"):
        task = memory.cache().get(
            (*view.checkpoint, "task", source),
            partial(make_task, loaded, source),
            lambda task: 500 * sum(len(example.clean.tokens) for example in task.examples),
        )
    chosen = Chosen(task, source)
    label, icon = f"{len(task.examples)} pairs", ":material/list:"
    with examples, st.popover(label, icon=icon, key="task-pairs-more"):
        _examples(loaded, task)
    accuracy = of_task(view, "accuracy", chosen, task_accuracy, lambda accuracy: 500)
    if accuracy.share >= LEAST:
        st.markdown(plain(accuracy.sentence))
    else:
        st.warning(plain(accuracy.sentence))
    if task.left_out:
        more = len(task.left_out) - N_LEFT_OUT
        lines = [f"- {plain(sentence)}" for sentence in task.left_out[:N_LEFT_OUT]]
        lines += [f"- … and {more:,} more"] if more > 0 else []
        st.info("\n".join(lines), icon=":material/content_cut:")
    return chosen


def of_task(
    view: Why,
    name: str,
    chosen: Chosen,
    make: Callable[[AttentionModel, Task], T],
    size: Callable[[T], int],
) -> T:
    """Return what `make` computes of a task, once; `size` is in bytes."""
    loaded = memory.model(*view.checkpoint)

    def run() -> T:
        with turn_for(loaded, "".join(example.clean.text for example in chosen.task.examples)):
            return make(loaded, chosen.task)

    return memory.cache().get((*view.checkpoint, name, chosen.source), run, size)


def measured(
    view: Why,
    function: Callable[..., Any],
    chosen: Chosen,
    *heads: object,
    passes: int,
    name: str,
) -> Any:
    """Return the result of heavy work on a task, whose time passes over all texts estimate."""
    n_tokens = sum(len(example.clean.input_ids) for example in chosen.task.examples)
    work = heavy.work(
        partial(function, heavy.model_of(view.checkpoint), chosen.task, *heads),
        (view.checkpoint, function.__name__, chosen.source, heads),
        heavy.seconds(memory.model(*view.checkpoint), passes * n_tokens),
    )
    begin = "Searching …" if name == "proposing" else "Measuring …"
    return progress.done(work, f"stop_{name}", begin, progress.of_total)


def settings(scene: Scene, task: str, *more: str) -> str:
    """Write a figure's source: model, task and settings, in one line."""
    return " · ".join((scene.record.model, f"task: {task}", *more))


def _typed(view: Why) -> str:
    """Draw the editor of own pairs; return its content, or an example where it is empty."""
    shown = view.pairs if view.pairs.strip() else TEXTS("tasks.example").strip()
    selection.bound("pairs", st.text_area, displayed=shown, **TEXTS.control("pairs"))
    return shown


def _examples(model: AttentionModel, task: Task) -> None:
    label = partial(label_of, model.tokenizer)
    lines = [
        f"- {aligned(pair)} → **{plain(label(pair.right))}**, not {plain(label(pair.wrong))}"
        for pair in task.examples[:N_SHOWN]
    ]
    st.markdown(TEXTS("tasks.examples", n=len(task.examples), lines="\n".join(lines)))


def aligned(example: Example) -> str:
    """Write a pair token by token, both tokens where they differ; of a long one, what is near."""
    pairs = list(zip(example.clean.tokens, example.corrupt.tokens, strict=True))
    marked = [i for i, (clean, corrupt) in enumerate(pairs) if clean.id != corrupt.id]
    marked.append(example.position)
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
