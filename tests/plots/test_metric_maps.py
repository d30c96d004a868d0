"""Small maps of all metrics: every value in its cell, on a scale of its own, clickable."""

import numpy as np
import pytest

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots import head_map as module
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
        assert f"{values.min():.3g} to {values.max():.3g}" in text.text
    assert [" nats" in text.text for text in figure.layout.annotations] == [0, 1, 0, 0]
    assert "<script" not in figure.layout.annotations[3].text


def test_a_click_in_a_cell_names_the_metric_and_the_head():
    figure = metric_maps(MAPS, {})
    cells = [trace for trace in figure.data if trace.type == "heatmap"]
    points = [trace for trace in figure.data if trace.customdata is not None]
    seen = set()
    for trace in points:
        for x, y, (number, layer, head), value in zip(
            trace.x, trace.y, trace.customdata.tolist(), trace.marker.color, strict=True
        ):
            of = cells[number]
            assert (round((x - of.x0) / of.dx, 3), round((y - of.y0) / of.dy, 3)) == (head, layer)
            assert value == pytest.approx(list(MAPS.values())[number][layer, head], rel=1e-6)
            seen.add((number, layer, head))
    assert len(seen) == 4 * 3 * 7


def test_maps_do_not_overlap_and_fill_the_figure():
    for shape in ((1, 1), (12, 12), (32, 32)):
        maps = {f"metric {i}": DICE.normal(size=shape) for i in range(5)}
        figure = metric_maps(maps, {})
        boxes = [(s.x0, s.y0, s.x1, s.y1) for s in figure.layout.shapes]
        assert len(boxes) == 5
        for i, (x0, y0, x1, y1) in enumerate(boxes):
            assert x1 - x0 == pytest.approx(1) and y1 - y0 >= 26
            for a0, b0, a1, b1 in boxes[:i]:
                assert x0 >= a1 or a0 >= x1 or y0 - module._TEXT >= b1 or b0 - module._TEXT >= y1
        assert max(box[3] for box in boxes) < figure.layout.yaxis.range[0]


def test_what_is_not_defined_is_hatched_and_not_zero():
    holed = {name: values.copy() for name, values in MAPS.items()}
    holed["a"][2, 5] = np.nan
    holed["b"][:] = np.inf
    figure = metric_maps(holed, {"b": "nats"})
    first, second = [trace for trace in figure.data if trace.type == "heatmap"][:2]
    assert np.isnan(first.z).sum() == 1 and np.isnan(first.z[2, 5])
    assert first.zmin == pytest.approx(np.nanmin(holed["a"]))
    assert np.isnan(second.z).all()
    assert "not defined" in figure.layout.annotations[1].text
    missing = [t for t in figure.data if t.hovertemplate and "not defined" in t.hovertemplate]
    assert [len(trace.customdata) for trace in missing] == [1, 21]
    assert missing[0].customdata.tolist() == [[0, 2, 5]]
    lines = [
        t
        for t in figure.data
        if t.type == "scatter" and t.mode == "lines" and t.x is not None and len(t.x) == 3
    ]
    assert lines[0].x[:2] == pytest.approx([5 / 7, 6 / 7], abs=1e-6)


def test_heads_that_differ_by_rounding_have_one_colour_and_one_number():
    values = np.full((2, 3), 0.25)
    values[1, 1] += 1e-8
    figure = metric_maps({"a": values}, {})
    assert (figure.data[0].zmin, figure.data[0].zmax) == pytest.approx((-0.25, 0.75))
    assert "0.25<" in figure.layout.annotations[0].text
    assert " to " not in figure.layout.annotations[0].text


def test_the_chosen_metric_and_head_are_framed():
    plain, marked = metric_maps(MAPS, {}), metric_maps(MAPS, {}, chosen="b", selected=(2, 4))
    assert len(marked.layout.shapes) == len(plain.layout.shapes) + 1
    assert [text.font.weight for text in marked.layout.annotations] == [400, 700, 400, 400]
    frame = marked.data[-1]
    assert frame.x[:2] == pytest.approx((4 / 7, 5 / 7)) and len(frame.x) == 6 * 4
    with pytest.raises(ArgumentError, match="L3 H0"):
        metric_maps(MAPS, {}, selected=(3, 0))


def test_bad_input_gets_a_sentence():
    with pytest.raises(ArgumentError, match="no metric"):
        metric_maps({}, {})
    with pytest.raises((ShapeError, TypeError)):
        metric_maps({"a": np.ones((2, 3)), "b": np.ones((2, 5))}, {})
