"""A window of tokens: which pairs lie in it, and their rows and columns there."""

import numpy as np

from mha_viz.ui.widgets.controls.token_window import Shown


def test_places_are_those_of_the_cut_matrix() -> None:
    rows, columns = slice(5, 11), slice(3, 10)
    names = [f"t{i}" for i in range(17)]
    cut = Shown(rows, columns, (names[rows], names[columns]), (names[rows], names[columns]))
    matrix = np.arange(17 * 17).reshape(17, 17)
    pairs = [(query, key) for query in range(17) for key in range(17)]
    inside = [pair for pair in pairs if 5 <= pair[0] < 11 and 3 <= pair[1] < 10]
    places = cut.places(pairs)
    assert [cut.cut(matrix)[place] for place in places] == [matrix[pair] for pair in inside]
    assert cut.places([(4, 5), (11, 5), (7, 2), (7, 10)]) == []
