"""The Intervene page without a browser: its numbers, what a switch costs, and odd input."""

from dataclasses import replace

import pytest
import transformers as tf
from streamlit.testing.v1 import AppTest

import mha_viz as mv
from mha_viz.capture import ablation, generation, importance, prediction, pruning
from mha_viz.capture.intervention import Intervention
from mha_viz.capture.model import AttentionModel
from mha_viz.capture.robustness import robustness
from mha_viz.core import measure
from mha_viz.plots.theme import format_number
from mha_viz.ui import reporting, state, views
from mha_viz.ui.intervene import effect, switches
from mha_viz.ui.intervene import importance as importance_part
from tests.capture.checkpoints import WORDS, gpt2, save, spread
from tests.capture.families import FAMILIES
from tests.ui.compare_app import check, said, table

TEXT = "Once upon a time there was a little dog who liked to"
GAP = "The old [MASK] slept while the cat watched the birds."
HOSTILE = "<script>alert(1)</script> $x^2$ **b** :material/home: http://a.b [x](javascript:1) %{y}"
BERT = dict(vocab_size=len(WORDS), intermediate_size=9, max_position_embeddings=31)


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.ui import memory
    from mha_viz.ui.pages import intervene

    memory.warm_up()
    intervene.page()


def intervene(*open_tables: str, more: str | None = None, **params: str) -> AppTest:
    """The page under a link, with the tables of these figures open and these further texts."""
    app = AppTest.from_function(_page, default_timeout=120)
    for name, value in ({"model": "tiny-gpt2", "text": TEXT} | params).items():
        app.query_params[name] = value
    for key in open_tables:
        app.session_state[f"{key}-table"] = True
    if more is not None:
        app.session_state.more_texts = more
    return app.run()


def press(app: AppTest, key: str) -> AppTest:
    return app.button(key=key).click().run()


def off(app: AppTest) -> tuple[tuple[int, int], ...]:
    return app.session_state.view.off


def keys(app: AppTest) -> set[str]:
    kinds = ("text_input", "selectbox", "button", "text_area", "number_input")
    return {str(part.key) for kind in kinds for part in getattr(app, kind)}


def intact(app: AppTest) -> None:
    """All parts of the page are there, so that whatever was refused can be mended."""
    assert not app.exception
    assert {"ask_text", "ask_how", "ask_target", "ask_place", "undo", "measure", "prune"} <= keys(
        app
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, str]:
    """Folders of small models, as if somebody had typed them."""
    folder = tmp_path_factory.mktemp("models")
    one = tf.BertConfig(**BERT, hidden_size=8, num_hidden_layers=1, num_attention_heads=1)
    deberta = tf.DebertaV2Config(
        **BERT, hidden_size=20, num_hidden_layers=2, num_attention_heads=4,
        relative_attention=True, pos_att_type="p2c|c2p",
    )  # fmt: skip
    save(spread(tf.BertModel(one)), folder / "headless")
    save(spread(tf.BertForMaskedLM(one)), folder / "one")
    save(spread(tf.DebertaV2ForMaskedLM(deberta)), folder / "deberta")
    save(spread(tf.T5ForConditionalGeneration(FAMILIES["t5"][0])), folder / "t5", pairs=False)
    save(gpt2(), folder / "gpt2", pairs=False)
    found = {path.name: str(path) for path in folder.iterdir()}
    state.folders().update(found.values())
    return found


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["zero", "scale", "mean", "uniform", "patch_z", "patch_pattern"])
def test_the_page_says_what_ablate_says(how):
    source = "Once upon a time there was a brown cat who liked to" if "patch" in how else None
    factor = -0.7 if how == "scale" else 0.5
    more = {"source": source} if source else {}
    app = intervene(
        "prediction", "losses", off="0.3,1.2", how=how, factor=f"{factor}", target="play",
        against="eat", place="10", **more,
    )  # fmt: skip
    check(app)
    expected = ablation.ablate(
        mv.load("tiny-gpt2"), TEXT, [(0, 3), (1, 2)], how, factor if how == "scale" else 0.0,
        source=source, target="play", against="eat", position=10,
    )  # fmt: skip
    shown = table(app, "before", "after", "change")
    assert shown["id"].tolist() == list(expected.ids)
    assert shown["after"].tolist() == pytest.approx(expected.table()["after"].tolist(), abs=1e-6)
    assert app.metric[0].value == format_number(expected.kl)
    rows = app.table[0].value
    assert expected.target and rows.shape[0] == 5
    numbers = " ".join(rows.to_numpy().ravel())
    for value in (expected.after.entropy, expected.after.loss, expected.target.after,
                  expected.logit_difference_after):  # fmt: skip
        assert format_number(value) in numbers
    losses = [found.value for found in app.dataframe if "change" in found.value][-1]
    assert losses["change"].iloc[1:].tolist() == pytest.approx(expected.loss_changes[1:], abs=1e-5)
    assert ("Mean over the" in said(app)) == (how == "mean")


