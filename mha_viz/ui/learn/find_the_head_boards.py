"""Lab 11: which tasks there are on a model and text, their boards, and what is handed out.

What needs the loss is measured on request, with progress and Stop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.visible import visible_everywhere, visible_keys
from mha_viz.interventions.duration import importance_passes
from mha_viz.interventions.importance import HeadImportance, head_importance
from mha_viz.labs.find_the_head import (
    Answer,
    Board,
    board_of_pairs,
    board_of_scores,
    in_order,
    labelled,
    names,
)
from mha_viz.labs.find_the_head_tasks import BY_KEY, SPARE, TASKS, Task
from mha_viz.plots.static import grid_image, head_image
from mha_viz.plots.worksheet import SheetTask, worksheet
from mha_viz.ui.explore import drawing
from mha_viz.ui.intervene import measuring
from mha_viz.ui.intervene.notices import continue_on_error
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.session import heavy, own_address, reporting, state, views
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.widgets import progress, words
from mha_viz.ui.widgets.exports import safe_name
from mha_viz.ui.widgets.hand_out import hand_out
from mha_viz.web.theme import format_number

_LOSSES = "find-the-head-losses"


@dataclass(frozen=True)
class Exercise:
    """What is asked: keys of tasks in their order, and the seed of order and hints."""

    tasks: tuple[str, ...]
    seed: int
    link: str
    place: DeltaGenerator  # for what else a teacher needs


# -- which tasks -----------------------------------------------------------------------------------


def exercise(choices: Choices, scene: Scene) -> Exercise:
    """The tasks that a teacher may choose, and the link that carries them."""
    missing = {task.key: why for task in TASKS if (why := _missing(scene, task))}
    usual = [t.key for t in TASKS if t.key not in missing and t.needs != "loss"]
    asked = choices.get("tasks", "", _read_tasks)
    chosen = asked.split(",") if asked else usual
    place = st.expander("For teachers: tasks, link and printed sheets", icon=":material/school:")
    with place:

        def take(named: list[str]) -> None:
            picked = [task.key for task in TASKS if task.key in named]
            choices.set("tasks", "" if picked in ([], usual) else ",".join(picked))

        state.control(
            choices.key("tasks"),
            st.multiselect,
            "Tasks",
            list(BY_KEY),
            value=chosen,
            take=take,
            format_func=lambda name: BY_KEY[name].title,
        )
        seed = choices.number(
            "seed",
            "Seed",
            0,
            9_999,
            0,
            width=160,
            help="0 keeps the order of the tasks; any other number shuffles it, for everybody "
            "with this link alike, and draws other candidates for hints.",
        )
        asked_now = choices.get("tasks", "", _read_tasks)
        link = _link(asked_now, seed)
        st.markdown("The link to hand out. Answers are never in it:")
        hand_out(link, key=choices.key("link"))
    left_out = [key for key in chosen if key in missing]
    for key in left_out:
        st.caption(f"Left out: {BY_KEY[key].title}. {missing[key]}")
    tasks = in_order([key for key in chosen if key not in missing], seed)
    return Exercise(tuple(tasks), seed, link, place)


def _read_tasks(raw: str) -> str:
    keys = raw.split(",") if raw else []
    if len(set(keys)) != len(keys) or not set(keys) <= set(BY_KEY):
        raise ValueError
    return raw


def _link(tasks: str, seed: int) -> str:
    """The address of this exercise: model, text, tasks and seed, and nobody's choice of heads."""
    view = replace(state.current(), layer=-1, head=-1, query=-1, key=-1, sort="", only="")
    more = {"tasks": tasks} if tasks else {}
    more |= {"seed": str(seed)} if seed else {}
    return f"{own_address.reached().url}?{urlencode(views.to_params(view) | more)}"


def _missing(scene: Scene, task: Task) -> str:
    """Why a task cannot be asked here; "" where it can."""
    record = scene.record
    if task.needs != "pattern":
        return ""
    scores = reporting.report(scene, state.current()).scores
    if task.metric in scores and bool(scores[task.metric].isfinite().any()):
        return ""
    if record.is_cross:
        return "Cross attention looks at another text."
    if task.key == "next" and record.causal:
        return "This model does not see the future."
    if task.key == "duplicate":
        return "No token of this text occurs twice."
    return "It has no meaning on this model and text."


def notes(scene: Scene, task: Task) -> list[str]:
    """What to know before looking for it."""
    if task.key == "induction" and "duplicate_token" not in scene.facts:
        return [
            "This sentence repeats nothing, so you can hardly see it here: take the example "
            "“A phrase said twice”."
        ]
    return []


# -- boards ----------------------------------------------------------------------------------------


