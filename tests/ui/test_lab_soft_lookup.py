"""Lab 1's page: controls, link and bad links."""

import pytest

from mha_viz.learn.labs.soft_lookup.numbers import example, lookup
from tests.ui.compare_app import check, table, written
from tests.ui.lab_app import lab, link


def softmax_cells(app):
    return [[float(text) for text in row] for row in written(app, "softmax")]


def test_every_number_is_that_of_the_library():
    app = lab("soft-lookup", "spread", tokens="5", width="2", temperature="0.5")
    check(app)
    expected = lookup(*example(5, 2), temperature=0.5).pattern
    assert softmax_cells(app) == [
        pytest.approx(row, abs=0.0051) for row in expected.tolist()
    ]  # two decimals are shown
    assert len(table(app, "d_k", "divided by √d_k")) == 11


def test_controls_change_the_link_and_the_link_opens_them():
    app = lab("soft-lookup")
    assert link(app) == {}
    app.select_slider(key="soft-lookup-tokens").set_value(6)
    app.slider(key="soft-lookup-temperature").set_value(0.3).run()
    check(app)
    assert link(app) == {"tokens": "6", "temperature": "0.3"}
    again = lab("soft-lookup", **link(app))
    assert again.select_slider(key="soft-lookup-tokens").value == 6
    assert softmax_cells(again) == softmax_cells(app)


def typed(app, matrix, row, column, number):
    """What the table of a matrix tells Streamlit when a number is typed into it."""
    edits = {"edited_rows": {row: {str(column): number}}, "added_rows": [], "deleted_rows": []}
    app.session_state[f"soft-lookup-{matrix}-editor-0"] = edits
    return app.run()


def test_the_link_says_what_was_chosen_and_no_other_number():
    app = lab("soft-lookup")
    for n in (3, 8):
        for width in (1, 2, 8):
            app.select_slider(key="soft-lookup-tokens").set_value(n)
            app.select_slider(key="soft-lookup-width").set_value(width).run()
            assert link(app) == {"tokens": str(n), "width": str(width)}


def test_of_a_matrix_the_link_says_the_numbers_that_were_typed():
    app = typed(lab("soft-lookup"), "q4x3", 1, 1, 2.5)
    assert link(app) == {"q4x3": ";,2.5;;"}
    again = lab("soft-lookup", **link(app))
    check(again)
    assert softmax_cells(again) == softmax_cells(app) != softmax_cells(lab("soft-lookup"))
    assert link(again) == link(app)
    usual = example(4, 3)[0][1, 1].item()
    assert link(typed(again, "q4x3", 1, 1, round(usual, 1))) == {}


def test_a_link_may_say_all_numbers_of_a_matrix():
    query = example(4, 3)[0].tolist()
    query[0][0] = 9
    whole = ";".join(",".join(f"{number:.1f}" for number in row) for row in query)
    assert link(lab("soft-lookup", q4x3=whole)) == {"q4x3": "9;;;"}


def test_what_a_link_says_in_vain_is_told():
    app = lab(
        "soft-lookup",
        tokens="99",
        temperature="hot",
        aspect="<script>",
        q4x3="1,2",
        k4x3=";;;1,2,3,4",
        v4x2=";;;x",
    )
    text = check(app)
    for name in ("tokens", "temperature", "aspect", "q4x3", "k4x3", "v4x2"):
        assert f"{name}" in text
    assert len(app.warning) == 6
    assert app.select_slider(key="soft-lookup-tokens").value == 4


def test_numbers_in_a_link_are_used():
    app = lab("soft-lookup", tokens="3", width="1", q3x1="0;0;0")
    check(app)
    assert softmax_cells(app) == [[0.33] * 3] * 3


def test_the_answer_is_shown_when_asked_for_and_hidden_again():
    app = lab("soft-lookup")
    assert not app.info
    app.radio(key="soft-lookup-predict-temperature").set_value("Equal weights for all keys")
    app.button(key="soft-lookup-predict-temperature-button").click().run()
    assert app.info[0].value.startswith("**No. Weight 1")
    app.radio(key="soft-lookup-predict-temperature").set_value(
        "Weight 1 for the key with the largest score"
    ).run()
    assert app.info[0].value.startswith("**Yes. Weight 1")
    app.button(key="soft-lookup-predict-temperature-button").click().run()
    assert not app.info
