"""The matrix of all pairs of heads and the map: order, clicks, and what is not defined."""

import base64
import json

import numpy as np
import pytest

from mha_viz.core.compare.alignment import align, aligned
from mha_viz.core.compare.twins import classical_mds, head_order
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.difference import difference_heatmap, head_changes
from mha_viz.plots.frame import MASKED
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
    holes = np.where(np.eye(3, dtype=bool), np.nan, 0.5)
    sides, words = (holes, np.flip(holes, 0).copy()), (names[:3], names[:3])
    both = difference_heatmap(sides, words, title=HOSTILE, names=(HOSTILE, HOSTILE))
    assert is_neutral(both) and is_neutral(head_changes(np.ones((3, 5)), HOSTILE, HOSTILE))


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


RNG = np.random.default_rng(11)
A, B = RNG.random((2, 3, 5)).astype(np.float32)


def test_the_difference_is_b_minus_a() -> None:
    figure = difference_heatmap((A, B), (list("abc"), list("vwxyz")), names=("one", "two"))
    heat = figure.data[0]
    assert (heat.z == (B.astype(float) - A).astype(np.float32)).all()
    assert (heat.customdata[..., 0] == A).all() and (heat.customdata[..., 1] == B).all()
    assert heat.zmin == -heat.zmax and heat.zmax == pytest.approx(np.abs(B - A).max())
    sent = json.loads(figure.to_json())["data"][0]["customdata"]
    assert np.frombuffer(base64.b64decode(sent["bdata"]), dtype=sent["dtype"]).size == 30


def test_what_only_one_has_is_hatched_and_keeps_its_value() -> None:
    pairs = align("the cat sat".split(), "the old cat".split())
    a, b = (RNG.random((3, 3)) for _ in range(2))
    left, right = aligned(a, [i for i, _ in pairs]), aligned(b, [j for _, j in pairs])
    assert pairs == [(0, 0), (None, 1), (1, 2), (2, None)]
    labels = list("pqrs")
    figure = difference_heatmap((left, right), (labels, labels), names=("one", "two"))
    heat, only_a, rising, only_b, falling = figure.data[:5]
    assert np.isfinite(heat.z).sum() == 4 and heat.hoverongaps is False
    assert "only in one" in only_a.hovertemplate and "only in two" in only_b.hovertemplate
    assert np.array_equal(np.isfinite(only_a.z), np.isfinite(left) & np.isnan(right))
    assert only_a.z[3, 0] == np.float32(a[2, 0]) and only_b.z[1, 0] == np.float32(b[1, 0])
    assert len(rising.x) == len(falling.x) == 3 * 5


def test_a_masked_cell_is_no_difference_of_0() -> None:
    hidden = ~np.tri(3, dtype=bool)
    a, b = (np.where(hidden, 0, RNG.random((3, 3))) for _ in range(2))
    figure = difference_heatmap((a, b), ("abc", "abc"), masked=(hidden, hidden))
    heat, grey = figure.data[:2]
    assert np.array_equal(np.isnan(heat.z), hidden) and np.array_equal(np.isfinite(grey.z), hidden)
    assert MASKED in grey.hovertemplate and "difference" not in grey.hovertemplate


def test_what_only_one_may_see_it_has_alone() -> None:
    """A causal model beside one that sees all: 0 there is no weight that could be compared."""
    hidden, nothing = ~np.tri(3, dtype=bool), np.zeros((3, 3), dtype=bool)
    a, b = np.where(hidden, 0, A[:, :3]), B[:, :3]
    figure = difference_heatmap((a, b), ("abc", "abc"), masked=(hidden, nothing))
    heat, alone = figure.data[:2]
    assert np.array_equal(np.isnan(heat.z), hidden)
    assert "only in B" in alone.hovertemplate and (alone.z[hidden] == b[hidden]).all()


def test_heads_that_changed() -> None:
    change = RNG.random((3, 5))
    change[1, 2], change[2, 4], change[0, 1] = 9.0, 7.0, np.nan
    figure = head_changes(change, "Hellinger", selected=(1, 3))
    assert sorted(clicked(figure)) == [[i, j] for i in range(3) for j in range(5)]
    for trace in figure.data:
        if trace.customdata is not None:
            places = [tuple(place) for place in trace.customdata]
            assert places == list(zip(trace.y.tolist(), trace.x.tolist(), strict=True))
            if trace.marker.color is not None:
                want = [change[place] for place in places]
                assert trace.marker.color == pytest.approx(np.float32(want))
            else:
                assert places == [(0, 1)] and "not defined" in trace.hovertemplate
    assert "Most: L1 H2 (9), L2 H4 (7)" in figure.layout.title.text
    assert (figure.data[0].zmin, figure.data[0].zmax) == (0, 9)
    with pytest.raises(ArgumentError):
        head_changes(change, selected=(3, 0))


def test_hovers_write_a_true_minus() -> None:
    change = np.array([[-0.12345, 0.5], [0.0, np.nan]])
    heads = head_changes(change, "Loss", "nats", diverging=True)
    (points,) = [trace for trace in heads.data if trace.hovertext is not None]
    assert list(points.hovertext) == ["−0.123", "+0.5", "0"]
    assert "%{hovertext}" in points.hovertemplate
