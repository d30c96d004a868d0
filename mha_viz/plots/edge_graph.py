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
_WIDTHS = 1.0, 5.0  # of the weakest line and of the strongest
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
    scale, traces = theme.diverging(dark), list[dict[str, Any]]()
    middles, texts, used = (
        list[tuple[float, float]](),
        list[str](),
        dict[tuple[str, int], tuple[float, float]](),
    )
    width = 0.8 if columns else 1.0
    for sender, receiver, score, *at in edges:
        column, where = (at[0], f"<br>{plotly_text(columns[at[0]])}") if at else (0, "")
        (name, start), (other, end) = (
            _place(one, n_layers, n_heads, column, width) for one in (sender, receiver)
        )
        used |= {(name, column): start, (other, column): end}
        thin, thick = _WIDTHS
        line = dict(
            width=thin + (thick - thin) * abs(score) / largest,
            color=scale[-2] if score > 0 else scale[1],
        )
        x, y = zip(start, end, strict=True)
        more = dict(mode="lines", line=line, opacity=0.7, hoverinfo="skip")
        traces.append(dict(type="scatter", x=x, y=y, **more))
        middles.append((float(np.mean(x)), float(np.mean(y))))
        ends = f"{plotly_text(sender)} → {plotly_text(receiver)}"
        texts.append(f"<b>{ends}</b><br>{frame.quantity(score, unit)}{where}")
    traces.append(_dots(middles, hovertext=texts, marker=dict(size=14, opacity=0)))
    ink, names = theme.ink(dark), [plotly_text(name) for name, _ in used]
    traces.append(
        _dots(
            list(used.values()),
            mode="markers" if columns else "markers+text",
            text=names,
            textposition="middle right",
            textfont=dict(size=11, color=ink),
            hovertext=names,
            marker=dict(size=6 if columns else 9, color=ink),
        )
    )
    bare = dict(showgrid=False, zeroline=False, fixedrange=True, showticklabels=bool(columns))
    layers, at_ticks = range(n_layers), [i + width / 2 for i in range(len(columns))]
    x_ends = (-0.2, len(columns)) if columns else (-0.04, 1.14)
    labels = [plotly_text(label) for label in columns]
    layout = dict(
        xaxis=dict(range=x_ends, tickvals=at_ticks, ticktext=labels, tickangle=-50, **bare),
        yaxis=dict(
            range=(-1.4, n_layers + 0.4),
            tickvals=[*layers],
            ticktext=[f"L{i}" for i in layers],
            **bare,
        ),
    )
    return frame.headed_figure(traces, dark, title, [], _ROW * (n_layers + 2), layout)


def _place(
    name: str, n_layers: int, n_heads: int, column: int, width: float
) -> tuple[str, tuple[float, float]]:
    """Return a part's name without its input, and where it stands: layers from below to above."""
    found = _PART.match(name)
    if found is None:
        raise ArgumentError(f"An edge must join embedding, heads, MLPs and logits; got {name!r}.")
    if found["end"]:
        x, y = 0.5, -1.0 if found["end"] == "embedding" else float(n_layers)
    elif found["mlp"]:
        x, y = 1.0, int(found["mlp"]) + 0.5
    else:
        x, y = (int(found["head"]) + 0.5) / (n_heads + 1), float(found["layer"])
    return found[0], (column + width * x, y)


def _dots(places: Sequence[tuple[float, float]], **more: Any) -> dict[str, Any]:
    x, y = zip(*places, strict=True)
    return dict(type="scatter", mode="markers", x=x, y=y, hoverinfo="text") | more
