"""Records and heads in a notebook, without a server and without network.

Knows records and plots; must not know a model or streamlit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mha_viz.core.measure import measure
from mha_viz.core.metrics import METRICS
from mha_viz.core.record import AttentionRecord
from mha_viz.web.labels import clean, head_name, html_text
from mha_viz.web.payload import grid_payload

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MAX_TEXT = 200  # characters of a text in a caption
_FRAME_HEIGHT = 640  # pixels; a larger grid scrolls in its frame


def record_html(record: AttentionRecord) -> str:
    """A record as a fragment of HTML: a line that says what it is, and the grid of all its heads.

    The grid is a page of its own in a sandboxed frame: it works offline, in an exported notebook,
    and can reach neither the notebook nor the network.

    Args:
        record: any record.

    Returns:
        HTML in which no token is markup.
    """
    from mha_viz.web.standalone import fragment, grid_html

    page = grid_html(record_payload(record))
    frame = fragment(page, height=_FRAME_HEIGHT, title="All attention heads")
    return f"<div><p>{html_text(caption(record))}</p>{frame}</div>"


def show_head(record: AttentionRecord, layer: int, head: int) -> Figure:
    """One head's attention weights as a heatmap; in a notebook it draws itself.

    Args:
        record: any record.
        layer, head: from 0; negative numbers count from the end.

    Returns:
        plotly Figure with exact float weights, queries down and keys across.

    Raises:
        ArgumentError: no such layer or head.

    >>> import mha_viz as mv
    >>> mv.show_head(mv.load("tiny-bert").trace("The cat sat"), 0, -1).data[0].type
    'heatmap'
    """
    from mha_viz.plots.heatmap import head_heatmap

    weights = record.head(layer, head).numpy()
    name = head_name(layer % record.n_layers, head % record.n_heads)
    return head_heatmap(weights, record.labels, record.key_labels, title=name)


def record_payload(record: AttentionRecord) -> bytes:
    """The record as the head grid takes it, with the metrics that apply to it."""
    facts = {METRICS[key].title: values.numpy() for key, values in measure(record).items()}
    return grid_payload(
        record.pattern.numpy(),
        record.labels,
        record.key_labels,
        facts=facts,
        query_special=[token.is_special for token in record.tokens],
        key_special=[token.is_special for token in record.key_tokens],
        query_segments=[token.segment for token in record.tokens],
        key_segments=[token.segment for token in record.key_tokens],
        title=caption(record),
    )


def caption(record: AttentionRecord, chosen: tuple[int, int] | None = None) -> str:
    """Model, part, texts and settings in one line, of all heads or of a chosen (layer, head)."""
    parts = [record.model or "a model"]
    parts += [] if record.part == "self" else [f"{record.part} attention"]
    parts += [clean(text, _MAX_TEXT) for text in (record.text, record.text_pair) if text]
    parts += ["sub-words merged"] * record.merged
    if record.removed_mass is not None:
        removed = record.removed_mass if chosen is None else record.removed_mass[chosen]
        parts.append(f"tokens left out ({float(removed.mean()):.1%} of the mass)")
    layers, heads, queries, keys = record.pattern.shape
    parts.append(f"{layers} layers × {heads} heads, {queries} queries × {keys} keys")
    return " · ".join(parts)
