"""A circuit of edges: heads and MLPs by layer, and who reads whom."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mha_viz.errors import ArgumentError
from mha_viz.plots import frame
from mha_viz.web import theme
from mha_viz.web.labels import plotly_text

_ROW = 64  # pixels of a layer
_PART = re.compile(r"L(?P<layer>\d+) H(?P<head>\d+)|MLP (?P<mlp>\d+)|(?P<end>embedding|logits)")
_THIN, _THICK = 1.0, 5.0  # widths of the weakest line and of the strongest
Edge = tuple[str, str, float] | tuple[str, str, float, int]  # sender, receiver, score, column


def edge_graph(
    edges: Sequence[Edge],
    n_layers: int,
    n_heads: int,
    *,
    title: str = "",
    unit: str = "",
    dark: bool = False,
    columns: Sequence[str] = (),
) -> go.Figure:
    """Draw edges from below to above: the embedding, each layer's heads and MLP, the logits.

    Edges are (sender, receiver, score) by the names of `mv.edge_effects`: "embedding", "L3 H7",
    "MLP 4"; "L5 H1 key", "MLP 4", "logits". Width is the size of the score, colour its sign. Hover
    on the middle of an edge names both ends, what the receiver reads with, and the score.

    With `columns`, labels of positions, each edge names its column behind the score and stands in
    it: the picture has a column per position and a row per layer. Raises ArgumentError: no edge, or
    a name of another kind.
    """
    if not edges:
        raise ArgumentError("There is no edge to draw.")
    largest = max(abs(edge[2]) for edge in edges) or 1.0
    scale, width = theme.diverging(dark), 0.8 if columns else 1.0
    traces: list[frame.Part] = []
    middles: list[Any] = []
    texts: list[str] = []
    used: dict[tuple[str, int], Any] = {}
    for sender, receiver, score, *position in edges:
        column = position[0] if position else 0
        where = f"<br>{plotly_text(columns[column])}" if position else ""
        both = (_position(end, n_layers, n_heads, column, width) for end in (sender, receiver))
        (name, start), (other, end) = both
        used |= {(name, column): start, (other, column): end}
        thickness = _THIN + (_THICK - _THIN) * abs(score) / largest
        colour = scale[-2] if score > 0 else scale[1]
        x, y = zip(start, end, strict=True)
        traces.append(frame.plain_lines(x, y, thickness, colour, opacity=0.7))
        middles.append(np.mean([start, end], axis=0).tolist())
        ends = f"{plotly_text(sender)} → {plotly_text(receiver)}"
        texts.append(f"<b>{ends}</b><br>{frame.quantity(score, unit)}{where}")
    at = np.transpose(middles)
    traces.append(frame.markers(at[0], at[1], texts, marker=dict(size=14, opacity=0)))
    ink, names = theme.ink(dark), [plotly_text(name) for name, _ in used]
    dots = dict(size=6 if columns else 9, color=ink)
    named = dict(text=names, textposition="middle right", textfont=dict(size=11, color=ink))
    named |= dict(mode="markers" if columns else "markers+text")
    at = np.transpose([*used.values()])
    traces.append(frame.markers(at[0], at[1], names, marker=dots) | named)
    bare = dict(showgrid=False, zeroline=False, fixedrange=True, showticklabels=bool(columns))
    x_ends = (-0.2, len(columns)) if columns else (-0.04, 1.14)
    across: frame.Part = dict(range=x_ends, tickvals=[i + width / 2 for i in range(len(columns))])
    across |= dict(ticktext=[plotly_text(label) for label in columns], tickangle=-50)
    down: frame.Part = dict(range=(-1.4, n_layers + 0.4), tickvals=[*range(n_layers)])
    down |= dict(ticktext=[f"L{i}" for i in range(n_layers)])
    layout = dict(xaxis=across | bare, yaxis=down | bare)
    return frame.headed_figure(traces, dark, title, [], _ROW * (n_layers + 2), layout)


def _position(
    name: str, n_layers: int, n_heads: int, column: int, width: float
) -> tuple[str, tuple[float, float]]:
    """Return a part's name without its input, and where it stands: layers from below to above."""
    part = _PART.match(name)
    if part is None:
        raise ArgumentError(f"An edge must join embedding, heads, MLPs and logits; got {name!r}.")
    if part["end"]:
        x, y = 0.5, -1.0 if part["end"] == "embedding" else float(n_layers)
    elif part["mlp"]:
        x, y = 1.0, int(part["mlp"]) + 0.5
    else:
        x, y = (int(part["head"]) + 0.5) / (n_heads + 1), float(part["layer"])
    return part[0], (column + width * x, y)
