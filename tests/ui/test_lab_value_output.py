"""Lab 5's page: controls, link and bad links; its numbers are those of the library."""

import re

import pytest

import mha_viz as mv
from mha_viz.learn.labs.value_output.numbers import bill, slice_shares
from tests.making.families import build
from tests.ui.compare_app import check, table, written
from tests.ui.lab_app import lab, link, takes_for_any

KEY = "value-output"
TEXT = "The cat sat on the mat."


@pytest.mark.parametrize("model", ["tiny-bert", "tiny-gpt2", "tiny-llama"])
def test_the_page_comes_whole_and_its_numbers_are_small_where_they_should_be(model):
    tables, folds = (
        ("operations", "spectrum", "lengths"),
        dict(rank="1", **{"why-output": "1"}),
    )
    app = lab(KEY, *tables, model=model, text=TEXT, layer="2", head="5", **folds)
    text = check(app)
    assert "What L2 H5 writes" in text
    for words in ("difference of any two numbers is", "attention output by at most"):
        found = re.search(rf"{words} \*\*([\d.e-]+)\*\*", text)
        assert found and float(found[1]) < 1e-4
    values = table(app, "number", "singular value")["singular value"]
    assert len(values) == 256 and values[32] < 1e-12 * values[0]
    assert table(app, "H7", "difference from the model")["difference from the model"].max() < 1e-4


def test_the_residual_stream_is_explained_before_anything_is_written_into_it():
    said = [block.value for block in lab(KEY, text=TEXT).markdown]
    first = next(i for i, text in enumerate(said) if "residual stream" in text)
    assert "added" in said[first]
    assert not any(" writes" in text or " write " in text for text in said[:first])


def test_the_bill_follows_its_control():
    app = lab(KEY, "operations", text=TEXT)
    app.select_slider(key=f"{KEY}-n").set_value(1024).run()
    assert link(app)["n"] == "1024"
    text = check(app)
    two, one = bill(1024, 256, 32).operations
    assert f"{two:,}" in text and f"{one:,}" in text
    row = table(app, "d_v", "operations, one").set_index("d_v").loc[32]
    assert (row["operations, two"], row["operations, one"]) == (two, one)


def test_shares_are_those_of_the_library():
    app = lab(KEY, text=TEXT, layer="1", **{"why-output": "1"})
    shares = slice_shares(mv.load("tiny-bert").trace(TEXT).head_output[1])
    assert [row[i] for i, row in enumerate(written(app, "Share of each"))] == [
        f"{share:.2f}" for share in shares.diagonal()
    ]


def test_the_answer_about_parameters_is_computed():
    app = lab(KEY, text=TEXT)
    app.radio(key=f"{KEY}-predict-bill").set_value("More")
    app.button(key=f"{KEY}-predict-bill-button").click().run()
    assert "Yes. More" in app.info[0].value and "65,536" in app.info[0].value


def test_links_that_make_no_sense_one_token_and_many():
    text = check(lab(KEY, n="77", layer="99", text="x"))
    assert "n='77'" in text and "There is no L99 H0" in text.replace("\\", "")
    folds = dict(rank="1", **{"why-output": "1"})
    check(lab(KEY, model="tiny-gpt2", text="a", **folds))
    check(lab(KEY, text="word " * 3000, **folds))


@pytest.mark.parametrize(
    ("family", "part"), [("llama", "self"), ("t5", "encoder"), ("t5", "cross")]
)
def test_other_families(monkeypatch, family, part):

    model = build(family)
    takes_for_any(monkeypatch, model)
    given = dict(text="the cat sat on a mat", pair="a cat ran", part=part)
    app = lab(KEY, "lengths", **given)
    check(app)
    gaps = table(app, "token", "difference from the model")
    assert gaps["difference from the model"].max() < 1e-4
    # llama here: 6 heads and d_model 30; t5: 5 heads do not divide 23
    said = [error.value for error in lab(KEY, **given, **{"why-output": "1"}).error]
    assert ["have no slices of their own" in text for text in said] == [True] * (family == "t5")
