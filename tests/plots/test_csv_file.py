"""Tables as CSV: they come back as they were, and no spreadsheet runs a text in them."""

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_viz.plots.table_text import csv_text, table_csv
from tests.strangers.spreadsheets import cells, formulas, undone


def test_csv_is_read_back_as_it_was() -> None:
    table = pd.DataFrame(
        {
            "Head": ["#1 <b>", 'a,"b"\nc', "L0 H1"],
            "weight": np.array([1 / 3, 2e-7, np.nan], np.float32),
            "n": [1, 2, 3],
        }
    )
    data = table_csv(table, "model # one\n\nsecond  line\r\nthird")
    assert data.startswith(b"# model # one\n# second line\n# third\n")
    read = pd.read_csv(io.BytesIO(data), comment="#")
    assert read["Head"].tolist() == table["Head"].tolist()
    assert read["n"].dtype == np.int64
    assert (read["weight"].astype(np.float32).dropna() == table["weight"].dropna()).all()
    assert b"0.333333343" in data  # nine digits: a float32 and no noise


def test_csv_survives_half_a_surrogate_pair() -> None:
    assert b"?" in table_csv(pd.DataFrame({"a": ["\ud800"]}, dtype=object), "\ud800")


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "＝1", "－x", "'=1", "''+", '"=1']
HARMLESS = ["", "the", "'s", "'", "a=b", " =1", "#", "1", "–", "''", '"', "a, -b", "1,5;c"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_name_or_index_is_a_formula(text: str) -> None:
    table = pd.DataFrame({text: [text]}, index=pd.Index([text]))
    for row in cells(csv_text(table)):
        assert all(cell == "" or cell == f"'{text}" for cell in row)


def test_numbers_stay_numbers_and_other_texts_stay_as_they_are() -> None:
    numbers = [-1.5, -1e-9, 0.1, -0.0, float("nan")] * 3
    table = pd.DataFrame({"text": [*HARMLESS, *"ab"], "weight": numbers, "n": range(-7, 8)})
    data = csv_text(table)
    assert [row[0] for row in cells(data)[1:]] == [*HARMLESS, *"ab"]
    assert ",-1.5,-7\n" in data and ",-1e-09,-6\n" in data
    read = pd.read_csv(io.StringIO(data), keep_default_na=False, na_values={"weight": [""]})
    assert read["n"].tolist() == list(range(-7, 8))
    assert read["weight"].to_numpy() == pytest.approx(np.array(numbers), nan_ok=True)


@given(st.lists(st.text(st.sampled_from("'\"=+-@a\t\r\n,;＝ "), max_size=9), min_size=1))
def test_every_text_can_be_had_back_and_none_is_run(texts: list[str]) -> None:
    data = csv_text(pd.DataFrame({"t": texts, "n": 1}))
    assert [undone(row[0]) for row in cells(data)[1:]] == texts
    assert not formulas(data)


@pytest.mark.parametrize("text", ["x,=1+1", "x;=1+1", "x;@A", 'x,"=1', 'x,"y', "a\t=1"])
def test_a_text_in_a_comment_line_begins_no_cell(text: str) -> None:
    data = table_csv(pd.DataFrame({"t": ["a", "b"]}), f"weights of {text} and more").decode()
    assert not formulas(data)
    assert len(cells(data)) == len(data.splitlines()) == 4  # nor does a quote swallow lines
    assert (
        data.splitlines()[0].replace("'", "") == f"# weights of {' '.join(text.split())} and more"
    )
