"""Names that try to be markup, and readings of what a figure says."""

import json

import numpy as np
import plotly.graph_objects as go

HOSTILE = "<b>x</b> $y$ %{z} &lt;"


def head_names(layers: int, heads: int) -> list[str]:
    return [f"L{i} H{j}" for i in range(layers) for j in range(heads)]


def softmax_rows(*shape: int) -> np.ndarray:
    """Return random weights whose rows sum to 1."""
    weights = np.exp(np.random.default_rng(3).normal(0, 2, shape))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def texts(figure: go.Figure) -> str:
    """Everything that a figure writes or says on hover, without the markup that it makes itself."""
    text = json.dumps(figure.to_plotly_json(), default=np.ndarray.tolist)
    for tag in ("<br>", "<b>", "</b>", "<extra></extra>", "</span>"):
        text = text.replace(tag, "")
    return text


def is_neutral(figure: go.Figure) -> bool:
    """Tell whether HOSTILE, as any text, is nowhere read as markup or as a template."""
    text = json.dumps(figure.to_plotly_json(), default=np.ndarray.tolist)
    templates = " ".join(trace.hovertemplate or "" for trace in figure.data)
    return "<b>x</b>" not in text and "$y$" not in text and "%{z} &" not in templates


def clicked(figure: go.Figure) -> list[list[int]]:
    """customdata of all points: what the page makes of a click on them."""
    found = [trace.customdata for trace in figure.data if trace.customdata is not None]
    return [list(place) for points in found for place in points]
