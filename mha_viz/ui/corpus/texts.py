"""Which texts are studied: the sample, or a visitor's own."""

from __future__ import annotations

from typing import Any

import streamlit as st

from mha_viz.core.showing import count
from mha_viz.corpus.study import Study
from mha_viz.ui.session import allowed, own_address, state
from mha_viz.ui.session.faults import guarded
from mha_viz.ui.session.studies import MAX_MEGABYTES, MAX_TEXTS, SUFFIXES, described, studies
from mha_viz.ui.widgets import choosing, folded
from mha_viz.ui.widgets.messages import plain

_JOIN = (
    "Of a treebank that says where its documents begin (# newdoc): a text is then as much of a "
    "document as the model takes, and antecedents may stand in earlier sentences. Relations and "
    "trees are asked within each sentence all the same."
)


def choose() -> None:
    """A menu of the texts, whether sentences are joined, and an expander with a form for others."""
    offered = {"": "The sample"} | own()
    if state.current().corpus not in offered:
        state.tell("The texts that this link names are no longer on this server; give them again.")
        state.change(corpus="")
        st.rerun()  # what is told stands above
    menu, join, form = st.columns([4, 2, 6], vertical_alignment="bottom")
    with menu:
        choosing.menu("corpus", "Texts", offered)
    with join:
        can_join = studies().is_treebank(state.current().corpus)
        state.bound("joined", st.toggle, "Join sentences", help=_JOIN, disabled=not can_join)
    with form:
        folded.in_expander("Study texts of your own", "own-texts", _form)


def own() -> dict[str, str]:
    """What this visitor has given, or has a link of, and what each is called.

    Where nobody but who sits at this machine can open the page, all that were given are theirs: a
    study is found again after the browser was closed.
    """
    given, view = st.session_state.get("own_given", ()), state.current()
    mine = {view.corpus, view.corpus_b, *given}
    alone = own_address.only_here()
    return {key: title for key, title in studies().own().items() if alone or key in mine}


def about(study: Study) -> None:
    """Say what was studied, and what was skipped, left out or cut."""
    counts = study.manifest["counts"]
    how = "Every number is a mean over texts. Its 95 % interval is a bootstrap over texts."
    if study.sql("SELECT count(low) AS n FROM heads")["n"].item() == 0:
        how = "For one text there is no interval and no label: it is an anecdote."
    st.markdown(f"**{described(study, state.current())}**, {study.n_tokens:,} tokens. {how}")
    missing = study.notes
    if counts["n_skipped"]:
        place, reason = study.manifest["skipped"][0]
        skipped = count(counts["n_skipped"], "text")
        missing.insert(0, f"Skipped: {skipped}; the first is {place}: {reason}")
    if missing:
        st.warning(plain(" ".join(missing)), icon=":material/warning:")


def _form() -> None:
    st.caption(
        f"At most {allowed.upload_mb(MAX_MEGABYTES)} MB, and of more than {MAX_TEXTS:,} texts a "
        "fair sample of as many. They stay on this server until it stops or others need the room; "
        "who has the link of the study can read them. The command mha-viz study has no limit."
    )
    with st.form("own-texts-form", border=False):
        st.text_area("Texts, one a line", key="own-typed", height=140)
        st.file_uploader(
            f"Or a file: {', '.join(SUFFIXES)}",
            type=SUFFIXES,
            key="own-file",
            max_upload_size=allowed.upload_mb(MAX_MEGABYTES),
        )
        st.text_input(
            "Column", key="own-column", help="Of a table: where the texts are, if not found."
        )
        st.form_submit_button(
            "Study them", icon=":material/play_arrow:", on_click=guarded(_take), key="own-study"
        )


def _take() -> None:
    """Keep what was given; the run that follows begins its study."""
    chosen: Any = st.session_state.get("own-file")
    column = (st.session_state.get("own-column") or "").strip() or None
    if chosen is not None:
        content, name = chosen.getvalue(), chosen.name
    else:
        content, name = (st.session_state.get("own-typed") or "").encode(), ""
    allowed.check_upload(len(content))
    key = studies().give(content, name, column)
    st.session_state.setdefault("own_given", []).append(key)
    state.change(corpus=key)
