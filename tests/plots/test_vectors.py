"""Arrows in the plane: tips where the vectors end, and the line through the chosen one's tip."""

import numpy as np
import pytest

from mha_viz.plots.vectors import arrows
from tests.plots.drawn import HOSTILE, is_neutral, texts

VECTORS = [[2.0, 1.0], [-1.0, 0.5], [0.0, -3.0]]


def test_every_vector_is_an_arrow_from_the_origin():
    figure = arrows(VECTORS, ["a", "b", "c"], title="t")
    assert [(tip.x[0], tip.y[0]) for tip in figure.data] == [tuple(v) for v in VECTORS]
    assert [(a.x, a.y, a.ax, a.ay) for a in figure.layout.annotations] == [
        (x, y, 0, 0) for x, y in VECTORS
    ]
    assert "length 2.24" in texts(figure)
    low, high = figure.layout.xaxis.range
    assert -low == high >= 3 and figure.layout.yaxis.range == (low, high)


def test_on_the_line_every_product_is_that_of_the_chosen_with_itself():
    x = np.array(VECTORS[0])
    figure = arrows(VECTORS, ["a", "b", "c"], title="t", chosen=0, circle=True)
    line = figure.data[0]
    for point in zip(line.x, line.y, strict=True):
        assert x @ np.array(point) == pytest.approx(x @ x)
    assert figure.layout.shapes[0].x1 == pytest.approx(5**0.5)


def test_names_are_never_markup():
    assert is_neutral(arrows(VECTORS, [HOSTILE] * 3, title=HOSTILE, chosen=0))
