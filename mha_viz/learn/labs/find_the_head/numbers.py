"""Lab 11: a game of finding heads: tasks, possible answers, hints and points."""

import math
import random
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.errors import ArgumentError

Head = tuple[int, int]  # layer, head
Answer = tuple[Head, ...]  # one head, or two; none is "no head does"
HINT_COST = 10
_TIE = 1e-6  # values that differ by less are one
SPARE_NATS = 0.01  # nats per token: a change of the loss that counts as none


@dataclass(frozen=True)
class Task:
    """A behaviour to find a head for.

    Args:
        key, title, question: its names, and what it asks.
        hint: what its picture looks like; the first hint.
        metric: what is compared, and `unit` of it.
        label: the label that a head must have to count; "" where the best is right, whoever it is.
        highest: the best head has the most of it, else the least.
        needs: "pattern", "pairs" or "loss".
    """

    key: str
    title: str
    question: str
    hint: str
    metric: str
    label: str = ""
    highest: bool = True
    needs: str = "pattern"

    @property
    def is_pair(self) -> bool:
        """True if an answer names two heads; for one, "no head does" can be right."""
        return self.needs == "pairs"

    @property
    def on_paper(self) -> bool:
        """True if pictures of all heads on the text can show the answer.

        Scores on a text of their own, and losses with heads off, are in no such picture.
        """
        return self.needs != "loss" and "period" not in METRICS[self.metric].needs

    @property
    def rule(self) -> str:
        """The condition that a head must meet to count."""
        values: dict[str, Any] = {"sign": "more" if self.highest else "less", "least": SPARE_NATS}
        if self.label:
            values["title"] = METRICS[self.metric].title
            values["least"] = LABELS[self.label].threshold
        kind = "broad" if self.key == "broad" else "label" if self.label else self.needs
        return _RULES[kind].format(**values)


_TABLES = tomllib.loads(Path(__file__).with_name("tasks.toml").read_text("utf-8"))
_RULES: dict[str, str] = _TABLES.pop("rules")
TASKS = tuple(Task(key, **table) for key, table in _TABLES.items())
BY_KEY = {task.key: task for task in TASKS}


