"""Pages of a class as apps of their own: a question for pupils, and the lesson of a teacher."""

import json

from streamlit.testing.v1 import AppTest

from mha_viz.learn.frame import classroom
from mha_viz.ui.state.class_answers import classes
from tests.ui.opening import components, opened

QUESTION = "soft-lookup-predict-temperature", ("one", "two")


def _question() -> None:
    """Runs as an app, so it imports what it needs."""
    import streamlit as st

    from mha_viz.learn.frame import class_page, questions
    from mha_viz.learn.frame.choices import Choices
    from mha_viz.learn.frame.contents import BY_KEY

    class_page.follow("here")
    question = questions.Question("What?", ("one", "two"), 1, "So it is.", ("It is no one.", ""))
    questions.predict(Choices(BY_KEY["soft-lookup"]), "temperature", question)
    st.markdown("Weights of the lab")


def pupil(code: str = "") -> AppTest:
    return opened(_question, **({classroom.PARAM: code} if code else {}))


def kept(page: AppTest) -> dict[str, str]:
    """The cookie that the page sets."""
    (proto,) = components(page, "class_cookie")
    told = json.loads(proto.json)
    return {told["name"]: told["value"]}


def said(page: AppTest) -> str:
    assert not page.exception
    return " ".join(part.value for part in page.markdown)


def captions(page: AppTest) -> str:
    assert not page.exception
    return " ".join(part.value for part in page.caption)


def counted(code: str) -> tuple[int, ...]:
    return classes().counts(code, QUESTION, 2)


def teach() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn.frame import class_page, lesson

    class_page.follow("teach")
    lesson.draw()
