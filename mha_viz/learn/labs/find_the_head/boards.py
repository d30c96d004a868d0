"""Lab 11: the boards of the tasks that a model and text allow, and sentences about answers.

What needs the loss is measured on request, with progress and Stop.
"""

from functools import partial

import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.interventions.importance import HeadImportance, head_importance, importance_passes
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.find_the_head import numbers as game
from mha_viz.learn.labs.find_the_head.numbers import (
    Answer,
    Board,
    Task,
    head_values,
    make_board,
    pair_values,
)
from mha_viz.ui.run import heavy, memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
OF_LOSS = {task.key for task in game.TASKS if task.needs == "loss"}


def missing(scene: Scene, task: Task) -> str:
    """Return why a task cannot be set here; "" where it can."""
    if task.needs != "pattern":
        return ""
    scores, record = reporting.report(scene, selection.current()).scores, scene.record
    if task.metric in scores and bool(scores[task.metric].isfinite().any()):
        return ""
    is_next = task.key == "next" and record.causal
    reason = task.key if is_next or task.key == "duplicate" else "other"
    return TEXTS(f"missing.{'cross' if record.is_cross else reason}")


def board(scene: Scene, key: str, importance: HeadImportance | None) -> Board | None:
    """Return the board of a task; None where it has no values, of a loss without `importance`."""
    task = game.BY_KEY[key]
    if task.needs == "loss":
        if importance is None:
            return None
        change = importance.mean if task.highest else importance.mean.abs()
        passing = ((change > game.SPARE_NATS) == task.highest).nonzero().tolist()
        return make_board(task, head_values(change), [(tuple(head),) for head in passing])

    def make() -> Board | None:
        if task.is_pair:
            distance = reporting.likeness(scene, task.metric)
            return make_board(task, pair_values(distance, scene.record.n_heads))
        report = reporting.report(scene, selection.current())
        passing = [(head,) for head in reporting.of_kind(report, task.label)]
        return make_board(task, head_values(report.scores[task.metric]), passing)

    n, with_random = scene.head_count, reporting.has_random(selection.current())
    size = 200 * (n * n // 2 if task.is_pair else n)
    return reporting.cached(scene, "task", key, with_random, make=make, size=size)


def measure_loss(choices: Choices, scene: Scene, tasks: tuple[str, ...]) -> HeadImportance | None:
    """Draw the button for tasks that need the loss; return what it has found."""
    importance: HeadImportance | None = None
    if OF_LOSS & set(tasks):
        st.caption(TEXTS("measure.text") + TEXTS("measure.pair") * bool(scene.record.text_pair))
        checkpoint, text = selection.current().checkpoint, scene.record.text
        passes = importance_passes(model := memory.model(*checkpoint), "ablation")
        with continue_on_error():
            run = LabRun(
                partial(head_importance, heavy.model_of(checkpoint), text, "ablation"),
                (checkpoint, text),
                scene.head_count,
                seconds=heavy.seconds(model, round(passes * len(scene.record.tokens))),
                progress_argument="on_progress",
            )
            importance = offer_run(choices, run, name="measure", label=TEXTS("measure.label"))
    return importance


def title(task: Task) -> str:
    """Return the name of a task's numbers."""
    if task.needs == "loss":
        return TEXTS("measure.rise" if task.highest else "measure.change")
    return METRICS[task.metric].title.lower()


def verdict(board: Board, answer: Answer) -> str:
    """Describe an answer: its rank, its value, and if it counts."""
    if not answer:
        return TEXTS("verdict.some" if board.passing else "verdict.none")
    values = {"rank": board.rank(answer), "total": len(board.values)}
    about = TEXTS("verdict.rank", names=game.names(answer), value=board.values[answer], **values)
    counts = answer in board.passing and len(answer) == 1
    return about + TEXTS("verdict.counts") * counts + TEXTS("verdict.nobody") * (not board.passing)


def truth(scene: Scene, board: Board) -> str:
    """Describe the best answer and its value beside untrained baselines."""
    lead, best, n = "best" if board.passing else "nearest", board.best, len(board.values)
    values = {"names": game.names(best), "metric": title(board.task), "value": board.values[best]}
    text = TEXTS(f"truth.{lead}", **values)
    if not board.task.is_pair:
        text += TEXTS("truth.counts", n_passing=len(board.passing), n=n)
    if board.task.label:
        baseline = reporting.report(scene, selection.current()).baselines.get(board.task.metric)
        untrained = words.baseline_values(baseline)
        untrained.pop(words.BASELINE_NAMES["offset"], None)  # no label is measured against that
        if untrained:
            each = ", ".join(f"{name} {format_number(value)}" for name, value in untrained.items())
            text += TEXTS("truth.untrained", each=each)
    return text
