"""The Why page as an app of its own."""

from streamlit.testing.v1 import AppTest

from mha_viz.ui.state.session import Session
from tests.ui.opening import open_tables, opened

TEXT = "The cat saw the dog. The cat saw the"
DOG_CAT = dict(prediction="graph", target="dog", against="cat")
EFFECT = dict(why="connections", connections="effect")
LINKS = (  # to every view, and to what it shows instead
    {"why": "prediction"},
    {"prediction": "graph"},
    {"why": "score"},
    {"why": "score", "score": "map"},
    {"why": "connections"},
    {"why": "connections", "connections": "effect"},
    {"why": "connections", "connections": "task"},
    {"why": "patching"},
    {"why": "test"},
    {"why": "test", "test": "importance"},
)


def why(*tables: str, more: str | None = None, **params: str) -> AppTest:
    """The page under a link, with the tables of these figures open and these further texts."""
    session = {"session": Session(more_texts=more, pages={"heads": "heads"})}
    return opened("mha_viz.ui.why.page.page", session=session | open_tables(*tables), **params)


def importance_page(*tables: str, **options: str) -> AppTest:
    """Importance, on a sentence of its own."""
    text = "Once upon a time there was a little dog who liked to"
    link = {"why": "test", "test": "importance", "model": "tiny-gpt2", "text": text}
    return why(*tables, **link | options)


def press(app: AppTest, key: str) -> AppTest:
    return app.button(key=key).click().run()
