"""The section "Prediction in detail" of the Heads page: its numbers, and what a choice costs."""

from types import SimpleNamespace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.prediction import generation, predict
from mha_viz.ui.heads import drawing, predicted, prediction_detail
from mha_viz.web.theme import format_number
from tests.making.checkpoints import OTHER
from tests.making.checkpoints import TEXT as CLASSIFIED
from tests.making.comparing import near
from tests.ui.compare_app import HOSTILE, check, said, table
from tests.ui.heads_app import brought, choose, heads_page

TEXT = "Once upon a time there was a little dog who liked to"
GAP = "The old [MASK] slept while the cat watched the birds."
KEYS = {"ask_text", "ask_how", "ask_group", "ask_position", "ask_target"}


def detail(*open_tables: str, continued: bool = False, **params: str) -> AppTest:
    """The page under a link with the section open, and the tables of these figures."""
    opened = [drawing.DETAIL, *(f"{key}-table" for key in open_tables)]
    session = dict.fromkeys(opened, True) | {"ask_goes_on": continued}
    return heads_page(session=session, **{"model": "tiny-gpt2", "text": TEXT} | params)


def keys(app: AppTest) -> set[str]:
    kinds = ("text_input", "selectbox", "text_area", "number_input")
    return {str(part.key) for kind in kinds for part in getattr(app, kind)}


def intact(app: AppTest) -> None:
    """All parts of the section are there, so that whatever was refused can be mended."""
    assert not app.exception and keys(app) >= KEYS


@pytest.mark.parametrize("how", ["zero", "scale", "mean", "uniform", "patch_z", "patch_pattern"])
def test_the_section_shows_the_numbers_of_ablate(how):
    source = "Once upon a time there was a brown cat who liked to" if "patch" in how else None
    factor = -0.7 if how == "scale" else 0.5
    tracked = {"target": "play", "against": "eat"}
    link = tracked | {"off": "0.3,1.2", "how": how, "factor": f"{factor}", "place": "10"}
    app = detail("prediction", "losses", **link, **({"source": source} if source else {}))
    check(app)
    factor, more = factor if how == "scale" else 0.0, {"source": source, "position": 10}
    expected = mv.ablate(
        mv.load("tiny-gpt2"), TEXT, [(0, 3), (1, 2)], how, factor, **more, **tracked
    )
    shown = table(app, "before", "after", "log_change")
    assert shown["id"].tolist() == list(expected.ids)
    assert shown["after"].tolist() == near(expected.table()["after"].tolist())
    assert f" {format_number(expected.kl)} nats" in said(app)
    rows = app.table[0].value
    assert expected.target and rows.shape[0] == 5
    numbers = " ".join(rows.to_numpy().ravel())
    for value in (
        expected.after.entropy,
        expected.after.loss,
        expected.target.after,
        expected.logit_difference_after,
    ):
        assert format_number(value) in numbers
    losses = [shown.value for shown in app.dataframe if list(shown.value)[-1] == "change"][-1]
    assert losses["change"].iloc[1:].tolist() == near(expected.loss_changes[1:])
    sent = brought(app, "prediction")
    likeliest = expected.table().nlargest(5, "after")
    assert [row[0].lstrip("…") for row in sent["rows"]] == likeliest["token"].tolist()
    for at, column in enumerate(("before", "after"), start=1):
        assert [row[at] for row in sent["rows"]] == near(likeliest[column].tolist())
    assert sent["kl"] == near(expected.kl) and sent["off"] == [[0, 3], [1, 2]]
    assert bool(sent["how"]) == (how != "zero")


