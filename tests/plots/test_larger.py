"""Figures for the last row of a class."""

import plotly.graph_objects as go

from mha_viz.plots.curves import LineAxes, curves
from mha_viz.plots.figure_file import ENLARGEMENT, enlarged


def test_type_and_room_grow_and_nothing_else() -> None:
    axes = LineAxes(title="t", x_title="x", y_title="y", note="small")
    figure = curves({"a": ([1, 2], [3, 5])}, axes)
    grown = enlarged(figure)
    assert grown.layout.font.size == ENLARGEMENT * figure.layout.font.size
    assert grown.layout.xaxis.title.font.size == ENLARGEMENT * figure.layout.xaxis.title.font.size
    assert "font-size:16px" in grown.layout.title.text and "12px" in figure.layout.title.text
    assert grown.layout.margin.t == ENLARGEMENT * figure.layout.margin.t
    assert grown.layout.height == ENLARGEMENT * figure.layout.height
    assert grown.data[0].marker.size == figure.data[0].marker.size  # a mark is no letter
    assert list(grown.data[0].y) == [3, 5]


def test_a_figure_without_a_size_gets_none() -> None:
    assert enlarged(go.Figure()).layout.width is None
