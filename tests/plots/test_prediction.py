"""Predictions before and after, changes by token, maps and curves of importance."""

import numpy as np
import pytest

from mha_viz.core.amounts import format_number
from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.bars import change_distribution
from mha_viz.plots.curves import pruning_curves
from mha_viz.plots.head_scatter import head_scatter
from mha_viz.plots.head_values import importance_map
from mha_viz.plots.prediction import before_after, token_strip
from tests.plots.drawn import HOSTILE, clicked, is_neutral, texts

RNG = np.random.default_rng(17)
BEFORE, AFTER = np.array([0.1, 0.5, 0.2]), np.array([0.12, 0.375, np.nan])
WORDS = ["[CLS]", "the", "cat", "sat"]
MATTERS = RNG.random((3, 4))
SHARES = np.array([0.0, 0.5, 1.0])


def test_bars_are_sorted_and_the_change_is_written() -> None:
    figure = before_after(["a", "b", "c"], BEFORE, AFTER, names=("all heads", "changed"))
    first, second, changes = figure.data
    assert list(first.x) == [0.5, 0.2, 0.1] and list(second.x)[::2] == [0.375, 0.12]
    assert np.isnan(second.x[1])
    assert list(figure.layout.yaxis.ticktext) == ["b", "c", "a"]
    assert [text.strip() for text in changes.text] == ["−12.5 pp", "not defined", "+2.0 pp"]
    assert list(changes.x) == [0.5, 0.2, 0.12]
    assert (np.rint(first.y) == np.rint(second.y)).all() and first.y[0] < second.y[0]


def test_the_map_tells_intervals() -> None:
    low, high = MATTERS - 0.1, MATTERS + 0.2
    low[1, 1] = np.nan
    values = MATTERS.copy()
    values[0, 0] = np.nan
    figure = importance_map(values, "Importance", "nats", interval=(low, high), selected=(2, 3))
    points = [trace for trace in figure.data if trace.customdata is not None]
    known = points[0]
    assert [list(head) for head in known.customdata][:2] == [[0, 1], [0, 2]]
    assert sorted(clicked(figure)) == [[i, j] for i in range(3) for j in range(4)]
    assert (
        known.text[0] == f"95 % interval {format_number(low[0, 1])} to {format_number(high[0, 1])}"
    )
    assert figure.data[0].zmin == 0.0


def test_the_scatter_correlates_ranks() -> None:
    x, y = MATTERS.copy(), MATTERS**3
    x[0, 1] = np.nan
    figure = head_scatter(x, y, "Importance (nats)", "Redundancy", selected=(1, 2))
    dots, chosen = figure.data
    assert [0, 1] not in [list(head) for head in dots.customdata] and len(dots.x) == 11
    assert list(chosen.customdata) == [[1, 2]]
    text = figure.layout.title.text
    assert "correlation 1.00 (" in text and "11 heads" in text
    assert "correlation −1.00 (" in head_scatter(MATTERS, -MATTERS, "a", "b").layout.title.text
    empty = head_scatter(np.full((2, 2), np.nan), np.ones((2, 2)), "a", "b", selected=(0, 0))
    assert all(len(trace.x) == 0 for trace in empty.data)


def test_pruning_runs_from_all_heads_to_none() -> None:
    loss = np.array([7.0, 3.0, 2.0])
    figure = pruning_curves(
        {"by ablation": (SHARES, loss), "by gradient": (SHARES, loss + 1)},
        (SHARES, loss - 0.5, loss + 0.5),
        2.0,
        title="Pruning",
        band_name="random, 20 draws",
    )
    low, high, level, first, second = figure.data
    assert list(figure.layout.xaxis.range) == [1.02, -0.02]
    assert list(first.x) == [1, 0.5, 0] and list(first.y) == [2, 3, 7]
    assert list(low.y) == [1.5, 2.5, 6.5] and list(high.y) == [2.5, 3.5, 7.5]
    assert list(second.y) == [3, 4, 8] and set(level.y) == {2.0}
    assert first.connectgaps is second.connectgaps is False


def test_pruning_refuses() -> None:
    with pytest.raises(ArgumentError):
        pruning_curves({}, None, 2.0, title="")
    with pytest.raises(ShapeError, match="a"):
        pruning_curves({"a": (SHARES, SHARES[:2])}, None, 2.0, title="")
    assert len(pruning_curves({}, (SHARES, SHARES, SHARES), 2.0, title="").data) == 3


def test_a_distribution_counts_every_draw() -> None:
    values = RNG.normal(0.3, 1, 101)
    values[7] = np.nan
    heads = [(i // 10, i % 10) for i in range(101)]
    figure = change_distribution(values, "Change in loss", "nats", heads=heads)
    bars, draws, *lines = figure.data
    assert sum(bars.y) == 100 == len(draws.x)
    assert draws.customdata[7] == [0, 8] and isinstance(draws.customdata[0], list)
    want = np.nanquantile(values, [0.05, 0.5, 0.95])
    assert [line.x[0] for line in lines] == pytest.approx(want)
    above = 100 * np.mean(values[np.isfinite(values)] > 0)
    assert f"{above:.3g} % above 0" in texts(figure)
    with pytest.raises(ArgumentError):
        change_distribution(np.full(3, np.nan), "t", "")
    with pytest.raises(ShapeError):
        change_distribution(np.ones(3), "t", "", heads=[(0, 0)])


def test_text_stays_text() -> None:
    x, band = HOSTILE, (SHARES, SHARES, SHARES)
    figures = (
        before_after([x, x], BEFORE[:2], AFTER[:2], names=(x, x), target=0),
        token_strip([x, x], [0.5, None], x, x),
        importance_map(MATTERS, x, x, interval=(MATTERS, MATTERS), selected=(0, 0)),
        head_scatter(MATTERS, MATTERS, x, x, selected=(0, 0)),
        pruning_curves({x: band[:2]}, band, 2.0, title=x, band_name=x),
        change_distribution(MATTERS.ravel(), x, x),
    )
    assert all(map(is_neutral, figures))
