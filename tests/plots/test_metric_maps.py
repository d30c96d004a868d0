"""Small maps of all metrics: every value in its cell, on its scale."""

import numpy as np
import pytest

from mha_viz.core.amounts import format_number
from mha_viz.plots.head_map import metric_maps
from tests.plots.drawn import HOSTILE

DICE = np.random.default_rng(7)
MAPS = {name: DICE.normal(10.0**i, 3, (3, 7)) for i, name in enumerate(("a", "b", "c", HOSTILE))}


def test_each_metric_has_its_values_and_its_own_scale():
    figure = metric_maps(MAPS, {"b": "nats"})
    drawn = [trace for trace in figure.data if trace.type == "heatmap"]
    for trace, text, values in zip(drawn, figure.layout.annotations, MAPS.values(), strict=True):
        assert trace.z == pytest.approx(values, rel=1e-6)
        assert (trace.zmin, trace.zmax) == pytest.approx((values.min(), values.max()))
        assert f"{format_number(values.min())} to {format_number(values.max())}" in text.text
    assert "<script" not in figure.layout.annotations[3].text
