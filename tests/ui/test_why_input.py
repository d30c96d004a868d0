"""The Why page without a browser, of texts, models and links that do not allow everything."""

import pytest

from mha_viz.ui.heads import WORDS
from mha_viz.ui.operating import streamlit_run
from mha_viz.ui.state.links import from_params
from tests.making.pairwise import pairwise
from tests.ui.compare_app import HOSTILE, check
from tests.ui.why_app import DOG_CAT, EFFECT, TEXT, why

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
