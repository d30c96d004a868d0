"""All pairs of heads in two measures: exact numbers, rank correlation, what is left out."""

import numpy as np
import pytest
import scipy.stats

from mha_viz.errors import ShapeError
from mha_viz.plots.both_sides import Claim, both_sides
from mha_viz.plots.pair_scatter import MeasuredPairs, pair_scatter
from mha_viz.plots.space_scatter import SpacePanel, TokenColours, space_scatter
from mha_viz.web import theme
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


N = 13
DICE = np.random.default_rng(17)
PANELS = [
    SpacePanel(name, DICE.standard_normal((N, 2)).astype(np.float32), (f"{name} 1", f"{name} 2"))
    for name in ("Queries", "Keys", "<b>Values</b>")
]
TOKENS = ["<i>a</i>", *map(str, range(N - 1))]
PLACES = np.stack([np.arange(N) % 5, np.arange(N)], 1)


def _drawn(colours: TokenColours, dark: bool = False):
    return space_scatter(PANELS, colours, TOKENS, PLACES, dark=dark)


@pytest.mark.parametrize("dark", [False, True])
def test_each_panel_has_its_points_and_the_colours_of_all(dark: bool) -> None:
    names = tuple("abcdefgh")
    figure = _drawn(TokenColours("kind", np.arange(N) % 8, names), dark)
    dots = [trace for trace in figure.data if not trace.showlegend]
    axes = {trace.xaxis or "x" for trace in dots}
    assert len(dots) == len(axes) == len(PANELS)
    for trace, panel in zip(dots, PANELS, strict=True):
        assert np.stack([trace.x, trace.y], 1) == pytest.approx(panel.points)
        assert np.array_equal(trace.customdata, PLACES)
        assert trace.marker.color.tolist() == (np.arange(N) % 8).tolist()
    legend = {trace.name: trace.marker.color for trace in figure.data if trace.showlegend}
    assert list(legend) == list(names) and legend["h"] == theme.muted(dark)
    steps = dict(dots[0].marker.colorscale[1::2])  # the upper end of each step
    assert list(steps.values()) == list(legend.values())


def test_numbers_are_a_scale_and_text_is_no_markup() -> None:
    figure = _drawn(TokenColours("weight", np.linspace(0.25, 0.75, N)))
    marker = figure.data[0].marker
    assert (marker.cmin, marker.cmax) == (0.25, 0.75) and marker.showscale
    assert not any(trace.showlegend for trace in figure.data)
    assert figure.data[0].text[0] == "&lt;i&gt;a&lt;/i&gt;"
    assert any("&lt;b&gt;Values" in one.text for one in figure.layout.annotations)


def test_panels_of_other_tokens_are_refused() -> None:
    with pytest.raises(ShapeError):
        _drawn(TokenColours("weight", np.zeros(N - 1)))
    with pytest.raises(ShapeError):
        space_scatter([], TokenColours("weight", np.zeros(N)), TOKENS, PLACES)


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
