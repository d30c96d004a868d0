"""Sentences of a study on screen: words marked, and a link that opens them in Explore."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlencode

from mha_viz.ui.session import state, views
from mha_viz.ui.widgets.messages import plain

_AROUND = 120  # letters before and behind what is marked


class Mark(NamedTuple):
    """Letters of a text from start to end, to be marked in a colour of Streamlit's."""

    start: int
    end: int
    colour: str


def marked(text: str, marks: Sequence[Mark] = ()) -> str:
    """A text in markdown that shows it as it is, with marks; long ones without their ends.

    >>> marked("It fell.", [Mark(3, 7, "green")])
    'It :green-background[fell]\\\\.'
    """
    known = sorted({mark for mark in marks if 0 <= mark.start < mark.end <= len(text)})
    begin = max(0, known[0].start - _AROUND) if known else 0
    end = min(len(text), (max(mark.end for mark in known) if known else 0) + _AROUND)
    parts, at = ["… "] if begin else [], begin
    for mark in known:
        if mark.start < at:  # a token within another's letters, as the bytes of one sign
            continue
        parts.append(plain(text[at : mark.start]))
        parts.append(f":{mark.colour}-background[{plain(text[mark.start : mark.end])}]")
        at = mark.end
    parts.append(plain(text[at:end]))
    return "".join(parts).replace("\n", " ") + " …" * (end < len(text))


def in_explore(text: str, layer: int, head: int, query: int = -1, key: int = -1) -> str:
    """A link in markdown to a text in Explore, on a head and perhaps on a pair of its tokens."""
    if len(text) > views.MAX_URL_TEXT:
        return "(too long for a link)"
    view = state.current()
    shown = views.View(model=view.model, device=view.device, dtype=view.dtype, text=text)
    shown = replace(shown, layer=layer, head=head, query=query, key=key)
    return f"[Open in Explore](./?{urlencode(views.to_params(shown))})"
