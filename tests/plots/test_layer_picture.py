"""The picture of a layer: numbers of each block where its place is, shapes, and pooled texts."""

import numpy as np
import pytest
import torch

from mha_viz.errors import ShapeError
from mha_viz.plots.vectors import layer_picture


def picture(n: int, heads: int, width: int, chosen: int = 0):
    random = torch.Generator().manual_seed(3)
    blocks = [(name, torch.randn(n, width, generator=random)) for name in ("X", "joined", "output")]
    patterns = torch.randn(heads, n, n, generator=random).softmax(-1)
    return layer_picture(blocks, patterns, chosen), blocks, patterns


@pytest.mark.parametrize("heads", [1, 17])
def test_each_matrix_is_drawn_once_in_a_box_of_its_own(heads):
    figure, blocks, patterns = picture(7, heads, 11, heads - 1)
    drawn = [blocks[0][1], *patterns, blocks[1][1], blocks[2][1]]
    assert len(figure.data) == len(drawn)
    boxes = []
    for trace, numbers in zip(figure.data, drawn, strict=True):
        np.testing.assert_allclose(trace.z, numbers, rtol=1e-6)
        rows, columns = np.shape(trace.z)
        left, top = trace.x0 - trace.dx / 2, trace.y0 - trace.dy / 2
        boxes.append((left, top, left + columns * trace.dx, top + rows * trace.dy))
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            apart = one[0] >= other[2] or other[0] >= one[2]
            assert apart or one[1] >= other[3] - 1e-9 or other[1] >= one[3] - 1e-9
    frame = figure.layout.shapes[0]
    assert (frame.x0, frame.y0) == pytest.approx(boxes[heads][:2])  # the last head


def test_long_texts_are_pooled_and_their_shapes_are_not():
    figure, _, _ = picture(131, 2, 257)
    assert max(max(np.shape(trace.z)) for trace in figure.data) <= 256
    assert max(np.shape(figure.data[1].z)) <= 64
    assert "131 × 257" in [mark.text for mark in figure.layout.annotations]


def test_a_layer_has_three_blocks():
    with pytest.raises(ShapeError, match="an input, a concatenation and an output"):
        layer_picture([], torch.ones(1, 1, 1), 0)
