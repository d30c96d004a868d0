"""Circuits put to the test on the page: tasks, proposals, results, and files that open again."""

import numpy as np
import pytest

import mha_viz as mv
from mha_viz.circuits.tasks.tasks import TASKS
from mha_viz.text.encoding import label_of
from mha_viz.ui.circuits import TEXTS, targets
from mha_viz.ui.state import views
from mha_viz.ui.widgets.messages.messages import plain
from mha_viz.web.theme import format_number
from tests.ui.circuits_app import circuits
from tests.ui.compare_app import MODELS, check, said, table


def test_a_circuit_is_tested_on_texts_of_its_task(models):
    link = dict(model="tiny-gpt2", text="the cat sat", circuit="test", tested="0.7", task="closing")
    app = circuits("faithfulness", **link)
    app.button(key="test_heads").click().run()
    check(app)
    model = mv.load("tiny-gpt2")
    found = mv.faithfulness(model, mv.make_task(model, "closing"), [(0, 7)])
    shown = table(app, "heads", "behaviour", "share", "share_chosen_on")
    np.testing.assert_allclose(shown["behaviour"], found.table()["behaviour"], rtol=1e-4, atol=1e-6)
    for half in (found.held_out, found.chosen_on):
        assert f"carry {percent(half)} of the behaviour" in said(app)
    assert percent(found.held_out) != percent(found.chosen_on)
    assert found.beside_random in said(app)
    assert app.query_params["tested"] == "0.7"


def test_a_share_of_nearly_nothing_is_refused_on_the_page(models):
    link = dict(model="tiny-bert", text="the cat sat", circuit="test", tested="0.1")
    app = circuits(**link, task="agreement")
    app.button(key="test_heads").click().run()
    check(app)
    (told,) = (one.value.replace("\\", "") for one in app.info)
    assert told.startswith("No share of L0 H1 is given.") and "would be noise" in told
    assert (
        "carry"
        not in said(app).replace(
            TEXTS("faithfulness.tells", instead=TEXTS("faithfulness.mean")), ""
        )
        and len(app.get("plotly_chart")) == 1
    )


def percent(outcome):
    """The share that the choice carries alone, as the page writes it."""
    return f"{round(100 * outcome.share(outcome.alone))}%".replace("-", "−")


@pytest.mark.extended
def test_heads_are_proposed_by_effect():
    app = circuits(model="tiny-gpt2", text="the cat sat", circuit="test", task="closing")
    app.button(key="propose_heads").click().run()
    check(app)
    model = mv.load("tiny-gpt2")
    found = mv.find_heads(model, mv.make_task(model, "closing"))
    assert app.multiselect(key="ask_tested").value == list(found.heads)


def test_a_task_that_a_vocabulary_lacks_is_a_sentence(models):
    app = circuits(model=models["gpt2"], text="the cat sat", circuit="test", task="closing")
    assert not app.exception and "too few of the words" in app.error[0].value
    assert "test_heads" not in [one.key for one in app.button]


def test_every_task_has_a_button():
    assert tuple(views.TASKS) == (*TASKS, "own")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("task", TASKS)
def test_every_task_shows_some_of_its_texts(name, task):
    app = circuits(model=name, circuit="test", task=task, text="the cat sat")
    assert not app.exception and not app.error
    made = mv.make_task(mv.load(name), task)
    right = label_of(mv.load(name).tokenizer, made.examples[0].right)
    assert f"→ **{plain(right)}**" in said(app)
    sentence = mv.task_accuracy(mv.load(name), made).sentence
    shown = app.warning if "nothing to explain" in sentence else app.success
    assert plain(sentence) in [one.value for one in shown]
    assert "test_heads" in [one.key for one in app.button]


OWN = dict(circuit="test", task="own", text="the cat sat")
PAIRS = """The boy took | The girl took | his | her
The girl took | The boy took | her | his
The man saw that | The woman saw that | he | she
The woman saw that | The man saw that | she | he
The *man* <b>saw | The woman saw it once | he | she"""


@pytest.mark.parametrize("name", MODELS)
def test_an_example_of_own_pairs_is_shown_until_there_are_some(name):
    app = circuits(model=name, **OWN)
    check(app)
    assert "pairs" not in app.query_params and "→ **his**, not her" in said(app)
    assert len(app.success) == 1 and not app.warning
    app.text_area(key="ask_pairs").set_value("nothing").run()
    (error,) = app.error
    assert "There is no pair that" in error.value and app.query_params["pairs"] == "nothing"