def test_a_gap_of_a_masked_model():
    app = intervene("prediction", model="tiny-bert", text=GAP, off="2.1", target="man")
    check(app)
    expected = ablation.ablate(mv.load("tiny-bert"), GAP, [(2, 1)], target="man")
    assert table(app, "before", "after")["after"].tolist() == pytest.approx(
        expected.table()["after"].tolist(), abs=1e-6
    )
    assert app.metric[0].value == format_number(expected.kl)
    assert "losses" not in str([chart.proto.id for chart in app.get("plotly_chart")])


def test_all_heads_on_is_no_change():
    app = intervene("prediction")
    check(app)
    shown = table(app, "before", "after", "change")
    expected = prediction.predict(mv.load("tiny-gpt2"), TEXT)
    assert shown["before"].tolist() == pytest.approx(list(expected.probabilities))
    assert shown["token"].iloc[0] == expected.candidates[0]
    assert app.metric[0].value == "0" and (shown["change"] == 0).all()
    assert "All heads are on" in said(app)


def test_words_of_the_switches_and_of_files_name_the_change():
    view = views.View(off=((0, 1),), how="scale", factor=0.25)
    assert effect.described(view) == "Scaled by 0.25: L0 H1"
    view = replace(view, how="patch_z", source="another text")
    assert effect.described(view) == "Output of another text (another text): L0 H1"
    view = replace(view, off=tuple((0, i) for i in range(25)), how="zero")
    assert effect.described(view).endswith("L0 H19 and 5 more")


def test_importance_is_that_of_the_library_by_both_methods():
    more = "The cat sat on the mat.\nTom had a red ball."
    texts = [TEXT, *more.splitlines()]
    app = intervene("importance", more=more, off="1.1")
    assert "3 texts. An interval" in said(app)
    press(app, "measure")
    check(app)
    model = mv.load("tiny-gpt2")
    both = [importance.head_importance(model, texts, method) for method in views.METHODS]
    assert table(app, "importance", "low")["importance"].tolist() == pytest.approx(
        both[0].mean.flatten().tolist(), abs=1e-6
    )
    assert "Spearman’s ρ" not in said(app)
    app.segmented_control(key="ask_method").set_value("gradient").run()
    press(app, "measure")
    check(app)
    assert table(app, "importance", "low")["high"].tolist() == pytest.approx(
        both[1].high.flatten().tolist(), abs=1e-6
    )
    rho, n = importance.agreement(*both)
    assert f"rank {n} heads with Spearman’s ρ = **{format_number(rho)}**" in said(app)
    assert off(app) == ((1, 1),)
    app.selectbox(key="ask_beside").select("entropy").run()
    check(app)


def test_pruning_is_that_of_the_library():
    app = intervene("pruning", more="The cat sat on the mat.")
    press(app, "prune")
    check(app)
    shown = table(app, "share_left", "loss", "order")
    texts = [TEXT, "The cat sat on the mat."]
    for order in ("ablation", "redundancy", "random"):
        curve = pruning.pruning_curve(mv.load("tiny-gpt2"), texts, order)
        assert shown[shown["order"] == order]["loss"].tolist() == pytest.approx(
            curve.loss.tolist(), abs=1e-6
        )
    found = robustness(mv.load("tiny-gpt2"), texts, 32)
    assert format_number(found.summary()["extra"]) in said(app)


