"""Records and heads in a notebook, without a server and without network."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from mha_viz.core.measure import measure
from mha_viz.core.metrics import METRICS
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.record.visible import visible_keys, visible_tiles
from mha_viz.core.reprs import count
from mha_viz.extras import missing
from mha_viz.web.labels import clean, head_name, html_text
from mha_viz.web.payload import grid_payload

if TYPE_CHECKING:
    from mha_viz.plots.figure_file import HeadFigure

PNG = "image/png"
_MAX_TEXT = 200  # characters of a text in a caption
_FRAME_HEIGHT = 640  # pixels; a larger grid scrolls in its frame


def record_bundle(record: AttentionRecord) -> dict[str, str]:
    """Return what a notebook stores of a record: the grid of all heads as a page and a picture.

    The page, "text/html", works offline and in an exported notebook, in a sandboxed frame that can
    reach neither the notebook nor the network. The picture, "image/png" in base64, is for PDF, for
    notebooks that nobody has trusted and for whatever runs no scripts; it needs matplotlib.
    """
    from mha_viz.web.standalone import fragment, grid_html

    picture = record_image(record)
    page = grid_html(record_payload(record))
    frame = fragment(
        page, height=_FRAME_HEIGHT, title="All attention heads", picture=picture.get(PNG, "")
    )
    return {"text/html": f"<div><p>{html_text(caption(record))}</p>{frame}</div>", **picture}


def record_image(record: AttentionRecord) -> dict[str, str]:
    """Return the grid of all heads with its caption as base64, {} without matplotlib."""
    from mha_viz.plots.static import TILE, grid_image

    if missing("figures"):
        return {}
    is_visible = visible_tiles(record, TILE).cpu()
    tiles = record.tiles(TILE).cpu().numpy()
    numbers = record.layer_numbers
    png = grid_image(tiles, caption=caption(record), visible=is_visible, layer_numbers=numbers)
    return {PNG: base64.b64encode(png).decode("ascii")}


def show_head(record: AttentionRecord, layer: int, head: int) -> HeadFigure:
    """Return one head's attention weights as a heatmap; in a notebook it draws itself.

    Args:
        record: any record.
        layer: its position on the layer axis, from 0 (`record.layer_of` gives that of a number);
            negative numbers count from the end.
        head: the same.

    Returns:
        plotly Figure with exact float weights, queries down and keys across. A notebook stores a
        static picture beside it, for exports and for readers who do not trust it.

    Raises:
        ArgumentError: no such layer or head.

    >>> import mha_viz as mv
    >>> mv.show_head(mv.load("tiny-bert").trace("The cat sat"), 0, -1).data[0].type
    'heatmap'
    """
    from mha_viz.plots.figure_file import HeadFigure
    from mha_viz.plots.heatmap import head_heatmap
    from mha_viz.plots.static import head_image

    weights, is_visible = record.head(layer, head).cpu().numpy(), visible_keys(record, layer).cpu()
    layer_head = layer % record.n_layers, head % record.n_heads
    name, line = head_name(*layer_head, numbers=record.layer_numbers), caption(record, layer_head)
    labels = record.labels, record.key_labels
    return HeadFigure(
        head_heatmap(weights, labels, title=name, visible=is_visible),
        picture=None
        if missing("figures")
        else lambda: head_image(weights, labels, title=name, caption=line, visible=is_visible),
        alt=f"{name} of {line}",
    )


def record_payload(record: AttentionRecord) -> bytes:
    """Return the record as the head grid takes it, with the metrics that apply to it."""
    facts = {METRICS[key].title: values.numpy() for key, values in measure(record).items()}
    return grid_payload(record, facts, title=caption(record))


def caption(record: AttentionRecord, chosen: tuple[int, int] | None = None) -> str:
    """Return model, part, texts and settings in a line, of all heads or of (layer, head)."""
    parts = [record.model or "a model"]
    parts += [] if record.part == "self" else [f"{record.part} attention"]
    parts += [clean(text, _MAX_TEXT) for text in (record.text, record.text_pair) if text]
    parts += ["sub-words merged"] * record.merged
    if record.removed_mass is not None:
        removed = record.removed_mass if chosen is None else record.removed_mass[chosen]
        parts.append(f"tokens left out ({float(removed.mean()):.1%} of the mass)")
    layers, heads, queries, keys = record.shape
    sizes = count(layers, "layer"), count(heads, "head"), count(queries, "query", "queries")
    parts.append("{} × {}, {} × {}".format(*sizes, count(keys, "key")))
    return " · ".join(parts)
