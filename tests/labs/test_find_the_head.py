"""Lab 11: boards, points, hints; and that the best head is the one that the metric says."""

import math
from itertools import combinations

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.core.metrics import LABELS
from mha_viz.errors import ArgumentError
from mha_viz.learn.labs.find_the_head import numbers as game
from mha_viz.learn.labs.find_the_head.numbers import (
    BY_KEY,
    TASKS,
    head_values,
    make_board,
    pair_values,
    points,
)
from mha_viz.reports.report import report
from mha_viz.ui.run.reporting import of_kind

TEXT = "The old dog slept while the young cat watched the old dog."
SELF = BY_KEY["self"]


def test_tasks_on_paper_are_those_that_the_patterns_alone_answer():
    scores = report(mv.load("tiny-bert").trace(TEXT)).scores
    on_paper = {task.key for task in TASKS if task.on_paper}
    assert on_paper == {t.key for t in TASKS if t.needs == "pairs" or t.metric in scores}


@pytest.mark.parametrize("name", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_the_best_head_is_the_metric_s_and_has_100_points(name):
    model = mv.load(name)
    record = model.trace(TEXT)
    found = report(record, model)
    for task in TASKS:
        if task.needs != "pattern" or task.metric not in found.scores:
            continue
        scores = found.scores[task.metric]
        passing = [(one,) for one in of_kind(found, task.label)]
        board = make_board(task, head_values(scores), passing)
        layer, head = divmod(int(scores.argmax()), record.n_heads)
        assert board.best == ((layer, head),)
        assert points(board, board.best) == (100 if board.passing else 50)
        assert points(board, ()) == (0 if board.passing else 100)
        for (one,) in board.passing:
            assert scores[one] >= LABELS[task.label].threshold


def test_points_are_half_rank_and_half_value():
    board = make_board(SELF, head_values([[0.9, 0.1], [0.6, 0.4]]), [((0, 0),)])  # mean 0.5
    assert points(board, ((0, 0),)) == 100
    assert points(board, ((1, 0),)) == round(100 * (0.5 / 2 + 0.5 * 0.25))
    assert points(board, ((1, 1),)) == round(100 * (0.5 / 3))
    assert points(board, ((0, 1),)) == round(100 * (0.5 / 4))
    assert points(board, ((0, 0),), 3) == 70
    assert points(board, ((0, 1),), 3) == 0
    assert points(board, ()) == 0
    nobody = make_board(SELF, head_values([[0.3, 0.1]]), [])  # no head earns the label
    assert points(nobody, ()) == 100 and points(nobody, (), 1) == 90
    assert points(nobody, ((0, 0),)) == 50
    for equal in ([[0.7, 0.7, 0.1]], [[0.5, 0.5]]):  # equal heads share a rank
        board = make_board(SELF, head_values(equal), [((0, 0),), ((0, 1),)])
        assert points(board, ((0, 0),)) == points(board, ((0, 1),)) == 100


def test_twins_are_the_nearest_pair_in_any_order():
    distance = mv.head_similarity(mv.load("tiny-gpt2").trace(TEXT), "hellinger").numpy()
    board = make_board(BY_KEY["twins"], pair_values(distance, 8))
    i, j = min(combinations(range(32), 2), key=lambda pair: distance[pair])
    assert board.best == (divmod(i, 8), divmod(j, 8))
    assert points(board, tuple(reversed(board.best))) == 100
    with pytest.raises(ArgumentError, match="no answer"):
        points(board, ((0, 0), (0, 0)))


def test_what_is_not_defined_is_no_answer():
    board = make_board(SELF, head_values(torch.tensor([[0.2, math.nan]])), [((0, 1),)])
    assert list(board.values) == [((0, 0),)] and not board.passing
    assert make_board(SELF, head_values(np.full((2, 2), np.nan)), []) is None
    assert make_board(BY_KEY["twins"], pair_values(np.full((3, 3), np.nan), 3)) is None
    with pytest.raises(ArgumentError, match="L0 H1 is no answer"):
        points(board, ((0, 1),))


def test_hints_for_two_heads():
    values = pair_values([[0, 0.5, 0.1], [0.5, 0, 0.4], [0.1, 0.4, 0]], 1)
    board = make_board(BY_KEY["twins"], values)
    assert game.hints(board)[1:] == ("They are in L0 and L2.", "One of the two is L0 H0.")
