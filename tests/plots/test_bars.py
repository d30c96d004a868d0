"""Parts of a number, drawn: every part is there, with its sign, and texts stay texts."""

import numpy as np

from mha_viz.plots.bars import share_matrix, signed_rows, stacked_shares
from tests.plots.drawn import HOSTILE, is_neutral


def test_piles_have_every_part_and_a_mark_at_their_sum():
    heads, rest = np.array([1.0, -2.0, 0.5]), np.array([-0.25, 0.0, 3.0])
    figure = stacked_shares({"heads": heads, "rest": rest}, ["a", "b", "c"], "logits")
    bars = [trace for trace in figure.data if trace.type == "bar"]
    assert [trace.name for trace in bars] == ["heads", "rest"]
    np.testing.assert_array_equal([trace.y for trace in bars], [heads, rest])
    (mark,) = (trace for trace in figure.data if trace.type == "scatter")
    np.testing.assert_array_equal(mark.y, heads + rest)


def test_names_are_texts():
    figures = (
        stacked_shares({HOSTILE: np.ones(1)}, [HOSTILE], HOSTILE, title=HOSTILE),
        signed_rows([HOSTILE], np.ones(1), HOSTILE, title=HOSTILE),
        share_matrix(np.ones((1, 1)), [HOSTILE], [HOSTILE], HOSTILE, title=HOSTILE),
    )
    for figure in figures:
        assert is_neutral(figure)
