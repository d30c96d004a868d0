"""How far a study is, and what came of it: shown until it is there."""

from __future__ import annotations

import streamlit as st

from mha_viz.core.showing import count
from mha_viz.corpus.run import Progress
from mha_viz.corpus.study import Study
from mha_viz.errors import ArgumentError
from mha_viz.ui.session import faults, memory
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.session.studies import Making, studies
from mha_viz.ui.session.views import View
from mha_viz.ui.widgets.messages import plain
from mha_viz.ui.widgets.progress import waiting

_EVERY = 1.0  # seconds between two looks at how far a study is


def made(view: View, key: str) -> Study | None:
    """The study of a view's model over its texts, begun where nobody has; None until it is there.

    Args:
        view: whose texts are on this server.
        key: of the buttons that stop it and go on with it, unique in the app.
    """
    making = studies().find(view)
    if making is None:
        raise ArgumentError("The texts are no longer on this server: give them again.")
    if making.study is not None:
        return making.study
    if making.is_new:
        _begin(view)
    if making.runs:
        _progress(making, key, can_stop=bool(view.corpus))  # the sample is everybody's
        return None
    if making.error is not None:
        st.error(plain(faults.sentence(making.error)), icon=":material/error:")
        label, icon = "Try again", ":material/replay:"
    else:
        done = making.progress.n_texts if making.progress else 0
        st.info(f"Stopped after {done:,} texts. Going on loses at most the last 256 of them.")
        label, icon = "Go on", ":material/play_arrow:"
    st.button(label, key=f"{key}-again", icon=icon, on_click=guarded(_begin), args=(view,))
    return None


def _begin(view: View) -> None:
    studies().begin(view, memory.model(*view.checkpoint))


@st.fragment(run_every=_EVERY)
def _progress(making: Making, key: str, can_stop: bool) -> None:
    """How far it is; the page is drawn again once it is there."""
    if not making.runs:
        st.rerun()
    progress = making.progress
    share = progress.n_texts / progress.n_total if progress and progress.n_total else 0.0
    place = making.waiting
    st.progress(min(share, 1.0), in_words(progress) if place is None else waiting(place))
    if can_stop:
        st.button("Stop", key=f"{key}-stop", icon=":material/stop:", on_click=guarded(making.stop))


def in_words(progress: Progress | None) -> str:
    """How far a study is.

    >>> in_words(Progress(50, 200, 900, 25.0, 6.0))
    '50 of 200 texts, 25 a second, about 6 seconds left'
    """
    if progress is None:
        return "Beginning …"
    of = "" if progress.n_total is None else f" of {progress.n_total:,}"
    words = f"{progress.n_texts:,}{of} texts"
    if progress.texts_per_second:
        words += f", {progress.texts_per_second:,.0f} a second"
    seconds = round(progress.seconds_left or 0)
    if seconds and progress.n_texts:
        words += f", about {count(seconds, 'second')} left"
    return words
