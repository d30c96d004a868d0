"""The Intervene page without a browser: its numbers, its switches, and what a switch costs."""

from types import SimpleNamespace

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions import ablation
from mha_viz.prediction import generation, prediction
from mha_viz.ui.heads import predicted
from mha_viz.ui.intervene import switches
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.ui.compare_app import check, table
from tests.ui.intervene_app import GAP, TEXT, intervene, off, press


@pytest.mark.parametrize("how", ["zero", "scale", "mean", "uniform", "patch_z", "patch_pattern"])
def test_the_page_says_what_ablate_says(how):
    source = "Once upon a time there was a brown cat who liked to" if "patch" in how else None
    factor = -0.7 if how == "scale" else 0.5
    more = {"source": source} if source else {}
    app = intervene(
        "prediction",
        "losses",
        off="0.3,1.2",
        how=how,
        factor=f"{factor}",
        target="play",
        against="eat",
        place="10",
        **more,
    )
    check(app)
    expected = ablation.ablate(
        mv.load("tiny-gpt2"),
        TEXT,
        [(0, 3), (1, 2)],
        how,
        factor if how == "scale" else 0.0,
        source=source,
        target="play",
        against="eat",
        position=10,
    )
    shown = table(app, "before", "after", "change")
    assert shown["id"].tolist() == list(expected.ids)
    assert shown["after"].tolist() == near(expected.table()["after"].tolist())
    assert app.metric[0].value == format_number(expected.kl)
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
    losses = [found.value for found in app.dataframe if "change" in found.value][-1]
    assert losses["change"].iloc[1:].tolist() == near(expected.loss_changes[1:])


def test_going_on_with_and_without_heads():
    app = intervene(off="0.0,0.1,0.2,0.3,0.4", goes_on=True)
    check(app)
    model = mv.load("tiny-gpt2")
    change = Intervention([(0, head) for head in range(5)])
    expected = [generation.generate(model, TEXT, None, how).text for how in (None, change)]
    assert [found.value for found in app.text] == expected and expected[0] != expected[1]
    press(app, "all_on")
    assert [found.value for found in app.text] == [expected[0]] * 2


@pytest.fixture
def counted(monkeypatch):
    """Names of the costly steps, in the order in which they were done."""
    done: list[str] = []
    for module, name in ((AttentionModel, "trace"), (prediction, "logits"), (predicted, "predict")):
        step = getattr(module, name)
        monkeypatch.setattr(
            module,
            name,
            lambda *args, step=step, name=name, **options: (
                done.append(name) or step(*args, **options)
            ),
        )
    return done


@pytest.mark.parametrize(
    ("model", "text"), [("tiny-gpt2", TEXT + " run"), ("tiny-bert", GAP + " so")]
)
def test_a_switch_costs_one_forward_pass_and_nothing_else(monkeypatch, counted, model, text):
    app = intervene(model=model, text=text)
    chosen: list[tuple[tuple[int, int], ...]] = []
    monkeypatch.setattr(
        switches,
        "head_switches",
        lambda *args, **options: options["take"](chosen.pop()) if chosen else None,
    )
    for heads in (((0, 1),), ((0, 1), (2, 3))):
        counted.clear()
        chosen.append(heads)
        app.run()
        assert off(app) == heads
        assert counted == ["predict", "logits"]
    counted.clear()
    press(app, "undo")  # known already
    app.text_input(key="ask_target").input("dog").run()  # read off what is there
    press(app, "all_on")
    assert counted == []
    check(app)


def test_a_text_without_a_gap_gets_one_by_a_click():
    app = intervene(model="tiny-bert", text="The dog saw the dog run.", off="1.1")
    assert not app.exception and not app.error
    words = app.button_group(key="ask_mask").options
    assert [word.strip("\u2060") for word in words][:5] == ["The", "dog", "saw", "the", "dog"]
    assert len(set(words)) == len(words)
    app.button_group(key="ask_mask").set_value(4).run()
    assert app.text_area(key="ask_text").value == "The dog saw the [MASK] run."
    check(app)
    assert len(app.metric) == 1 and off(app) == ((1, 1),)


def test_nearest_group_is_of_the_other_heads_with_the_most_similar_rows(monkeypatch):
    view = SimpleNamespace(layer=1, head=0, chosen=(1, 0))
    apart = np.zeros((6, 6))
    apart[3] = (0.4, 0.9, 0.2, 0.0, 0.3, 0.8)
    monkeypatch.setattr(switches.reporting, "likeness", lambda *_: apart)
    scene = SimpleNamespace(record=SimpleNamespace(n_heads=3))
    assert list(switches._nearest_group(scene, view).values()) == [((0, 2), (1, 1), (0, 0))]
    monkeypatch.setattr(switches.reporting, "likeness", lambda *_: apart[:1, :1])
    lone = SimpleNamespace(layer=0, head=0, chosen=(0, 0))
    scene.record.n_heads = 1
    assert switches._nearest_group(scene, lone) == {}  # there is no other head
