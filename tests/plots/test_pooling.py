"""Matrices pooled for charts: against plain loops."""

import numpy as np
import pytest

from mha_viz.plots.heatmap import MOST, Pooled, head_heatmap

QUERIES, KEYS, SIDE = 17, 23, 5  # 23 in cells of 5: 5 columns, the last one narrower


def numbers() -> np.ndarray:
    matrix = np.random.default_rng(3).normal(size=(QUERIES, KEYS))
    matrix[5:10, 5:10] = np.nan  # a cell of nothing
    matrix[0, 1] = np.nan
    return matrix


def test_a_cell_is_the_number_furthest_from_0():
    matrix = numbers()
    pooled = Pooled.of(matrix, most=5)
    assert pooled.side == SIDE and pooled.note == "each cell is the largest of 5 × 5"
    found = pooled.take(matrix)
    assert found.shape == (4, 5)
    for row, column in np.ndindex(4, 5):
        cell = matrix[SIDE * row : SIDE * (row + 1), SIDE * column : SIDE * (column + 1)].ravel()
        known = cell[~np.isnan(cell)]
        expected = known[np.abs(known).argmax()] if len(known) else np.nan
        np.testing.assert_equal(found[row, column], expected)
    assert pooled.names([str(i) for i in range(KEYS)])[3:] == ["15 … 19", "20 … 22"]


@pytest.fixture
def long_head() -> tuple[np.ndarray, tuple[list[str], list[str]]]:
    n = MOST + 11
    weights = np.tril(np.random.default_rng(5).random((n, n), dtype=np.float32))
    weights /= weights.sum(-1, keepdims=True)
    labels = [f"t{i}" for i in range(n)]
    return weights, (labels, labels)


def test_a_long_heads_chart_is_pooled_and_says_so(long_head):
    weights, labels = long_head
    seen = np.tril(np.ones_like(weights, dtype=bool))
    figure = head_heatmap(weights, labels, title="L1 H2", visible=seen)
    cells = np.array(figure.data[0].z)
    assert cells.shape == (262, 262)
    assert cells[7, 3] == weights[14:16, 6:8].max() and np.isnan(cells[3, 7])
    assert cells[3, 3] == weights[6:8, 6:8][np.tril_indices(2)].max()
    assert figure.layout.title.text == "L1 H2 · each cell is the largest of 2 × 2"
