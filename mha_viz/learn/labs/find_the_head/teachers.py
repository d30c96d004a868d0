"""Lab 11 for teachers: the tasks that they choose, the link to these, and sheets to print."""

import random
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mha_viz.core.metrics import LABELS
from mha_viz.core.record.visible import visible_keys, visible_tiles
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.labs.find_the_head import numbers as game
from mha_viz.learn.labs.find_the_head.boards import TEXTS, missing, title
from mha_viz.learn.labs.find_the_head.numbers import Board
from mha_viz.plots.static import TILE, grid_image, head_image
from mha_viz.plots.worksheet import SheetTask, worksheet
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection, views
from mha_viz.ui.widgets.exports.downloads import link, safe_name
from mha_viz.ui.widgets.exports.share_link import sheet_buttons, show_link
from mha_viz.ui.widgets.messages import words
from mha_viz.web.theme import format_number


@dataclass(frozen=True)
class Exercise:
    """Keys of tasks in their order, and the seed of order and hints."""

    tasks: tuple[str, ...]
    seed: int
    link: str
    box: DeltaGenerator  # for what else a teacher needs


def exercise(choices: Choices, scene: Scene) -> Exercise:
    """Draw the tasks that a teacher may choose, and the link that carries them."""
    reasons = {task.key: why for task in game.TASKS if (why := missing(scene, task))}
    usual = [t.key for t in game.TASKS if t.key not in reasons and t.needs != "loss"]
    with (box := st.expander(TEXTS("exercise.title"), icon=":material/school:")):
        titles = {key: task.title for key, task in game.BY_KEY.items()}
        chosen = TEXTS.choose(choices, "tasks", options=titles, usual=usual)
        seed = TEXTS.choose(choices, "seed")
        view = replace(selection.of(views.View), layer=-1, head=-1, query=-1, key=-1)
        more = {"tasks": ",".join(chosen) * (chosen != usual), "seed": str(seed) * bool(seed)}
        named = urlencode({name: value for name, value in more.items() if value})
        address = link(replace(view, sort="", only="")) + f"&{named}" * bool(named)
        TEXTS.markdown("exercise.link")
        show_link(address, key=choices.key("link"))
    for key in filter(reasons.__contains__, chosen):
        st.caption(f"Left out: {titles[key]}. {reasons[key]}")
    tasks = [key for key in chosen if key not in reasons]
    if seed:
        random.Random(seed).shuffle(tasks)
    return Exercise(tuple(tasks), seed, address, box)


def downloads(scene: Scene, exercise: Exercise, boards: dict[str, Board]) -> None:
    """Draw the download buttons of the sheet for pupils and of the one with answers."""
    on_paper = [board for board in boards.values() if board.task.on_paper]
    unseen = [board.task.title for board in boards.values() if not board.task.on_paper]
    if unseen:
        exercise.box.caption(TEXTS("sheet.unseen", titles=", ".join(unseen)))
    if on_paper:
        file = safe_name(scene.record.model, "model")
        with exercise.box, st.container(horizontal=True):
            make = partial(sheet, scene, exercise.link, on_paper)
            sheet_buttons(make, f"find-the-head_{file}", key="find-the-head-sheet")


def sheet(scene: Scene, address: str, boards: list[Board], answers: bool) -> str:
    """Return the printable exercise, HTML. Runs outside of the page: reads only its arguments."""
    record = scene.record
    pair = f" | {record.text_pair}" * bool(record.text_pair)
    about = [TEXTS("sheet.model", record=record), f"Text: {record.text}{pair}", TEXTS("sheet.text")]
    tasks = []
    for board in boards:
        texts = board.task.title, board.task.question, board.task.rule
        tasks.append(SheetTask(*texts, *(_solution(scene, board) if answers else ())))
    return worksheet(
        TEXTS("sheet.answers" if answers else "sheet.title"),
        [*about, f"Link: {address}"] if answers else about,
        tasks,
        tokens=record.key_labels,
        grid=grid_image(record.tiles(TILE).numpy(), visible=visible_tiles(record, TILE)),
        answers=answers,
    )


def _solution(scene: Scene, board: Board) -> tuple[tuple[str, ...], bytes]:
    """Write a task's answer, those that come next, and how many heads count; draw the best one."""
    record, best, task = scene.record, board.best, board.task
    values = {answer: format_number(board.values[answer]) for answer in board.ranking[:4]}
    named = {"names": game.names(best), "metric": title(task), "value": values.pop(best)}
    lines = [TEXTS("sheet.answer" if board.passing else "sheet.nearest", **named)]
    if values:
        next_best = "; ".join(f"{game.names(answer)} {value}" for answer, value in values.items())
        lines.append(TEXTS("sheet.next", others=next_best))
    if task.label:
        counted = {"n_passing": len(board.passing), "n": len(board.values)}
        lines.append(TEXTS("sheet.label", label=LABELS[task.label], **counted))
    weights, labels = record.head(*best[0]).numpy(), (record.labels, record.key_labels)
    name, caption = game.names(best[:1]), words.settings(scene)
    visible = visible_keys(record, best[0][0])
    return tuple(lines), head_image(weights, labels, title=name, caption=caption, visible=visible)
