"""Odd texts, models and links: a number with a meaning, or a plain word why there is none."""

import re
from dataclasses import replace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.engine.model import AttentionModel
from tests.making.comparing import close
from tests.making.pairwise import pairwise
from tests.ui.compare_app import HOSTILE, MODELS, SECTIONS, check, compare, said, table, turn_to
from tests.ui.explore_app import choose, explore

# -- texts -----------------------------------------------------------------------------------------

SENTENCE = "the cat sat on a mat"
TEXTS = {
    "sentence": SENTENCE,
    "one": "a",
    "two": "a cat",
    "equal": "the the the the",
    "hostile": HOSTILE,
    "long": "the cat " * 700,
}


WHAT_IS_MISSING = {
    ("one", "twins"): ["There is one head only"],
    ("one", "alike"): ["There is one head only"],
    ("one", "diversity"): ["diversity is not defined"],
    ("deberta", "alike"): ["does not show what its heads write"],
    ("deberta", "diversity"): ["does not show what its heads write", "is not known"],
}
OPEN = ("by_layer", "twins", "map", "alike", "changes", "coverage", "flow")  # tables


@pairwise(
    dear=True,
    model=[*MODELS, "one", "two", "deberta", "llama", "gpt2"],
    text=TEXTS,
    page=[*SECTIONS, "card"],
)
def test_any_text_of_any_model_in_every_section(models, model, text, page):
    link = {"model": models.get(model, model), "text": TEXTS[text]}
    app = explore(**link) if page == "card" else compare(*OPEN, section=page, **link)
    check(app)
    cut = [warning.value for warning in app.warning if "was cut to" in warning.value]
    too_long = ["long"] if model in MODELS else ["long", "hostile"]
    assert bool(cut) == (text in too_long)
    if model in MODELS:
        assert len(app.warning) == len(cut) and all("cut to 128 tokens" in said for said in cut)
        assert page != "card" or len(table(app, "This head", "Rank", "uniform attention")) > 8
    says_what_is_missing(app, model, page)
    if (model, page) == ("one", "sides"):
        assert app.header[0].value == "L0 H0 and L0 H0"


def says_what_is_missing(app, model, section):
    for said_of in WHAT_IS_MISSING.get((model, section), ()):
        assert any(said_of in info.value for info in app.info), said_of


@pytest.mark.parametrize(("model", "section"), WHAT_IS_MISSING)
def test_what_a_model_does_not_have_is_said(models, model, section):
    app = compare(*OPEN, section=section, model=models[model], text=SENTENCE)
    check(app)
    says_what_is_missing(app, model, section)


@pytest.mark.parametrize("text", ["one", pytest.param("equal", marks=pytest.mark.extended)])
def test_twins_of_texts_that_say_little(text):
    app = compare("twins", model="tiny-gpt2", section="twins", text=TEXTS[text])
    for measure in each_measure(app):
        shown = check(app)
        if text == "one" and measure == "cka":
            assert "not defined on fewer than four tokens" in app.info[0].value
            assert "not defined" in app.table[0].value.loc["Centred kernel alignment"].item()
        elif text == "one" and measure in ("hellinger", "jensen_shannon"):
            assert "all heads are the same on this text" in shown
            assert (table(app, "Head", "L0 H0").set_index("Head") == 0).all(axis=None)


def each_measure(app):
    """Show the twins by one measure after the other."""
    for measure in PAIR_MEASURES:
        menu = app.selectbox(key="ask_measure")
        if menu.value != measure:
            menu.select(measure).run()
        yield measure


def test_alike_without_outputs_that_vary_says_so():
    app = compare(model="tiny-gpt2", section="alike", text="a")
    assert "not defined on fewer than four tokens" in app.info[0].value
    app.segmented_control(key="ask_outputs").set_value("redundancy").run()
    check(app)
    assert not app.info