def test_going_on_with_and_without_heads():
    app = intervene(off="0.0,0.1,0.2,0.3,0.4")
    app.toggle(key="ask_goes_on").set_value(True).run()
    check(app)
    model = mv.load("tiny-gpt2")
    change = Intervention([(0, head) for head in range(5)])
    expected = [generation.generate(model, TEXT, None, how).text for how in (None, change)]
    assert [found.value for found in app.text] == expected and expected[0] != expected[1]
    press(app, "all_on")
    assert [found.value for found in app.text] == [expected[0]] * 2
    app = intervene(off="0.3", how="mean")
    app.toggle(key="ask_goes_on").set_value(True).run()
    assert "does not depend on the whole text" in app.info[0].value
    intact(app)


# -- switches --------------------------------------------------------------------------------------


def test_undo_and_all_on():
    app = intervene(off="0.3")
    assert app.button(key="undo").disabled and not app.button(key="all_on").disabled
    press(app, "all_on")
    assert off(app) == () and app.button(key="all_on").disabled
    app.selectbox(key="ask_preset").select("all of layer 0").run()
    press(app, "undo")
    assert off(app) == ()
    press(app, "undo")
    assert off(app) == ((0, 3),) and app.button(key="undo").disabled
    assert app.query_params["off"] == "0.3"


def test_undo_is_ready_in_the_run_that_a_switch_caused(monkeypatch):
    app = intervene()
    monkeypatch.setattr(switches, "head_switches", lambda *args, **options: ((2, 1),))
    app.run()
    assert off(app) == ((2, 1),) and not app.button(key="undo").disabled
    assert "1 changed: L2 H1" in said(app)


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
    app.selectbox(key="ask_preset").select("the 3 nearest twins of L2 H5").run()
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

    def count(module, name):
        original = getattr(module, name)

        def counting(*args, **options):
            done.append(name)
            return original(*args, **options)

        monkeypatch.setattr(module, name, counting)

    for module, name in (
        (AttentionModel, "trace"), (prediction, "logits"), (effect, "predict"),
        (reporting, "make_report"), (reporting, "head_similarity"),
        (importance_part, "head_importance"),
    ):  # fmt: skip
        count(module, name)
    return done


@pytest.mark.parametrize(
    ("model", "text"), [("tiny-gpt2", TEXT + " run"), ("tiny-bert", GAP + " so")]
)
def test_a_switch_costs_one_forward_pass_and_nothing_else(monkeypatch, counted, model, text):
    app = intervene(model=model, text=text)
    chosen: list[tuple[tuple[int, int], ...]] = []
    monkeypatch.setattr(
        switches, "head_switches", lambda *args, **options: chosen.pop() if chosen else None
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


# -- odd links and inputs --------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "words"), [
    ("headless", "no language-model head"), ("deberta", "cannot be changed here"),
    ("t5", "encoder-decoder"),
])  # fmt: skip
def test_models_whose_heads_cannot_be_switched_say_why(models, model, words):
    app = intervene(model=models[model], text="the cat sat", off="0.0")
    assert not app.exception and not app.error
    assert words in app.info[0].value.replace("\\", "")
    assert "Explore" in app.info[0].value
    assert app.text_input(key="ask_text").value == "the cat sat" and off(app) == ((0, 0),)
    app.selectbox(key="ask_model").select("tiny-gpt2").run()
    check(app)
    intact(app)
    assert off(app) == ((0, 0),)


def test_heads_that_the_model_does_not_have_are_left_out_in_words():
    app = intervene(off="0.3,9.1,0.3,2.77,0.1")
    assert off(app) == ((0, 1), (0, 3))
    assert "left out (L2 H77, L9 H1)" in app.info[0].value.replace("\\", "")
    assert app.query_params["off"] == "0.1,0.3"
    check(app)
    intact(app)


