"""The map of one head: its queries and keys in one plane, in two colours and two shapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mha_viz.plots import frame
from mha_viz.web import theme
from mha_viz.web.labels import clean, head_name, hover_text

KINDS = ("query", "key")
SYMBOLS = ("circle", "diamond-open")
_WEBGL = 4_000  # points from which on a browser draws them with its graphics card
_HEIGHT = 560  # pixels


def query_key_figure(
    table: pd.DataFrame, head: tuple[int, int], notes: Sequence[str] = (), *, dark: bool = False
) -> go.Figure:
    """Draw the queries and keys of a head as dots, on axes of one scale.

    `table` is that of `QueryKeyMap.points_table`; `notes` stand below the title.
    """
    traces = []
    for kind, rows in table.groupby("kind", sort=False):
        place = KINDS.index(str(kind))
        colour = theme.qualitative(dark)[place]
        look = dict(color=colour, symbol=SYMBOLS[place], size=6, opacity=0.85, line=dict(width=0))
        x, y = (frame.as_numbers(rows[axis], 1, axis).astype(np.float32) for axis in "xy")
        dots = frame.markers(x, y, [_hover(row) for row in rows.itertuples()], marker=look)
        kinds = dict(type="scattergl" if len(table) > _WEBGL else "scatter")
        traces.append(dots | kinds | dict(name={"query": "queries"}.get(str(kind), "keys")))
    bare = frame.QUIET | dict(showticklabels=False)
    layout = dict(xaxis=bare, yaxis=bare | dict(scaleanchor="x"), dragmode="pan")
    title = f"Queries and keys of {head_name(*head)}"
    return frame.headed_figure(traces, dark, title, notes, _HEIGHT, layout, named=True)


def _hover(row: Any) -> str:

    told = f"{row.kind} {clean(row.token)}, position {row.position} of text {row.text + 1}"
    if row.kind == "query":
        told += f"; looks at {clean(row.looks_at)} ({theme.format_weight(row.weight)})"
    return hover_text(told)
