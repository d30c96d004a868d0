"""The page of lab 11: the game, and links and sheets for teachers.

The address says which tasks on which text; answers stay in the session, out of any link.
"""

from dataclasses import dataclass, field
from functools import partial

import pandas as pd
import streamlit as st

from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.find_the_head import boards
from mha_viz.learn.labs.find_the_head.numbers import (
    HINT_COST,
    Answer,
    Board,
    Head,
    hints,
    names,
    points,
)
from mha_viz.ui.heads import picking
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.head_grid import head_grid
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.web.payload import grid_payload
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)


@dataclass
class Game:
    """Progress with the tasks of one model, text and seed."""

    number: int = 0  # of the task that is open
    answers: dict[str, Answer] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, list[Head]] = field(default_factory=dict)  # the last one is the newest


def draw(choices: Choices) -> None:
    """Draw the exercise, then the game as a fragment of its own."""
    scene = picking.picked()
    if scene.head_count == 1:
        st.info(TEXTS("nothing.one_head"))
        return
    exercise = boards.exercise(choices, scene)
    # Outside of the fragment: a button in one does not end its run, and Stop must.
    loss = boards.measure_loss(choices, scene, exercise.tasks)
    drawn = ((key, boards.board(scene, key, loss)) for key in exercise.tasks)
    task_boards = {key: board for key, board in drawn if board}
    boards.downloads(scene, exercise, task_boards)
    if task_boards or not boards.OF_LOSS & set(exercise.tasks):
        play = partial(_play, choices, scene, task_boards, exercise.seed)
        look.beside([2, 3], partial(_predict, choices, scene), play)
    TEXTS.fold(choices, "points", hint_cost=HINT_COST)


def _predict(choices: Choices, scene: Scene) -> None:
    labels = reporting.report(scene, selection.current()).labels
    fixed = {"previous_token", "next_token", "self", "first_token"}
    count = sum(any(f.label.key in fixed for f in earned) for row in labels for earned in row)
    share = count / scene.head_count
    right = 0 if share < 0.1 else 1 if share <= 0.5 else 2
    TEXTS.predict(choices, "places", right=right, count=count, n_heads=scene.head_count)


@layout.part
def _play(choices: Choices, scene: Scene, task_boards: dict[str, Board], seed: int) -> None:
    if not task_boards:
        st.info(TEXTS("nothing.no_task"))
        return
    games = progress.results("games")
    if (scene.key, seed) not in games:
        games[scene.key, seed] = Game()
    game: Game = games[scene.key, seed]
    keys = list(task_boards)
    game.number = min(game.number, len(keys) - 1)
    board = task_boards[keys[game.number]]
    chosen = game.chosen.setdefault(board.task.key, list(board.start))
    scores = _scores(game, task_boards)
    earned = words.count(sum(scores.values()), "point") + f" of {100 * len(scores)}" * bool(scores)
    answered = f"{len(scores)} of {len(task_boards)} tasks answered"
    st.progress(len(scores) / len(task_boards), f"{answered} · {earned}")
    st.header(f"Task {game.number + 1} of {len(keys)}: {board.task.title}", anchor=False)
    st.markdown(board.task.question)
    st.caption(board.task.rule)
    if board.task.key == "induction" and "duplicate_token" not in scene.facts:
        TEXTS.caption("induction.note")
    _grid(choices, scene, chosen)
    if board.task.key in game.answers:
        _result(choices, scene, game, board)
    else:
        _answer(choices, scene, game, board, seed)
    _onward(choices, game, keys)
    if all(key in game.answers for key in keys):
        _total(game, task_boards, scores)


def _scores(game: Game, task_boards: dict[str, Board]) -> dict[str, int]:
    return {
        key: points(board, game.answers[key], game.hints.get(key, 0))
        for key, board in task_boards.items()
        if key in game.answers
    }


def _grid(choices: Choices, scene: Scene, chosen: list[Head]) -> None:
    """Draw all heads, without their scores; a click chooses one."""
    record = scene.record
    payload = memory.cache().get((scene.key, "game"), lambda: grid_payload(record), len)

    def take(head: Head) -> None:
        if head != chosen[-1]:
            chosen[:] = [*chosen[1:], head]

    head_grid(payload, selected=chosen[-1], key=choices.key("grid"), on_select=take)


def _answer(choices: Choices, scene: Scene, game: Game, board: Board, seed: int) -> None:
    task, chosen = board.task, game.chosen[board.task.key]
    with layout.row():
        for slot in range(task.n_heads):
            _picker(choices, scene, chosen, slot, f" {slot + 1}" * (task.n_heads > 1))
    answer: Answer = tuple(sorted(chosen))
    allowed = answer in board.values
    used, all_hints = game.hints.get(task.key, 0), hints(board, seed)

    @guarded
    def take(chosen_answer: Answer) -> None:
        game.answers[task.key] = chosen_answer

    @guarded
    def hint() -> None:
        game.hints[task.key] = min(game.hints.get(task.key, 0) + 1, len(all_hints))

    with st.container(horizontal=True):
        label, key = f"Answer: {names(answer)}", choices.key("answer")
        st.button(
            label, key=key, type="primary", on_click=take, args=(answer,), disabled=not allowed
        )
        if task.may_be_none:
            st.button("No head does", key=choices.key("nobody"), on_click=take, args=((),))
        label, key, spent = f"Hint (−{HINT_COST})", choices.key("hint"), used == len(all_hints)
        st.button(label, icon=":material/lightbulb:", key=key, on_click=hint, disabled=spent)
    if not allowed:
        TEXTS.caption("nothing.one_pair" if task.n_heads == 2 else "nothing.no_score")
    for number, text in enumerate(all_hints[:used], 1):
        st.info(f"**Hint {number}.** {text}", icon=":material/lightbulb:")
    _pictures(choices, scene, [(names((head,)), head) for head in answer])


