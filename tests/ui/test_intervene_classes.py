"""Classifiers and question answerers on the Intervene page, against the library's numbers."""

import pytest

import mha_viz as mv
from mha_viz.web.theme import format_number
from tests.making.checkpoints import OTHER, TEXT
from tests.making.comparing import near
from tests.ui.compare_app import check, table
from tests.ui.intervene_app import intervene, keys, press

# The link, the same as arguments of `ablate`, and the label of importance.
KINDS = {
    "classes": ({"target": "good", "against": "bad"}, {"target": "good", "against": "bad"}, "good"),
    "labels": ({"target": "good"}, {"target": "good"}, "good"),
    "tags": (
        {"target": "so-so", "place": "4"},
        {"target": "so-so", "position": 4},
        "4:so-so",
    ),
    "answers": (
        {"pair": OTHER, "target": "11", "against": "9", "place": "1"},
        {"text_pair": OTHER, "target": "end:11", "against": "end:9"},
        "end:11",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_and_importance_are_those_of_the_library(kind, models):
    link, arguments, label = KINDS[kind]
    model, pair = mv.load(models[kind]), link.get("pair")
    opened = {"model": models[kind], "text": TEXT, "off": "0.3,1.2"} | link
    app = intervene("outcomes", "importance", more="", **opened)
    check(app)
    expected = mv.ablate(model, TEXT, [(0, 3), (1, 2)], **arguments)
    shown = table(app, "before", "after", "change")
    assert shown["id"].tolist() == list(expected.ids)
    assert shown["after"].tolist() == near(expected.table()["after"].tolist())
    assert app.metric[0].value == format_number(expected.kl)
    numbers = " ".join(app.table[0].value.to_numpy().ravel())
    assert format_number(expected.target.after) in numbers
    assert format_number(expected.before.entropy) in numbers
    if "against" in link:
        assert format_number(expected.logit_difference_after) in numbers
    press(app, "measure")
    check(app)
    found = mv.head_importance(model, TEXT, labels=label, text_pair=pair)
    assert table(app, "importance", "low")["importance"].tolist() == near(
        found.mean.flatten().tolist()
    )
    app.selectbox(key="ask_target").select("").run()
    check(app)
    assert "ask_method" in {part.key for part in app.segmented_control}
    assert not [shown for shown in app.dataframe if "importance" in shown.value]  # of another loss


def test_a_predicted_number_is_shown_before_and_after(models):
    app = intervene(model=models["number"], text=TEXT, off="0.3,1.2", target="good")
    expected = mv.ablate(mv.load(models["number"]), TEXT, [(0, 3), (1, 2)])
    before, after = (format_number(one.value) for one in (expected.before, expected.after))
    assert f"**{after}** (was {before})" in check(app)
    assert app.table[0].value["Change"].tolist() == [format_number(expected.value_change)]
    assert not app.metric and not {"ask_target", "ask_place"} & keys(app)
    press(app, "measure")
    assert "predicts a number" in check(app)
