"""The first page of Learn as an app of its own: its sentence, its end, and what is refused."""

import pytest

from mha_viz.learn.start import numbers
from tests.ui.compare_app import check
from tests.ui.lab_app import link
from tests.ui.opening import opened

START = "mha_viz.learn.page.start"


def test_start_opens_with_the_running_example():
    app = opened(START)
    check(app)
    assert app.text_input[0].value == numbers.SENTENCE and not app.query_params


def test_a_typed_sentence_is_carried_by_the_link_and_opens_again():
    app = opened(START, sentence="The cat sat on the")
    assert app.text_input[0].value == "The cat sat on the"
    app.text_input[0].set_value("Once upon a").run()
    check(app)
    assert app.query_params["sentence"] == "Once upon a"


def test_a_link_opens_a_step_and_one_that_is_not_there_is_named():
    app = opened(START, step="7")
    check(app)
    assert link(app)["step"] == "7" and not app.warning
    app = opened(START, step="16")
    assert "step" in app.warning[0].value and "step" not in app.query_params


@pytest.mark.parametrize("typed", ["  ", "cat " * 40])
def test_empty_or_too_long_sentence_is_refused_and_stays_in_its_box(typed):
    app = opened(START, sentence=typed)
    assert sum(map(len, (app.error, app.info, app.warning))) == 1
    assert app.text_input[0].value == typed and not app.exception
