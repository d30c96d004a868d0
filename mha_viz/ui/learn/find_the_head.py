"""Lab 11 on screen: the game, and what a teacher hands out. Boards are in `find_the_head_boards`.

The address says which tasks on which text; answers stay in the session, out of any link.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.labs.find_the_head import HINT_COST, Answer, Board, Head, hints, names, points
from mha_viz.labs.find_the_head_tasks import BY_KEY
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn import find_the_head_boards as boards
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.session import memory, reporting, state
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.widgets import picking, words
from mha_viz.ui.widgets.head_grid import head_grid
from mha_viz.web.payload import grid_payload
from mha_viz.web.theme import format_number

_GAMES = 8  # that a session remembers


@dataclass
class Game:
    """How far somebody is with the tasks of one model, text and seed."""

    place: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, list[Head]] = field(default_factory=dict)  # the last one is the newest


def draw(choices: Choices) -> None:
    """The exercise, then the game as a fragment of its own."""
    scene = picking.picked()
    if scene.head_count == 1:
        st.info("This model has one head: there is nothing to find. Take a larger one.")
        choices.publish()
        return
    exercise = boards.exercise(choices, scene)
    # Outside of the fragment: a button in one does not end its run, and Stop must.
    ready = boards.measure_loss(scene, exercise.tasks)
    found = {key: board for key in exercise.tasks if (board := boards.board(scene, key))}
    boards.downloads(scene, exercise, found)
    if ready:
        _rules()
        _predict(choices, scene)
        _play(choices, scene, found, exercise.seed)
    choices.publish()


def _rules() -> None:
    frame.step(
        "What a head does can be measured",
        "A picture shows what a head looks at on this text; a score says how well it does what is "
        "asked. The best head earns 100 points. Any other earns up to 50 for its rank and up to 50 "
        f"for its score, from the mean of all heads to the best. A hint costs {HINT_COST} points.",
        r"\text{points} = 100 \cdot \tfrac12 \Big(\frac{1}{\text{rank}} + "
        r"\frac{\text{value} - \text{mean}}{\text{best} - \text{mean}}\Big)",
    )


def _predict(choices: Choices, scene: Scene) -> None:
    labels = reporting.report(scene, state.current()).labels
    fixed = {"previous_token", "next_token", "self", "first_token"}
    count = sum(any(f.label.key in fixed for f in held) for row in labels for held in row)
    share = count / scene.head_count
    frame.predict(
        choices,
        "places",
        "How many heads give at least half of their weight to one fixed place: "
        "the token before, the token after, themselves or the first token?",
        ["Hardly any: under a tenth", "Some: a tenth to a half", "Most of them"],
        0 if share < 0.1 else 1 if share <= 0.5 else 2,
        f"On this text {count} of {scene.head_count} heads do, and do so more than heads that have "
        "learned nothing.",
    )


@frame.part
def _play(choices: Choices, scene: Scene, found: dict[str, Board], seed: int) -> None:
    if not found:
        st.info("There is no answer to these tasks on this model and text. Choose others.")
        return
    game, keys = _game(choices, scene, seed), list(found)
    game.place = min(game.place, len(keys) - 1)
    board = found[keys[game.place]]
    chosen = game.chosen.setdefault(board.task.key, list(board.start))
    _progress(game, found)
    st.header(f"Task {game.place + 1} of {len(keys)}: {board.task.title}", anchor=False)
    st.markdown(board.task.ask)
    st.caption(board.task.rule)
    for note in boards.notes(scene, board.task):
        st.caption(f":material/info: {note}")
    _grid(choices, scene, chosen)
    if board.task.key in game.answers:
        _result(choices, scene, game, board)
    else:
        _answer(choices, scene, game, board, seed)
    _onward(choices, game, keys)
    if all(key in game.answers for key in keys):
        _total(game, found)


def _game(choices: Choices, scene: Scene, seed: int) -> Game:
    games: dict[Any, Game] = st.session_state.setdefault(choices.key("games"), {})
    key = (scene.key, seed)
    if key not in games:
        games[key] = Game()
        for old in list(games)[:-_GAMES]:
            del games[old]
    return games[key]


def _scores(game: Game, found: dict[str, Board]) -> dict[str, int]:
    """Points of the tasks that are answered."""
    return {
        key: points(board, game.answers[key], game.hints.get(key, 0))
        for key, board in found.items()
        if key in game.answers
    }


def _progress(game: Game, found: dict[str, Board]) -> None:
    scores = _scores(game, found)
    st.progress(
        len(scores) / len(found),
        f"{len(scores)} of {len(found)} tasks answered · "
        f"{words.count(sum(scores.values()), 'point')}" + f" of {100 * len(scores)}" * bool(scores),
    )


def _grid(choices: Choices, scene: Scene, chosen: list[Head]) -> None:
    """All heads; a click chooses one. No scores on it: those are the question."""
    record = scene.record
    payload = memory.cache().get((scene.key, "game"), lambda: grid_payload(record), len)

    def take(head: Head) -> None:
        if head != chosen[-1]:
            chosen[:] = [*chosen[1:], head]

    head_grid(payload, selected=chosen[-1], key=choices.key("grid"), on_select=take)


# -- before the answer -----------------------------------------------------------------------------


def _answer(choices: Choices, scene: Scene, game: Game, board: Board, seed: int) -> None:
    task, chosen = board.task, game.chosen[board.task.key]
    n = task.n_heads
    with frame.row():
        for slot in range(n):
            _picker(choices, scene, chosen, slot, f" {slot + 1}" * (n > 1))
    answer: Answer = tuple(sorted(chosen))
    used = game.hints.get(task.key, 0)
    all_hints = hints(board, seed)

    @guarded
    def take(given: Answer) -> None:
        game.answers[task.key] = given

    @guarded
    def hint() -> None:
        game.hints[task.key] = min(game.hints.get(task.key, 0) + 1, len(all_hints))

    with st.container(horizontal=True):
        st.button(
            f"Answer: {names(answer)}",
            type="primary",
            key=choices.key("answer"),
            on_click=take,
            args=(answer,),
            disabled=answer not in board.values,
        )
        if task.may_be_nobody:
            st.button("No head does", key=choices.key("nobody"), on_click=take, args=((),))
        st.button(
            f"Hint (−{HINT_COST})",
            icon=":material/lightbulb:",
            key=choices.key("hint"),
            on_click=hint,
            disabled=used == len(all_hints),
        )
    if answer not in board.values:
        st.caption("Choose two different heads." if n == 2 else "This head has no such score.")
    for number, text in enumerate(all_hints[:used], 1):
        st.info(f"**Hint {number}.** {text}", icon=":material/lightbulb:")
    _pictures(choices, scene, [(names((head,)), head) for head in answer])


def _picker(choices: Choices, scene: Scene, chosen: list[Head], slot: int, which: str) -> None:
    """Layer and head of one chosen head, for those who do not click."""
    sizes = (("Layer", "L", scene.record.n_layers), ("Head", "H", scene.record.n_heads))
    for axis, (label, letter, size) in enumerate(sizes):
        key = choices.key(f"{label.lower()}-{slot}")

        def take(number: int, axis: int = axis) -> None:
            head = list(chosen[slot])
            head[axis] = number
            chosen[slot] = (head[0], head[1])

        state.control(
            key,
            st.selectbox,
            f"{label}{which}",
            list(range(size)),
            width=95,
            value=chosen[slot][axis],
            take=take,
            format_func=f"{letter}{{}}".format,
        )


def _pictures(choices: Choices, scene: Scene, titled: list[tuple[str, Head]]) -> None:
    """Heatmaps of one or two heads, side by side where there is room."""
    columns = st.columns(2) if len(titled) > 1 else [st.container()]
    for place, (column, (title, head)) in enumerate(zip(columns * 2, titled, strict=False)):
        with column:
            charts.head_picture(choices.key(f"picture-{place}"), scene.record, head, title)


# -- after it --------------------------------------------------------------------------------------


def _result(choices: Choices, scene: Scene, game: Game, board: Board) -> None:
    """Points, both values, and both pictures."""
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
    """The best answer and its value, and what heads score that have learned nothing."""
    metric = boards.title(board.task)
    best = board.best
    lead = "The best is" if board.passing else "No head does. The nearest is"
    text = f"{lead} **{names(best)}** with {metric} {format_number(board.values[best])}."
    if board.task.label:
        text += f" {len(board.passing)} of {len(board.values)} heads count."
        baseline = reporting.report(scene, state.current()).baselines.get(board.task.metric)
        known = words.baseline_values(baseline)
        known.pop(words.BASELINE_NAMES["offset"], None)  # no label is measured against that
        if known:
            each = ", ".join(f"{name} {format_number(value)}" for name, value in known.items())
            text += f" Heads that have learned nothing: {each}."
    elif board.task.needs == "loss":
        text += f" {len(board.passing)} of {len(board.values)} heads count."
    return text


def _onward(choices: Choices, game: Game, keys: list[str]) -> None:
    @guarded
    def go(step: int) -> None:
        game.place = (game.place + step) % len(keys)

    @guarded
    def restart() -> None:
        game.place, game.answers, game.hints, game.chosen = 0, {}, {}, {}

    with st.container(horizontal=True):
        if len(keys) > 1:
            st.button(
                "Task before",
                icon=":material/arrow_back:",
                key=choices.key("back"),
                on_click=go,
                args=(-1,),
            )
            st.button(
                "Next task",
                icon=":material/arrow_forward:",
                key=choices.key("next"),
                on_click=go,
                args=(1,),
            )
        st.button(
            "Start anew",
            icon=":material/restart_alt:",
            key=choices.key("restart"),
            on_click=restart,
            disabled=not (game.answers or game.hints),
        )


def _total(game: Game, found: dict[str, Board]) -> None:
    scores = _scores(game, found)
    st.header(f"Total: {sum(scores.values())} of {100 * len(scores)} points", anchor=False)
    rows = [
        (
            BY_KEY[key].title,
            names(game.answers[key]),
            names(found[key].best) if found[key].passing else "no head",
            game.hints.get(key, 0),
            scores[key],
        )
        for key in found
    ]
    st.dataframe(
        pd.DataFrame(rows, columns=["Task", "Your answer", "Right", "Hints", "Points"]),
        hide_index=True,
        width="stretch",
    )
