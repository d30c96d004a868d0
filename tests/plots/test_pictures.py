"""Pictures side by side, and tiles of heads."""

import numpy as np
import pytest
import torch

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.pictures import picture_cells, pictures, pixel_tiles, tile_cells


def test_pixels_are_drawn_as_they_are_and_clipped():
    grey = np.array([[0.0, 0.5, 1.0], [-3.0, 7.0, np.nan]])
    figure = pictures({"a": grey, "b": np.zeros((2, 3, 3))}, zero={"a": 0.0}, columns=2)
    drawn = np.array(figure.data[0].z)
    assert drawn[:, :, 0].tolist() == [[0, 128, 255], [0, 255, 0]]
    points = figure.data[1]
    assert (points.x[4], points.y[4]) == (1, 1)
    assert points.hovertemplate == (
        "a · row %{y}, column %{x}<br><b>%{hovertext}</b><extra></extra>"
    )
    assert points.hovertext == ("0", "0.5", "1", "-3", "7", "not defined")
    assert figure.data[2].xaxis == "x2"


def test_a_zero_of_its_own_moves_the_colour_and_not_the_number():
    figure = pictures({"a": np.zeros((1, 1)), "b": np.zeros((1, 1))}, zero={"b": 0.5})
    assert np.array(figure.data[0].z)[0, 0, 0] == 0
    assert np.array(figure.data[2].z)[0, 0, 0] == 128
    assert figure.data[3].hovertext[0] == "0"


def test_the_chosen_pixel_is_framed():
    figure = pictures({"a": np.zeros((2, 3))}, marked=(1, 2))
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].y0) == (1.5, 0.5)


def test_pictures_for_the_browser():
    grey = np.array([[0.0, 0.5, 1.0], [-3.0, 7.0, np.nan]])
    cells = picture_cells(grey, "a", zero=0.5, marked=(1, 2), side=210)
    assert cells.numbers == [0, 0.5, 1, -3, 7, None] and cells.scale == "grey"
    assert (cells.low, cells.high) == (-0.5, 0.5)  # a zero of its own moves the colour alone
    assert cells.cell == (70.0, 70.0) and cells.marked == ((1, 2),)
    assert cells.names == (["row 0", "row 1"], ["column 0", "column 1", "column 2"])
    colours = np.arange(18.0).reshape(2, 3, 3)
    colours[0, 1, 2] = np.nan
    cells = picture_cells(torch.tensor(colours), "b")
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
        picture_cells(np.zeros((65, 1)), "c")


def test_titles_are_no_markup():
    figure = pictures({"<b>$x$": np.zeros((1, 1))})
    assert figure.layout.annotations[0].text == "&lt;b&gt;&#36;x&#36;"


def test_pictures_that_are_none():
    with pytest.raises(ShapeError):
        pictures({})
    with pytest.raises(ShapeError):
        pictures({"a": np.zeros((1, 1)), "b": np.zeros((1, 2))})
    with pytest.raises(ShapeError, match="red, green and blue"):
        pictures({"a": np.zeros((1, 1, 2))})
    with pytest.raises(ArgumentError, match="64 x 64"):
        pictures({"a": np.zeros((65, 1))})


def test_a_tile_is_the_window_around_the_pixel():
    pattern = np.zeros((3, 4, 4))
    pattern[0, 0, 0], pattern[1, 1, 1], pattern[2, 3, 3] = 1.0, 0.25, 1.0
    figure = pixel_tiles(pattern, (1, 0), [(0, -1), (0, 0), (0, 1)], ["a", "b", "<c>"], radius=1)
    cells = np.array(figure.data[0].z, dtype=float)
    assert cells.shape == (5, 15)  # tiles of 3, 2 above and 2 beside each
    first = cells[2:5, 0:3]
    assert np.isnan(first[:, 0]).all()  # left of the picture
    assert first[0, 1] == 1.0 and cells[3, 5 + 2] == 0.25 and np.nansum(cells[:, 10:]) == 0
    assert "head 1 → row 1, column 1" in figure.data[0].hovertext[3][7]
    assert [note.text for note in figure.layout.annotations] == ["a", "b", "&lt;c&gt;"]
    tiles = tile_cells(pattern, (1, 0), ["a", "b", "<c>"], radius=1)
    assert [tile.title for tile in tiles] == ["a", "b", "<c>"]
    assert tiles[0].numbers == [None, 1, 0, None, 0, 0, None, 0, 0]
    assert tiles[1].numbers == [None, 0, 0, None, 0, 0.25, None, 0, 0]
    assert tiles[0].names == [["row 0", "row 1", "row 2"], ["outside", "column 0", "column 1"]]
    assert tiles[2].marked == ((1, 1),) and tiles[2].note == "weight of head 2"
    with pytest.raises(ShapeError):
        pixel_tiles(pattern, (1, 0), [(0, 0)], ["a"], radius=1)
