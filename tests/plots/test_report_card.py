"""The report card puts every head on its metric's own scale, and ranks the chosen one."""

from types import SimpleNamespace

import numpy as np
import pytest

from mha_viz.plots.report_card import report_card
from tests.plots.drawn import HOSTILE, is_neutral

RNG = np.random.default_rng(13)
VALUES = {"entropy": RNG.random((3, 5)) * 7, "reach": RNG.random((3, 5)) - 0.5}
TITLES = {"entropy": "Entropy", "reach": "Reach"}
UNITS = {"entropy": "nats"}


def parts(figure, rows: int):
    """Dots of each row, baselines, the chosen head, texts."""
    _, dots, *others = figure.data
    row_of = np.rint(dots.y)
    kept = [np.flatnonzero(row_of == row) for row in range(rows)]
    split = ("x", "y", "customdata", "hovertext")
    return [
        SimpleNamespace(**{name: [getattr(dots, name)[i] for i in where] for name in split})
        for where in kept
    ], *others


def test_dots_lie_on_their_own_scale() -> None:
    rows, _, chosen, texts = parts(report_card(VALUES, TITLES, UNITS, (1, 3)), 2)
    for row, table in zip(rows, VALUES.values(), strict=True):
        assert [list(p) for p in row.customdata] == [[i, j] for i in range(3) for j in range(5)]
        want = (table - table.min()) / np.ptp(table)
        assert row.x == pytest.approx(want.ravel(), abs=1e-6)
    assert np.rint(rows[1].y).tolist() == [1] * 15
    assert chosen.x[0] == pytest.approx(rows[0].x[8]) and chosen.y[1] == pytest.approx(rows[1].y[8])
    assert [list(p) for p in chosen.customdata] == [[1, 3], [1, 3]]
    table = VALUES["entropy"]
    assert any(f"{table[1, 3]:.4g} nats" in text for text in texts.text)
    for end in (table.min(), table.max()):
        assert any(f">{end:.3g}<" in text for text in texts.text)


def test_hover_ranks() -> None:
    table = np.array([[0.1, 0.9, np.nan], [0.5, 0.5, 0.3]])
    figure = report_card({"m": table}, {}, {}, (1, 1))
    (row,), _, chosen, _ = parts(figure, 1)
    assert len(row.x) == 5 and [0, 2] not in row.customdata
    ranks = [text.split("<br>")[2] for text in row.hovertext]
    assert ranks == [f"{i} of 5 from the top" for i in (5, 1, 2, 2, 4)]
    assert row.hovertext[1] == "L0 H1: m<br><b>0.9</b><br>1 of 5 from the top"
    assert "2 of 5" in chosen.hovertext[0]


def test_text_stays_text() -> None:
    hostile = report_card(
        VALUES,
        {"entropy": HOSTILE},
        {"entropy": HOSTILE},
        (0, 0),
        baselines={"entropy": {HOSTILE: 1.0}},
    )
    assert is_neutral(hostile)
