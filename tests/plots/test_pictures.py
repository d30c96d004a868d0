"""Pictures side by side, tiles of heads, matrices with their numbers, and arrows."""

import json

import numpy as np
import pytest
import torch

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.pictures import (
    Cells,
    MatrixLook,
    cells_figure,
    number_matrix,
    overlay_cells,
    picture_cells,
    tile_cells,
)
from mha_viz.plots.vectors import arrows, layer_picture
from tests.plots.drawn import HOSTILE, is_neutral, texts


def pictures(panels, zero=None, marked=None):
    return cells_figure(picture_cells(panels, zeros=zero or {}, marked=marked), across=2)


def test_pixels_are_drawn_as_they_are_and_clipped():
    grey = np.array([[0.0, 0.5, 1.0], [-3.0, 7.0, np.nan]])
    figure = pictures({"a": grey, "b": np.zeros((2, 3, 3))}, zero={"a": 0.0})
    drawn = np.array(figure.data[0].z)
    assert drawn.shape == (2, 3, 3) and (drawn == drawn[:, :, :1]).all()
    assert drawn[:, :, 0].tolist() == [[0, 128, 255], [0, 255, 0]]
    points = figure.data[1]
    assert (points.x[4], points.y[4]) == (1, 1)
    numbers = ("0", "0.5", "1", "−3", "7", "not defined")
    places = [f"row {row}, column {column}" for row in range(2) for column in range(3)]
    assert points.hovertext == tuple(
        f"a · {place}<br><b>{number}</b>" for place, number in zip(places, numbers, strict=True)
    )
    assert figure.data[2].xaxis == "x2"
    assert figure.data[3].hovertext[0].endswith("<b>0, 0, 0</b>")


def test_overlay_cells_tints_patches_and_says_their_weights():
    grey = np.array([[0.0, 1.0, 0.0], [0.0, 0.5, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
    weights = torch.tensor([[[0.0], [0.25]], [[0.5], [1.0]]])  # patches of two rows
    cells, brighter = overlay_cells(grey, weights, ["a", "b"])
    orange, share = np.array([0xFF, 0xB4, 0x54]) / 255, 0.75 * 0.5
    drawn = np.array(cells.numbers).reshape(4, 3, 3)
    np.testing.assert_allclose(drawn[:2], np.repeat(grey[:2, :, None], 3, 2))
    np.testing.assert_allclose(
        drawn[2:], (1 - share) * grey[2:, :, None] + share * orange, atol=1e-6
    )
    assert cells.hovered == [0.0] * 6 + [0.25] * 6
    hover = cells_figure([cells], across=1).data[1].hovertext
    assert hover[6] == "a · row 2, column 0<br>weight of its patch <b>0.25</b>"
    np.testing.assert_allclose(brighter.numbers[6], 0.25 + 0.75 * orange, atol=1e-6)
    (untinted,) = overlay_cells(grey, weights[:1] * 0, ["a"])
    assert untinted.hovered == [0.0] * 12 and untinted.numbers[0] == (0.0,) * 3
    with pytest.raises(ShapeError, match="do not divide"):
        overlay_cells(grey, torch.ones(1, 3, 2), ["a"])


def test_pictures_for_the_browser():
    grey = np.array([[0.0, 0.5, 1.0], [-3.0, 7.0, np.nan]])
    (cells,) = picture_cells({"a": grey}, zeros={"a": 0.5}, marked=(1, 2), side=210)
    assert cells.numbers == [0, 0.5, 1, -3, 7, None] and cells.scale == "grey"
    assert (cells.low, cells.high) == (-0.5, 0.5)  # a zero of its own moves the colour alone
    assert cells.cell == (70.0, 70.0) and cells.marked == ((1, 2),)
    assert cells.names == (["row 0", "row 1"], ["column 0", "column 1", "column 2"])
    colours = np.arange(18.0).reshape(2, 3, 3)
    colours[0, 1, 2] = np.nan
    (cells,) = picture_cells({"b": torch.tensor(colours)})
    assert cells.scale == "colours"
    assert cells.numbers == [
        (0, 1, 2),
        None,
        (6, 7, 8),
        (9, 10, 11),
        (12, 13, 14),
        (15, 16, 17),
    ]
    with pytest.raises(ArgumentError, match="64 x 64"):
        picture_cells({"c": np.zeros((65, 1))})


def test_titles_are_no_markup():
    figure = pictures({"<b>$x$": np.zeros((1, 1))})
    assert figure.layout.annotations[0].text == "&lt;b&gt;&#36;x&#36;"


def test_a_tile_is_the_window_around_the_pixel():
    pattern = np.zeros((3, 4, 4))
    pattern[0, 0, 0], pattern[1, 1, 1], pattern[2, 3, 3] = 1.0, 0.25, 1.0
    tiles = tile_cells(pattern, (1, 0), ["a", "b", "<c>"], radius=1)
    assert [tile.title for tile in tiles] == ["a", "b", "<c>"]
    assert tiles[0].numbers == [None, 1, 0, None, 0, 0, None, 0, 0]
    assert tiles[1].numbers == [None, 0, 0, None, 0, 0.25, None, 0, 0]
    assert tiles[0].names == [["row 0", "row 1", "row 2"], ["outside", "column 0", "column 1"]]
    assert tiles[2].marked == ((1, 1),) and tiles[2].note == "weight of head 2"
    figure = cells_figure(tiles, across=3)
    first, second, third = (np.array(cells.z, dtype=float) for cells in figure.data[::2])
    assert np.isnan(first[:, 0]).all()  # left of the picture
    assert first[0, 1] == 1.0 and second[1, 2] == 0.25 and np.nansum(third) == 0
    assert figure.data[3].hovertext[5] == "b · row 1, column 1<br>weight of head 1 <b>0.25</b>"
    with pytest.raises(ValueError, match="shorter"):
        tile_cells(pattern, (1, 0), ["a"], radius=1)


VALUES = np.array([[0.5, -1.25, 0.001], [-0.001, 1234567.0, np.inf]])


def matrix(values: np.ndarray, title: str, **look: object) -> Cells:
    return number_matrix(values, title, MatrixLook(**look))


def test_every_cell_has_its_number() -> None:
    cells = matrix(VALUES, "Q")
    assert cells.texts == ["0.50", "−1.25", "0.00", "0.00", "1e+06", "–"]
    assert cells.numbers == [0.5, -1.25, 0.001, -0.001, 1234570.0, None]
    long = matrix(np.array([[9.996, -12.34, 123.4]]), "Q").texts
    assert long == ["10.0", "−12.3", "123"]
    narrow = matrix(VALUES[:1], "Q", cell=30).texts  # two decimals would run into each other
    assert narrow == ["0.5", "−1.2", "0.0"] and matrix(VALUES, "Q", cell=29).texts is None
    assert json.loads(json.dumps(vars(cells), allow_nan=False))["numbers"][5] is None


def test_names_are_cleaned_and_short_ones_stand_beside_the_cells() -> None:
    cells = matrix(
        VALUES,
        "<b>Q</b>",
        rows=["<i>a</i>", "b\n"],
        columns=["x", "y", "a rather long name"],
    )
    assert cells.title == "<b>Q</b>"  # text, and the browser never reads it as anything else
    assert cells.names == (["<i>a</i>", "b␊"], ["x", "y", "a rather long name"])
    assert cells.shown == (["<i>a</i>", "b␊"], ["x", "y", "a rather long…"])
    plain = matrix(VALUES, "Q")
    assert plain.shown == (None, None) and plain.names == (["0", "1"], ["0", "1", "2"])


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
