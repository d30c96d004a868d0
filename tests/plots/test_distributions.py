"""The pictures of a spread hold the counts and quantiles as they are."""

import numpy as np

from mha_viz.plots.bars import histogram_bars
from mha_viz.plots.head_values import head_quantiles
from tests.plots.drawn import HOSTILE, clicked, is_neutral


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
