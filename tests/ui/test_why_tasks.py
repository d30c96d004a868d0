"""Circuits put to the test on the page: tasks, proposals, results, and files that open again."""

import re

import numpy as np
import pandas as pd
import pytest

import mha_viz as mv
from mha_viz.ui.heads import WORDS
from mha_viz.ui.operating import streamlit_run
from mha_viz.ui.state.links import from_params
from mha_viz.ui.why import edges
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.web.theme import format_number
from tests.making.pairwise import pairwise
from tests.ui.compare_app import HOSTILE, check, said, table
from tests.ui.why_app import DOG_CAT, EFFECT, TEXT, why


def percent(outcome):
    """The share that the choice carries alone, as the page writes it."""
    return f"{round(100 * outcome.share(outcome.alone))}%".replace("-", "−")


OWN = dict(why="test", task="own")
PAIRS = """The boy took | The girl took | his | her
The girl took | The boy took | her | his
The man saw that | The woman saw that | he | she
The woman saw that | The man saw that | she | he
The *man* <b>saw | The woman saw it once | he | she"""
FOUR_PAIRS = """The boy took | The girl took | his | her
The girl took | The boy took | her | his
The man lost | The woman lost | his | her
The woman lost | The man lost | her | his"""
EDGES = dict(why="connections", connections="task", pairs=FOUR_PAIRS)


def test_own_pairs_are_tested_with_their_corrupted_texts(models):
    app = why("faithfulness", model="tiny-gpt2", **OWN, tested="0.7", pairs=PAIRS)
    model = mv.load("tiny-gpt2")
    task = mv.make_task(model, PAIRS)
    assert plain(mv.task_accuracy(model, task).sentence) in said(app)
    (left_out,) = [one.value for one in app.info]
    assert plain(task.left_out[0]) in left_out and "<b>" not in left_out
    assert "The · **boy / girl** · took → **his**" in said(app)
    app.button(key="test_heads").click().run()
    check(app)
    found = mv.faithfulness(model, task, [(0, 7)])
    shown = table(app, "heads", "behaviour", "share", "share_chosen_on")
    np.testing.assert_allclose(shown["behaviour"], found.table()["behaviour"], rtol=1e-4, atol=1e-6)
    app.text_area(key="ask_pairs").set_value(PAIRS[: PAIRS.rindex("\n")]).run()
    assert not app.info and not app.get("plotly_chart")  # nothing is measured on these


def test_a_saved_circuit_opens_again(tmp_path):
    model = mv.load("tiny-gpt2")
    heads = ((0, 7), (2, 4))
    task = mv.make_task(model, "closing", n_examples=10)
    found = mv.faithfulness(model, task, heads, n_random=2)
    found.save(tmp_path / "circuit.json")
    app = why(model="tiny-gpt2", why="test")
    app.session_state["open-circuit"] = True
    app.run()
    raw = (tmp_path / "circuit.json").read_bytes()
    app.file_uploader(key="circuit_file").upload("circuit.json", raw, "application/json").run()
    check(app)
    assert app.multiselect(key="ask_tested").value == list(heads)
    assert app.query_params["task"] == "closing"
    assert f" {percent(found.held_out)} " in said(app)
    app.file_uploader(key="circuit_file").upload("x.json", b"{", "application/json").run()
    assert not app.exception and len(app.error) == 1


def test_what_heads_write_is_a_mean_over_a_tasks_pairs():
    name = "tiny-gpt2"
    app = why("task_by_head", "logit_by_layer", model=name, averaged="1", task="closing")
    check(app)
    model = mv.load(name)
    found = mv.task_attribution(model, mv.make_task(model, "closing"))
    shown = table(app, "Head", "Share (logits)", "95 % low", "95 % high")
    np.testing.assert_allclose(shown["Share (logits)"], found.heads.flatten(), atol=1e-4)
    heads = found.table().query("kind == 'head'").sort_values(["layer", "head"])
    np.testing.assert_allclose(shown["95 % low"], heads["low"], atol=1e-4)
    assert f"**{format_number(found.value)}**" in said(app)
    assert len(table(app, "component", "share", "low")) == len(found.components)
    app.segmented_control(key="ask_averaged").set_value(False).run()
    check(app)
    assert "averaged" not in app.query_params and app.text_input(key="ask_target")


def edges_in_hand(model, task, on_progress=None):
    """Stand in for the search: the circuit of 4 edges carries enough."""
    rows = pd.DataFrame({"sender": ["embedding"], "receiver": ["logits"], "score": [0.5]})
    curve = pd.DataFrame(
        {"edges": [1, 4, 9], "faithfulness": [0.11, 0.88, 0.97], "complement": [0.93, 0.22, 0.06]}
    ).assign(random=[0.01, 0.05, 0.17], low=0.0, high=1.0)
    return edges.EdgeFindings(rows, rows.assign(known=True), curve, 4, 0.6, 5678, 1, None)


def test_edges_result_has_the_shares_of_the_smallest_circuit_that_carries_enough(monkeypatch):
    monkeypatch.setattr(edges, "find_edges", edges_in_hand)
    app = why(model="tiny-gpt2", **OWN | EDGES)
    app.button(key="find_edges").click().run()
    check(app)
    (result,) = [part.value for part in app.markdown if "5,678" in part.value]
    assert re.findall(r"\d+(?=\s%)", result) == ["88", "22", "5"]
    assert len(app.get("plotly_chart")) == 2  # the curve, and the circuit by layer


