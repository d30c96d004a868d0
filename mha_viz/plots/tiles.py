"""The patterns of a few heads side by side, small: one frame of a film."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import plotly.graph_objects as go

from mha_viz.errors import ArgumentError
from mha_viz.plots.frame import (
    HIDDEN,
    MASKED,
    annotation,
    as_weights,
    framed,
    headed_figure,
    where_visible,
)
from mha_viz.web import theme
from mha_viz.web.labels import head_name

MAX_TILES, MAX_TOKENS = 32, 64
_ACROSS = 4  # tiles side by side: a phone has room for no more
_HEIGHT = 150  # of a tile, in pixels
_LABEL = 17  # height of a tile's name, in pixels
_GAP = 0.08  # between tiles, of a tile


def head_tiles(
    patterns: Any,
    *,
    title: str,
    note: str = "",
    marked: Collection[tuple[int, int]] = (),
    dark: bool = False,
    visible: Any = None,
) -> go.Figure:
    """Draw a small heatmap for each head, four in a row, a new row for each layer.

    `patterns` are weights (layer, head, query, key), `marked` heads (layer, head) are framed, cells
    that are not `visible` (query, key) are grey. More than 32 heads or 64 tokens raise
    ArgumentError.
    """
    weights = where_visible(as_weights(patterns, 4), visible, np.nan)
    n_layers, n_heads, queries, keys = weights.shape
    if n_layers * n_heads > MAX_TILES or max(queries, keys) > MAX_TOKENS:
        raise ArgumentError(f"At most {MAX_TILES} heads of {MAX_TOKENS} tokens can be drawn small.")
    across = min(_ACROSS, n_heads)
    lines = -(-n_heads // across)  # of one layer
    label = _LABEL / _HEIGHT
    traces: list[dict[str, Any]] = []
    names: list[dict[str, Any]] = []
    frames: list[dict[str, Any]] = []
    for layer in range(n_layers):
        for head in range(n_heads):
            left = (head % across) * (1 + _GAP)
            above = (layer * lines + head // across) * (1 + label) + label
            name = head_name(layer, head)
            traces += _tile(weights[layer, head], name, left, above, dark)
            corner: dict[str, Any] = dict(xanchor="left", yanchor="bottom", borderpad=0)
            names.append(annotation(name, left, above, theme.ink(dark), **corner))
            if (layer, head) in marked:
                frames.append(framed((left, above), (left + 1, above + 1), 3, dark))
    rows = n_layers * lines
    layout = dict(
        annotations=names,
        shapes=frames,
        xaxis=HIDDEN | dict(range=[-0.01, across * (1 + _GAP) - _GAP + 0.01]),
        yaxis=HIDDEN | dict(range=[rows * (1 + label) + 0.01, 0]),
    )
    inner = round(rows * (1 + label) * _HEIGHT) + 12
    return headed_figure(traces, dark, title, [note], inner, layout, sides=(4, 4))


def _tile(
    weights: np.ndarray, name: str, left: float, above: float, dark: bool
) -> list[dict[str, Any]]:
    """Return one head's cells, a unit wide and high; customdata is (query, key)."""
    queries, keys = weights.shape
    masked, grey = np.isnan(weights), theme.missing(dark)
    cells = dict(
        type="heatmap",
        customdata=np.moveaxis(np.indices((queries, keys)), 0, -1).astype(np.uint8),
        zmin=0.0,
        zmax=1.0,
        showscale=False,
        x0=left + 0.5 / keys,
        dx=1 / keys,
        y0=above + 0.5 / queries,
        dy=1 / queries,
        hoverongaps=False,
    )
    place = name + "<br>query %{customdata[0]} → key %{customdata[1]}<br>"
    shown = dict(
        z=weights,
        colorscale=theme.colorscale("sqrt", dark, stops=21),
        hovertemplate=place + "weight <b>%{z:.4~g}</b><extra></extra>",
    )
    hidden = dict(
        z=np.where(masked, np.float32(0), np.float32(np.nan)),
        colorscale=[[0, grey], [1, grey]],
        hovertemplate=f"{place}{MASKED}<extra></extra>",
    )
    return [cells | shown, *([cells | hidden] if masked.any() else [])]