def test_own_pairs_are_tested_with_their_corrupted_texts(models):
    app = circuits("faithfulness", model="tiny-gpt2", **OWN, tested="0.7", pairs=PAIRS)
    model = mv.load("tiny-gpt2")
    task = mv.make_task(model, PAIRS)
    assert plain(mv.task_accuracy(model, task).sentence) in app.success[0].value
    (left_out,) = [one.value for one in app.info]
    assert plain(task.left_out[0]) in left_out and "<b>" not in left_out
    assert "The · **boy / girl** · took → **his**, not her" in said(app)
    assert "its output on the corrupted text" in said(app)
    app.button(key="test_heads").click().run()
    check(app)
    found = mv.faithfulness(model, task, [(0, 7)])
    shown = table(app, "heads", "behaviour", "share", "share_chosen_on")
    np.testing.assert_allclose(shown["behaviour"], found.table()["behaviour"], rtol=1e-4, atol=1e-6)
    app.text_area(key="ask_pairs").set_value(PAIRS[: PAIRS.rindex("\n")]).run()
    assert not app.info and not app.get("plotly_chart")  # nothing is measured on these


def test_too_few_pairs_are_a_sentence(models):
    app = circuits(model="tiny-gpt2", **OWN, tested="0.7", pairs=PAIRS[: PAIRS.index("\n")])
    check(app)
    app.button(key="test_heads").click().run()
    assert "A test takes 4 pairs at least" in app.error[0].value


def test_long_pairs_are_kept_though_no_link_holds_them(models):
    pairs = "\n".join(
        f"The boy saw {n} and took | The girl saw {n} and took | his | her"
        for n in "one two three four five six seven eight nine ten".split()
        for _ in range(4)
    )
    app = circuits(model="tiny-gpt2", **OWN)
    app.text_area(key="ask_pairs").set_value(pairs).run()
    check(app)
    assert len(pairs) > views.MAX_URL_TEXT and "pairs" not in app.query_params
    app.segmented_control(key="ask_task").set_value("ioi").run()
    app.segmented_control(key="ask_task").set_value("own").run()
    assert app.text_area(key="ask_pairs").value == pairs


def test_a_long_pair_shows_what_is_near_where_its_texts_differ():
    row = ("Tom saw the cat " * 9 + "and", "Tom saw the dog " + "Tom saw the cat " * 8 + "and")
    (one,) = mv.make_task(mv.load("tiny-gpt2"), [(*row, "he", "she")]).examples
    shown = targets.aligned(one)
    assert "the · **cat / dog** · Tom" not in shown or shown.count("…") == 1
    assert len(shown.split(" · ")) < len(one.clean.tokens)


def test_a_saved_circuit_opens_again(tmp_path):
    model = mv.load("tiny-gpt2")
    heads = ((0, 7), (2, 4))
    task = mv.make_task(model, "closing", n_examples=10)
    found = mv.faithfulness(model, task, heads, n_random=2)
    found.save(tmp_path / "circuit.json")
    app = circuits(model="tiny-gpt2", circuit="test")
    app.session_state["open-circuit"] = True
    app.run()
    raw = (tmp_path / "circuit.json").read_bytes()
    app.file_uploader(key="circuit_file").upload("circuit.json", raw, "application/json").run()
    check(app)
    assert app.multiselect(key="ask_tested").value == list(heads)
    assert app.query_params["task"] == "closing"
    assert f"carry {percent(found.held_out)} of the behaviour" in said(app)
    app.file_uploader(key="circuit_file").upload("x.json", b"{", "application/json").run()
    assert not app.exception and app.error[0].value.startswith("This file is not a circuit")


def test_heads_of_the_graph_make_a_circuit():
    link = dict(model="tiny-gpt2", text="The cat saw the dog", circuit="graph")
    app = circuits(**link, layer="2", head="4", tested="0.7")
    assert "Circuit to test: L0 H7." in said(app)
    app.button(key="add_head").click().run()
    check(app)
    assert "Circuit to test: L0 H7, L2 H4." in said(app)
    assert app.query_params["tested"] == "0.7,2.4"
    app.button(key="add_head").click().run()
    assert app.query_params["tested"] == "0.7,2.4"


@pytest.mark.parametrize("name", MODELS)
def test_what_heads_write_is_a_mean_over_a_tasks_pairs(name):
    app = circuits("task_by_head", "logit_by_layer", model=name, averaged="1", task="closing")
    check(app)
    model = mv.load(name)
    found = mv.task_attribution(model, mv.make_task(model, "closing"))
    shown = table(app, "Head", "Share (logits)", "95 % low", "95 % high")
    np.testing.assert_allclose(shown["Share (logits)"], found.heads.flatten(), atol=1e-4)
    heads = found.table().query("kind == 'head'").sort_values(["layer", "head"])
    np.testing.assert_allclose(shown["95 % low"], heads["low"], atol=1e-4)
    assert f"**{format_number(found.value)}** (difference" in said(app)
    assert len(table(app, "component", "share", "low")) == len(found.components)
    app.toggle(key="ask_averaged").set_value(False).run()
    check(app)
    assert "averaged" not in app.query_params and "ask_target" in [
        one.key for one in app.text_input
    ]