@pytest.mark.parametrize(("name", "value"), [
    ("off", "garbage"), ("off", "1.2.3"), ("off", "-1.0"), ("off", "1"), ("factor", "nan"),
    ("factor", "1e99"), ("how", "kill"), ("place", "x"), ("method", "magic"),
])  # fmt: skip
def test_what_makes_no_sense_in_a_link_is_said(name, value):
    app = intervene(**{"how": "scale", name: value})
    assert f"link's {name}=" in app.warning[0].value.replace("\\", "")
    assert not app.error and len(app.metric) == 1
    intact(app)


@pytest.mark.parametrize(("target", "words"), [
    ("hippopotamuses", "tokens for this model"), ("two words", "tokens for this model"),
    ("\x00", "target"), (HOSTILE, "tokens for this model"),
])  # fmt: skip
def test_a_target_that_is_not_one_token_hides_nothing(target, words):
    app = intervene("prediction", off="0.3", target=target)
    assert words in app.error[0].value and len(app.error) == 1
    intact(app)
    assert app.text_input(key="ask_target").value == target and off(app) == ((0, 3),)
    assert len(app.metric) == 1 and len(table(app, "before", "after"))
    app.text_input(key="ask_target").input("play").run()
    check(app)
    app.text_input(key="ask_against").input("hippopotamuses").run()
    assert len(app.error) == 1
    intact(app)


def test_a_target_that_is_not_in_the_vocabulary(models):
    app = intervene(model=models["gpt2"], text="the cat sat on", target="zebra")
    assert "not in this model" in app.error[0].value
    intact(app)


def test_a_second_token_needs_the_first():
    app = intervene(against="play")
    assert "Name the token to follow" in app.info[0].value
    intact(app)
    app.text_input(key="ask_target").input("eat").run()
    check(app)
    assert not app.info and "less “play”" in said(app)


@pytest.mark.parametrize("how", ["patch_z", "patch_pattern"])
def test_a_patch_needs_a_text_of_as_many_tokens(how):
    app = intervene(off="0.3", how=how)
    assert "Type the text" in app.info[0].value
    intact(app)
    app.text_input(key="ask_source").input("too short").run()
    assert not app.info and "tokens" in app.error[0].value
    intact(app)
    assert app.query_params["source"] == "too short" and off(app) == ((0, 3),)
    app.text_input(key="ask_source").input("\x00").run()
    assert len(app.error) == 1
    intact(app)
    app.text_input(key="ask_source").input(TEXT.replace("dog", "cat")).run()
    check(app)
    press(app, "all_on")
    check(app)


def test_a_patch_without_a_head_needs_no_text():
    app = intervene(how="patch_z")
    check(app)
    assert len(app.metric) == 1 and not app.info


@pytest.mark.parametrize("how", ["zero", "scale", "mean", "uniform"])
@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-bert"])
def test_all_heads_off(model, how):
    every = ",".join(f"{layer}.{head}" for layer in range(4) for head in range(8))
    app = intervene(model=model, text=GAP if model == "tiny-bert" else TEXT, off=every, how=how)
    check(app)
    assert len(off(app)) == 32 and "32 changed" in said(app)


def test_factors_that_overflow_are_said(models):
    every = ",".join(f"{layer}.{head}" for layer in range(3) for head in range(5))
    app = intervene(
        model=models["gpt2"], text="the cat sat", off=every, how="scale", factor="-10",
        dtype="float16",
    )  # fmt: skip
    assert not app.exception
    assert not app.error or "smaller factors" in app.error[0].value
    intact(app)


def test_a_place_that_the_text_does_not_have_is_the_last_one():
    app = intervene(place="777")
    check(app)
    assert app.selectbox(key="ask_place").value == -1


