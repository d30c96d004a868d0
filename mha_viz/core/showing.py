"""How results show themselves at the end of a cell: a line that says what they are, and a table."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def shape_text(value: object) -> str:
    """A tensor by its shape, anything else as it is.

    Args:
        value: of any kind.

    >>> import torch
    >>> shape_text(torch.zeros(2, 3)), shape_text(None)
    ('(2, 3)', 'None')
    """
    shape = getattr(value, "shape", None)  # torch is not loaded for this: the command begins here
    return repr(value) if shape is None else str(tuple(shape))


def record_line(record: Any) -> str:
    """An `AttentionRecord` by where it comes from, its sizes and what it keeps.

    Args:
        record: the record; its text is cut off after 39 letters.
    """
    layers, heads, queries, keys = record.pattern.shape
    text = record.text if len(record.text) <= 40 else record.text[:39] + "…"
    names = ("z", "query", "key", "value")
    kept = [name for name in names if getattr(record, name) is not None]
    return (
        f"AttentionRecord({text!r}, model={record.model!r}, part={record.part!r}, "
        f"layers={layers}, heads={heads}, queries={queries}, keys={keys}"
        + (f", keeps {' '.join(kept)}" if kept else "")
        + (", merged" if record.merged else "")
        + ")"
    )


def count(number: int, thing: str, things: str = "") -> str:
    """How many of them there are, in words that fit one and many.

    Args:
        number: 0 or more.
        thing: what one is called.
        things: what many are called, where that is not `thing` with an s.

    >>> count(1, "head"), count(0, "head"), count(1_024, "query", "queries")
    ('1 head', '0 heads', '1,024 queries')
    """
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def table_html(line: str, table: pd.DataFrame, note: str = "") -> str:
    """A line, a table of it, and a note below, as HTML in which no text is markup.

    Args:
        line: plain text above the table.
        table: of numbers and plain text.
        note: plain text below.
    """
    below = f"<p>{html.escape(note)}</p>" if note else ""
    drawn = table.to_html(index=False, float_format="{:.4g}".format, na_rep="–", border=0)
    return f"<div><p>{html.escape(line)}</p>{drawn}{below}</div>"
