"""Matrices with their numbers: what is written and named, and how large they are."""

import json

import numpy as np

from mha_viz.plots.pictures import Cells, MatrixLook, number_matrix

VALUES = np.array([[0.5, -1.25, 0.001], [-0.001, 1234567.0, np.inf]])


def matrix(values: np.ndarray, title: str, **look: object) -> Cells:
    return number_matrix(values, title, MatrixLook(**look))


def test_every_cell_has_its_number() -> None:
    cells = matrix(VALUES, "Q")
    assert cells.texts == ["0.50", "−1.25", "0.00", "0.00", "1e+06", "–"]
    assert cells.numbers == [0.5, -1.25, 0.001, -0.001, 1234570.0, None]
    long = matrix(np.array([[9.996, -12.34, 123.4]]), "Q").texts
    assert long == ["10.0", "−12.3", "123"]
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
