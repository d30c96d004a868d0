"""The Circuits page as an app of its own."""

from streamlit.testing.v1 import AppTest

TEXT = "The cat saw the dog. The cat saw the"


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.ui.circuits import page as circuits

    circuits.page()


def circuits(*open_tables: str, **params: str) -> AppTest:
    """The page under a link, with the tables of these figures open."""
    app = AppTest.from_function(_page, default_timeout=300)
    for name, value in params.items():
        app.query_params[name] = value
    for key in open_tables:
        app.session_state[f"{key}-table"] = True
    return app.run()
