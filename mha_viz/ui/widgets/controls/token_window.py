"""The tokens that pictures of weights show, where a text has too many for one picture."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from mha_viz.plots.pooling import MOST
from mha_viz.ui.state import state
from mha_viz.ui.state.views import Shared

Labels = tuple[Sequence[str], Sequence[str]]


def slider(n_tokens: int) -> None:
    """Draw what chooses the tokens of both axes: fewer of them are shown exactly."""
    window = state.current().window
    if n_tokens < 2 or (n_tokens <= MOST and not window):
        return
    rows, _ = state.current().shown(n_tokens, n_tokens)

    def take(ends: tuple[int, int]) -> None:
        state.change(window=() if ends == (0, n_tokens - 1) else (ends, ends))

    label = "Tokens shown"
    ends = (rows[0], rows[-1])
    state.control("tokens_shown", st.slider, label, 0, n_tokens - 1, value=ends, take=take)


def shown(labels: Labels, *matrices: Any, view: Shared | None = None) -> tuple[Any, ...]:
    """Cut the labels of both axes, and each matrix (query, key), to the tokens that a view shows.

    The view is that of the page where none is given.
    """
    spans = (view or state.current()).shown(*map(len, labels))
    rows, columns = (slice(span.start, span.stop) for span in spans)
    return (labels[0][rows], labels[1][columns]), *(matrix[rows, columns] for matrix in matrices)
