"""All pairs of heads in two measures: exact numbers, rank correlation, what is left out."""

import numpy as np
import pytest
import scipy.stats

from mha_viz.plots.pair_scatter import MeasuredPairs, pair_scatter
from tests.plots.drawn import HOSTILE, clicked, head_names, is_neutral

NAMES = head_names(3, 5)
PAIRS = np.stack(np.triu_indices(15, 1), axis=1)
RNG = np.random.default_rng(7)
X, Y = RNG.random(105), RNG.random(105)


def draw(x=X, y=Y, names=NAMES, colour=None, colour_title="", **more):
    pairs = MeasuredPairs(x, y, PAIRS, names, 5, "look", "do", colour, colour_title)
    return pair_scatter(pairs, **more)


def test_every_pair_is_a_dot_with_its_numbers() -> None:
    figure = draw()
    across, within = figure.data
    for trace, same in ((across, False), (within, True)):
        for place, x, y, text in zip(trace.customdata, trace.x, trace.y, trace.text, strict=True):
            i, j = place
            at = np.flatnonzero((place == PAIRS).all(axis=1))[0]
            assert (i // 5 == j // 5) == same
            assert (x, y) == (np.float32(X[at]), np.float32(Y[at]))
            assert text == f"{NAMES[i]} and {NAMES[j]}"
    assert len(across.x) + len(within.x) == 105 and len(within.x) == 3 * 10


def test_the_correlation_is_spearmans() -> None:
    x, y = X.copy(), Y.copy()
    x[[2, 3]], y[[3, 41]] = np.nan, np.nan
    known = np.isfinite(x) & np.isfinite(y)
    want = scipy.stats.spearmanr(x[known], y[known]).statistic
    figure = draw(x, y)
    title = figure.layout.title.text.replace("−", "-")
    assert f"{want:#.3g}, 102 pairs" in title and "3 of 105 pairs" in title
    assert len(clicked(figure)) == 102
    assert "correlation 1.00," in draw(X, X**3).layout.title.text
    assert "not defined" in draw(X, np.ones(105)).layout.title.text
    assert "not defined, 0 pairs" in draw(X, np.full(105, np.nan)).layout.title.text


def test_of_many_pairs_the_crowd_is_counted_and_the_others_are_dots() -> None:
    pairs = np.stack(np.triu_indices(144, 1), axis=1)
    x, y = RNG.normal(size=(2, len(pairs)))
    x[3], y[5] = np.nan, 11.0
    measured = MeasuredPairs(x, y, pairs, head_names(12, 12), 12, "look", "do")
    figure = pair_scatter(measured, selected=(0, 1))
    counts, *dots, chosen = figure.data
    shown = [tuple(pair) for trace in dots for pair in trace.customdata.tolist()]
    counted = int(counts.text.sum())
    assert len(shown) == len(set(shown)) <= 2_000 < counted
    assert len(shown) + counted == len(pairs) - 1
    assert tuple(pairs[5]) in shown and [list(p) for p in chosen.customdata] == [[0, 1]]
    assert f"{counted:,} of them are counted in" in figure.layout.title.text
    column, row = np.unravel_index(np.nanargmax(counts.z.T), counts.z.T.shape)
    near = abs(x - counts.x[column]) <= np.diff(counts.x)[0] / 2
    near &= abs(y - counts.y[row]) <= np.diff(counts.y)[0] / 2
    assert near.sum() == pytest.approx(counts.text[row, column], abs=2)


def test_text_stays_text() -> None:
    pairs = MeasuredPairs(X, Y, PAIRS, [HOSTILE] * 15, 5, HOSTILE, HOSTILE, X, HOSTILE)
    hostile = pair_scatter(pairs, corners=(HOSTILE,) * 4)
    assert is_neutral(hostile)
