"""All heads as points in a plane: heads that lie close are alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Int, Num
from numpy.typing import NDArray
from torch import Tensor

from mha_viz.errors import ArgumentError, ShapeError
from mha_viz.plots.cells import BAR, colour_bar
from mha_viz.plots.frame import (
    SYMBOLS,
    as_numbers,
    check_head,
    check_names,
    chosen_marker,
    headed_figure,
    keep_on_click,
    missing_note,
)
from mha_viz.web import theme

_NAMED = 24  # heads up to which each has its name beside it


def head_map(
    coordinates: Num[np.ndarray | Tensor, "head2 2"],
    names: Sequence[str],
    n_heads: int,
    *,
    clusters: Int[np.ndarray, " head2"] | Sequence[int] | None = None,
    explained: float | None = None,
    selected: tuple[int, int] | None = None,
    dark: bool = False,
) -> go.Figure:
    """Draw a map of all heads, one unit as long across as down; the axes themselves mean nothing.

    `coordinates` (head2, 2) are those of `classical_mds`. Colours follow the cluster, each of which
    has a marker of its own (negative: in none), or the layer where `clusters` is None. Names stand
    beside at most 24 points, the chosen one's always. customdata of every point is [layer, head].
    Heads that lie where another lies are counted; `explained` is the share of the distances'
    variation that the plane shows.
    """
    points = as_numbers(coordinates, 2, "coordinates (head2, 2)")
    size = len(points)
    if points.shape[1] != 2 or (clusters is not None and len(clusters) != size):
        raise ShapeError(f"Coordinates must be (head2, 2) and clusters (head2,): {points.shape}.")
    if n_heads < 1 or size % n_heads:
        raise ArgumentError(f"{size} heads do not fill layers of {n_heads}.")
    labels = check_names(names, size)
    known = ~np.isnan(points.sum(axis=1))
    traces: list[dict[str, Any]] = [
        dict(
            **_points(part, points, labels, n_heads),
            **look,
            mode="markers+text" if size <= _NAMED else "markers",
            **keep_on_click(0.9),
        )
        for part, look in _parts(known, n_heads, clusters, dark)
    ]
    if selected is not None:
        layer, head = check_head(selected, size // n_heads, n_heads)
        index = np.array([layer * n_heads + head])
        traces.append(
            dict(
                **_points(index[known[index]], points, labels, n_heads),
                mode="markers" if size <= _NAMED else "markers+text",
                name=labels[index[0]],
                marker=chosen_marker(dark, 15),
                **keep_on_click(1),
            )
        )
    notes, named = _notes(points[known], size, explained), clusters is not None
    around: Any = dict(above=0 if named else BAR, sides=(10, 10), below=10)
    layout = _axes(points[known], dark)
    return headed_figure(traces, dark, "", notes, 440, layout, named=named, drag="pan", **around)


def _parts(
    known: NDArray[np.bool_], n_heads: int, clusters: Any, dark: bool
) -> list[tuple[NDArray[np.intp], dict[str, Any]]]:
    """Return which heads are drawn together, and how they look."""
    edge = dict(width=1, color=theme.paper(dark))
    if clusters is None:
        heads = np.flatnonzero(known)
        scale = theme.sequential(dark)[2:]  # its palest colours are hard to see as points
        layers = len(known) // n_heads
        marker = dict(
            size=11,
            opacity=0.9,
            color=heads // n_heads,
            cmin=0,
            cmax=max(layers - 1, 1),
            colorscale=theme.stops(scale),
            line=dict(width=1, color=theme.muted(dark)),
            colorbar=_layer_bar(layers, dark),
        )
        return [(heads, dict(marker=marker, name="heads"))]
    numbers = np.asarray(clusters)
    colours = theme.qualitative(dark)
    parts = []
    for cluster in np.unique(numbers[known]).tolist():
        heads = np.flatnonzero(known & (numbers == cluster))
        colour = colours[cluster % len(colours)] if cluster >= 0 else theme.muted(dark)
        symbol = SYMBOLS[cluster % len(SYMBOLS)] if cluster >= 0 else "circle-open"
        marker = dict(size=11, opacity=0.9, color=colour, symbol=symbol, line=edge)
        name = f"cluster {cluster + 1}" if cluster >= 0 else "in no cluster"
        parts.append((heads, dict(marker=marker, name=f"{name} ({len(heads)})")))
    return parts


def _layer_bar(layers: int, dark: bool) -> dict[str, Any]:
    places = list(range(0, layers, -(-layers // 8)))
    return colour_bar(dark, {i: f"L{i}" for i in places}, length=250)


def _points(
    heads: NDArray[np.intp], points: NDArray[np.float64], labels: list[str], n_heads: int
) -> dict[str, Any]:
    return dict(
        x=points[heads, 0],
        y=points[heads, 1],
        text=[labels[i] for i in heads],
        customdata=[list(divmod(int(i), n_heads)) for i in heads],
        textposition="top center",
        textfont=dict(size=10),
        hovertemplate="%{text}<br>at (%{x:.4~g}, %{y:.4~g})<extra></extra>",
    )


def _notes(points: NDArray[np.float64], size: int, explained: float | None) -> list[str]:
    doubles = len(points) - len(np.unique(points, axis=0))
    notes = [missing_note(size - len(points), size)]
    if explained is not None:
        share = f"{100 * explained:.0f} %" if np.isfinite(explained) else "not defined"
        notes.insert(0, f"What is close is alike. Variation shown: {share}.")
    if doubles:
        notes.append(f"{doubles} heads lie where another lies.")
    return notes


def _axes(points: NDArray[np.float64], dark: bool) -> dict[str, Any]:
    """Return ranges with room for names and markers; plotly widens one to fit the page."""
    quiet = dict(
        showgrid=True, zeroline=False, showline=False, ticks="", showticklabels=False, nticks=9
    )
    ranges = []
    reach = float(np.ptp(points, axis=0).max()) if len(points) else 0.0
    for column in (0, 1):
        along = points[:, column]
        low, high = (float(along.min()), float(along.max())) if len(points) else (0.0, 0.0)
        room = 0.08 * reach or 1.0
        ranges.append([low - room, high + room])
    return dict(
        xaxis=dict(quiet, range=ranges[0], gridcolor=theme.gridline(dark)),
        yaxis=dict(quiet, range=ranges[1], gridcolor=theme.gridline(dark), scaleanchor="x"),
    )
