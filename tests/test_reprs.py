"""Results at the end of a notebook's cell: no text in them is markup."""

import pandas as pd
import pytest

import mha_viz as mv

TEXT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def model() -> mv.AttentionModel:
    return mv.load("tiny-gpt2")


@pytest.fixture(scope="module")
def record(model) -> mv.AttentionRecord:
    return model.trace(TEXT)


def test_the_report_shows_its_main_columns_and_holds_all(record):
    table = mv.head_report(record)
    assert isinstance(table, pd.DataFrame) and table.shape[1] > 30
    assert table._repr_html_().count("<tr") == 33
    for made in (table.sort_values("entropy"), table[["layer", "entropy"]], table.head(3)):
        assert type(made) is pd.DataFrame


def test_no_text_becomes_markup(model):
    found = mv.ablate(model, "<b>bold</b> <script>", [(0, 0)])
    assert "<b>" not in found._repr_html_() and "<script>" not in found._repr_html_()