def board(scene: Scene, key: str) -> Board | None:
    """The board of a task; None where nothing is known (yet)."""
    task = BY_KEY[key]
    if task.needs == "loss":
        return _board_of_loss(scene, task)

    def make() -> Board | None:
        if task.needs == "pairs":
            distance = reporting.likeness(scene, task.metric)
            return board_of_pairs(task, distance, scene.record.n_heads)
        report = reporting.report(scene, state.current())
        return board_of_scores(task, report.scores[task.metric], labelled(task, report.labels))

    view, n = state.current(), scene.head_count
    asked = (view.model, view.device, view.dtype) in st.session_state.get("random_wanted", ())
    size = 200 * (n * n // 2 if task.needs == "pairs" else n)
    return reporting.remembered(scene, "task", key, asked, make=make, size=size)


def _board_of_loss(scene: Scene, task: Task) -> Board | None:
    found = _known(scene)
    if found is None:
        return None
    change = found.mean if task.highest else found.mean.abs()
    heads = [(i, j) for i in range(change.shape[0]) for j in range(change.shape[1])]
    counts = [h for h in heads if (change[h] > SPARE) == task.highest]
    return board_of_scores(task, change, counts)


def title(task: Task) -> str:
    """What a task's numbers are called."""
    if task.needs == "loss":
        return "change of the loss (nats per token)" if not task.highest else "rise of the loss"
    return METRICS[task.metric].title.lower()


def verdict(board: Board, answer: Answer) -> str:
    """What there is to say of an answer."""
    if not answer:
        return "No head does, indeed." if not board.passing else "Some head does."
    rank, total = board.rank(answer), len(board.values)
    of = f"rank {rank} of {total}, value {format_number(board.values[answer])}"
    if answer in board.passing:
        return f"{names(answer)}: {of}." + " It counts." * (len(answer) == 1)
    return f"{names(answer)}: {of}." + " No head counts here." * (not board.passing)


def measure_loss(scene: Scene, tasks: tuple[str, ...]) -> bool:
    """The button for tasks that need every head switched off; whether the game can begin."""
    if not any(BY_KEY[key].needs == "loss" for key in tasks) or _known(scene) is not None:
        return True
    with continue_on_error():
        _measure(scene)
    return any(BY_KEY[key].needs != "loss" for key in tasks)


def _measure(scene: Scene) -> None:
    st.caption(
        "Some of these tasks are about the prediction: every head is switched off once."
        + " Only the first sentence is predicted." * bool(scene.record.text_pair)
    )
    if not st.button(
        "Switch every head off",
        icon=":material/play_arrow:",
        key="find-the-head-measure",
        type="primary",
    ):
        return
    checkpoint, text = state.current().checkpoint, scene.record.text
    model = drawing.load_model(state.current())
    work = heavy.work(
        partial(head_importance, heavy.model_of(checkpoint), text, "ablation"),
        (checkpoint, text),
        measuring.seconds(checkpoint, model, [text], importance_passes(model, "ablation")),
    )
    found = progress.done(work, "find-the-head-stop", "Measuring …", progress.of_total)
    st.session_state.setdefault(_LOSSES, {})[scene.key] = found
    st.rerun()


def _known(scene: Scene) -> HeadImportance | None:
    found = st.session_state.get(_LOSSES, {}).get(scene.key)
    return found if isinstance(found, HeadImportance) else None


# -- what is printed -------------------------------------------------------------------------------


def downloads(scene: Scene, asked: Exercise, found: dict[str, Board]) -> None:
    """The sheet for pupils, and the one with the answers."""
    unseen = [one.task.title for one in found.values() if not one.task.on_paper]
    found = {key: one for key, one in found.items() if one.task.on_paper}
    if unseen:
        asked.place.caption(f"Not on the sheets, because no picture shows it: {', '.join(unseen)}.")
    if not found:
        return
    file = safe_name(scene.record.model, "model")
    with asked.place, st.container(horizontal=True):
        for label, answers in (("Sheet for pupils", False), ("Answers for teachers", True)):
            st.download_button(
                label,
                partial(sheet, scene, asked.link, found, answers),
                f"find-the-head_{file}{'_answers' * answers}.html",
                "text/html",
                key=f"find-the-head-sheet-{answers:d}",
                on_click="ignore",
                icon=":material/print:",
            )


def sheet(scene: Scene, link: str, found: dict[str, Board], answers: bool) -> str:
    """The exercise on paper. Runs outside of the page, so it reads nothing but its arguments."""
    record = scene.record
    about = [
        f"Model: {record.model}, {record.n_layers} layers of {record.n_heads} heads.",
        f"Text: {record.text}" + f" | {record.text_pair}" * bool(record.text_pair),
        "Each small square is a head (row: layer, column: number). In it, rows are the tokens that "
        "look and columns the tokens looked at, in the order below; dark is much weight. “No head” "
        "can be the right answer.",
    ]
    if answers:
        about.append(f"Link: {link}")
    tasks = [
        SheetTask(
            one.task.title,
            one.task.ask,
            one.task.rule,
            _lines(one) if answers else (),
            _picture(scene, one) if answers else None,
        )
        for one in found.values()
    ]
    return worksheet(
        "Find the head: answers" if answers else "Find the head",
        about,
        tasks,
        tokens=record.key_labels,
        grid=grid_image(record.pattern.numpy(), visible=visible_everywhere(record)),
        answers=answers,
    )


def _lines(one: Board) -> tuple[str, ...]:
    """The answer, and the next best."""
    first = f"{names(one.best)}: {title(one.task)} {format_number(one.values[one.best])}"
    lead = "Answer: " if one.passing else "No head does. The nearest: "
    next_best = "; ".join(f"{names(a)} {format_number(one.values[a])}" for a in one.ranking[1:4])
    lines = [f"{lead}{first}.", f"Next: {next_best}." if next_best else ""]
    if one.task.label:
        label = LABELS[one.task.label]
        lines.append(f"{len(one.passing)} of {len(one.values)} heads count as “{label.title}”.")
    return tuple(line for line in lines if line)


def _picture(scene: Scene, one: Board) -> bytes:
    record, head = scene.record, one.best[0]
    return head_image(
        record.head(*head).numpy(),
        record.labels,
        record.key_labels,
        title=names((head,)),
        caption=words.settings(scene),
        visible=visible_keys(record, head[0]),
    )
