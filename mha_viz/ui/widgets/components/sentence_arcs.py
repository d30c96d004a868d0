"""A sentence in one line with arcs between its tokens, in Streamlit.

What is drawn is decided in sentence_arcs.js.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mha_viz.ui.widgets.components.component import LateComponent
from mha_viz.web.labels import clean
from mha_viz.web.theme import format_number

_arcs = LateComponent("sentence_arcs")
# Pixels of the line with its scroll bar, of a level of arcs, and beyond them: arc_layout.js.
_LINE, _STEP, _EDGE, _MAX_LEVEL = 32, 15, 6, 6


class Piece(NamedTuple):
    """A token or a word of the line."""

    text: str
    special: bool = False


class Arc(NamedTuple):
    """An arc from one piece to another or itself; of a tree with a label, else a weight in [0, 1].

    A `marked` arc of a tree is drawn in the colour of what is chosen, the others grey.
    """

    start: int
    end: int
    weight: float = 0.0
    label: str = ""
    marked: bool = False


def bring_script(*, key: str) -> None:
    """Bring what draws all sentences of a page; once on each."""
    _arcs.bring(key)


def sentence_arcs(
    pieces: Sequence[Piece], above: Sequence[Arc], below: Sequence[Arc] = (), *, key: str
) -> None:
    """Draw a sentence with arcs; one that is too long for its place can be scrolled sideways."""
    _arcs(key=key, data=line_data(pieces, above, below))


def line_data(
    pieces: Sequence[Piece], above: Sequence[Arc], below: Sequence[Arc] = ()
) -> dict[str, object]:
    """Return a sentence with its arcs as the browser draws it."""
    texts = [clean(piece.text) for piece in pieces]
    drawn = [{"text": clean(piece.text), "special": piece.special} for piece in pieces]
    arcs = [[_as_data(arc, texts) for arc in side] for side in (above, below)]
    return {"pieces": drawn, "above": arcs[0], "below": arcs[1]}


def _as_data(arc: Arc, texts: Sequence[str]) -> dict[str, object]:
    label = clean(arc.label) if arc.label else ""
    return arc._asdict() | {"label": label, "says": arc_label(arc, texts)}


def arc_label(arc: Arc, texts: Sequence[str]) -> str:
    """Describe an arc in words.

    >>> weight, tree = Arc(1, 0, 0.5), Arc(1, 0, label="det", marked=True)
    >>> [arc_label(arc, ["The", "cat"]) for arc in (weight, tree)]
    ['cat → The 0.5', 'cat → The det, followed']
    """
    label = f"{arc.label}{', followed' * arc.marked}" if arc.label else format_number(arc.weight)
    return f"{texts[arc.start]} → {texts[arc.end]} {label}"