def test_layers_that_are_all_equal_have_no_lowest_and_highest():
    app = compare(model="tiny-gpt2", text="a", metric="entropy")
    assert "The same on average in every layer (0)." in said(app)


def test_one_token_has_no_variance_to_state_anything_of():
    app = compare(model="tiny-gpt2", text="a", section="diversity")
    rows = table(app, "Statement", "Here")
    assert set(rows["Here"][rows["Statement"].str.startswith("Var")]) == {"not defined"}
    assert "at most 1 direction here" in said(app)


@pytest.mark.parametrize("other", ["a", "zebra xylophone", "the " * 300, HOSTILE])
def test_texts_of_different_lengths_and_nothing_in_common(other):
    app = compare(
        "sides",
        "changes",
        "most_changed",
        model="tiny-gpt2",
        section="sides",
        text="the cat sat on the mat",
        text_b=other,
    )
    check(app)
    if other == "zebra xylophone":
        assert "no token in common" in app.info[0].value
        assert not [shown for shown in app.dataframe if "Change" in shown.value]


def test_an_empty_other_text_is_said_and_the_page_stays():
    app = compare(section="sides", text_b="\x00\x01")
    assert not app.exception and "empty" in app.error[0].value
    app.text_input(key="ask_text_b").input("a good one").run()
    check(app)


# -- records ---------------------------------------------------------------------------------------


@pytest.fixture
def silent_head(monkeypatch):
    """The first head of every model attends to nothing."""
    trace = AttentionModel.trace

    def traced(self, *args, **options):
        record = trace(self, *args, **options)
        pattern = record.pattern.clone()
        pattern[0, 0] = 0
        z = record.z
        if z is not None:
            z = z.clone()
            z[0, 0] = 0
        return replace(record, pattern=pattern, z=z)

    monkeypatch.setattr(AttentionModel, "trace", traced)


def test_a_head_that_attends_to_nothing(silent_head):
    link = {"text": "a silent head in every layer", "layer": "0", "head": "0"}
    app = compare("twins", "alike", "changes", **link)
    assert "L0 H0 attends to nothing on this text" in check(app)
    for section in SECTIONS[1:]:
        turn_to(app, section)


def test_a_head_that_attends_to_nothing_among_twins(silent_head):
    text = "a silent head in every measure"
    app = compare("twins", section="twins", order="cluster", text=text)
    for measure in each_measure(app):
        check(app)
        matrix = table(app, "Head", "L0 H0").set_index("Head")
        lonely = matrix.loc["L0 H0"].drop("L0 H0").to_numpy()
        if measure == "hellinger":
            close(lonely, 1.0)
        elif measure in LIKENESS:
            assert np.isnan(lonely).all(), measure  # shown as "not defined"
            assert "Not defined for L0 H0" in said(app)


def test_the_card_of_a_head_that_attends_to_nothing(silent_head):
    app = explore(text="a silent head on a card", layer="0", head="0")
    assert "L0 H0 attends to nothing on this text" in check(app)


def test_the_card_measures_all_tokens_and_says_so():
    plain, left_out = (explore(text="the cat sat", no_special=flag) for flag in ("0", "1"))
    assert "Measured on all tokens." not in said(plain)
    assert "Measured on all tokens." in check(left_out)
    assert table(plain, "Metric").equals(table(left_out, "Metric"))


@pytest.mark.parametrize("section", SECTIONS)
def test_tokens_left_out_elsewhere_count_here(section):
    app = compare(section=section, text=SENTENCE)
    plain = check(app)
    assert check(choose(app, no_special=True, no_first=True, words=True)) == plain


# -- models ----------------------------------------------------------------------------------------


def test_one_of_a_kind_is_not_many(models):
    app = explore(model=models["one"], text="a")
    assert "1 layer × 1 head ·" in check(app) and "1 layer of 1 head," in said(app)
    assert "· 1 token ·" in check(explore(model="tiny-gpt2", text="a"))


