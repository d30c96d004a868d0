"""The studied texts: the sample, or a visitor's own."""

from typing import Any

import streamlit as st

from mha_viz.corpus.query.study import Study
from mha_viz.errors import ArgumentError
from mha_viz.ui.many_texts import TEXTS
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.run.studies import MAX_MEGABYTES, MAX_TEXTS, SUFFIXES, studies
from mha_viz.ui.run.study_job import StudyJob
from mha_viz.ui.state import allowed, faults, own_address, selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser, session
from mha_viz.ui.state.views import ManyTexts
from mha_viz.ui.widgets.controls import choosing, lazy_sections
from mha_viz.ui.widgets.messages.notices import plain
from mha_viz.ui.widgets.messages.progress import silence, waiting


def choose(view: ManyTexts) -> ManyTexts:
    """Draw the menu of the texts, a switch that joins sentences, and a form for other texts."""
    offered = {"": "The sample"} | own_texts(view)
    if view.corpus not in offered:
        selection.add_problem(TEXTS("texts.gone"))
        selection.change(corpus="")
        st.rerun()  # the message is drawn above
    with st.container(horizontal=True, vertical_alignment="center"):
        options: dict[str, Any] = {"width": 260, "label_visibility": "collapsed"}
        choosing.menu("corpus", "Texts", offered, **options)
        label, icon = "Texts of your own", ":material/add:"
        lazy_sections.in_popover(label, icon, "own-texts", _form)
        off, hint = not studies().is_treebank(view.corpus), TEXTS("texts.join")
        selection.bound("joined", st.toggle, "Join sentences", help=hint, disabled=off)
    return view


def own_texts(view: ManyTexts) -> dict[str, str]:
    """Return the texts that this visitor has given, or has a link of, with their names.

    Where nobody but who sits at this machine can open the page, all that were given are theirs: a
    study is found again after the browser was closed.
    """
    text_keys = session().texts_given
    mine = {view.corpus, view.corpus_b, *text_keys}
    alone = own_address.only_here()
    return {key: title for key, title in studies().titles().items() if alone or key in mine}


def _form() -> None:
    st.caption(TEXTS("texts.form", upload_mb=allowed.upload_mb(MAX_MEGABYTES), max_texts=MAX_TEXTS))
    with st.form("own-texts-form", border=False):
        st.text_area("Texts, one per line", key="own-typed", height=140)
        label, most = f"Or a file: {', '.join(SUFFIXES)}", allowed.upload_mb(MAX_MEGABYTES)
        st.file_uploader(label, type=SUFFIXES, key="own-file", max_upload_size=most)
        column, group = st.columns(2)
        column.text_input("Column", key="own-column", help=TEXTS("texts.column"))
        group.text_input("Grouped by", key="own-group", help=TEXTS("texts.group"))
        icon = ":material/play_arrow:"
        st.form_submit_button("Study them", icon=icon, on_click=guarded(_take), key="own-study")


def _take() -> None:
    """Keep what was given; the run that follows begins its study."""
    chosen: Any = from_browser("own-file")
    column, group = (
        (from_browser(f"own-{name}") or "").strip() or None for name in ("column", "group")
    )
    if chosen is not None:
        content, name = chosen.getvalue(), chosen.name
    else:
        content, name = (from_browser("own-typed") or "").encode(), ""
    allowed.check_upload(len(content))
    key = studies().add_texts(content, name, column, group)
    session().texts_given.append(key)
    selection.change(corpus=key)


_EVERY = 1.0  # seconds between two looks at how far a study is


def study_of(view: ManyTexts, key: str) -> Study | None:
    """Return the study of a view, begun where nobody has; None while it is made."""
    making = studies().find(view)
    if making is None:
        raise ArgumentError("The texts are no longer on this server: give them again.")
    if making.study is None and (making.is_new or making.runs):
        _begin(view)  # others may have begun it: then this page waits, too
    if making.study is not None:
        return making.study
    if making.runs:
        _progress(making, key, can_stop=bool(view.corpus))  # the sample is everybody's
        return None
    if making.error is not None:
        st.error(plain(faults.sentence(making.error)), icon=":material/error:")
        label, icon = "Try again", ":material/replay:"
    else:
        done = making.progress.n_texts
        st.info(f"Stopped after {done:,} texts. Most of them are stored: it goes on from there.")
        label, icon = "Go on", ":material/play_arrow:"
    st.button(label, key=f"{key}-again", icon=icon, on_click=guarded(_begin), args=(view,))
    return None


def _begin(view: ManyTexts) -> None:
    studies().begin(view, memory.model(*view.checkpoint))


@st.fragment(run_every=_EVERY)
def _progress(making: StudyJob, key: str, can_stop: bool) -> None:
    """Draw the progress; rerun the page once the study is there."""
    if not making.runs:
        st.rerun()
    progress = making.progress
    share = progress.n_texts / progress.n_total if progress.n_total else 0.0
    position, silent = making.waiting, making.silent_seconds
    words = progress.in_words() if position is None else waiting(position)
    words += f". {silence(silent)}." if silent >= heavy.SILENCE else ""
    st.progress(min(share, 1.0), words)
    if can_stop:
        st.button("Stop", key=f"{key}-stop", icon=":material/stop:", on_click=guarded(making.stop))
