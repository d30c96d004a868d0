"""Claims in rows: where the marks are, what hover says, and odd rows."""

import numpy as np

from mha_viz.plots.both_sides import Claim, both_sides

WORDS = ("holds", "fails", "not decided")


def drawn(*claims: Claim, **options):
    figure = both_sides(claims, ("left", "right"), WORDS, "share", **options)
    return figure, {trace.name: trace for trace in figure.data if trace.name}


def test_each_line_has_both_sides_in_the_row_of_its_claim():
    claims = (
        Claim(
            "one", np.array([0.2, -0.5, 1.0]), np.array([1.0, 1.0, 0.3]), ["fails"] * 3, list("abc")
        ),
        Claim("two", np.array([0.7]), np.array([0.7]), ["holds"], ["d"]),
    )
    figure, by_name = drawn(*claims, row=40)
    assert list(by_name["right"].x) == [1.0, 1.0, 0.3, 0.7]
    assert [int(y) for y in by_name["right"].y] == [0, 0, 0, 1]
    assert list(by_name["left: fails"].x) == [0.2, -0.5, 1.0]
    assert list(by_name["left: fails"].hovertext) == ["a", "b", "c"]
    assert list(by_name["left: holds"].x) == [0.7]
    assert [one.text for one in figure.layout.annotations] == ["one", "two"]
    low, high = figure.layout.xaxis.range
    assert low < -0.5 and high > 1.0