def _picker(choices: Choices, scene: Scene, chosen: list[Head], slot: int, suffix: str) -> None:
    sizes = (("Layer", "L", scene.record.n_layers), ("Head", "H", scene.record.n_heads))
    for axis, (label, letter, size) in enumerate(sizes):
        key = choices.key(f"{label.lower()}-{slot}")

        def take(number: int, axis: int = axis) -> None:
            layer, head = chosen[slot]
            chosen[slot] = (layer, number) if axis else (number, head)

        value, shown = chosen[slot][axis], dict(width=95, format_func=f"{letter}{{}}".format)
        numbers, title = list(range(size)), f"{label}{suffix}"
        selection.control(key, st.selectbox, title, numbers, value=value, take=take, **shown)


def _pictures(choices: Choices, scene: Scene, titled: list[tuple[str, Head]]) -> None:
    """Draw heatmaps of one or two heads, side by side where there is room."""
    width, record = 270 if len(titled) > 1 else None, scene.record
    columns = st.columns(2) if width else [st.container()]
    for number, (column, (title, head)) in enumerate(zip(columns * 2, titled, strict=False)):
        with column:
            key = choices.key(f"picture-{number}")
            charts.head_picture(key, record, head, title, width)


def _result(choices: Choices, scene: Scene, game: Game, board: Board) -> None:
    answer, used = game.answers[board.task.key], game.hints.get(board.task.key, 0)
    got = points(board, answer, used)
    kind = st.success if got >= 50 else st.warning
    less = f" {words.count(used, 'hint')} cost {HINT_COST * used}." * bool(used)
    earned = words.count(got, "point")
    kind(f"**{earned}.** {boards.verdict(board, answer)}{less}", icon=":material/flag:")
    st.markdown(_truth(scene, board))
    best = board.best
    if board.task.n_heads == 2:
        titled = [(f"Best: {names((head,))}", head) for head in best]
    elif not answer or answer == best:
        titled = [(f"{'Nearest' if not board.passing else 'Best'}: {names(best)}", best[0])]
    else:
        titled = [(f"Yours: {names(answer)}", answer[0]), (f"Best: {names(best)}", best[0])]
    _pictures(choices, scene, titled)


def _truth(scene: Scene, board: Board) -> str:
    """Describe the best answer and its value beside untrained baselines."""
    metric, best = boards.title(board.task), board.best
    lead = "The best is" if board.passing else "No head does. The nearest is"
    text = f"{lead} **{names(best)}** with {metric} {format_number(board.values[best])}."
    if board.task.may_be_none:
        text += f" {len(board.passing)} of {len(board.values)} heads count."
    if board.task.label:
        baseline = reporting.report(scene, selection.current()).baselines.get(board.task.metric)
        untrained = words.baseline_values(baseline)
        untrained.pop(words.BASELINE_NAMES["offset"], None)  # no label is measured against that
        if untrained:
            each = ", ".join(f"{name} {format_number(value)}" for name, value in untrained.items())
            text += f" Heads that have learned nothing: {each}."
    return text


def _onward(choices: Choices, game: Game, keys: list[str]) -> None:
    @guarded
    def go(step: int) -> None:
        game.number = (game.number + step) % len(keys)

    @guarded
    def restart() -> None:
        game.number, game.answers, game.hints, game.chosen = 0, {}, {}, {}

    ways = ("Previous task", "back", -1), ("Next task", "forward", 1)
    with st.container(horizontal=True):
        for label, way, step in ways if len(keys) > 1 else ():
            icon, key = f":material/arrow_{way}:", choices.key("next" if step > 0 else "back")
            st.button(label, icon=icon, key=key, on_click=go, args=(step,))
        icon, begun = ":material/restart_alt:", bool(game.answers or game.hints)
        key = choices.key("restart")
        st.button("Start over", icon=icon, key=key, on_click=restart, disabled=not begun)


def _total(game: Game, task_boards: dict[str, Board], scores: dict[str, int]) -> None:
    st.header(f"Total: {sum(scores.values())} of {100 * len(scores)} points", anchor=False)
    rows = []
    for key, board in task_boards.items():
        right = names(board.best if board.passing else ())
        hints_used = game.hints.get(key, 0)
        rows.append((board.task.title, names(game.answers[key]), right, hints_used, scores[key]))
    table = pd.DataFrame(rows, columns=["Task", "Your answer", "Right", "Hints", "Points"])
    st.dataframe(table, hide_index=True, width="stretch")
