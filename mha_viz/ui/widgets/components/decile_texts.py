"""Texts of every decile of a head's score, drawn with its weights, in Streamlit.

What is drawn is decided in decile_texts.js.
"""

from collections.abc import Sequence
from typing import NamedTuple

from mha_viz.ui.widgets.components.component import LateComponent
from mha_viz.ui.widgets.components.sentence_arcs import Arc, Piece, line_data

_texts = LateComponent("decile_texts")


class DrawnText(NamedTuple):
    """A text with the weights of a head, what it scores in words, and its address in Heads."""

    says: str
    address: str
    pieces: Sequence[Piece]
    arcs: Sequence[Arc]


class Band(NamedTuple):
    """A decile: its number, its scores and texts in words, and where the scores lie among all."""

    number: int
    scores: str
    n_texts: str
    start: float  # of its scores, as a share of the way from the lowest of all to the highest
    end: float
    texts: Sequence[DrawnText]


class TypedText(NamedTuple):
    """A text that was typed: its decile, its place among all scores, and what stands beside it."""

    band: int
    at: float  # as `Band.start`; outside of [0, 1] where it scores beyond all
    title: str
    text: DrawnText


def decile_texts(bands: Sequence[Band], typed: TypedText | None, *, key: str) -> None:
    """Draw the bands from the first to the last, and a typed text below its own."""
    sent: dict[str, object] = {
        "bands": [
            {"number": band.number, "scores": band.scores, "n_texts": band.n_texts}
            | {"from": band.start, "to": band.end, "texts": [_as_data(text) for text in band.texts]}
            for band in bands
        ],
        "typed": None,
    }
    if typed is not None:
        shown_at = {"band": typed.band, "at": min(max(typed.at, 0.0), 1.0), "title": typed.title}
        sent["typed"] = shown_at | _as_data(typed.text)
    _texts(key=key, data=sent)
    _texts.bring(f"{key}-script")


def _as_data(text: DrawnText) -> dict[str, object]:
    return {"says": text.says, "address": text.address} | line_data(text.pieces, text.arcs)
