"""Matrices with their numbers: what is written, framed and hovered, and how large they are."""

import numpy as np
import pytest

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.numbers import number_matrix

VALUES = np.array([[0.5, -1.25, 0.001], [-0.001, 1234567.0, np.inf]])


def test_every_cell_has_its_number() -> None:
    cells = number_matrix(VALUES, "Q").data[0]
    assert [list(row) for row in cells.text] == [["0.50", "-1.25", "0.00"], ["0.00", "1e+06", "–"]]
    assert np.isnan(cells.z[1, 2]) and cells.z[0, 1] == -1.25
    assert "not defined" in cells.hovertext[1][2] and "-1.25" in cells.hovertext[0][1]


def test_rows_run_from_top_to_bottom_and_names_are_text() -> None:
    figure = number_matrix(VALUES, "<b>Q</b>", ["<i>a</i>", "b"], ["x", "y", "a long name"])
    low, high = figure.layout.yaxis.range
    assert low > high and figure.layout.xaxis.side == "top"
    assert figure.layout.xaxis.tickangle == -40  # one name is wider than its cell
    written = str(figure.layout.title.text) + str(figure.layout.yaxis.ticktext)
    assert "<i>" not in written and "<b>Q</b></b>" not in written
    plain = number_matrix(VALUES, "Q")
    assert not plain.layout.xaxis.tickvals and not plain.layout.yaxis.tickvals


def test_signed_numbers_are_coloured_around_zero_and_others_by_their_range() -> None:
    values = VALUES[:1]
    signed, other = number_matrix(values, "Q").data[0], number_matrix(values, "A", diverging=False)
    assert (signed.zmin, signed.zmax) == (-1.25, 1.25)
    assert (other.data[0].zmin, other.data[0].zmax) == (-1.25, 0.5)
    assert number_matrix(values, "A", limits=(0, 1)).data[0].zmax == 1


def test_marked_cells_are_framed() -> None:
    shapes = number_matrix(VALUES, "Q", marked=[(1, 2), (0, 0)]).layout.shapes
    assert [(s.x0, s.x1, s.y0, s.y1) for s in shapes] == [
        (1.5, 2.5, 0.5, 1.5), (-0.5, 0.5, -0.5, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [3, 17, 61])
def test_it_fits_the_room_that_there_is(columns: int) -> None:
    values, names = np.ones((5, columns)), [f"token{i}" for i in range(columns)]
    wide = number_matrix(values, "A", ["row"] * 5, names)
    narrow = number_matrix(values, "A", ["row"] * 5, names, room=350)
    assert wide.layout.width > 46 * columns and narrow.layout.width <= 350
    assert (narrow.data[0].text is None) == (columns > 6)  # no room for numbers
    assert narrow.data[0].hovertext[4][columns - 1].endswith("<b>1</b>")


def test_dark_has_colours_of_its_own() -> None:
    light, dark = (number_matrix(VALUES, "Q", marked=[(0, 0)], dark=d) for d in (False, True))
    assert light.data[0].colorscale != dark.data[0].colorscale
    assert light.layout.shapes[0].line.color != dark.layout.shapes[0].line.color


def test_what_is_no_matrix_or_too_large_is_refused() -> None:
    with pytest.raises(ShapeError, match="2 axes"):
        number_matrix(np.ones(3), "v")
    with pytest.raises(ArgumentError, match="at most 4,096 cells"):
        number_matrix(np.ones((64, 65)), "W")
    with pytest.raises(ShapeError):
        number_matrix(VALUES, "Q", rows=["only one"])
