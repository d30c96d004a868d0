"""Odd texts, models and links: a number with a meaning, or a plain word why there is none."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import mha_viz as mv
from mha_viz.core.names import LIKENESS, PAIR_MEASURES
from mha_viz.engine.model import AttentionModel
from tests.making.comparing import close
from tests.making.pairwise import pairwise
from tests.ui.compare_app import (
    HOSTILE,
    MODELS,
    SECTIONS,
    board_names,
    check,
    compare,
    table,
    turn_to,
)
from tests.ui.heads_app import brought, heads_page

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
    ("one", "similar"): 1,
    ("one", "diversity"): 1,
    ("deberta", "similar"): 1,
    ("deberta", "diversity"): 2,
}
OPEN = ("board", "twins", "map", "alike", "changes", "coverage", "flow")  # tables


@pairwise(
    dear=True,
    model=[*MODELS, "one", "two", "deberta", "llama", "gpt2"],
    text=TEXTS,
    page=[*SECTIONS, "numbers"],
)
def test_any_text_of_any_model_in_every_section(models, model, text, page):
    link = {"model": models.get(model, model), "text": TEXTS[text]}
    app = (
        heads_page(show=page, **link) if page == "numbers" else compare(*OPEN, section=page, **link)
    )
    check(app)
    cut = [warning.value for warning in app.warning if "was cut to" in warning.value]
    too_long = ["long"] if model in MODELS else ["long", "hostile"]
    assert bool(cut) == (text in too_long)
    if model in MODELS:
        english = [warning for warning in app.warning if "English only" in warning.value]
        assert len(app.warning) == len(cut) + len(english) and len(english) <= (text == "hostile")
        assert all("cut to 128 tokens" in said for said in cut)
        assert page != "numbers" or len(brought(app, "numbers")["rows"]) > 8
    assert len(app.info) >= WHAT_IS_MISSING.get((model, page), 0)
    if (model, page) == ("one", "board"):
        assert board_names(app) == ["A L0 H0"]


def test_a_head_that_attends_to_nothing_among_twins(monkeypatch):
    trace, heads = AttentionModel.trace, torch.ones(4, 8, 1, 1)
    heads[0, 0] = 0

    def traced(self, *args, **options):
        record = trace(self, *args, **options)
        z = None if record.z is None else record.z * heads
        return replace(record, pattern=record.pattern * heads, z=z)

    monkeypatch.setattr(AttentionModel, "trace", traced)
    text = "a silent head in every measure"
    app = compare("twins", section="twins", order="cluster", text=text)
    for measure in PAIR_MEASURES:
        app.selectbox(key="ask_measure").set_value(measure).run()
        check(app)
        matrix = table(app, "Head", "L0 H0").set_index("Head")
        lonely = matrix.loc["L0 H0"].drop("L0 H0").to_numpy()
        if measure == "hellinger":
            close(lonely, 1.0)
        elif measure in LIKENESS:
            assert np.isnan(lonely).all(), measure  # shown as "not defined"


@pytest.mark.extended
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
    for section in SECTIONS[1:]:
        turn_to(app, section)
        if section == "diversity":
            model = mv.load(models["t5"])
            expected = [mv.diversity(model, i, "W_V", part) for i in range(layers)]
            close(table(app, "Layer", "W_V")["W_V"], expected)
        if part == "cross" and section == "flow":
            assert len(app.info) == 1
    turn_to(app, "board")
    assert bool(app.info) == (part == "cross")  # of the same part, so heads have counterparts
    if part == "encoder":
        assert len(table(app, "Head", "Change")) == 2 * 5


@pytest.mark.parametrize(
    ("link", "messages"),
    [
        ({"section": "nonsense", "metric": "unknown"}, ["section='nonsense'", "'unknown'"]),
        (
            {"section": "twins", "layer_b": "99", "clusters": "0", "measure": "l2"},
            ["L99 H1", "clusters='0'", "measure='l2'"],
        ),
        ({"section": "sides", "layer_b": "3", "head_b": "9", "model_b": "nobody/none"}, ["L3 H9"]),
        ({"section": "flow", "upto": "77", "query": "500"}, []),
    ],
)
def test_a_bad_link_says_so_and_shows_something(link, messages):
    app = compare(**link)
    text = check(app).replace("\\", "")
    assert [message in text for message in messages] == [True] * len(messages)
    assert app.get("plotly_chart") or board_names(app)
    if messages:
        app.text_area(key="ask_text").input("another text").run()  # what was wrong is forgotten
        check(app)
        assert not app.warning


def test_plain_text_is_shown_as_it_is():
    from mha_viz.ui.widgets.messages.notices import plain

    for text in ("http://a.b", "HTTPS://a.b", "www.a.b", "me@a.b", ":smile:", "->", "--"):
        escaped = plain(text)
        assert escaped.replace("\\", "").replace("\u2060", "") == text
        assert "\u2060" in escaped
    assert plain("a: b, c@ d - e www f") == re.sub(r"([:-])", r"\\\1", "a: b, c@ d - e www f")
