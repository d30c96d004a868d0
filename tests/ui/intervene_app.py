"""The Intervene page as an app of its own, and what stands on it."""

from streamlit.testing.v1 import AppTest

TEXT = "Once upon a time there was a little dog who liked to"
GAP = "The old [MASK] slept while the cat watched the birds."


def _page() -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.ui.intervene import page as intervene

    intervene.page()


def intervene(
    *open_tables: str, more: str | None = None, goes_on: bool = False, **params: str
) -> AppTest:
    """The page under a link, with the tables of these figures open and these further texts."""
    app = AppTest.from_function(_page, default_timeout=300)
    for name, value in ({"model": "tiny-gpt2", "text": TEXT} | params).items():
        app.query_params[name] = value
    for key in open_tables:
        app.session_state[f"{key}-table"] = True
    if more is not None:
        app.session_state.more_texts = more
    if goes_on:
        app.session_state.ask_goes_on = True
    return app.run()


def press(app: AppTest, key: str) -> AppTest:
    return app.button(key=key).click().run()


def off(app: AppTest) -> tuple[tuple[int, int], ...]:
    return app.session_state.view.off


def keys(app: AppTest) -> set[str]:
    kinds = ("text_input", "selectbox", "button", "text_area", "number_input")
    return {str(part.key) for kind in kinds for part in getattr(app, kind)}


def intact(app: AppTest) -> None:
    """All parts of the page are there, so that whatever was refused can be mended."""
    assert not app.exception
    assert {"ask_text", "ask_how", "ask_target", "ask_place", "undo", "measure", "prune"} <= keys(
        app
    )
