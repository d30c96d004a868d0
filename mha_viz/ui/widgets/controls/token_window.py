"""The tokens that pictures of weights show, where a text has too many for one picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import visible_keys
from mha_viz.plots.heatmap import MAX_ROWS
from mha_viz.ui.state import selection
from mha_viz.ui.state.views import Shared
from mha_viz.ui.widgets.messages import words

S = TypeVar("S", bound=np.generic)
Names = tuple[list[str], list[str]]


def slider(n_tokens: int) -> None:
    """Draw what chooses the tokens of both axes: fewer of them are shown exactly."""
    window = selection.current().window
    if n_tokens < 2 or (n_tokens <= MAX_ROWS and not window):
        return
    rows, _ = selection.current().shown(n_tokens, n_tokens)

    def take(ends: tuple[int, int]) -> None:
        selection.change(window=() if ends == (0, n_tokens - 1) else (ends, ends))

    label = "Tokens shown" + "; rows sum to 1 over all" * bool(window)
    limits, ends = (0, n_tokens - 1), (rows[0], rows[-1])
    hint = "Charts of weights show these tokens alone. All numbers are of the whole text."
    selection.control("tokens_shown", st.slider, label, *limits, value=ends, take=take, help=hint)


@dataclass(frozen=True)
class Shown:
    """The tokens that a view shows."""

    rows: slice
    columns: slice
    labels: Names  # of queries and of keys
    names: Names  # the same with their positions, so that no two are alike

    @classmethod
    def of(
        cls, labels: Sequence[str], key_labels: Sequence[str], view: Shared | None = None
    ) -> "Shown":
        """Choose among all tokens of both axes; the view is the page's where none is given."""
        spans = (view or selection.current()).shown(len(labels), len(key_labels))
        rows, columns = (slice(span.start, span.stop) for span in spans)
        names, key_names = words.numbered(labels), words.numbered(key_labels)
        return cls(
            rows,
            columns,
            (list(labels[rows]), list(key_labels[columns])),
            (names[rows], key_names[columns]),
        )

    def cut(self, matrix: NDArray[S]) -> NDArray[S]:
        """Cut a matrix (query, key) to these tokens."""
        return matrix[self.rows, self.columns]


def shown_head(
    record: AttentionRecord, layer_head: tuple[int, int], view: Shared | None = None
) -> tuple[Shown, NDArray[np.float32], NDArray[np.bool_]]:
    """Return the tokens of a head (layer, head) that are shown, its weights, and visible keys.

    The weights are a copy: what belongs to a figure is kept with the page, and must not keep all
    heads alive.
    """
    shown = Shown.of(record.labels, record.key_labels, view)
    weights = shown.cut(record.head(*layer_head).numpy()).copy()
    return shown, weights, shown.cut(visible_keys(record, layer_head[0]).numpy())
