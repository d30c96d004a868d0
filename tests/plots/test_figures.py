"""Heatmaps hold the weights as they are, with texts as texts; long ones are pooled."""

import base64
import json

import numpy as np
import pytest

from mha_viz.errors import ShapeError
from mha_viz.plots.frame import MASKED
from mha_viz.plots.heatmap import MAX_ROWS, Pooled, head_heatmap, head_tiles
from mha_viz.web import theme
from tests.plots.drawn import HOSTILE, is_neutral, softmax_rows

ODD_TEXTS = [
    "<b>x</b>",
    "<script>alert(1)</script>",
    "$\\alpha$",
    "&lt;",
    "<a href='x'>y</a>",
    "a\x00b",
    "%{z}",
]


def test_heatmap_holds_the_weights_exactly() -> None:
    pattern = softmax_rows(5, 7)
    for scale in theme.SCALES:
        figure = head_heatmap(pattern, (list("abcde"), list("abcdefg")), scale=scale)
        data = json.loads(figure.to_json())["data"][0]["z"]
        sent = np.frombuffer(base64.b64decode(data["bdata"]), dtype=data["dtype"])
        assert (sent.reshape(5, 7) == pattern).all()


def test_heatmap_names_masked_cells_and_leaves_their_weight_open() -> None:
    seen = np.tri(4, dtype=bool)
    pattern = np.where(seen, np.eye(4), 0).astype(np.float32)  # visible zeros below the diagonal
    figure = head_heatmap(pattern, (list("abcd"), list("abcd")), visible=seen)
    weights, _, masked, swatch = figure.data
    assert (np.isnan(weights.z) == ~seen).all() and (weights.z[seen] == pattern[seen]).all()
    assert (np.isnan(masked.z) == seen).all()
    assert weights.hoverongaps is False and masked.hoverongaps is False
    grey = theme.missing()
    assert {colour for _, colour in masked.colorscale} == {grey} == {swatch.marker.color}
    assert figure.layout.showlegend and swatch.name == "masked"
    shown = [trace for trace in figure.data if trace.type == "scatter" and trace.showlegend]
    assert shown == [swatch]
    whole = head_heatmap(pattern, (list("abcd"), list("abcd")), visible=np.ones((4, 4), bool))
    assert len(whole.data) == 2 and not whole.layout.showlegend


QUERIES, KEYS, SIDE = 17, 23, 5  # 23 in cells of 5: 5 columns, the last one narrower


def numbers() -> np.ndarray:
    matrix = np.random.default_rng(3).normal(size=(QUERIES, KEYS))
    matrix[5:10, 5:10] = np.nan  # a cell of nothing
    matrix[0, 1] = np.nan
    return matrix


def test_a_cell_is_the_number_furthest_from_0():
    matrix = numbers()
    pooled = Pooled.of(matrix, most=5)
    assert pooled.side == SIDE and pooled.note == "each cell is the largest of 5 × 5"
    found = pooled.take(matrix)
    assert found.shape == (4, 5)
    for row, column in np.ndindex(4, 5):
        cell = matrix[SIDE * row : SIDE * (row + 1), SIDE * column : SIDE * (column + 1)].ravel()
        known = cell[~np.isnan(cell)]
        expected = known[np.abs(known).argmax()] if len(known) else np.nan
        np.testing.assert_equal(found[row, column], expected)
    assert pooled.names([str(i) for i in range(KEYS)])[3:] == ["15 … 19", "20 … 22"]


@pytest.fixture
def long_head() -> tuple[np.ndarray, tuple[list[str], list[str]]]:
    n = MAX_ROWS + 11
    weights = np.tril(np.random.default_rng(5).random((n, n), dtype=np.float32))
    weights /= weights.sum(-1, keepdims=True)
    labels = [f"t{i}" for i in range(n)]
    return weights, (labels, labels)


def test_a_long_heads_chart_is_pooled_and_says_so(long_head):
    weights, labels = long_head
    seen = np.tril(np.ones_like(weights, dtype=bool))
    figure = head_heatmap(weights, labels, title="L1 H2", visible=seen)
    cells = np.array(figure.data[0].z)
    assert cells.shape == (262, 262)
    assert cells[7, 3] == weights[14:16, 6:8].max() and np.isnan(cells[3, 7])
    assert cells[3, 3] == weights[6:8, 6:8][np.tril_indices(2)].max()
    assert figure.layout.title.text == "L1 H2 · each cell is the largest of 2 × 2"


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
