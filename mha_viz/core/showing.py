"""How results show themselves at the end of a cell: a line that says what they are, and a table."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from torch import Tensor

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
    return str(tuple(value.shape)) if isinstance(value, Tensor) else repr(value)


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
