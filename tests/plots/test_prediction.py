"""Predictions before and after, tokens coloured by a change, maps and curves of importance."""

import re

import numpy as np
import pytest

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.bars import change_distribution
from mha_viz.plots.curves import pruning_curves
from mha_viz.plots.head_values import head_scatter, importance_map
from mha_viz.plots.prediction import before_after, token_strip
from mha_viz.web import theme
from tests.plots.drawn import HOSTILE, clicked, is_neutral, texts

RNG = np.random.default_rng(17)
BEFORE, AFTER = np.array([0.1, 0.5, 0.2]), np.array([0.12, 0.375, np.nan])
WORDS = ["[CLS]", "the", "cat", "sat"]
MATTERS = RNG.random((3, 4))
SHARES = np.array([0.0, 0.5, 1.0])


# -- before and after ------------------------------------------------------------------------------


def test_bars_are_sorted_and_the_change_is_written() -> None:
    figure = before_after(["a", "b", "c"], BEFORE, AFTER, names=("all heads", "changed"))
    first, second, changes = figure.data
    assert list(first.x) == [0.5, 0.2, 0.1] and list(second.x)[::2] == [0.375, 0.12]
    assert np.isnan(second.x[1])
    assert list(figure.layout.yaxis.ticktext) == ["b", "c", "a"]
    assert [text.strip() for text in changes.text] == ["−12.5 pp", "not defined", "+2.0 pp"]
    assert list(changes.x) == [0.5, 0.2, 0.12]
    assert first.hovertext[0] == (
        "<b>b</b><br>all heads: <b>0.5</b><br>changed: <b>0.375</b><br>change −12.5 pp"
    )
    assert "changed: <b>not defined</b>" in first.hovertext[1]
    assert (np.rint(first.y) == np.rint(second.y)).all() and first.y[0] < second.y[0]


@pytest.mark.parametrize(
    ("change", "text"),
    [(0.0, "0 pp"), (1e-9, "+1e-07 pp"), (0.0004, "+0.04 pp"), (0.25, "+25.0 pp")],
)
def test_small_changes_keep_their_sign(change: float, text: str) -> None:
    figure = before_after(["a"], np.array([0.0]), np.array([change]))
    assert figure.data[2].text[0].strip() == text.replace("e-", "e−")


def test_the_target_is_marked() -> None:
    figure = before_after(["a", "b", "c"], BEFORE, AFTER, target=2)
    marked = [text for text in figure.layout.yaxis.ticktext if "▸" in text]
    assert len(marked) == 1 and "▸ c" in marked[0] and "<b" in marked[0]
    assert "tracked token: c" in texts(figure)
    figure = before_after(["c", "c", "b"], BEFORE, AFTER, target=0)  # of two of that name
    assert ["▸" in text for text in figure.layout.yaxis.ticktext] == [False, False, True]
    assert "▸" not in texts(before_after(["a", "b", "c"], BEFORE, AFTER))


def test_before_after_refuses() -> None:
    with pytest.raises(ShapeError):
        before_after(["a", "b"], BEFORE, AFTER)
    with pytest.raises((ShapeError, TypeError)):
        before_after(["a", "b", "c"], BEFORE, AFTER[:2])
    with pytest.raises(ArgumentError):
        before_after(["a", "b", "c"], BEFORE, AFTER, target=3)


# -- a text, token by token ------------------------------------------------------------------------


def test_cells_hold_label_number_and_place() -> None:
    figure = token_strip(WORDS, np.array([np.nan, -0.5, 0.25, 0.0]), "Change in loss", "nats")
    known, missing = figure.data
    assert clicked(figure) == [[1], [2], [3], [0]] and isinstance(known.customdata[0], list)
    assert list(known.text) == WORDS[1:] and list(missing.text) == ["[CLS]"]
    assert (known.marker.cmin, known.marker.cmax) == (-0.5, 0.5)
    assert known.hovertext[1] == "cat · token 2<br><b>+0.25 nats</b>"
    assert known.hovertext[2] == "sat · token 3<br><b>0 nats</b>"
    assert missing.hovertext[0] == "[CLS] · token 0<br><b>not defined</b>"
    assert missing.marker.color == theme.missing() and missing.marker.pattern.shape == "/"
    assert "1 of 4 tokens without a value" in texts(figure)
    for trace in figure.data:
        assert trace.unselected.marker.opacity == trace.marker.opacity == 1


