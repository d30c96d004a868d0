"""Figures over layers hold every head's exact value where it belongs, and leave out what is not."""

import numpy as np
import pytest

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.head_values import by_layer, layer_lines
from tests.plots.drawn import HOSTILE, is_neutral

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
    assert by_layer(VALUES, "entropy", "nats").data[0].x == pytest.approx(dots.x, abs=0)


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
    assert list(by_layer(np.ones((2, 1)), "m", "").data[1].hovertext) == ["1 head"] * 2
    assert "9 of 21 heads without a value" in figure.layout.title.text


def test_baselines_and_the_chosen_head() -> None:
    figure = by_layer(
        VALUES,
        "entropy",
        "nats",
        selected=(2, 4),
        baselines={"uniform": 1.25, "none": float("nan"), HOSTILE: -0.5},
    )
    assert len(figure.data) == 5
    uniform, other, chosen = figure.data[2:]
    assert set(uniform.y) == {1.25} and "uniform: 1.25 nats" in uniform.name
    assert uniform.line.dash != other.line.dash and uniform.line.color != other.line.color
    assert list(chosen.y) == [VALUES[2, 4]] and list(chosen.customdata[0]) == [2, 4]
    assert chosen.x[0] == figure.data[0].x[18]
    with pytest.raises(ArgumentError, match="L3 H0"):
        by_layer(VALUES, "entropy", "nats", selected=(3, 0))
    with pytest.raises((ShapeError, TypeError)):  # jaxtyping asks first where it is on
        by_layer(VALUES[0], "entropy", "nats")


def test_one_head() -> None:
    figure = by_layer(np.array([[0.5]]), "entropy", "nats", selected=(0, 0))
    assert figure.data[0].x.tolist() == [0] and figure.data[1].y.tolist() == [0.5]
    nowhere = by_layer(np.array([[np.nan]]), "entropy", "nats", selected=(0, 0))
    assert "not defined" in nowhere.data[-1].name and len(nowhere.data[0].y) == 0


def test_lines_keep_gaps_and_differ_in_more_than_colour() -> None:
    series = {f"W_{i}": np.arange(5.0) + i for i in range(11)}
    series["W_3"][2] = np.nan
    figure = layer_lines(series, "diversity", "share")
    assert [trace.name for trace in figure.data] == list(series)
    assert np.isnan(figure.data[3].y[2]) and figure.data[3].connectgaps is False
    looks = {(t.line.color, t.line.dash, t.marker.symbol) for t in figure.data}
    assert len(looks) == 11 and len({t.marker.symbol for t in figure.data}) == 11
    assert "1 of 55 points" in figure.layout.title.text
    with pytest.raises(ArgumentError):
        layer_lines({}, "diversity", "share")
    with pytest.raises((ShapeError, TypeError)):
        layer_lines({"a": np.ones(3), "b": np.ones(5)}, "diversity", "share")


def test_a_band_is_shaded_over_all_layers() -> None:
    (shape,) = layer_lines({"a": np.ones(3)}, "a", "b", band=(-0.5, 0.25)).layout.shapes
    assert (shape.y0, shape.y1, shape.xref, shape.layer) == (-0.5, 0.25, "paper", "below")


def test_text_stays_text_and_themes_differ() -> None:
    one = by_layer(VALUES, HOSTILE, HOSTILE, baselines={HOSTILE: 1.0}, selected=(0, 1))
    two = layer_lines({HOSTILE: np.ones(3)}, HOSTILE, HOSTILE)
    assert is_neutral(one) and is_neutral(two)
    for draw in (
        lambda dark: by_layer(VALUES, "a", "b", selected=(0, 0), dark=dark),
        lambda dark: layer_lines({"a": np.ones(3)}, "a", "b", dark=dark),
    ):
        light, dark = draw(False), draw(True)
        for a, b in zip(light.data, dark.data, strict=True):
            assert a.marker.color != b.marker.color or a.line.color != b.line.color
        assert light.layout.font.color != dark.layout.font.color
