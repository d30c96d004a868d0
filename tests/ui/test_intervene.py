"""The Intervene page without a browser: its numbers, its switches, and what a switch costs."""

import pytest

import mha_viz as mv
from mha_viz.core import measure
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions import ablation, importance
from mha_viz.prediction import generation, prediction
from mha_viz.ui.intervene import answer, switches
from mha_viz.web.theme import format_number
from tests.making.comparing import near
from tests.ui.compare_app import check, table
from tests.ui.intervene_app import GAP, TEXT, intact, intervene, off, press


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


def test_all_heads_on_is_no_change_and_a_place_that_is_not_there_is_the_last_one():
    app = intervene("prediction", place="777")
    check(app)
    assert app.selectbox(key="ask_place").value == -1
    shown = table(app, "before", "after", "change")
    expected = prediction.predict(mv.load("tiny-gpt2"), TEXT)
    assert shown["before"].tolist() == near(list(expected.probabilities))
    assert shown["token"].iloc[0] == expected.candidates[0]
    assert not app.metric and (shown["change"] == 0).all()
    assert list(app.table[0].value.columns) == ["All heads"]


def test_going_on_with_and_without_heads():
    app = intervene(off="0.0,0.1,0.2,0.3,0.4", goes_on=True)
    check(app)
    model = mv.load("tiny-gpt2")
    change = Intervention([(0, head) for head in range(5)])
    expected = [generation.generate(model, TEXT, None, how).text for how in (None, change)]
    assert [found.value for found in app.text] == expected and expected[0] != expected[1]
    press(app, "all_on")
    assert [found.value for found in app.text] == [expected[0]] * 2
    app = intervene(off="0.3", how="mean", goes_on=True)
    assert len(app.info) == 1
    intact(app)


def test_undo_and_all_on(monkeypatch):
    app = intervene(off="0.3", layer="0")
    assert app.button(key="undo").disabled and not app.button(key="all_on").disabled
    press(app, "all_on")
    assert off(app) == () and app.button(key="all_on").disabled
    app.selectbox(key="ask_preset").select("all of layer 0").run()
    press(app, "undo")
    assert off(app) == ()
    press(app, "undo")
    assert off(app) == ((0, 3),) and app.button(key="undo").disabled
    assert app.query_params["off"] == "0.3"
    monkeypatch.setattr(
        switches, "head_switches", lambda *args, **options: options["take"]([(2, 1)])
    )
    app.run()  # which a switch caused
    assert off(app) == ((2, 1),) and not app.button(key="undo").disabled


def test_each_group_holds_what_its_name_says():
    app = intervene(layer="2", head="5", more="The cat sat on the mat.")
    scene = app.session_state.scene
    report = mv.head_report(scene.record, mv.load("tiny-gpt2"))
    names = app.selectbox(key="ask_preset").options
    wanted = {"all previous-token heads": "Previous token", "all sinks": "First token"}
    seen = 0
    for start, label in wanted.items():
        name = next((name for name in names if name.startswith(start)), None)
        labelled = report[report.labels.str.contains(label)]
        assert (name is not None) == (len(labelled) > 0)
        if name is not None:
            seen += 1
            app.selectbox(key="ask_preset").select(name).run()
            assert off(app) == tuple(zip(labelled.layer, labelled["head"], strict=True))
            assert f"({len(labelled)})" in name
    assert seen
    app.selectbox(key="ask_preset").select("all of layer 2").run()
    assert off(app) == tuple((2, head) for head in range(8))
    app.selectbox(key="ask_preset").select("the 3 nearest to L2 H5").run()
    apart = measure.head_similarity(scene.record, "hellinger")[2 * 8 + 5]
    apart[2 * 8 + 5] = 9
    assert off(app) == tuple(sorted(divmod(i, 8) for i in apart.argsort()[:3].tolist()))
    assert "the 8 least important" not in names
    press(app, "measure")
    app.selectbox(key="ask_preset").select("the 8 least important").run()
    measured = importance.head_importance(mv.load("tiny-gpt2"), [TEXT, "The cat sat on the mat."])
    least = measured.mean.flatten().argsort(stable=True)[:8].tolist()
    assert off(app) == tuple(sorted(divmod(i, 8) for i in least))
    app.selectbox(key="ask_layer").select(1).run()
    assert "all of layer 1" in app.selectbox(key="ask_preset").options


@pytest.fixture
def counted(monkeypatch):
    """Names of the costly steps, in the order in which they were done."""
    done: list[str] = []
    for module, name in ((AttentionModel, "trace"), (prediction, "logits"), (answer, "predict")):
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


def test_two_sessions_on_one_model_do_not_mix():
    text = TEXT + " sing"
    one, two = intervene(text=text, off="0.3"), intervene(text=text, off="2.5", how="mean")
    one.run()
    kl = [
        ablation.ablate(mv.load("tiny-gpt2"), text, heads, how).kl
        for heads, how in (([(0, 3)], "zero"), ([(2, 5)], "mean"))
    ]
    assert [app.metric[0].value for app in (one, two)] == [format_number(value) for value in kl]
    assert (off(one), off(two)) == (((0, 3),), ((2, 5),))
