"""Lab 11: the tasks that a model and text allow, their boards, links and printed sheets.

What needs the loss is measured on request, with progress and Stop.
"""

from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.record.visible import visible_keys, visible_tiles
from mha_viz.interventions.importance import HeadImportance, head_importance, importance_passes
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.find_the_head import numbers as game
from mha_viz.plots.static import TILE, grid_image, head_image
from mha_viz.plots.worksheet import SheetTask, worksheet
from mha_viz.ui.run import heavy, memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import links, own_address, selection, views
from mha_viz.ui.widgets.exports.downloads import safe_name
from mha_viz.ui.widgets.exports.share_link import sheet_buttons, show_link
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
OF_LOSS = {task.key for task in game.TASKS if task.needs == "loss"}


@dataclass(frozen=True)
class Exercise:
    """Keys of tasks in their order, and the seed of order and hints."""

    tasks: tuple[str, ...]
    seed: int
    link: str
    box: DeltaGenerator  # for what else a teacher needs


def exercise(choices: Choices, scene: Scene) -> Exercise:
    """Draw the tasks that a teacher may choose, and the link that carries them."""
    missing = {task.key: why for task in game.TASKS if (why := _missing(scene, task))}
    usual = [t.key for t in game.TASKS if t.key not in missing and t.needs != "loss"]
    raw_tasks = choices.get("tasks", "", _read_tasks)
    chosen = raw_tasks.split(",") if raw_tasks else usual
    box = st.expander("For teachers: tasks, link and printed sheets", icon=":material/school:")
    with box:

        def take(named: list[str]) -> None:
            picked = [task.key for task in game.TASKS if task.key in named]
            choices.set("tasks", "" if picked in ([], usual) else ",".join(picked))

        titles = {key: task.title for key, task in game.BY_KEY.items()}
        key, options = choices.key("tasks"), dict(format_func=titles.__getitem__)
        selection.control(
            key, st.multiselect, "Tasks", list(titles), value=chosen, take=take, **options
        )
        seed_help = TEXTS("exercise.seed")
        seed = choices.number("seed", "Seed", 0, 9_999, 0, width=160, help=seed_help)
        link = _link(choices.get("tasks", "", _read_tasks), seed)
        TEXTS.markdown("exercise.link")
        show_link(link, key=choices.key("link"))
    for key in chosen:
        if key in missing:
            st.caption(f"Left out: {game.BY_KEY[key].title}. {missing[key]}")
    tasks = game.shuffle_tasks([key for key in chosen if key not in missing], seed)
    return Exercise(tuple(tasks), seed, link, box)


def _read_tasks(raw: str) -> str:
    keys = raw.split(",") if raw else []
    if len(set(keys)) != len(keys) or not set(keys) <= set(game.BY_KEY):
        raise ValueError
    return raw


def _link(tasks: str, seed: int) -> str:
    """Return the address of this exercise: model, text, tasks and seed, no chosen heads."""
    view = replace(selection.of(views.View), layer=-1, head=-1, query=-1, key=-1, sort="", only="")
    more = {"tasks": tasks} if tasks else {}
    more |= {"seed": str(seed)} if seed else {}
    return f"{own_address.reached().url}?{urlencode(links.to_params(view) | more)}"


def _missing(scene: Scene, task: game.Task) -> str:
    """Return why a task cannot be set here; "" where it can."""
    record = scene.record
    if task.needs != "pattern":
        return ""
    scores = reporting.report(scene, selection.current()).scores
    if task.metric in scores and bool(scores[task.metric].isfinite().any()):
        return ""
    if record.is_cross:
        return TEXTS("missing.cross")
    if task.key == "next" and record.causal:
        return TEXTS("missing.next")
    return TEXTS("missing.duplicate" if task.key == "duplicate" else "missing.other")


