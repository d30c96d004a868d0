"""The picture of a layer: numbers of each block, and the frame of the chosen head."""

import numpy as np
import pytest
import torch

from mha_viz.plots.vectors import layer_picture


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