# The link, and the same as arguments of `ablate`.
KINDS = {
    "classes": ({"target": "good", "against": "bad"}, {"target": "good", "against": "bad"}),
    "labels": ({"target": "good"}, {"target": "good"}),
    "tags": ({"target": "so-so", "place": "4"}, {"target": "so-so", "position": 4}),
    "answers": (
        {"pair": OTHER, "target": "11", "against": "9", "place": "1"},
        {"text_pair": OTHER, "target": "end:11", "against": "end:9"},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_outcomes_of_classifiers_are_those_of_the_library(kind, models):
    link, arguments = KINDS[kind]
    app = detail("outcomes", model=models[kind], text=CLASSIFIED, off="0.3,1.2", **link)
    check(app)
    expected = mv.ablate(mv.load(models[kind]), CLASSIFIED, [(0, 3), (1, 2)], **arguments)
    shown = table(app, "before", "after", "log_change")
    assert shown["id"].tolist() == list(expected.ids)
    assert shown["after"].tolist() == near(expected.table()["after"].tolist())
    assert f" {format_number(expected.kl)} nats" in said(app)
    assert brought(app, "prediction")["kl"] == near(expected.kl)
    numbers = " ".join(app.table[0].value.to_numpy().ravel())
    assert format_number(expected.target.after) in numbers
    assert format_number(expected.before.entropy) in numbers
    if "against" in link:
        assert format_number(expected.logit_difference_after) in numbers
    app.selectbox(key="ask_target").select("").run()
    check(app)


def test_a_predicted_number_is_shown_before_and_after(models):
    app = detail(model=models["number"], text=CLASSIFIED, off="0.3,1.2", target="good")
    check(app)
    expected = mv.ablate(mv.load(models["number"]), CLASSIFIED, [(0, 3), (1, 2)])
    numbers = (expected.before.value, expected.after.value, expected.value_change)
    assert app.table[0].value.iloc[0].tolist() == [format_number(value) for value in numbers]
    assert not {"ask_target", "ask_position"} & keys(app)


def test_the_text_is_continued_with_and_without_heads():
    app = detail(off="0.0,0.1,0.2,0.3,0.4", continued=True)
    check(app)
    model = mv.load("tiny-gpt2")
    change = Intervention([(0, head) for head in range(5)])
    expected = [generation.generate(model, TEXT, None, how).text for how in (None, change)]
    assert [shown.value for shown in app.text] == expected and expected[0] != expected[1]
    choose(app, off=())
    assert [shown.value for shown in app.text] == [expected[0]] * 2


@pytest.fixture
def counted(monkeypatch):
    """Names of the costly steps, in the order in which they were done."""
    done: list[str] = []
    for module, name in ((AttentionModel, "trace"), (predict, "logits"), (predicted, "predict")):
        step = getattr(module, name)
        monkeypatch.setattr(
            module,
            name,
            lambda *args, step=step, name=name, **options: (
                done.append(name) or step(*args, **options)
            ),
        )
    return done


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    ("model", "text"), [("tiny-gpt2", TEXT + " run"), ("tiny-bert", GAP + " so")]
)
def test_a_switch_costs_one_forward_pass_and_nothing_else(counted, model, text, is_open):
    text += f" {is_open}"  # nothing of it is cached
    app = (
        detail(model=model, text=text, off="0.7")
        if is_open
        else heads_page(model=model, text=text, off="0.7")
    )
    for heads in (((0, 1),), ((0, 1), (2, 3))):
        counted.clear()
        choose(app, off=heads)
        assert counted == ["predict", "logits"]
    counted.clear()
    choose(app, off=((0, 1),))  # cached
    if is_open:
        app.text_input(key="ask_target").input("dog").run()  # read off the cached prediction
    choose(app, off=())
    assert counted == []


def test_nothing_is_computed_while_the_section_is_folded(monkeypatch):
    monkeypatch.setattr(prediction_detail, "draw", lambda *_: pytest.fail("it was drawn"))
    app = heads_page(model="tiny-gpt2", text=TEXT, off="0.7", target="")
    assert not app.exception and not {"ask_how", "ask_group"} & keys(app)


@pytest.mark.parametrize("link", [{"how": "mean"}, {"target": "play"}, {"place": "3"}])
def test_an_address_that_chooses_what_the_section_shows_opens_it(link):
    app = heads_page(model="tiny-gpt2", text=TEXT, off="0.7", **link)
    check(app)
    intact(app)
    assert len(app.table) == 1


def test_a_text_without_a_gap_gets_one_by_a_click():
    app = detail(model="tiny-bert", text="The dog saw the dog run.", off="1.1")
    check(app)
    assert "“run”" in said(app)  # the last word is predicted
    expected = mv.ablate(mv.load("tiny-bert"), "The dog saw the dog [MASK].", [(1, 1)])
    assert brought(app, "prediction")["kl"] == near(expected.kl)
    words = app.button_group(key="ask_mask").options
    assert [word.strip("\u2060") for word in words][:5] == ["The", "dog", "saw", "the", "dog"]
    assert len(set(words)) == len(words)
    app.button_group(key="ask_mask").set_value(4).run()
    assert app.text_area(key="ask_text").value == "The dog saw the [MASK] run."
    check(app)
    assert "ask_mask" not in {part.key for part in app.button_group}
    assert app.session_state.view.off == ((1, 1),)


def test_a_group_of_heads_is_switched_off_at_once():
    app = detail(layer="1", head="2")
    offered = app.selectbox(key="ask_group").options
    assert {"the 3 nearest to L1 H2", "all of layer 1"} <= set(offered)
    app.selectbox(key="ask_group").select("all of layer 1").run()
    check(app)
    assert app.session_state.view.off == tuple((1, head) for head in range(8))
    assert app.query_params["off"].startswith("1.0,1.1")


def test_nearest_group_is_of_the_other_heads_with_the_most_similar_rows(monkeypatch):
    view = SimpleNamespace(layer=1, head=0, chosen=(1, 0))
    apart = np.zeros((6, 6))
    apart[3] = (0.4, 0.9, 0.2, 0.0, 0.3, 0.8)
    monkeypatch.setattr(prediction_detail.reporting, "likeness", lambda *_: apart)
    scene = SimpleNamespace(record=SimpleNamespace(n_heads=3))
    nearest = prediction_detail._nearest_group(scene, view)
    assert list(nearest.values()) == [((0, 2), (1, 1), (0, 0))]
    monkeypatch.setattr(prediction_detail.reporting, "likeness", lambda *_: apart[:1, :1])
    lone = SimpleNamespace(layer=0, head=0, chosen=(0, 0))
    scene.record.n_heads = 1
    assert prediction_detail._nearest_group(scene, lone) == {}  # there is no other head


@pytest.mark.parametrize("model", ["headless", "deberta", "t5"])
def test_models_whose_heads_cannot_be_switched_say_why(models, model):
    app = detail(model=models[model], text="the cat sat", off="0.0")
    assert not app.exception and not app.error
    assert len(app.info) == 1 and "ask_how" not in keys(app)
    app.selectbox(key="ask_model").select("tiny-gpt2").run()
    check(app)
    intact(app)
    assert app.session_state.view.off == ((0, 0),)


def refused(app, target):
    assert len(app.error) == 1
    intact(app)
    assert app.text_input(key="ask_target").value == target
    assert app.session_state.view.off == ((0, 3),)
    assert " nats from the prediction" in said(app) and len(table(app, "before", "log_change"))


def test_a_target_can_be_mended_and_what_it_is_compared_with_hides_nothing():
    app = detail("prediction", off="0.3", target="two words")
    refused(app, "two words")
    for target in ("\x00", HOSTILE):
        app.text_input(key="ask_target").input(target).run()
        refused(app, target)
    app.text_input(key="ask_target").input("play").run()
    check(app)
    app.text_input(key="ask_against").input("hippopotamuses").run()
    assert len(app.error) == 1
    intact(app)


@pytest.mark.parametrize(
    "how", ["patch_z", pytest.param("patch_pattern", marks=pytest.mark.extended)]
)
def test_a_patch_needs_a_text_of_as_many_tokens(how):
    app = detail(off="0.3", how=how)
    n_tokens = len(mv.load("tiny-gpt2").trace(TEXT).tokens)
    assert f" {n_tokens} " in app.info[0].value
    assert f" {n_tokens} " in brought(app, "prediction")["message"]
    intact(app)
    app.text_input(key="ask_source").input("too short").run()
    assert not app.info and "tokens" in app.error[0].value
    intact(app)
    assert app.query_params["source"] == "too short"
    app.text_input(key="ask_source").input("\x00").run()
    assert len(app.error) == 1
    intact(app)
    app.text_input(key="ask_source").input(TEXT.replace("dog", "cat")).run()
    check(app)
    assert "rows" in brought(app, "prediction")
    choose(app, off=())
    check(app)
