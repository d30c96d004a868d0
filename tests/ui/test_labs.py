"""All labs as apps of their own: each opens whole, answers its questions, and refuses bad links."""

import pytest

from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.messages.notices import stop_on_error
from tests.ui.compare_app import check, figures, matrices
from tests.ui.lab_app import lab, link

KEYS = [lab.key for lab in LABS]
# What labs refuse beside a word that is none of a choice's values.
INVALID = {
    "soft-lookup": {"tokens": "99", "q4x3": "1,2", "k4x3": ";;;1,2,3,4", "v4x2": ";;;x"},
    "own-reflection": {"tokens": "99", "steps": "-1", "x4": "1,2"},
    "two-places": {"steps": "7", "values": "3", "seed": "1e9"},
    "value-output": {"n": "77"},
    "convolution": {"side": "33", "size": "2", "alpha": "99", "row": "-1", "sharpen3": "1,2"},
    "any-pattern": {"tokens": "40", "seed": "-1", "width": "0"},
    "cost": {"bytes": "3", "longest": "7", "seed": "-1", "at": "1e9"},
    "how-heads-learn": {"steps": "7", "heads": "3", "rate": "1e9", "moment": "2", "at": "-1"},
    "find-the-head": {"tasks": "self,<script>", "seed": "-4"},
    "induction-circuit": {"words": "7", "seed": "99"},
    "shared-keys": {"bytes": "3"},
    "translation-and-pictures": {"digit": "10", "layer": "2"},
}


@pytest.fixture(autouse=True)
def everything_open(monkeypatch):
    """Draw every fold, as if somebody had opened it."""

    def draw_open(title, key, draw):
        if not key.endswith("-table"):
            with stop_on_error():
                draw()

    monkeypatch.setattr(lazy_sections, "in_expander", draw_open)


@pytest.mark.parametrize("key", KEYS)
def test_lab_with_all_folds_open_answers_questions_and_refuses_an_invalid_link(key):
    app = lab(key)
    check(app)
    typed = {line.key for line in app.text_input}  # lines that take any text
    choices = app.session_state[f"choices-{key}"].defaults
    refusing = [name for name in choices if f"{key}-{name}" not in typed]
    assert figures(app) or matrices(app) or app.dataframe
    assert not app.warning and link(app).keys() <= {"model", "text"}
    questions = [button for button in app.button if "-predict-" in button.key]
    before = len(app.info)
    closed = {button.label for button in questions}
    assert all(button.disabled for button in questions)
    for button in questions:
        radio = app.radio(key=button.key.removesuffix("-button"))
        radio.set_value(radio.options[0])
    app.run()
    for button in questions:
        app.button(key=button.key).click()
    check(app.run())
    assert len(app.info) == before + len(questions) > 0
    opened = {button.label for button in app.button if "-predict-" in button.key}
    assert [label.split()[0] for label in (*closed, *opened)] == ["Show", "Hide"]

    invalid = dict.fromkeys(refusing, "<script>") | INVALID.get(key, {})
    app = lab(key, **invalid)
    check(app)
    warnings = [warning.value.replace("\\", "") for warning in app.warning]
    named = {name for name in invalid if any(f"{name}=" in text for text in warnings)}
    assert (len(warnings), named) == (len(invalid), invalid.keys())
    assert not invalid.keys() & link(app).keys()
