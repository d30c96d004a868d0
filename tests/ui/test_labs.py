"""All labs as apps of their own: each opens whole, answers its questions, and refuses bad links."""

import pytest

from mha_viz.learn.frame.contents import LABS
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.messages.notices import stop_on_error
from tests.ui.compare_app import check, figures, matrices
from tests.ui.lab_app import lab, link

KEYS = [lab.key for lab in LABS]
INVALID = {  # parameters that a lab refuses
    "soft-lookup": {"tokens": "99", "temperature": "hot", "aspect": "<script>", "q4x3": "1,2",
                    "k4x3": ";;;1,2,3,4", "v4x2": ";;;x"},
    "own-reflection": {"tokens": "99", "token": "<b>", "steps": "-1", "seed": "x", "x4": "1,2",
                       "temperature": "hot"},
    "two-places": {"steps": "7", "values": "3", "width": "<b>", "seed": "1e9"},
    "step-by-step": {"step": "nonsense", "row_token": "many"},
    "value-output": {"n": "77"},
    "convolution": {"picture": "cat", "side": "33", "colour": "red", "size": "2", "alpha": "99",
                    "border": "torus", "row": "-1", "column": "x", "preset": "<b>",
                    "sharpen3": "1,2"},
    "any-pattern": {"pattern": "cat", "tokens": "40", "seed": "-1", "brush": "x", "width": "0",
                    "error": "x"},
    "cost": {"n": "many", "bytes": "3", "longest": "7", "seed": "-1", "at": "1e9",
             "time_width": "<b>"},
    "how-heads-learn": {"steps": "7", "heads": "3", "rate": "1e9", "seed": "<b>", "moment": "2",
                        "aspect": "x", "decay": "-1", "at": "-1", "plane": "sideways"},
    "statements": {"space_of": "W_X", "norm": "yes"},
    "find-the-head": {"tasks": "self,<script>", "seed": "-4"},
    "what-heads-learn": {"kind": "<b>"},
    "induction-circuit": {"words": "7", "seed": "99", "cut": "x"},
    "shared-keys": {"sentence": "<b>", "bytes": "3"},
    "translation-and-pictures": {"digit": "10", "layer": "2", "seed": "x"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def everything_open(monkeypatch):
    """Draw every fold, as if somebody had opened it."""

    def draw_open(title, key, draw):
        if not key.endswith("-table"):
            with stop_on_error():
                draw()

    monkeypatch.setattr(lazy_sections, "in_expander", draw_open)


@pytest.mark.parametrize("key", KEYS)
def test_lab_with_all_folds_open_is_whole_and_answers_every_question(key):
    app = lab(key)
    check(app)
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


@pytest.mark.parametrize("key", KEYS)
def test_lab_with_invalid_choices_in_its_link_names_each_and_ignores_it(key):
    app = lab(key, **INVALID[key])
    check(app)
    warnings = "\n".join(warning.value.replace("\\", "") for warning in app.warning)
    assert len(app.warning) == len(INVALID[key])
    assert all(name in warnings for name in INVALID[key])
    assert not INVALID[key].keys() & link(app).keys()
