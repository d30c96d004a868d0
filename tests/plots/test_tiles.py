"""Small heatmaps of a few heads: exact weights, names, marks, and what cannot be drawn."""

import numpy as np
import pytest

from mha_viz.errors import ShapeError
from mha_viz.plots.frame import MASKED
from mha_viz.plots.heatmap import head_tiles
from tests.plots.drawn import HOSTILE, is_neutral

RNG = np.random.default_rng(3)
PATTERNS = RNG.dirichlet(np.ones(5), size=(2, 6, 4))  # 2 layers, 6 heads, 4 queries, 5 keys


def test_every_head_is_a_tile_with_its_weights_and_its_name():
    figure = head_tiles(PATTERNS, title="t")
    assert len(figure.data) == 12
    for i, tile in enumerate(figure.data):
        np.testing.assert_allclose(tile.z, PATTERNS[i // 6, i % 6], rtol=1e-6)
        assert (tile.customdata[2, 3] == [2, 3]).all()
    assert [a.text for a in figure.layout.annotations][5:7] == ["L0 H5", "L1 H0"]


def test_masked_cells_are_grey_and_say_so():
    seen = np.tri(4, 5, dtype=bool)
    figure = head_tiles(np.where(seen, PATTERNS, 0), title="t", visible=seen)
    assert len(figure.data) == 24
    for tile, masked in zip(figure.data[::2], figure.data[1::2], strict=True):
        assert (np.isnan(tile.z) == ~seen).all() and (np.isnan(masked.z) == seen).all()
        assert MASKED in masked.hovertemplate
        assert (tile.x0, tile.dx, tile.y0, tile.dy) == (masked.x0, masked.dx, masked.y0, masked.dy)
    with pytest.raises(ShapeError, match="visible"):
        head_tiles(PATTERNS, title="t", visible=seen[:3])


def test_texts_are_never_markup():
    assert is_neutral(head_tiles(PATTERNS, title=HOSTILE, note=HOSTILE))
