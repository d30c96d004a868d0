"""The matrix of all pairs of heads and the map: order, clicks, and what is not defined."""

import numpy as np
import pytest

from mha_viz.core.compare.twins import classical_mds, head_order
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.head_map import head_map
from mha_viz.plots.similarity_matrix import HeadPairs, Marks, similarity_matrix
from tests.plots.drawn import HOSTILE, clicked, head_names, is_neutral

PLACES = np.array(
    [0.0, 10.0, 31.0, 1.0, 30.0, 2.5, 11.5, 9.0, 29.0, 3.5, 12.0, 28.0, 4.0, 8.0, 27.0]
)
APART = np.abs(PLACES[:, None] - PLACES)  # 3 layers of 5 heads in three groups
NAMES = head_names(3, 5)


def draw(matrix, names, clustering, n_heads, **more):
    """Draw a matrix of heads; all that is about it or to mark in it is among the arguments."""
    about = {key: more.pop(key) for key in ("unit", "chance", "measured") if key in more}
    marks = {key: more.pop(key) for key in ("clusters", "selected", "pair") if key in more}
    pairs = HeadPairs(matrix, names, clustering, n_heads, **about)
    return similarity_matrix(pairs, marks=Marks(**marks), **more)


def holed(*heads: int) -> np.ndarray:
    matrix = APART.copy()
    for head in heads:
        matrix[head] = matrix[:, head] = np.nan
    return matrix


@pytest.mark.parametrize("by", ["cluster", "layer"])
def test_cells_follow_the_order(by: str) -> None:
    found = head_order(APART, by)
    figure = draw(APART, NAMES, found, n_heads=5)
    order = list(found.order)
    assert figure.data[0].z == pytest.approx(APART[np.ix_(order, order)].astype(np.float32))
    assert list(figure.layout.yaxis.ticktext) == [NAMES[i] for i in order]
    assert list(figure.layout.xaxis.ticktext) == [NAMES[i] for i in order]


@pytest.mark.parametrize("size", [13, 149])
def test_estimates_are_told_from_what_is_measured(size: int) -> None:
    matrix = np.add.outer(np.arange(size), np.arange(size)) / 7
    matrix[3, 5] = np.nan
    measured = np.zeros((size, size), bool)
    measured[2, 7] = measured[11, 1] = measured[3, 5] = True  # the last of a cell without a number
    order = head_order(np.zeros((size, size)), "layer")
    figure = draw(matrix, head_names(size, 1), order, n_heads=1, diverging=True, measured=measured)
    dots = next(t for t in figure.data[1:] if t.marker.symbol is None and t.marker.size in (3, 8))
    assert sorted(zip(dots.y.tolist(), dots.x.tolist(), strict=True)) == [(2, 7), (11, 1)]
    if size == 13:
        points = next(t for t in figure.data if t.customdata is not None)
        said = dict(zip(map(tuple, points.customdata.tolist()), points.text, strict=True))
        assert [place for place, kind in said.items() if kind == "measured"] == [(2, 7), (11, 1)]
        assert set(said.values()) == {"measured", "estimate"} and "%{text}" in points.hovertemplate
    heat = figure.data[0]
    assert heat.text[2][7] == "measured" and heat.text[7][2] == "estimate"
    assert ("%{text}" in (heat.hovertemplate or "")) == (size == 149)
    plain = draw(matrix, head_names(size, 1), order, n_heads=1, diverging=True)
    assert plain.data[0].text is None and "%{text}" not in str(plain.to_dict())


def test_one_head_and_refusals() -> None:
    one = np.zeros((1, 1))
    figure = draw(one, ["L0 H0"], head_order(one), n_heads=1, selected=(0, 0))
    assert clicked(figure) == [[0, 0]]
    found = head_order(APART)
    for wrong in ({"selected": (3, 0)}, {"selected": (0, 5)}):
        with pytest.raises(ArgumentError):
            draw(APART, NAMES, found, n_heads=5, **wrong)
    with pytest.raises(ArgumentError):
        draw(APART, NAMES, found, n_heads=4)
    with pytest.raises(ShapeError):
        draw(APART, NAMES[:7], found, n_heads=5)
    with pytest.raises(ShapeError):
        draw(APART[:5, :5], NAMES[:5], found, n_heads=5)


def test_text_stays_text() -> None:
    names = [HOSTILE] * 15
    figure = draw(holed(2), names, head_order(holed(2)), n_heads=5, title=HOSTILE, unit=HOSTILE)
    assert is_neutral(figure)
    places, _ = classical_mds(APART)
    assert is_neutral(head_map(places, names, 5, selected=(0, 1)))


def test_the_map_puts_heads_where_they_are() -> None:
    places, explained = classical_mds(holed(3, 11))
    figure = head_map(places, NAMES, 5, explained=explained, selected=(1, 2))
    dots = figure.data[0]
    index = [5 * layer + head for layer, head in dots.customdata]
    assert index == [i for i in range(15) if i not in (3, 11)]
    assert isinstance(dots.customdata[0], list)
    assert np.c_[dots.x, dots.y] == pytest.approx(places[index], abs=0)
    assert list(dots.marker.color) == [i // 5 for i in index]
    assert figure.data[1].customdata == ([1, 2],) and figure.data[1].x[0] == places[7, 0]