def test_lines_break_in_reading_order_without_overlap() -> None:
    labels = [("word", "a", "antidisestablishmentarianism")[i % 3] for i in range(128)]
    figure = token_strip(labels, RNG.normal(size=128), "t", "")
    (cells,) = figure.data
    ends = cells.base + cells.x
    assert ends.max() <= figure.layout.xaxis.range[1]
    assert (np.diff(cells.y) >= 0).all()
    same = np.diff(cells.y) == 0
    assert (cells.base[1:][same] > ends[:-1][same]).all() and (cells.base[1:][~same] == 0).all()
    assert figure.layout.height < 1000 and cells.text[2].endswith("…")
    assert "antidisestablishmentari" in cells.hovertext[2]
    words = token_strip(["the"] * 128, np.zeros(128), "t", "").data[0]
    assert 10 <= np.bincount(words.y)[0] <= 14


def test_letters_stand_out_and_none_means_not_defined() -> None:
    for dark in (False, True):
        cells = token_strip(["a", "b"], [1.0, 0.0], "t", "", dark=dark).data[0]
        strong, weak = cells.textfont.color
        assert (strong, weak) == (
            (theme.ink.light, theme.ink.dark) if dark else (theme.ink.dark, theme.ink.light)
        )
    assert len(token_strip(["a", "b"], [None, 0.5], "t", "").data) == 2
    (only,) = token_strip(["a", "b"], [None, None], "t", "").data
    assert only.marker.pattern.shape == "/"
    with pytest.raises(ShapeError):
        token_strip(["a"], [1.0, 2.0], "t", "")
    with pytest.raises(ShapeError):
        token_strip([], [], "t", "")


# -- importance ------------------------------------------------------------------------------------


def test_the_map_tells_intervals() -> None:
    low, high = MATTERS - 0.1, MATTERS + 0.2
    low[1, 1] = np.nan
    values = MATTERS.copy()
    values[0, 0] = np.nan
    figure = importance_map(values, "Importance", "nats", low=low, high=high, selected=(2, 3))
    points = [trace for trace in figure.data if trace.customdata is not None]
    known = points[0]
    assert isinstance(known.customdata, tuple | list) and isinstance(known.customdata[0], list)
    assert [list(head) for head in known.customdata][:2] == [[0, 1], [0, 2]]
    assert sorted(clicked(figure)) == [[i, j] for i in range(3) for j in range(4)]
    assert known.text[0] == f"95 % interval {low[0, 1]:.4g} to {high[0, 1]:.4g}"
    assert known.text[4] == "95 % interval not defined"
    assert "%{text}" in known.hovertemplate and "%{text}" not in points[1].hovertemplate
    assert figure.data[0].zmin == 0.0
    plain = importance_map(values, "Importance", "nats")
    assert all("%{text}" not in (trace.hovertemplate or "") for trace in plain.data)


def test_a_map_below_zero_is_symmetric() -> None:
    figure = importance_map(MATTERS - 0.6, "Importance", "nats")
    assert figure.data[0].zmin == -figure.data[0].zmax < 0
    with pytest.raises(ArgumentError):
        importance_map(MATTERS, "i", "", low=MATTERS)
    with pytest.raises((ShapeError, TypeError)):
        importance_map(MATTERS, "i", "", low=MATTERS.T, high=MATTERS.T)


