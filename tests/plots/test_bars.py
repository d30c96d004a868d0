"""Bars, dots and spreads: every part is there, with its sign, and texts stay texts."""

import numpy as np
import pytest

from mha_viz.errors import ArgumentError
from mha_viz.plots.bars import histogram_bars, share_matrix, signed_rows, stacked_shares, token_bars
from mha_viz.plots.head_values import by_layer, head_quantiles, layer_lines
from mha_viz.plots.metric_strips import REACH, MetricStrip, metric_strips
from tests.plots.drawn import HOSTILE, clicked, is_neutral


def test_piles_have_every_part_and_a_mark_at_their_sum():
    heads, rest = np.array([1.0, -2.0, 0.5]), np.array([-0.25, 0.0, 3.0])
    figure = stacked_shares({"heads": heads, "rest": rest}, ["a", "b", "c"], "logits")
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert [trace.name for trace in bars] == ["heads", "rest"]
    np.testing.assert_array_equal([trace.y for trace in bars], [heads, rest])
    (mark,) = (trace for trace in figure.data if trace.type == "scatter")
    np.testing.assert_array_equal(mark.y, heads + rest)


def test_names_are_texts_and_strips_are_refused_without_a_metric() -> None:
    figures = (
        stacked_shares({HOSTILE: np.ones(1)}, [HOSTILE], HOSTILE, title=HOSTILE),
        signed_rows([HOSTILE], np.ones(1), HOSTILE, title=HOSTILE),
        share_matrix(np.ones((1, 1)), [HOSTILE], [HOSTILE], HOSTILE, title=HOSTILE),
        metric_strips({HOSTILE: MetricStrip(1.0, 2.0, HEADS, HOSTILE)}, names=(HOSTILE, "b")),
    )
    assert all(map(is_neutral, figures))
    with pytest.raises(ArgumentError):
        metric_strips({})


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


VALUES = np.random.default_rng(5).normal(size=(3, 7))


def test_every_head_is_a_dot_of_its_own() -> None:
    dots = by_layer(VALUES, "entropy", "nats").data[0]
    assert [list(place) for place in dots.customdata] == [
        [i, j] for i in range(3) for j in range(7)
    ]
    assert isinstance(dots.customdata[0], list)  # a typed array would come back as a mapping
    assert dots.y == pytest.approx(VALUES.ravel(), abs=0)
    assert (np.rint(dots.x) == np.repeat(range(3), 7)).all()
    assert len(set(dots.x)) == 21 and (np.diff(dots.x) > 0).all()
    assert dots.text[8] == "L1 H1"


def test_the_mean_leaves_out_what_is_not_defined() -> None:
    holed = VALUES.copy()
    holed[1] = np.nan
    holed[2, 3], holed[2, 5] = np.nan, np.inf
    figure = by_layer(holed, "entropy", "nats")
    assert len(figure.data[0].y) == len(figure.data[0].customdata) == 12
    assert [2, 3] not in figure.data[0].customdata
    mean = figure.data[1]
    want = [VALUES[0].mean(), np.nan, np.delete(VALUES[2], [3, 5]).mean()]
    assert mean.y == pytest.approx(want, nan_ok=True) and mean.connectgaps is False
    assert mean.customdata.tolist() == [7, 0, 5]


def test_text_stays_text() -> None:
    one = by_layer(VALUES, HOSTILE, HOSTILE, baselines={HOSTILE: 1.0}, selected=(0, 1))
    two = layer_lines({HOSTILE: np.ones(3)}, HOSTILE, HOSTILE)
    assert is_neutral(one) and is_neutral(two)


def test_bars_count_each_bin_between_the_outermost_filled_ones() -> None:
    figure = histogram_bars(np.geomspace(0.1, 10, 6), np.array([0, 4, 0, 2, 0]), HOSTILE, HOSTILE)
    (bars,) = figure.data
    assert list(bars.y) == [4, 0, 2] and list(bars.x) == [0.5, 1.5, 2.5] and bars.width == 1
    assert bars.hovertext[0].startswith("0.251 to 0.631") and "<b>4 texts</b>" in bars.hovertext[0]
    assert is_neutral(figure)


def test_every_head_has_its_quantiles_in_order() -> None:
    spread = np.sort(np.random.default_rng(0).random((5, 3, 4)), axis=0)
    spread[:, 1, 2] = np.nan
    figure = head_quantiles(spread, "Entropy", "nats", selected=(2, 1))
    thin, thick, medians, chosen = figure.data
    known = ~np.isnan(spread[0])
    for stems, low, high in ((thin, 0, 4), (thick, 1, 3)):
        ends = np.array(stems.y, float).reshape(-1, 3)[:, :2]
        np.testing.assert_array_equal(ends, np.c_[spread[low][known], spread[high][known]])
    np.testing.assert_array_equal(medians.y, spread[2][known])
    assert clicked(figure)[:-1] == np.argwhere(known).tolist()
    assert list(chosen.y) == [spread[2, 2, 1]] and clicked(figure)[-1] == [2, 1]
    assert (np.diff(medians.x) > 0).all() and len(medians.hovertext) == 11
    assert is_neutral(head_quantiles(spread, HOSTILE, HOSTILE))