def test_a_family_that_hides_its_outputs_has_no_measure_of_them(models):
    app = compare(model=models["deberta"], text=SENTENCE, section="twins", measure="cka")
    assert app.selectbox(key="ask_measure").value == "hellinger"


@pytest.mark.parametrize(("part", "layers"), [("encoder", 2), ("decoder", 3), ("cross", 3)])
def test_every_part_of_an_encoder_decoder(models, part, layers):
    app = compare(
        "diversity",
        "most_changed",
        model=models["t5"],
        text=SENTENCE,
        pair="a cat ran",
        part=part,
        text_b="a mat ran",
    )
    check(app)
    for section in [section for section in SECTIONS if section not in ("layers", "sides")]:
        turn_to(app, section)
        if section == "diversity":
            model = mv.load(models["t5"])
            expected = [mv.diversity(model, i, "W_V", part) for i in range(layers)]
            close(table(app, "Layer", "W_V")["W_V"], expected)
        if part == "cross" and section == "flow":
            assert "leads from one text to another" in app.info[0].value
    turn_to(app, "sides")
    assert bool(app.info) == (part == "cross")  # of the same part, so heads have counterparts
    if part == "encoder":
        assert len(table(app, "Head", "Change")) == 2 * 5


@pairwise(
    dear=True,
    first=["tiny-gpt2", "one", "t5", "deberta"],
    second=["tiny-bert", "llama", "one", "t5", "deberta"],
)
def test_models_of_any_two_sizes_side_by_side(models, first, second):
    link = {"model": models.get(first, first), "model_b": models.get(second, second)}
    app = compare("sides", "changes", section="sides", text=SENTENCE, layer_b="99", **link)
    text = check(app)
    if first != second:
        assert "There is no L99 H1" in text.replace("\\", "")
        assert f"layers 0–{mv.load(link['model_b']).n_layers - 1}" in text
    for name in ("ask_layer_b", "ask_head_b"):
        assert app.selectbox(key=name).value == 0 or first == second


# -- links -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "messages"),
    [
        (
            {"section": "nonsense", "metric": "unknown"},
            ["section='nonsense' is not valid", "There is no metric 'unknown'"],
        ),
        (
            {"section": "twins", "layer_b": "99", "clusters": "0", "measure": "l2"},
            ["There is no L99 H1", "clusters='0' is not valid", "measure='l2' is not valid"],
        ),
        ({"section": "sides", "layer_b": "99", "model_b": "tiny-gpt2"}, ["There is no L99 H1"]),
        ({"section": "twins", "layer_b": "3", "head_b": "9", "model_b": "tiny-gpt2"}, ["L3 H9"]),
        ({"section": "sides", "model_b": "../../etc"}, ["model_b='../../etc' is not valid"]),
        ({"section": "sides", "model_b": "nobody/none"}, ["'nobody/none' that the link names"]),
        ({"metric": "next_token", "model": "tiny-gpt2"}, ["Next token has no meaning"]),
        ({"section": "alike", "space": "W_X"}, ["space='W_X' is not valid"]),
        ({"section": "flow", "upto": "77", "query": "500"}, []),
    ],
)
def test_a_bad_link_says_so_and_shows_something(link, messages):
    app = compare(**link)
    text = check(app).replace("\\", "")
    assert [message in text for message in messages] == [True] * len(messages)
    assert app.get("plotly_chart")
    if messages:
        app.text_input(key="ask_text").input("another text").run()  # what was wrong is forgotten
        check(app)
        assert not app.warning


def test_plain_text_is_shown_as_it_is():
    from mha_viz.ui.widgets.messages.messages import plain

    for text in ("http://a.b", "HTTPS://a.b", "www.a.b", "me@a.b", ":smile:", "->", "--"):
        escaped = plain(text)
        assert escaped.replace("\\", "").replace("\u2060", "") == text
        assert "\u2060" in escaped
    assert plain("a: b, c@ d - e www f") == re.sub(r"([:-])", r"\\\1", "a: b, c@ d - e www f")