@dataclass(frozen=True)
class Board:
    """A task on one model and text: every possible answer with its value.

    Args:
        values: answer -> value, in the metric's unit; all finite, at least one.
        passing: the answers that count; empty where no head does what is asked.
    """

    task: Task
    values: Mapping[Answer, float]
    passing: frozenset[Answer]

    @property
    def ranking(self) -> list[Answer]:
        """All answers, the best first; by layer and head where they are as good."""
        sign = -1.0 if self.task.highest else 1.0
        return sorted(self.values, key=lambda answer: (sign * self.values[answer], answer))

    @property
    def best(self) -> Answer:
        """The first of the ranking."""
        return self.ranking[0]

    @property
    def start(self) -> Answer:
        """The answer shown before anybody has chosen, which never has all points."""
        middle = self.ranking[len(self.values) // 2]
        return self.ranking[-1] if middle in self.passing else middle

    def rank(self, answer: Answer) -> int:
        """Return 1 for the best; equal values share a rank."""
        sign = 1.0 if self.task.highest else -1.0
        return 1 + sum(sign * (x - self.values[answer]) > _TIE for x in self.values.values())

    def share(self, answer: Answer) -> float:
        """Return the answer's place between the mean of all answers (0) and the best (1)."""
        mean = math.fsum(self.values.values()) / len(self.values)
        reach = self.values[self.best] - mean
        if abs(reach) <= _TIE:
            return 1.0
        return min(max((self.values[answer] - mean) / reach, 0.0), 1.0)


def points(board: Board, answer: Answer, n_hints: int = 0) -> int:
    """Return an answer's points, 0 to 100; () is "no head does".

    Half of an answer's points are for its rank (1 / rank), half for its value (`Board.share`).
    Where any head that counts is right (a head that can go), all of them have 100. Where no head
    counts, "no head does" has 100, and a head half of what it would have. A hint costs 10.

    >>> board = make_board(BY_KEY["self"], head_values([[0.9, 0.1, 0.5]]), [((0, 0),), ((0, 2),)])
    >>> [points(board, ((0, head),)) for head in range(3)], points(board, ((0, 0),), n_hints=2)
    ([100, 17, 25], 80)
    """
    if not answer:
        share = 0.0 if board.passing or board.task.is_pair else 1.0
    else:
        answer = tuple(sorted(answer))
        if answer not in board.values:
            raise ArgumentError(f"{names(answer)} is no answer to “{board.task.title}” here.")
        rank = board.rank(answer)
        share = 1.0 if rank == 1 else 0.5 / rank + 0.5 * board.share(answer)
        if answer in board.passing and board.task.key == "spare":
            share = 1.0
        if not board.passing:
            share /= 2
    return max(round(100 * share) - HINT_COST * n_hints, 0)


def make_board(
    task: Task, values: Mapping[Answer, float], passing: Collection[Answer] = ()
) -> Board | None:
    """Make a task's board; None where no answer has a value, all being NaN.

    `passing` are the heads that count. Of pairs the best one does.

    >>> make_board(BY_KEY["self"], head_values([[0.2, 0.7]])).best
    ((0, 1),)
    """
    finite = {answer: value for answer, value in values.items() if math.isfinite(value)}
    if not finite:
        return None
    board = Board(task, finite, frozenset(passing).intersection(finite))
    return replace(board, passing=frozenset([board.best])) if task.is_pair else board


def head_values(scores: Any) -> dict[Answer, float]:
    """Return the values of one head each, from (layer, head)."""
    return {(head,): float(x) for head, x in np.ndenumerate(np.asarray(scores, float))}


def pair_values(distance: Any, n_heads: int) -> dict[Answer, float]:
    """Return the values of two heads each, from (layer * head, layer * head).

    >>> pair_values([[0.0, 0.3], [0.3, 0.0]], n_heads=2)
    {((0, 0), (0, 1)): 0.3}
    """
    return {
        (divmod(i, n_heads), divmod(j, n_heads)): float(distance[i][j])
        for i, j in combinations(range(len(distance)), 2)
    }


def hints(board: Board, seed: int = 0) -> tuple[str, ...]:
    """Return three hints, each stronger: the picture, the layers, a few candidates.

    They do not tell whether the nearest head counts; that is part of the question.

    >>> values = head_values([[0.9, 0.1], [0.1, 0.2], [0.3, 0.3]])
    >>> board = make_board(BY_KEY["self"], values, [((0, 0),)])
    >>> hints(board)[2]
    'The nearest is one of L0 H0, L0 H1, L1 H1.'
    """
    draw = random.Random(f"{seed} {board.task.key}")
    best, layers = board.best, {head[0] for answer in board.values for head in answer}
    best_layers = {layer for layer, _ in best}
    decoys = sorted(layers - best_layers) if len(layers) > 2 else []
    near = sorted(best_layers | set(draw.sample(decoys, min(len(decoys), 1))))
    if board.task.is_pair:
        second = f"They are in {' and '.join(f'L{layer}' for layer in sorted(best_layers))}."
        return board.task.hint, second, f"One of the two is {names(best[:1])}."
    other_answers = [answer for answer in board.values if answer != best]
    few = sorted([best, *draw.sample(other_answers, min(len(other_answers), 2))])
    second = f"The head that comes nearest is in {' or '.join(f'L{layer}' for layer in near)}."
    return board.task.hint, second, f"The nearest is one of {', '.join(map(names, few))}."


def names(answer: Answer) -> str:
    """Write an answer in words.

    >>> names(((0, 1), (3, 7))), names(())
    ('L0 H1 and L3 H7', 'no head')
    """
    return " and ".join(f"L{layer} H{head}" for layer, head in answer) or "no head"


@dataclass
class Game:
    """Progress with the tasks of one model, text and seed.

    Args:
        number: of the task that is open, from 0.
        answers, hints: by task, what was answered and how many hints were taken.
        chosen: by task the heads that are shown, the newest last.
    """

    number: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    chosen: dict[str, list[Head]] = field(default_factory=dict)

    def points(self, boards: Mapping[str, Board]) -> dict[str, int]:
        """Return the points of each task that is answered."""
        return {
            key: points(board, self.answers[key], self.hints.get(key, 0))
            for key, board in boards.items()
            if key in self.answers
        }