@pytest.mark.parametrize("text", ["a", "the the the", HOSTILE, "dog " * 100_000])
@pytest.mark.parametrize("model", ["tiny-gpt2", "tiny-bert"])
def test_any_text(model, text):
    text = f"[MASK] {text}" if model == "tiny-bert" else text
    app = intervene(model=model, off="0.3", target="dog", text="")
    app.text_input(key="ask_text").input(text).run()
    check(app)
    intact(app)
    assert len(app.metric) == 1 and off(app) == ((0, 3),)
    assert ("was cut to" in said(app)) == (len(text) > 1000)
    app.toggle(key="ask_goes_on").set_value(True).run() if model == "tiny-gpt2" else None
    intact(app)
    if model == "tiny-gpt2":
        assert len(app.error) == (len(text) > 1000)  # no room to go on


def test_one_token_of_one_text_has_nothing_to_be_measured_by():
    app = intervene(text="a", more="")
    for button in ("measure", "prune"):
        press(app, button)
        assert len(app.error) == 1 and "token" in app.error[0].value
        intact(app)
    app.text_input(key="ask_text").input("a dog").run()
    press(app, "measure")
    check(app)
    assert "One text" in said(app)


# -- gaps ------------------------------------------------------------------------------------------


def test_a_text_without_a_gap_gets_one_by_a_click():
    app = intervene(model="tiny-bert", text="The dog saw the dog run.", off="1.1")
    assert "This model fills gaps" in said(app) and not app.metric and not app.error
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


# -- texts for importance --------------------------------------------------------------------------

MANY = "\n".join(f"The dog number {i} ran home." for i in range(40))


@pytest.mark.parametrize(("more", "count"), [
    ("", 1), ("\n \n\t\n", 1), ("A cat sat.\n\n\nA cat sat.\n A dog ran. ", 3), (MANY, 32),
    ("the dog ran " * 1500, 2),
], ids=["empty", "blank", "gaps and twice", "many", "long"])  # fmt: skip
def test_odd_texts_to_measure_over(more, count):
    app = intervene(more=more, method="gradient")
    assert ("the first 32 are measured" in said(app)) == (more == MANY)
    press(app, "measure")
    check(app)
    held = app.session_state.measured_importance
    assert [one.n_texts for one in held.values()] == [count]


def test_a_line_that_cannot_be_used_is_said_and_the_rest_stays():
    app = intervene(more="a good line\n\x07\x00")
    press(app, "measure")
    assert len(app.error) <= 1
    intact(app)
    app.text_area(key="ask_more").input("a good line").run()
    press(app, "measure")
    check(app)


@pytest.mark.parametrize("method", views.METHODS)
def test_a_masked_text_with_a_gap_can_be_measured(method):
    app = intervene(model="tiny-bert", text=GAP, more="A dog ran home.", method=method)
    press(app, "measure")
    check(app)
    intact(app)


def test_importance_colours_only_the_model_and_texts_that_it_is_of(monkeypatch):
    values = []
    monkeypatch.setattr(
        switches, "head_switches", lambda *args, **options: values.append(options["value"])
    )
    app = intervene(more="A dog ran home.", method="gradient")
    assert values[-1] is None
    press(app, "measure")
    assert values[-1] is not None
    app.selectbox(key="ask_model").select("tiny-bert").run()
    assert values[-1] is None
    app.selectbox(key="ask_model").select("tiny-gpt2").run()
    assert values[-1] is not None
    app.segmented_control(key="ask_method").set_value("ablation").run()
    assert values[-1] is None
    app.segmented_control(key="ask_method").set_value("gradient").run()
    app.text_area(key="ask_more").input("Another text.").run()
    assert values[-1] is None
    app.text_area(key="ask_more").input("A dog ran home.").run()
    app.text_input(key="ask_text").input("Another sentence").run()
    assert values[-1] is None
    check(app)


def test_two_sessions_on_one_model_do_not_mix():
    text = TEXT + " sing"
    one, two = intervene(text=text, off="0.3"), intervene(text=text, off="2.5", how="mean")
    one.run()
    kl = [ablation.ablate(mv.load("tiny-gpt2"), text, heads, how).kl
          for heads, how in (([(0, 3)], "zero"), ([(2, 5)], "mean"))]  # fmt: skip
    assert [app.metric[0].value for app in (one, two)] == [format_number(value) for value in kl]
    assert (off(one), off(two)) == (((0, 3),), ((2, 5),))
