"""The pattern that answers to clicks."""

import numpy as np
import pytest

from mha_viz.errors import ShapeError
from mha_viz.plots.painted import paintable


def test_every_cell_answers_with_its_place():
    weights = np.array([[0.25, 0.75], [1.0, 0.0]])
    figure = paintable(weights, "Painted")
    assert np.array(figure.data[0].z).tolist() == weights.tolist()
    assert figure.data[0].text[0][1] == "0.75"
    points = figure.data[1]
    assert np.array(points.customdata).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert list(zip(points.y, points.x, strict=True)) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert figure.layout.hoverdistance == -1


def test_what_is_no_matrix():
    with pytest.raises(ShapeError):
        paintable(np.ones(3), "x")
