"""Which texts are studied: the sample, or a visitor's own; and how far a study is."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import streamlit as st

from mha_viz.core.showing import count
from mha_viz.corpus.run import Progress
from mha_viz.corpus.study import Study
from mha_viz.engine.model import AttentionModel
from mha_viz.ui.corpus.studies import MAX_MEGABYTES, MAX_TEXTS, SUFFIXES, Making, studies
from mha_viz.ui.session import faults, state
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.widgets import folded
from mha_viz.ui.widgets.messages import plain

_EVERY = 1.0  # seconds between two looks at how far a study is


def made(model: AttentionModel) -> Study | None:
    """The study that the page shows; until it is there, how far it is, and None."""
    view = state.current()
    making = studies().find(view)
    if making is None:
        state.tell("The texts that this link names are no longer on this server; give them again.")
        state.change(corpus="")
        st.rerun()
    if making.study is not None:
        _about(making.study)
        return making.study
    if making.is_new:
        studies().begin(view, model)
    if making.runs:
        _progress(making)
        return None
    if making.error is not None:
        st.error(plain(faults.sentence(making.error)), icon=":material/error:")
    else:
        done = making.progress.n_texts if making.progress else 0
        st.info(f"Stopped after {done:,} texts. Going on loses at most the last 256 of them.")
    st.button(
        "Go on",
        key="study-again",
        icon=":material/play_arrow:",
        on_click=guarded(studies().begin),
        args=(view, model),
    )
    return None


@st.fragment(run_every=_EVERY)
def _progress(making: Making) -> None:
    """How far it is; the page is drawn again once it is there."""
    if not making.runs:
        st.rerun()
    progress = making.progress
    share = progress.n_texts / progress.n_total if progress and progress.n_total else 0.0
    st.progress(min(share, 1.0), in_words(progress))
    if state.current().corpus:  # the sample is everybody's
        st.button("Stop", key="study-stop", icon=":material/stop:", on_click=guarded(making.stop))


def in_words(progress: Progress | None) -> str:
    """How far a study is.

    >>> in_words(Progress(50, 200, 900, 25.0, 6.0))
    '50 of 200 texts, 25 a second, about 6 seconds left'
    """
    if progress is None:
        return "Waiting for its turn …"
    of = "" if progress.n_total is None else f" of {progress.n_total:,}"
    words = f"{progress.n_texts:,}{of} texts"
    if progress.texts_per_second:
        words += f", {progress.texts_per_second:,.0f} a second"
    seconds = round(progress.seconds_left or 0)
    if seconds and progress.n_texts:
        words += f", about {count(seconds, 'second')} left"
    return words


def _about(study: Study) -> None:
    """What was studied, and what was skipped or cut."""
    counts = study.manifest["counts"]
    texts = "texts of your own" if state.current().corpus else "sentences of the sample"
    words = (
        f"**{study.n_texts:,} {texts}**, {study.n_tokens:,} tokens. Every number is a mean over "
        "texts with its 95 % interval, by drawing texts again."
    )
    st.markdown(words)
    missing = [study.cut] if study.cut else []
    if counts["n_skipped"]:
        place, reason = study.manifest["skipped"][0]
        missing.insert(0, f"Skipped: {counts['n_skipped']:,} texts; the first is {place}: {reason}")
    if missing:
        st.warning(plain(" ".join(missing)), icon=":material/warning:")


# -- texts of one's own ----------------------------------------------------------------------------


def own_texts() -> None:
    """An expander with the form for them."""
    folded.in_expander("Study texts of your own", "own-texts", _form)


def _form() -> None:
    st.caption(
        f"At most {MAX_MEGABYTES} MB, and of more than {MAX_TEXTS:,} texts a fair sample of as "
        "many. They stay on this server until it stops or others need the room; who has the link "
        "of the study can read them. `mha-viz study` has no limit."
    )
    with st.form("own-texts-form", border=False):
        st.text_area("Texts, one a line", key="own-typed", height=140)
        st.file_uploader(
            f"Or a file: {', '.join(SUFFIXES)}",
            type=SUFFIXES,
            key="own-file",
            max_upload_size=MAX_MEGABYTES,
        )
        st.text_input(
            "Column", key="own-column", help="Of a table: where the texts are, if not found."
        )
        st.form_submit_button(
            "Study them", icon=":material/play_arrow:", on_click=guarded(_take), key="own-study"
        )
    if state.current().corpus:
        st.button(
            "Back to the sample",
            key="own-back",
            on_click=guarded(state.change),
            kwargs={"corpus": ""},
        )


def _take() -> None:
    """Keep what was given; the run that follows begins its study."""
    chosen: Any = st.session_state.get("own-file")
    column = (st.session_state.get("own-column") or "").strip() or None
    if chosen is not None:
        content, suffix = chosen.getvalue(), PurePath(chosen.name.lower()).suffix
    else:
        content, suffix = (st.session_state.get("own-typed") or "").encode(), ".txt"
    state.change(corpus=studies().give(content, suffix, column))
