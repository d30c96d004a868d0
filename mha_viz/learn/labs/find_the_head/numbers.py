"""Lab 11: a game of finding heads: tasks, possible answers, hints and points."""

import math
import random
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from mha_viz.core.metrics import LABELS, METRICS, EarnedLabel
from mha_viz.errors import ArgumentError, ShapeError

Head = tuple[int, int]  # layer, head
Answer = tuple[Head, ...]  # one head, or two; none is "no head does"
HINT_COST = 10
N_HINTS = 3
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
    def may_be_none(self) -> bool:
        """True if "no head does" can be right."""
        return bool(self.label) or self.needs == "loss"

    @property
    def on_paper(self) -> bool:
        """True if pictures of all heads on the text can show the answer.

        Scores on a text of their own, and losses with heads off, are in no such picture.
        """
        return self.needs != "loss" and "period" not in METRICS[self.metric].needs

    @property
    def n_heads(self) -> int:
        """The number of heads that an answer names."""
        return 2 if self.needs == "pairs" else 1

    @property
    def rule(self) -> str:
        """The condition that a head must meet to count."""
        if self.label:
            kind = "broad" if self.key == "broad" else "label"
            least, title = LABELS[self.label].threshold, METRICS[self.metric].title
            return _RULES[kind].format(title=title, least=least)
        return _RULES[self.needs].format(sign="more" if self.highest else "less", least=SPARE_NATS)


_TABLES = tomllib.loads(Path(__file__).with_name("tasks.toml").read_text("utf-8"))
_RULES: dict[str, str] = _TABLES.pop("rules")
TASKS = tuple(
    Task(key, **table | {"hint": " ".join(table["hint"].split())}) for key, table in _TABLES.items()
)
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
        signed = sign * self._value(answer)
        return 1 + sum(sign * value > signed + _TIE for value in self.values.values())

    def share(self, answer: Answer) -> float:
        """Return the answer's place between the mean of all answers (0) and the best (1)."""
        mean = math.fsum(self.values.values()) / len(self.values)
        reach = self.values[self.best] - mean
        if abs(reach) <= _TIE:
            return 1.0
        return min(max((self._value(answer) - mean) / reach, 0.0), 1.0)

    def _value(self, answer: Answer) -> float:
        if answer not in self.values:
            raise ArgumentError(f"{names(answer)} is no answer to “{self.task.title}” here.")
        return self.values[answer]


def points(board: Board, answer: Answer, n_hints: int = 0) -> int:
    """Return an answer's points, 0 to 100; () is "no head does".

    Half of an answer's points are for its rank (1 / rank), half for its value (`Board.share`).
    Where any head that counts is right (a head that can go), all of them have 100. Where no head
    counts, "no head does" has 100, and a head half of what it would have. A hint costs 10.

    >>> board = board_of_scores(BY_KEY["self"], [[0.9, 0.1, 0.5]], [(0, 0), (0, 2)])
    >>> [points(board, ((0, head),)) for head in range(3)], points(board, ((0, 0),), n_hints=2)
    ([100, 17, 25], 80)
    """
    if not 0 <= n_hints <= N_HINTS:
        raise ArgumentError(f"there are 0 to {N_HINTS} hints, got {n_hints}.")
    if not answer:
        share = 0.0 if board.passing or not board.task.may_be_none else 1.0
    else:
        answer = tuple(sorted(answer))
        rank = board.rank(answer)
        share = 1.0 if rank == 1 else 0.5 / rank + 0.5 * board.share(answer)
        if answer in board.passing and board.task.key == "spare":
            share = 1.0
        if not board.passing:
            share /= 2
    return max(round(100 * share) - HINT_COST * n_hints, 0)


def board_of_scores(task: Task, scores: Any, passing: Collection[Head]) -> Board | None:
    """Make the board of a task about one head; None where no head has a score.

    `scores` are (layer, head), NaN is "not defined"; `passing` are the heads that count.

    >>> board_of_scores(BY_KEY["self"], [[0.2, 0.7]], []).best
    ((0, 1),)
    """
    rows = [list(row) for row in scores]
    if len({len(row) for row in rows}) != 1:
        raise ShapeError("scores must be (layer, head), of one length.")
    values: dict[Answer, float] = {
        ((layer, head),): float(value)
        for layer, row in enumerate(rows)
        for head, value in enumerate(row)
        if math.isfinite(float(value))
    }
    counts = frozenset((head,) for head in passing if (head,) in values)
    return Board(task, values, counts) if values else None


def board_of_pairs(task: Task, distance: Any, n_heads: int) -> Board | None:
    """Make the board of a task about two heads; the nearest pair is right.

    `distance` is (layer * head, layer * head). None where no pair has a value, all being NaN.

    >>> board_of_pairs(BY_KEY["twins"], [[0.0, 0.3], [0.3, 0.0]], n_heads=2).best
    ((0, 0), (0, 1))
    """
    values: dict[Answer, float] = {}
    for i, j in combinations(range(len(distance)), 2):
        if math.isfinite(value := float(distance[i][j])):
            values[(divmod(i, n_heads), divmod(j, n_heads))] = value
    if not values:
        return None
    board = Board(task, values, frozenset())
    return Board(task, values, frozenset([board.best]))


def labelled_heads(task: Task, labels: Sequence[Sequence[Sequence[EarnedLabel]]]) -> list[Head]:
    """Return the heads that have earned the task's label: labels[layer][head]."""
    return [
        (layer, head)
        for layer, row in enumerate(labels)
        for head, earned in enumerate(row)
        if any(earned_label.label.key == task.label for earned_label in earned)
    ]


def hints(board: Board, seed: int = 0) -> tuple[str, ...]:
    """Return three hints, each stronger: the picture, the layers, a few candidates.

    They do not tell whether the nearest head counts; that is part of the question.

    >>> board = board_of_scores(BY_KEY["self"], [[0.9, 0.1], [0.1, 0.2], [0.3, 0.3]], [(0, 0)])
    >>> hints(board)[2]
    'The nearest is one of L0 H0, L0 H1, L1 H1.'
    """
    draw = random.Random(f"{seed} {board.task.key}")
    best, layers = board.best, sorted({head[0] for answer in board.values for head in answer})
    best_layers = {layer for layer, _ in best}
    decoys = [layer for layer in layers if layer not in best_layers] if len(layers) > 2 else []
    near = sorted(best_layers | set(draw.sample(decoys, min(len(decoys), 1))))
    where = " or ".join(f"L{layer}" for layer in near)
    if board.task.n_heads == 2:
        second = f"They are in {' and '.join(f'L{layer}' for layer in sorted(best_layers))}."
        return board.task.hint, second, f"One of the two is {names(best[:1])}."
    other_answers = [answer for answer in board.values if answer != best]
    few = sorted([best, *draw.sample(other_answers, min(len(other_answers), 2))])
    third = f"The nearest is one of {', '.join(names(answer) for answer in few)}."
    return board.task.hint, f"The head that comes nearest is in {where}.", third


def shuffle_tasks(keys: Sequence[str], seed: int) -> list[str]:
    """Shuffle tasks by a seed; 0 leaves them as they are."""
    order = list(keys)
    if seed:
        random.Random(seed).shuffle(order)
    return order


def names(answer: Answer) -> str:
    """Write an answer in words.

    >>> names(((0, 1), (3, 7))), names(())
    ('L0 H1 and L3 H7', 'no head')
    """
    return " and ".join(f"L{layer} H{head}" for layer, head in answer) or "no head"
