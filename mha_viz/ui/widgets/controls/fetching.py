"""A model that is not on this machine: what it is, a button that fetches it, and how far it is."""

from functools import partial

import streamlit as st

from mha_viz.checkpoints import catalog
from mha_viz.checkpoints.download import Download, download, under_way
from mha_viz.core.amounts import of_bytes
from mha_viz.ui.state import allowed, selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import session
from mha_viz.ui.widgets.messages.notices import plain

TICK = 0.5  # seconds between two looks at what has come


def selected() -> str:
    """Return the chosen model that this machine does not have; "" for none."""
    name: str = session().model_to_fetch
    return name


def select(name: str) -> None:
    """Choose a model that is to be fetched, which asks nothing of the network yet; "" for none."""
    session().model_to_fetch = name
    session().attempt = None


def fetch(name: str) -> None:
    """Choose a model and begin to fetch it, or join the visitors who wait for it already."""
    allowed.check_model(name)
    select(name)
    session().attempt = download(name)


def use_downloaded() -> None:
    """Choose the selected model once it is there."""
    attempt = _attempt(selected())
    if attempt is not None and attempt.folder is not None:
        selection.change(model=attempt.name, query=-1, key=-1)
        select("")


def draw() -> None:
    """Draw the selected model's download, and below it those that others have begun."""
    name = selected()
    if name:
        _offer(name)
    for other in under_way():
        if other.name != name:
            _progress(other)


def _offer(name: str) -> None:
    attempt = _attempt(name)
    if attempt is not None and attempt.running:
        _progress(attempt)
        return
    for model in catalog.SUGGESTED:
        if model.name == name:
            st.caption(
                f"**{plain(name)}**: {model.about}. About {of_bytes(model.n_bytes)} from the "
                "Hugging Face Hub into this machine’s cache; nothing is asked of it before you "
                "click."
            )
    label = "Download"
    if attempt is not None and attempt.error is not None:
        st.error(plain(str(attempt.error)), icon=":material/error:")
        label = "Try again"
    elif attempt is not None:
        st.caption(f"Stopped at {_share(attempt)}. It goes on from there.")
        label = "Go on"
    begin, icon = partial(fetch, name), ":material/download:"
    st.button(label, on_click=guarded(begin), key="download", icon=icon, type="primary")


def _attempt(name: str) -> Download | None:
    """Return the visitor's own last attempt at a model, or one of somebody else that runs."""
    mine: Download | None = session().attempt
    if mine is not None and mine.name == name:
        return mine
    return next((attempt for attempt in under_way() if attempt.name == name), None)


@st.fragment(run_every=TICK)
def _progress(attempt: Download) -> None:
    """Draw a download's progress again and again; rerun the page once it has ended."""
    if not attempt.running:
        st.rerun()
    short = attempt.name.rpartition("/")[2]
    words = f"{_share(attempt)} of" if attempt.total else "Asking the Hub for"
    st.progress(min(attempt.done / max(attempt.total, 1), 1.0), plain(f"{words} {short}"))
    key = f"stop-{attempt.name}"
    st.button("Stop", on_click=guarded(attempt.stop), key=key, icon=":material/stop:")


def _share(attempt: Download) -> str:
    return f"{of_bytes(attempt.done)} of {of_bytes(attempt.total)}"