def board(scene: Scene, key: str, importance: HeadImportance | None) -> game.Board | None:
    """Return the board of a task; None where it has no values, of a loss without `importance`."""
    task = game.BY_KEY[key]
    if task.needs == "loss":
        if importance is None:
            return None
        change = importance.mean if task.highest else importance.mean.abs()
        passing = ((change > game.SPARE_NATS) == task.highest).nonzero().tolist()
        return game.board_of_scores(task, change, [(layer, head) for layer, head in passing])

    def make() -> game.Board | None:
        if task.needs == "pairs":
            distance = reporting.likeness(scene, task.metric)
            return game.board_of_pairs(task, distance, scene.record.n_heads)
        report = reporting.report(scene, selection.current())
        return game.board_of_scores(
            task, report.scores[task.metric], game.labelled_heads(task, report.labels)
        )

    n, with_random = scene.head_count, reporting.has_random(selection.current())
    size = 200 * (n * n // 2 if task.needs == "pairs" else n)
    return reporting.cached(scene, "task", key, with_random, make=make, size=size)


def title(task: game.Task) -> str:
    """Return the name of a task's numbers."""
    if task.needs == "loss":
        return "change of the loss (nats per token)" if not task.highest else "rise of the loss"
    return METRICS[task.metric].title.lower()


def verdict(board: game.Board, answer: game.Answer) -> str:
    """Describe an answer: its rank, its value, and if it counts."""
    if not answer:
        return "No head does, indeed." if not board.passing else "Some head does."
    rank, total = board.rank(answer), len(board.values)
    of = f"rank {rank} of {total}, value {format_number(board.values[answer])}"
    if answer in board.passing:
        return f"{game.names(answer)}: {of}." + " It counts." * (len(answer) == 1)
    return f"{game.names(answer)}: {of}." + " No head counts here." * (not board.passing)


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


def downloads(scene: Scene, exercise: Exercise, boards: dict[str, game.Board]) -> None:
    """Draw the download buttons of the sheet for pupils and of the one with answers."""
    unseen = [board.task.title for board in boards.values() if not board.task.on_paper]
    boards = {key: board for key, board in boards.items() if board.task.on_paper}
    if unseen:
        titles = ", ".join(unseen)
        exercise.box.caption(f"Not on the sheets, because no picture shows it: {titles}.")
    if not boards:
        return
    file = safe_name(scene.record.model, "model")
    with exercise.box, st.container(horizontal=True):
        make = partial(sheet, scene, exercise.link, boards)
        sheet_buttons(make, f"find-the-head_{file}", key="find-the-head-sheet")


def sheet(scene: Scene, link: str, boards: dict[str, game.Board], answers: bool) -> str:
    """Return the printable exercise, HTML. Runs outside of the page: reads only its arguments."""
    record = scene.record
    about = [TEXTS("sheet.model", record=record)]
    about.append(f"Text: {record.text}" + f" | {record.text_pair}" * bool(record.text_pair))
    about.append(TEXTS("sheet.text"))
    if answers:
        about.append(f"Link: {link}")
    tasks = []
    for board in boards.values():
        shown = (_lines(board), _picture(scene, board)) if answers else ((), None)
        tasks.append(SheetTask(board.task.title, board.task.question, board.task.rule, *shown))
    return worksheet(
        "Find the head: answers" if answers else "Find the head",
        about,
        tasks,
        tokens=record.key_labels,
        grid=grid_image(record.tiles(TILE).numpy(), visible=visible_tiles(record, TILE)),
        answers=answers,
    )


def _lines(board: game.Board) -> tuple[str, ...]:
    value = format_number(board.values[board.best])
    first = f"{game.names(board.best)}: {title(board.task)} {value}"
    lead = "Answer: " if board.passing else "No head does. The nearest: "
    next_best = "; ".join(
        f"{game.names(a)} {format_number(board.values[a])}" for a in board.ranking[1:4]
    )
    lines = [f"{lead}{first}.", f"Next: {next_best}." if next_best else ""]
    if board.task.label:
        label = LABELS[board.task.label]
        lines.append(f"{len(board.passing)} of {len(board.values)} heads count as “{label.title}”.")
    return tuple(line for line in lines if line)


def _picture(scene: Scene, board: game.Board) -> bytes:
    record, head = scene.record, board.best[0]
    weights, labels = record.head(*head).numpy(), (record.labels, record.key_labels)
    caption, visible = words.settings(scene), visible_keys(record, head[0])
    return head_image(weights, labels, title=game.names((head,)), caption=caption, visible=visible)
