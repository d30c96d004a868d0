"""Figures over layers hold every head's exact value where it belongs, and leave out what is not."""

import numpy as np
import pytest

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
