"""Claims in rows: both measured sides of each on one scale, and the verdict."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from jaxtyping import Num
from torch import Tensor

from mha_viz.errors import ShapeError
from mha_viz.plots import frame
from mha_viz.web import theme
from mha_viz.web.labels import clean, plotly_text

# Colour and symbol of each verdict in order: for, against, between, none.
_LOOKS = ((3, "circle"), (2, "x"), (1, "square"), (7, "line-ew-open"))
_LETTERS = 54  # of a label: a line that fits a phone
_LABEL, _LINES = 0.56, 0.3  # of a row's height: above its lines, and for them


class Claim(NamedTuple):
    """A row: its label, and for each of its lines both sides, the verdict, and a text for hover."""

    label: str
    first: Num[np.ndarray | Tensor, " line"]
    second: Num[np.ndarray | Tensor, " line"]
    verdicts: Sequence[str]
    hovers: Sequence[str]


def both_sides(
    claims: Sequence[Claim],
    sides: tuple[str, str],
    verdicts: Sequence[str],
    x_title: str,
    *,
    row: int = 42,
    dark: bool = False,
) -> go.Figure:
    """Draw a row for each claim, in it a line from one side to the other, and the verdict's mark.

    `sides` are the names of both sides, `verdicts` all that there are (four at most: for, against,
    and two that say neither), `row` a row's height in pixels. A side that is not finite has no
    mark.
    """
    if len(verdicts) > len(_LOOKS) or any(
        len({len(part) for part in claim[1:]}) > 1 for claim in claims
    ):
        raise ShapeError("Each line of a claim has two sides, a verdict of four, and a text.")
    first_values, second_values = (
        np.concatenate([np.asarray(claim[i], float) for claim in claims]) for i in (1, 2)
    )
    claim_verdicts = np.array([word for claim in claims for word in claim.verdicts])
    hovers = np.array(
        [plotly_text(text) for claim in claims for text in claim.hovers], dtype=object
    )
    sizes = [len(claim.first) for claim in claims]
    y = np.concatenate(
        [i + _LABEL + _LINES * (np.arange(n) + 0.5) / n for i, n in enumerate(sizes)]
    )
    gap = np.full(len(y), np.nan)
    x = np.stack((first_values, second_values, gap), axis=1).ravel()

    def marks(x: Any, at: Any, name: str, **look: Any) -> dict[str, Any]:
        texts, marker = hovers[at].tolist(), dict(size=8, **look)
        return frame.markers(x[at].tolist(), y[at].tolist(), texts, marker=marker, name=name)

    ink = dict(color=theme.ink(dark), line=dict(width=1.5))
    lines = frame.plain_lines(x, np.repeat(y, 3), 2, theme.gridline(dark), showlegend=False)
    traces = [lines, marks(second_values, slice(None), sides[1], symbol="diamond-open", **ink)]
    for (colour, symbol), word in zip(_LOOKS, verdicts, strict=False):
        if (at := claim_verdicts == word).any():
            look = dict(symbol=symbol, color=theme.qualitative(dark)[colour])
            traces.append(marks(first_values, at, f"{sides[0]}: {plotly_text(word)}", **look))
    finite_ends = np.concatenate([first_values, second_values, [0.0]])
    finite_ends = finite_ends[np.isfinite(finite_ends)]
    corner: frame.Part = dict(xref="paper", xanchor="left", yanchor="top")
    names = [plotly_text(clean(claim.label, _LETTERS)) for claim in claims]
    black = theme.ink(dark)
    labels = [frame.annotation(name, 0, i, black, **corner) for i, name in enumerate(names)]
    reach = [min(finite_ends.min() * 1.04, -0.01), max(finite_ends.max() * 1.04, 0.01)]
    layout = dict(
        annotations=labels,
        xaxis=frame.value_axis(x_title, range=reach, fixedrange=True),
        yaxis=dict(range=[len(claims), -0.1], visible=False, fixedrange=True),
    )
    inner, border = row * len(claims) + 66, frame.Border(above=2, below=66, legend=True)
    return frame.headed_figure(traces, dark, "", [], inner, layout, border)
