"""The Why page as an app of its own."""

from streamlit.testing.v1 import AppTest

from mha_viz.ui.state.session import Session

TEXT = "The cat saw the dog. The cat saw the"
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


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.ui.why import page as why

    why.page()


def why(*open_tables: str, more: str | None = None, **params: str) -> AppTest:
    """The page under a link, with the tables of these figures open and these further texts."""
    app = AppTest.from_function(_page, default_timeout=300)
    app.session_state.session = Session(more_texts=more, pages={"heads": "heads"})
    for name, value in params.items():
        app.query_params[name] = value
    for key in open_tables:
        app.session_state[f"{key}-table"] = True
    return app.run()


def importance_page(*open_tables: str, **options: str) -> AppTest:
    """Importance, on a sentence of its own."""
    text = "Once upon a time there was a little dog who liked to"
    link = {"why": "test", "test": "importance", "model": "tiny-gpt2", "text": text}
    return why(*open_tables, **link | options)


def press(app: AppTest, key: str) -> AppTest:
    return app.button(key=key).click().run()
