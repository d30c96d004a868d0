"""The Intervene page of a masked model: which gap is filled, and how a text gets one."""

import pytest

import mha_viz as mv
from mha_viz.interventions import ablation
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.ui.compare_app import HOSTILE, check, table
from tests.ui.intervene_app import GAP, intervene, off


def test_a_gap_of_a_masked_model():
    app = intervene("prediction", model="tiny-bert", text=GAP, off="2.1", target="man")
    check(app)
    expected = ablation.ablate(mv.load("tiny-bert"), GAP, [(2, 1)], target="man")
    assert table(app, "before", "after")["after"].tolist() == near(
        expected.table()["after"].tolist()
    )
    assert app.metric[0].value == format_number(expected.kl)
    assert "losses" not in str([chart.proto.id for chart in app.get("plotly_chart")])


def test_a_text_without_a_gap_gets_one_by_a_click():
    app = intervene(model="tiny-bert", text="The dog saw the dog run.", off="1.1")
    assert not app.exception and not app.error
    words = app.button_group(key="ask_mask").options
    assert [word.strip("\u2060") for word in words][:5] == ["The", "dog", "saw", "the", "dog"]
    assert len(set(words)) == len(words)
    app.button_group(key="ask_mask").set_value(4).run()
    assert app.text_input(key="ask_text").value == "The dog saw the [MASK] run."
    check(app)
    assert len(app.metric) == 1 and off(app) == ((1, 1),)


def test_several_gaps_and_where_they_are():
    text = "The [MASK] dog saw the [MASK] run."
    app = intervene(model="tiny-bert", text=text, off="1.1")
    check(app)
    places = app.selectbox(key="ask_place")
    assert len(places.options) == 2
    record = mv.load("tiny-bert").trace(text)
    second = [i for i, token in enumerate(record.tokens) if token.text == "[MASK]"][1]
    places.select(second).run()
    expected = ablation.ablate(mv.load("tiny-bert"), text, [(1, 1)], position=second)
    assert app.metric[0].value == format_number(expected.kl)
    assert app.query_params["place"] == str(second)


@pytest.mark.parametrize("changed", ["", "1.1"])
def test_a_text_without_a_gap_has_a_prediction_of_its_last_word(changed):
    model = mv.load("tiny-bert")
    app = intervene(model="tiny-bert", text="The dog saw the other dog run.", off=changed)
    kept = {} if changed else {"how": "scale", "factor": 1.0}
    expected = ablation.ablate(model, "The dog saw the other dog [MASK].", [(1, 1)], **kept)
    table = expected.table().sort_values("after", ascending=False, kind="stable").head(3)
    (told,) = (part.value for part in app.markdown if "“run”" in part.value)
    for token, before, after in zip(table.token, table.before, table.after, strict=True):
        was = f" (was {before:.1%})" if changed else ""
        assert f"{token}** {after:.1%}{was}" in told.replace("\\", "")
    assert [one.value for one in app.metric] == [format_number(expected.kl)] * bool(changed)


@pytest.mark.parametrize("text", [HOSTILE, "... !"])
def test_text_without_a_word_to_mask_leaves_the_page_alive(text):
    app = intervene(model="tiny-bert", text=text)
    assert not app.exception and not app.error and not app.metric
