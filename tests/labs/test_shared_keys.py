"""Lab 14: the patterns of heads that share their keys, against scipy and by hand."""

import math
from itertools import combinations
from math import factorial

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

import mha_viz as mv
from mha_viz.learn.labs.shared_keys import numbers as lab
from mha_viz.learn.labs.shared_keys import recurrence
from tests.making.comparing import near

TEXTS = ("My sister sings.", "She ran.", "The thin hungry dog quickly ate our bread.")


@pytest.fixture(scope="module")
def model():
    return mv.load(lab.MODEL)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(lab, "distinct_texts", lambda: list(TEXTS))


def test_distances_are_those_of_scipy(model, few):
    done = []
    found = lab.compare_groups(model, done.append)
    assert done == [1, 2, 3] and found.size == 4
    pairs = list(combinations(range(8), 2))
    same = np.array([i // 4 == j // 4 for i, j in pairs])
    for layer in (0, 2):
        means = []
        for text in TEXTS:
            pattern = model.trace(text).pattern[layer].double().numpy()
            rows = [
                [jensenshannon(a, b) ** 2 for a, b in zip(pattern[i], pattern[j], strict=True)]
                for i, j in pairs
            ]
            means.append(np.nan_to_num(rows).mean(-1))
        means = np.array(means)
        assert found.within[:, layer].numpy() == near(means[:, same].mean(-1))
        assert found.between[:, layer].numpy() == near(means[:, ~same].mean(-1))
        far, close = found.extreme_pairs(layer)
        average = dict(zip(pairs, means.mean(0), strict=True))
        assert average[far] == near(max(average[p] for p in pairs if p[0] // 4 == p[1] // 4))
        assert average[close] == near(min(average[p] for p in pairs if p[0] // 4 != p[1] // 4))


@pytest.mark.parametrize(("n", "size"), [(4, 2), (6, 3), (6, 2), (8, 4), (5, 1)])
def test_groupings_are_all_partitions_and_the_neighbours_come_first(n, size):
    ways = list(lab.groupings(tuple(range(n)), size))
    groups = n // size
    assert len(ways) == factorial(n) // (factorial(size) ** groups * factorial(groups))
    assert len({frozenset(map(frozenset, way)) for way in ways}) == len(ways)
    assert all(sorted(sum(way, ())) == list(range(n)) for way in ways)
    assert ways[0] == tuple(tuple(range(i, i + size)) for i in range(0, n, size))


def test_chance_counts_groupings_of_all_layers():
    random = torch.tensor([[2.0, 1.0, 3.0], [5.0, 9.0, 4.0]])
    found = lab.Groups(2, *[torch.zeros(0)] * 3, random)
    assert found.as_close == [2, 2]
    sums = [a + b for a in random[0].tolist() for b in random[1].tolist()]
    assert found.chance == near(sum(total <= 7 for total in sums) / 9)


@pytest.mark.parametrize("kind", recurrence.KINDS)
@pytest.mark.parametrize(("n", "d"), [(2, 4), (7, 4), (16, 8), (33, 3)])
def test_factored_matrix_are_those_of_the_formula(kind, n, d):
    assert recurrence.measure_path(kind, n, d).products == recurrence.formula(kind, n, d)


def test_paths_and_steps_in_turn_are_constant_linear_and_logarithmic():
    for n in (2, 9, 10, 27, 28):
        attention, recurrent, convolution = (
            recurrence.measure_path(kind, n, 4)
            for kind in ("attention", "recurrent", "convolution")
        )
        assert attention.path == 3  # W_V, weights, W_O
        assert attention.in_turn == 4  # W_Q or W_K, scores, weights, W_O
        assert recurrent.path == recurrent.in_turn == n
        layers = math.ceil(round(math.log(n, 3), 9))
        assert convolution.path == convolution.in_turn == convolution.layers == layers