def test_the_scatter_correlates_ranks() -> None:
    x, y = MATTERS.copy(), MATTERS**3
    x[0, 1] = np.nan
    figure = head_scatter(x, y, "Importance (nats)", "Redundancy", selected=(1, 2))
    dots, chosen = figure.data
    assert [0, 1] not in [list(head) for head in dots.customdata] and len(dots.x) == 11
    assert list(chosen.customdata) == [[1, 2]] and isinstance(dots.customdata[0], list)
    assert dots.marker.opacity == dots.unselected.marker.opacity
    text = figure.layout.title.text
    plain = re.sub(r"<.*?>", " ", text).replace("  ", " ").replace("  ", " ")
    assert (
        "rank correlation 1.000 (95 % interval 1.00 to 1.00), 11 heads." in plain
        and "1 of 12 heads" in text
    )
    assert chosen.hovertext[0] == (
        f"L1 H2<br>Importance (nats): <b>{x[1, 2]:.4g}</b><br>Redundancy: <b>{y[1, 2]:.4g}</b>"
    )
    assert "−1.000" in head_scatter(MATTERS, -MATTERS, "a", "b").layout.title.text
    level = head_scatter(MATTERS, np.ones((3, 4)), "a", "b").layout.title.text
    assert "not defined, 12 heads" in level
    empty = head_scatter(np.full((2, 2), np.nan), np.ones((2, 2)), "a", "b", selected=(0, 0))
    assert all(len(trace.x) == 0 for trace in empty.data)


def test_the_scatter_refuses() -> None:
    with pytest.raises((ShapeError, TypeError)):  # jaxtyping asks first where it is on
        head_scatter(MATTERS, MATTERS.T, "a", "b")
    with pytest.raises(ArgumentError):
        head_scatter(MATTERS, MATTERS, "a", "b", selected=(3, 0))


# -- pruning ---------------------------------------------------------------------------------------


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
    assert first.hovertext[1] == (
        "by ablation<br>50 % of heads left<br>loss <b>3 nats per token</b>"
    )
    assert high.fill == "tonexty" and list(low.y) == [1.5, 2.5, 6.5]
    assert low.hovertext[0].endswith("<b>1.5</b> to <b>2.5 nats per token</b>")
    assert set(level.y) == {2.0} and level.name == "all heads: 2"
    looks = {(line.line.dash, line.marker.symbol, line.line.color) for line in (first, second)}
    assert len(looks) == 2


def test_pruning_refuses() -> None:
    with pytest.raises(ArgumentError):
        pruning_curves({}, None, 2.0, title="")
    with pytest.raises(ShapeError, match="a: as many"):
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
    assert draws.hovertext[0] == f"L0 H0 off<br><b>{values[0]:.4g} nats</b>"
    want = np.nanquantile(values, [0.05, 0.5, 0.95])
    assert [line.x[0] for line in lines] == pytest.approx(want)
    text = texts(figure)
    assert f"median {want[1]:.4g}" in text and "1 of 101 draws" in text
    above = 100 * np.mean(values[np.isfinite(values)] > 0)
    assert f"100 draws, {above:.3g} % above 0" in text
    assert isinstance(draws.marker.opacity, float)


def test_a_distribution_of_equal_draws_or_of_none() -> None:
    figure = change_distribution(np.full(5, 0.25), "t", "")
    assert list(figure.data[0].y) == [5] and figure.data[1].customdata is None
    assert figure.data[1].hovertext[4].startswith("draw 4")
    with pytest.raises(ArgumentError):
        change_distribution(np.full(3, np.nan), "t", "")
    with pytest.raises(ShapeError):
        change_distribution(np.ones(3), "t", "", heads=[(0, 0)])


# -- all of them -----------------------------------------------------------------------------------


def drawn(dark: bool):
    x = HOSTILE
    yield before_after([x, x], BEFORE[:2], AFTER[:2], names=(x, x), target=0, dark=dark)
    yield token_strip([x, x], [0.5, None], x, x, dark=dark)
    yield importance_map(MATTERS, x, x, low=MATTERS, high=MATTERS, selected=(0, 0), dark=dark)
    yield head_scatter(MATTERS, MATTERS, x, x, selected=(0, 0), dark=dark)
    band = (SHARES, SHARES, SHARES)
    yield pruning_curves({x: band[:2]}, band, 2.0, title=x, band_name=x, dark=dark)
    yield change_distribution(MATTERS.ravel(), x, x, dark=dark)


def test_text_stays_text_and_themes_differ() -> None:
    for light, dark in zip(drawn(False), drawn(True), strict=True):
        assert is_neutral(light) and is_neutral(dark)
        assert light.layout.font.color != dark.layout.font.color
        assert light.layout.height == dark.layout.height
