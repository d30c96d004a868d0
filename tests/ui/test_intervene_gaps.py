"""The Intervene page of a masked model: which gap is filled, and how a text gets one."""

import mha_viz as mv
from mha_viz.interventions import ablation
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.ui.compare_app import HOSTILE, check, said, table
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
    assert "This model predicts masked words" in said(app) and not app.metric and not app.error
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
    assert len(places.options) == 2 and places.options[0] == "the first gap"
    record = mv.load("tiny-bert").trace(text)
    second = [i for i, token in enumerate(record.tokens) if token.text == "[MASK]"][1]
    places.select(second).run()
    expected = ablation.ablate(mv.load("tiny-bert"), text, [(1, 1)], position=second)
    assert app.metric[0].value == format_number(expected.kl)
    assert app.query_params["place"] == str(second)


def test_hostile_words_are_offered_as_they_are():
    app = intervene(model="tiny-bert", text=HOSTILE)
    assert not app.exception and not app.error and not app.metric
