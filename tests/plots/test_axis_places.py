"""Coordinates that a reader depends on: names at their lines, axes of rounding, lines of tokens."""

import numpy as np
import pytest

from mha_viz.plots.curves import LineAxes, LossPlane, curves, landscape
from mha_viz.plots.pair_scatter import MeasuredPairs, pair_scatter
from mha_viz.plots.prediction import token_strip
from tests.plots.drawn import head_names

RNG = np.random.default_rng(17)
LINE = {"a": ([1.0, 10.0, 1000.0], [1.0, 100.0, 10.0])}


@pytest.mark.parametrize(("axis", "coordinate"), [("linear", 100.0), ("log", 2.0)])
def test_curves_names_of_levels_and_moments_touch_no_line(axis, coordinate):
    marks = dict(levels={"level": 100.0}, moments={"later": 100.0, "earlier": 10.0})
    axes = LineAxes(title="t", x_title="x", y_title="y", x_axis=axis, y_axis=axis, **marks)
    figure = curves(LINE, axes)
    earlier, later = figure.layout.annotations
    assert later.x == pytest.approx(coordinate) and earlier.text == "earlier"
    level, moment, _ = figure.layout.shapes
    assert level.y0 == moment.x0 == 100.0 and level.name == "level"


def test_token_strip_lines_break_in_reading_order_without_overlap():
    labels = [("word", "a", "antidisestablishmentarianism")[i % 3] for i in range(128)]
    figure = token_strip(labels, RNG.normal(size=128), "t", "")
    (cells,) = figure.data
    ends = cells.base + cells.x
    assert ends.max() <= figure.layout.xaxis.range[1]
    assert (np.diff(cells.y) >= 0).all()
    same_line = np.diff(cells.y) == 0
    assert (cells.base[1:][same_line] > ends[:-1][same_line]).all()
    assert (cells.base[1:][~same_line] == 0).all() and not same_line.all()


def test_pair_scatter_does_not_spread_rounding_over_the_axis():
    pairs = np.stack(np.triu_indices(15, 1), axis=1)
    values, noise = RNG.random(105), 1 - RNG.random(105) * 6e-8
    spans = []
    for do in (noise, values):
        measured = MeasuredPairs(values, do, pairs, head_names(3, 5), 5, "look", "do", None, "")
        low, high = pair_scatter(measured).layout.yaxis.range
        assert low < do.min() and high > do.max()
        spans.append(high - low)
    assert 0.01 <= spans[0] < 0.1 and spans[1] < 1.3 * np.ptp(values)


X, Y = np.linspace(-1, 1, 5), np.linspace(-2, 2, 4)
LOSS = 0.3 + X[None] ** 2 + Y[:, None] ** 2
PATH = np.array([[0.5, 1.0], [0.2, 0.1], [0.0, 0.0]])


def made(loss=LOSS, steps=(0, 10, 1_200)):
    plane = LossPlane(X, Y, loss, PATH)
    return landscape(plane, steps, title="Loss", x_title="one", y_title="two")


def test_heights_are_logarithms_and_hover_tells_the_loss():
    surface, path, end = made().data
    assert surface.z == pytest.approx(np.log10(LOSS))
    assert np.array(surface.customdata) == pytest.approx(LOSS)
    assert list(path.x) == PATH[:, 0].tolist() and list(path.y) == PATH[:, 1].tolist()
    assert path.hovertext == ("step 0", "step 10", "step 1,200")
    assert (end.x[0], end.y[0]) == (0, 0) and end.hovertext == ("step 1,200, the end",)


def test_a_loss_of_nothing_has_a_place():
    assert np.isfinite(made(loss=np.zeros((4, 5))).data[0].z).all()
