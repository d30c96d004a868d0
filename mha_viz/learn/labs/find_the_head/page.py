"""The page of lab 11: the game, and links and sheets for teachers.

The address says which tasks on which text; answers stay in the session, out of any link.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.labs.find_the_head import boards, teachers
from mha_viz.learn.labs.find_the_head.boards import TEXTS
from mha_viz.learn.labs.find_the_head.numbers import HINT_COST, Board, Game, Head, hints, names
from mha_viz.ui.heads import picking
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.head_grid import head_grid
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.web.payload import grid_payload

Acts = dict[str, tuple[Callable[[], object], bool]]  # buttons by their names, and if they are off


def draw(choices: Choices) -> None:
    """Draw the exercise, then the game as a fragment of its own."""
    scene = picking.picked()
    if scene.head_count == 1:
        st.info(TEXTS("nothing.one_head"))
        return
    exercise = teachers.exercise(choices, scene)
    # Outside of the fragment: a button in one does not end its run, and Stop must.
    loss = boards.measure_loss(choices, scene, exercise.tasks)
    task_boards = {key: b for key in exercise.tasks if (b := boards.board(scene, key, loss))}
    teachers.downloads(scene, exercise, task_boards)
    if task_boards or not boards.OF_LOSS & set(exercise.tasks):
        play = partial(_play, choices, scene, task_boards, exercise.seed)
        look.beside([2, 3], partial(_predict, choices, scene), play)
    TEXTS.fold(choices, "points", hint_cost=HINT_COST)


def _predict(choices: Choices, scene: Scene) -> None:
    report = reporting.report(scene, selection.current())
    fixed = ("previous_token", "next_token", "self", "first_token")
    count = len({head for label in fixed for head in reporting.of_kind(report, label)})
    n = scene.head_count
    right = 0 if count / n < 0.1 else 1 if count / n <= 0.5 else 2
    TEXTS.predict(choices, "places", right=right, count=count, n_heads=n)


@layout.part
def _play(choices: Choices, scene: Scene, task_boards: dict[str, Board], seed: int) -> None:
    if not task_boards:
        st.info(TEXTS("nothing.no_task"))
        return
    games, key, n = progress.results("games"), (scene.key, seed), len(task_boards)
    game: Game = games.setdefault(key, Game())
    game.number = min(game.number, n - 1)
    board = list(task_boards.values())[game.number]
    task, points = board.task, game.points(task_boards)
    earned = words.count(sum(points.values()), "point") + f" of {100 * len(points)}" * bool(points)
    st.progress(len(points) / n, TEXTS("game.progress", done=len(points), n=n, earned=earned))
    TEXTS.header("game.title", number=game.number + 1, n=n, task=task)
    st.markdown(task.question)
    st.caption(task.rule)
    if task.key == "induction" and "duplicate_token" not in scene.facts:
        TEXTS.caption("induction.note")
    _grid(choices, scene, game.chosen.setdefault(task.key, list(board.start)))
    (_result if task.key in game.answers else _answer)(choices, scene, game, board, seed)
    ways = (("back", -1), ("next", 1)) if n > 1 else ()
    turn, begun = partial(setattr, game, "number"), bool(game.answers or game.hints)
    acts: Acts = {name: (partial(turn, (game.number + step) % n), False) for name, step in ways}
    _buttons(choices, acts | {"restart": (partial(games.__setitem__, key, Game()), not begun)})
    if len(points) == n:
        TEXTS.header("game.total", points=sum(points.values()), most=100 * n)
        rows = []
        for task_key, b in task_boards.items():
            answers = names(game.answers[task_key]), names(b.best if b.passing else ())
            rows.append((b.task.title, *answers, game.hints.get(task_key, 0), points[task_key]))
        st.dataframe(TEXTS.table("game.columns", rows), hide_index=True, width="stretch")


def _buttons(choices: Choices, acts: Acts, **values: object) -> None:
    """Draw buttons that the texts declare, in a row."""
    with st.container(horizontal=True):
        for name, (act, disabled) in acts.items():
            texts = TEXTS.control(name, **values)
            st.button(**texts, key=choices.key(name), on_click=guarded(act), disabled=disabled)


def _grid(choices: Choices, scene: Scene, chosen: list[Head]) -> None:
    """Draw all heads, without their scores; a click chooses one."""
    payload = memory.cache().get((scene.key, "game"), lambda: grid_payload(scene.record), len)

    def take(head: Head) -> None:
        if head != chosen[-1]:
            chosen[:] = [*chosen[1:], head]

    head_grid(payload, selected=chosen[-1], key=choices.key("grid"), on_select=take)


def _answer(choices: Choices, scene: Scene, game: Game, board: Board, seed: int) -> None:
    """Draw what chooses an answer, the buttons that give it, and the pictures of its heads."""
    task, record, chosen = board.task, scene.record, game.chosen[board.task.key]
    heads = [(layer, head) for layer in range(record.n_layers) for head in range(record.n_heads)]
    with layout.row():
        for slot, head in enumerate(chosen):
            title = "Head" + f" {slot + 1}" * task.is_pair
            shown: dict[str, Any] = {"format_func": lambda head: names((head,)), "width": 130}
            shown |= {"value": head, "take": partial(chosen.__setitem__, slot)}
            selection.control(choices.key(f"head-{slot}"), st.selectbox, title, heads, **shown)
    answer, used, all_hints = tuple(sorted(chosen)), game.hints.get(task.key, 0), hints(board, seed)
    give = partial(game.answers.__setitem__, task.key)
    acts: Acts = {"answer": (partial(give, answer), answer not in board.values)}
    if not task.is_pair:
        acts["nobody"] = partial(give, ()), False
    acts["hint"] = partial(game.hints.__setitem__, task.key, used + 1), used == len(all_hints)
    _buttons(choices, acts, answer=names(answer), cost=HINT_COST)
    if answer not in board.values:
        TEXTS.caption("nothing.one_pair" if task.is_pair else "nothing.no_score")
    for number, text in enumerate(all_hints[:used], 1):
        st.info(f"**Hint {number}.** {text}", icon=":material/lightbulb:")
    _pictures(choices, scene, [(names((head,)), head) for head in answer])


def _result(choices: Choices, scene: Scene, game: Game, board: Board, _: int) -> None:
    """Draw the points of the answer given, the right one, and the pictures of both."""
    answer, used = game.answers[board.task.key], game.hints.get(board.task.key, 0)
    points, best = game.points({board.task.key: board})[board.task.key], board.best
    verdict = f"**{words.count(points, 'point')}.** {boards.verdict(board, answer)}"
    verdict += f" {words.count(used, 'hint')} cost {HINT_COST * used}." * bool(used)
    (st.success if points >= 50 else st.warning)(verdict, icon=":material/flag:")
    st.markdown(boards.truth(scene, board))
    lead = "Best" if board.passing else "Nearest"
    titled = [(f"Yours: {names((head,))}", head) for head in answer if head not in best]
    titled += [(f"{lead}: {names((head,))}", head) for head in best]
    _pictures(choices, scene, titled)


def _pictures(choices: Choices, scene: Scene, titled: list[tuple[str, Head]]) -> None:
    """Draw heatmaps of heads, two beside each other where there is room."""
    width = 270 if len(titled) > 1 else None
    columns = [c for _ in titled[::2] for c in st.columns(2)] if width else [st.container()]
    for number, (column, (title, head)) in enumerate(zip(columns, titled, strict=False)):
        with column:
            charts.head_picture(choices.key(f"picture-{number}"), scene.record, head, title, width)
