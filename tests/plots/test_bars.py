"""Parts of a number, drawn: every part is there, with its sign, and texts stay texts."""

import numpy as np
import pytest

from mha_viz.errors import ArgumentError
from mha_viz.plots.bars import share_matrix, signed_rows, stacked_shares, token_bars
from mha_viz.plots.metric_strips import REACH, MetricStrip, metric_strips
from tests.plots.drawn import HOSTILE, is_neutral


def test_piles_have_every_part_and_a_mark_at_their_sum():
    heads, rest = np.array([1.0, -2.0, 0.5]), np.array([-0.25, 0.0, 3.0])
    figure = stacked_shares({"heads": heads, "rest": rest}, ["a", "b", "c"], "logits")
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert [trace.name for trace in bars] == ["heads", "rest"]
    np.testing.assert_array_equal([trace.y for trace in bars], [heads, rest])
    (mark,) = (trace for trace in figure.data if trace.type == "scatter")
    np.testing.assert_array_equal(mark.y, heads + rest)


def test_names_are_texts():
    figures = (
        stacked_shares({HOSTILE: np.ones(1)}, [HOSTILE], HOSTILE, title=HOSTILE),
        signed_rows([HOSTILE], np.ones(1), HOSTILE, title=HOSTILE),
        share_matrix(np.ones((1, 1)), [HOSTILE], [HOSTILE], HOSTILE, title=HOSTILE),
    )
    for figure in figures:
        assert is_neutral(figure)


def test_bars_hold_each_series_in_the_order_of_the_text() -> None:
    first, second = np.array([0.25, 0.5, 0.25]), np.array([0.1, np.nan, 0.9])
    figure = token_bars({"one": first, "two": second}, ["a", "a", "<b>"], "share")
    assert [bar.name for bar in figure.data] == ["one", "two"]
    assert figure.data[0].y.tolist() == pytest.approx(first.tolist())
    assert np.isnan(figure.data[1].y[1]) and figure.data[1].x.tolist() == [0, 1, 2]
    assert figure.layout.xaxis.ticktext == ("a", "a", "&lt;b&gt;")
    assert "<b>" not in "".join(figure.data[0].customdata)


NAN = float("nan")
HEADS = np.array([1.0, 2.0, 3.0, 4.0, 5.0, NAN, 6.0])


def test_heads_stand_where_their_distance_from_the_mean_puts_them() -> None:
    known = HEADS[np.isfinite(HEADS)]
    mean, spread = known.mean(), known.std()
    strips = {
        "entropy": MetricStrip(2.0, 6.0, HEADS, "2.34 spreads"),
        "far": MetricStrip(mean - 9 * spread, mean + 9 * spread, HEADS),
        "gone": MetricStrip(NAN, 4.0, HEADS),
        "all alike": MetricStrip(3.0, 3.0, np.full(5, 3.0)),
    }
    figure = metric_strips(strips, names=("one", "two"))
    one, two = (trace for trace in figure.data if trace.name in ("one", "two"))
    place = [0.5 + (value - mean) / spread / (2 * REACH) for value in (2.0, 6.0, 4.0)]
    assert one.x == pytest.approx([place[0], 0.0, NAN, 0.5], abs=1e-6, nan_ok=True)
    assert two.x == pytest.approx([place[1], 1.0, place[2], 0.5], abs=1e-6)
    dots = figure.data[1]
    assert np.bincount(np.asarray(dots.y, int)).tolist() == [6, 6, 6, 5]  # those that have a value
    assert dots.x[: len(known)] == pytest.approx(
        0.5 + (known - mean) / spread / (2 * REACH), abs=1e-6
    )
    assert f"two: entropy<br><b>6</b>, {(6 - mean) / spread:+.3g} spreads" in two.hovertext[0]


def test_names_stay_text() -> None:
    strips = {HOSTILE: MetricStrip(1.0, 2.0, HEADS, HOSTILE)}
    assert is_neutral(metric_strips(strips, names=(HOSTILE, "b")))
    with pytest.raises(ArgumentError):
        metric_strips({})
