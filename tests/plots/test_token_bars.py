"""Bars per token hold the numbers as they are, and no token is markup."""

import numpy as np
import pytest

from mha_viz.plots.bars import token_bars


def test_bars_hold_each_series_in_the_order_of_the_text() -> None:
    first, second = np.array([0.25, 0.5, 0.25]), np.array([0.1, np.nan, 0.9])
    figure = token_bars({"one": first, "two": second}, ["a", "a", "<b>"], "share")
    assert [bar.name for bar in figure.data] == ["one", "two"]
    assert figure.data[0].y.tolist() == pytest.approx(first.tolist())
    assert np.isnan(figure.data[1].y[1]) and figure.data[1].x.tolist() == [0, 1, 2]
    assert figure.layout.xaxis.ticktext == ("a", "a", "&lt;b&gt;")
    assert "<b>" not in "".join(figure.data[0].customdata)
