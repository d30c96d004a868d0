"""The first page of Learn as an app of its own: its sentence, its end, and what is refused."""

from streamlit.testing.v1 import AppTest

from mha_viz.learn.start import numbers
from tests.ui.compare_app import check


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn import page

    page.start()


def opened(**params: str) -> AppTest:
    app = AppTest.from_function(_page, default_timeout=300)
    for name, value in params.items():
        app.query_params[name] = value
    return app.run()


def test_the_page_opens_with_the_running_example_and_an_end():
    app = opened()
    text = check(app)
    assert app.title[0].value == "Start here: follow one sentence"
    assert app.text_input[0].value == numbers.SENTENCE
    assert "What you now know" in text and not app.query_params


def test_a_typed_sentence_is_carried_by_the_link_and_opens_again():
    app = opened(sentence="The cat sat on the")
    assert app.text_input[0].value == "The cat sat on the"
    app.text_input[0].set_value("Once upon a").run()
    check(app)
    assert app.query_params["sentence"] == "Once upon a"


def test_a_sentence_without_words_and_one_that_is_too_long_are_answered_in_a_sentence():
    for typed, said in (("  ", "empty"), ("cat " * 40, "leave out some words")):
        app = opened(sentence=typed)
        shown = [one.value for kind in (app.error, app.info, app.warning) for one in kind]
        assert any(said in one for one in shown), shown
        assert app.text_input[0].value == typed and not app.exception
