"""A class on this server: pages join it by a link, vote on predictions, and see them as bars.

Knows streamlit; must not import torch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from mha_viz.ui.session.class_answers import CODE, classes
from mha_viz.ui.widgets.messages import plain

PARAM = "class"  # in the address that is handed out
OFTEN = 3  # seconds between two looks at the votes
_OWN, _JOINED = "class-own", "class-joined"


def arrive() -> None:
    """Join the class that the address names, and say in the sidebar which one it is."""
    asked = st.query_params.get(PARAM, "")[:CODE]
    if asked:
        st.session_state[_JOINED] = asked
    code = st.session_state.get(_JOINED)
    if code is None:
        return
    with st.sidebar:
        if code in classes():
            st.caption(f"Class **{plain(code)}**: your predictions count, without your name.")
        else:
            st.caption("The class of this link is over: ask for a new link.")


def code() -> str | None:
    """The class that this page is in, if it is still on."""
    found: str | None = st.session_state.get(_JOINED)
    return found if found is not None and found in classes() else None


def leads() -> bool:
    """Whether this page opened the class that it is in."""
    return code() is not None and st.session_state.get(_OWN) == code()


def begin() -> None:
    """Open a class that this page leads."""
    st.session_state[_OWN] = st.session_state[_JOINED] = classes().open()


def end() -> None:
    """Forget the class and all its votes."""
    classes().close(st.session_state.pop(_OWN))
    st.session_state.pop(_JOINED, None)


def prediction(
    question: Hashable, options: Sequence[str], chosen: str | None, is_open: bool
) -> None:
    """Count a prediction made before the answer was seen, and show those of the class.

    Args:
        question: the same on all pages that are asked it.
        options: the answers that there are to choose from.
        chosen: on this page, None for none.
        is_open: whether this page shows the answer.
    """
    here = code()
    context = get_script_run_ctx()
    if here is None or context is None:
        return
    question = question, tuple(options)
    seen: set[Hashable] = st.session_state.setdefault("class-seen", set())
    if is_open:
        seen.add(question)
    if chosen is not None and question not in seen and not leads():
        classes().vote(here, question, context.session_id, options.index(chosen))
    if is_open or leads():  # pupils see the votes once theirs is given
        _bars(here, question, tuple(options))


@st.fragment(run_every=OFTEN)
def _bars(here: str, question: Hashable, options: tuple[str, ...]) -> None:
    counts = classes().counts(here, question, len(options))
    total = sum(counts)
    st.markdown(f"**Your class:** {total} answer{'s' if total != 1 else ''} so far.")
    for option, count in zip(options, counts, strict=True):
        st.progress(count / total if total else 0.0, f"{plain(option)}: {count}")
