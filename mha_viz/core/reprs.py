"""The text of results at the end of a notebook cell: a line of what they are, and a table."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor


def shape_text(value: object) -> str:
    """Write a tensor as its shape, anything else as its repr.

    >>> import torch
    >>> shape_text(torch.zeros(2, 3)), shape_text(None)
    ('(2, 3)', 'None')
    """
    shape = getattr(value, "shape", None)  # torch is not loaded for this: the command begins here
    return repr(value) if shape is None else str(tuple(shape))


def record_line(record: Any) -> str:
    """Describe an `AttentionRecord` by its source, its sizes and what it keeps."""
    layers, heads, queries, keys = record.shape
    text = record.text if len(record.text) <= 40 else record.text[:39] + "…"
    tensors = [name for name in ("z", "query", "key", "value") if getattr(record, name) is not None]
    return (
        f"AttentionRecord({text!r}, model={record.model!r}, part={record.part!r}, "
        f"layers={layers}, heads={heads}, queries={queries}, keys={keys}"
        + (f", keeps {' '.join(tensors)}" if tensors else "")
        + (", merged" if record.merged else "")
        + ")"
    )


def count(number: int, singular: str, plural: str = "") -> str:
    """Write a number of things in words that fit one and many.

    >>> count(1, "head"), count(0, "head"), count(1_024, "query", "queries")
    ('1 head', '0 heads', '1,024 queries')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def head_rows(layer_numbers: Sequence[int] = (), /, **columns: Tensor) -> pd.DataFrame:
    """Make a table with a row for each head: layer, head, and each (layer, head) tensor."""
    import numpy as np  # late, as the command begins here
    import pandas as pd

    layer, head = np.indices(next(iter(columns.values())).shape).reshape(2, -1)
    layer = np.array(layer_numbers, layer.dtype)[layer] if layer_numbers else layer
    flat = {name: values.flatten().numpy() for name, values in columns.items()}
    return pd.DataFrame({"layer": layer, "head": head, **flat})


def table_html(line: str, table: pd.DataFrame, note: str = "") -> str:
    """Write a line, a table, and a note below as HTML in which no text is markup."""
    below = f"<p>{html.escape(note)}</p>" if note else ""
    drawn = table.to_html(index=False, float_format="{:.4g}".format, na_rep="–", border=0)
    return f"<div><p>{html.escape(line)}</p>{drawn}{below}</div>"
