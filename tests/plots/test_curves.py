"""Lines over a number: where the names of levels and moments stand."""

import pytest

from mha_viz.plots.curves import LineAxes, curves

LINE = {"a": ([1.0, 10.0, 1000.0], [1.0, 100.0, 10.0])}


@pytest.mark.parametrize(("axis", "place"), [("linear", 100.0), ("log", 2.0)])
def test_names_stand_at_their_lines_on_both_kinds_of_axis(axis, place):
    figure = curves(
        LINE,
        LineAxes(
            title="t",
            x_title="x",
            y_title="y",
            x_axis=axis,
            y_axis=axis,
            levels={"level": 100.0},
            moments={"moment": 100.0},
        ),
    )
    assert list(figure.data[0].x) == LINE["a"][0] and list(figure.data[0].y) == LINE["a"][1]
    level, moment = figure.layout.annotations
    assert level.y == pytest.approx(place) and moment.x == pytest.approx(place)
    assert figure.layout.shapes[0].y0 == figure.layout.shapes[1].x0 == 100.0
