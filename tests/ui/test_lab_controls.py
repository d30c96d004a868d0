"""What every control of a lab does: it shows a choice, takes a new one, and the link carries it."""

from streamlit.testing.v1 import AppTest

from tests.ui.compare_app import check
from tests.ui.lab_app import link
from tests.ui.opening import opened


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    import streamlit as st

    from mha_viz.learn.frame.choices import Choices
    from mha_viz.learn.frame.contents import LABS
    from mha_viz.ui.widgets.messages import notices

    choices = Choices(LABS[0])
    found = {
        "few": choices.slide("few", "Few", (1, 2, 4), 2),
        "menu": choices.menu("menu", "Menu", {"a": "First", "b": "Second"}, "a"),
        "segments": choices.segments("segments", "Segments", {False: "Grey", True: "RGB"}, False),
        "draw": choices.seed("draw", "Draw", width=200),
        "on": choices.toggle("on", "On"),
        "count": choices.number("count", "Count", 0, 99, 7),
        "whole": choices.amount("whole", "Whole", 0, 8, 3),
        "real": choices.amount("real", "Real", 0.0, 1.0, 0.5, step=0.25),
        "place": choices.position("place", "Place", range(4), 1, most=9, width=200),
        "text": choices.text("text", "Text", "a cat", most=8, width=200),
    }
    choices.publish()
    st.session_state.found = found
    notices.problems()


CHOSEN = {
    "few": 4, "menu": "b", "segments": True, "draw": 9, "on": True,
    "count": 99, "whole": 8, "real": 0.25, "place": 3, "text": "two dogs",
}  # fmt: skip
WRITTEN = {
    "few": "4", "menu": "b", "segments": "1", "draw": "9", "on": "1",
    "count": "99", "whole": "8", "real": "0.25", "place": "3", "text": "two dogs",
}  # fmt: skip


def page(**params: str) -> AppTest:
    return opened(_page, **params)


def found(app: AppTest) -> dict[str, object]:
    check(app)
    return app.session_state.found


def test_a_link_sets_every_control_and_is_kept():
    app = page(**WRITTEN)
    assert found(app) == CHOSEN and link(app) == WRITTEN
    assert {name: type(value) for name, value in found(app).items()} == {
        name: type(value) for name, value in CHOSEN.items()
    }


def test_what_is_chosen_goes_into_the_link():
    app, key = page(), "soft-lookup-{}".format
    app.select_slider(key=key("few")).set_value(4)
    app.selectbox(key=key("menu")).set_value("b")
    app.segmented_control(key=key("segments")).set_value(True)
    app.select_slider(key=key("draw")).set_value(9)
    app.toggle(key=key("on")).set_value(True)
    app.number_input(key=key("count")).set_value(99)
    app.slider(key=key("whole")).set_value(8)
    app.slider(key=key("real")).set_value(0.25)
    app.slider(key=key("place-3")).set_value(3)
    app.text_input(key=key("text")).set_value("two dogs").run()
    assert found(app) == CHOSEN and link(app) == WRITTEN
