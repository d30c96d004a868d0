"""Arrows in the plane, and the picture of a layer: each number where it belongs."""

import numpy as np
import pytest
import torch

from mha_viz.plots.vectors import arrows, layer_picture
from tests.plots.drawn import HOSTILE, is_neutral, texts

VECTORS = [[2.0, 1.0], [-1.0, 0.5], [0.0, -3.0]]


def test_every_vector_is_an_arrow_from_the_origin():
    figure = arrows(VECTORS, ["a", "b", "c"], title="t")
    assert [(tip.x[0], tip.y[0]) for tip in figure.data] == [tuple(v) for v in VECTORS]
    assert [(a.x, a.y, a.ax, a.ay) for a in figure.layout.annotations] == [
        (x, y, 0, 0) for x, y in VECTORS
    ]
    assert [tip.textposition for tip in figure.data] == ["top right", "top left", "bottom center"]
    assert "length 2.24" in texts(figure)
    low, high = figure.layout.xaxis.range
    assert -low == high >= 3 and figure.layout.yaxis.range == (low, high)


def test_on_the_line_every_product_is_that_of_the_chosen_with_itself():
    x = np.array(VECTORS[0])
    figure = arrows(VECTORS, ["a", "b", "c"], title="t", chosen=0, circle=True)
    line = figure.data[0]
    for point in zip(line.x, line.y, strict=True):
        assert x @ np.array(point) == pytest.approx(x @ x)
    assert figure.layout.shapes[0].x1 == pytest.approx(5**0.5)


def test_names_are_never_markup():
    assert is_neutral(arrows(VECTORS, [HOSTILE] * 3, title=HOSTILE, chosen=0))


def picture(n: int, heads: int, width: int, chosen: int = 0):
    random = torch.Generator().manual_seed(3)
    blocks = [(name, torch.randn(n, width, generator=random)) for name in ("X", "joined", "output")]
    patterns = torch.randn(heads, n, n, generator=random).softmax(-1)
    return layer_picture(blocks, patterns, chosen), blocks, patterns


@pytest.mark.parametrize("heads", [1, 17])
def test_each_matrix_is_drawn_once_and_the_chosen_head_framed(heads):
    figure, blocks, patterns = picture(7, heads, 11, heads - 1)
    drawn = [blocks[0][1], *patterns, blocks[1][1], blocks[2][1]]
    assert len(figure.data) == len(drawn)
    for trace, numbers in zip(figure.data, drawn, strict=True):
        np.testing.assert_allclose(trace.z, numbers, rtol=1e-6)
    frame, chosen = figure.layout.shapes[0], figure.data[heads]
    corner = chosen.x0 - chosen.dx / 2, chosen.y0 - chosen.dy / 2
    assert (frame.x0, frame.y0) == pytest.approx(corner)  # the last head