@pytest.mark.extended
def test_edges_are_those_of_the_library():
    app = why("edge_curve", model="tiny-gpt2", **OWN | EDGES)
    assert not app.get("plotly_chart")
    app.button(key="find_edges").click().run()
    check(app)
    model = mv.load("tiny-gpt2")
    scores = mv.edge_effects(model, mv.make_task(model, FOUR_PAIRS))
    scores.measure()
    curve = mv.edge_faithfulness(scores)
    shown = table(app, "edges", "share", "faithfulness", "complement", "random")
    np.testing.assert_allclose(shown["faithfulness"], curve.faithfulness, rtol=1e-3, atol=1e-4)
    size = curve.size_for()
    assert size is not None and f"{size} edges of {scores.n_edges:,} " in said(app)
    assert len(app.get("plotly_chart")) == 3  # the curve, the circuit by layer, and by position


def test_each_step_of_the_guide_opens_its_view():
    app = why(model="tiny-gpt2", text="the cat sat", task="closing")
    app.session_state["way"] = True
    app.run()
    steps = [button.key for button in app.button if str(button.key).startswith("way-")]
    opened = []
    for step in steps:
        app.button(key=step).click().run()
        check(app)
        opened.append(app.session_state.view.why)
        assert app.session_state.view.is_of_task == (step != "way-looks")
    assert opened == ["test", "test", "prediction", "score", "connections", "test"]


TEXTS = {
    "sentence": "the cat sat",
    "one": "a",
    "equal": "the the the the",
    "hostile": HOSTILE,
    "long": "the cat " * 300,
}


OF_TASK = {"averaged": "1", "task": "closing"}
VIEWS = {  # the link, which older links name by a section, and a control of the view
    "writes": ({"circuit": "writes"}, "ask_prediction"),
    "graph": ({"circuit": "graph"}, "ask_prediction"),
    "state": ({"prediction": "graph", "graph_of": "state"}, "ask_prediction"),
    "task": (OF_TASK, "ask_task"),
    "graph of a task": (OF_TASK | {"prediction": "graph"}, "ask_task"),
    "looks": ({"circuit": "looks"}, "ask_score"),
    "map": ({"circuit": "map"}, "ask_score"),
    "weights": ({"circuit": "weights"}, "ask_through"),
    "effect": ({"circuit": "effect"}, "ask_through"),
    "edges": ({"circuit": "edges"}, "ask_task"),
    "patching": ({"circuit": "patching"}, "ask_why"),
    "test": ({"circuit": "test"}, "ask_test"),
    "importance": ({"circuit": "importance"}, "ask_test"),
}


@pairwise(
    dear=True,
    model=["tiny-gpt2", "headless", "deberta", "t5", "llama", "one", "tall"],
    text=TEXTS,
    view=VIEWS,
)
def test_any_text_of_any_model_in_every_view(models, model, text, view):
    """Covers what a family or a text does not allow: sentences tell it, and the rest works."""
    link, control = VIEWS[view]
    app = why(model=models.get(model, model), text=TEXTS[text], **link)
    assert not app.exception and control in {
        part.key for part in (*app.button_group, *app.selectbox)
    }
    is_of_task = control == "ask_task" or view == "test"
    assert ("ask_text" in {part.key for part in app.text_area}) != is_of_task
    assert model != "tiny-gpt2" or is_of_task or bool(app.warning) == (text == "long")
    begins = [button for button in app.button if button.key == "find_edges"]
    refused = app.info or app.error
    assert view != "edges" or bool(begins) != bool(refused)
    drawn = app.get("plotly_chart") or app.get("bidi_component")
    assert refused or app.warning or drawn or begins or view in ("test", "importance")
    if (model, view) == ("headless", "graph"):  # it predicts nothing and shows its states
        assert "ask_graph_of" not in [part.key for part in app.segmented_control]


def test_older_links_lead_to_words_on_heads_and_to_effects_over_a_task(monkeypatch):
    left = []

    def leave(page, query_params):
        left.append((page, query_params))
        streamlit_run.end_run()

    monkeypatch.setattr("streamlit.switch_page", leave)
    app = why(circuit="words", layer="1", head="2", listed="cat dog")
    assert not app.exception and app.session_state[WORDS]
    ((page, params),) = left
    assert (page, params["listed"], params["show"]) == ("heads", "cat dog", "numbers")
    view, _ = from_params({"circuit": "effect", "averaged": "1"})
    assert (view.why, view.connections, view.is_of_task) == ("connections", "task", True)


REFUSED = {  # the link, which kind of message it gets, what that names, and what mends it
    "key": (dict(why="score", versus_key="999"), "warning", "versus_key=999", ""),
    "quantity": (dict(quantity="<b>"), "warning", "<b>", ""),
    "target": (dict(target="zyxwvut"), "error", "zyxwvut", "ask_target"),
    "pin": (DOG_CAT | dict(graph_pins="L3H1@99"), "error", "L3 H1 @99", "pinned"),
    "lengths of paths": (EFFECT | dict(source="a cat"), "error", "tokens", ""),
    "lengths of patching": (dict(why="patching", source="a cat"), "error", "tokens", ""),
    "kl has no estimate": (EFFECT | dict(behaviour="kl"), "info", "", ""),
    "nothing to swap": (dict(why="patching", text="the the the the"), "info", "", ""),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusal_is_a_sentence_that_names_the_value_and_the_page_stays(case):
    link, kind, named, field = REFUSED[case]
    app = why(**{"model": "tiny-gpt2", "text": TEXT} | link)
    assert not app.exception
    (message,) = getattr(app, kind)
    assert named in message.value.replace("\\", "") and "ask_text" in str(app.text_area)
    if field:
        part = app.pills(key=field) if field == "pinned" else app.text_input(key=field)
        part.set_value("").run()
        check(app)
