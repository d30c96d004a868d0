"""A text in markdown that shows it as it is, with some of its letters marked."""

from collections.abc import Sequence
from typing import NamedTuple

from mha_viz.ui.widgets.messages import words

_AROUND = 120  # letters before and behind what is marked


class Mark(NamedTuple):
    """Letters of a text from start to end, to be marked in a colour of Streamlit's."""

    start: int
    end: int
    colour: str


def marked(text: str, marks: Sequence[Mark] = ()) -> str:
    """Return a text in markdown that shows it as it is, with marks; long ones without their ends.

    >>> marked("It fell.", [Mark(3, 7, "green")])
    'It :green-background[fell]\\\\.'
    """
    valid = sorted({mark for mark in marks if 0 <= mark.start < mark.end <= len(text)})
    begin = max(0, valid[0].start - _AROUND) if valid else 0
    end = min(len(text), (max(mark.end for mark in valid) if valid else 0) + _AROUND)
    parts, at = ["… "] if begin else [], begin
    for mark in valid:
        if mark.start < at:  # a token within another's letters, as the bytes of one sign
            continue
        parts.append(words.plain(text[at : mark.start]))
        parts.append(f":{mark.colour}-background[{words.plain(text[mark.start : mark.end])}]")
        at = mark.end
    parts.append(words.plain(text[at:end]))
    return "".join(parts).replace("\n", " ") + " …" * (end < len(text))
