"""The map: a transformer as blocks, each a link to what teaches it; a lab's own part is lit.

How it answers to a click is decided in block_map.js. Knows streamlit; must not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import streamlit as st

from mha_viz.ui.learn.contents import BY_KEY, LABS
from mha_viz.web.browser import script, style
from mha_viz.web.labels import html_text

WIDTH, HEIGHT = 240, 392  # units of the drawing; about pixels in the sidebar


class Block(NamedTuple):
    """One block: what is written on it, what it does, the page it leads to, and where it lies."""

    label: str
    does: str
    page: str
    box: tuple[int, int, int, int]  # x, y, width, height


# From the text at the top to the prediction at the bottom; the order is that of the Tab key.
BLOCKS: dict[str, Block] = {
    "embedding": Block(
        "Embedding", "each token becomes a vector", "lab-step-by-step", (8, 8, 108, 26)
    ),
    "positions": Block(
        "Positions", "the model is told where a token stands", "lab-convolution", (124, 8, 108, 26)
    ),
    "stream": Block(
        "residual stream",
        "each token’s vector, which all parts read and add to",
        "lab-value-output",
        (8, 50, 24, 264),
    ),
    "heads": Block(
        "several heads", "each looks in its own way", "lab-two-places", (62, 60, 160, 24)
    ),
    "projections": Block(
        "W_Q   W_K   W_V",
        "queries, keys and values are made",
        "lab-own-reflection",
        (62, 88, 160, 24),
    ),
    "lookup": Block(
        "softmax(QKᵀ / √d) V",
        "queries are compared with keys, values are gathered",
        "lab-soft-lookup",
        (62, 116, 160, 24),
    ),
    "pattern": Block(
        "attention weights", "who looks at whom", "lab-any-pattern", (62, 144, 160, 24)
    ),
    "concatenation": Block(
        "concatenation", "heads are put side by side", "lab-step-by-step", (52, 182, 176, 24)
    ),
    "output": Block(
        "W_O", "what heads gathered is written back", "lab-value-output", (52, 212, 176, 24)
    ),
    "mlp": Block("MLP", "each token by itself", "lab-cost", (52, 246, 176, 24)),
    "layer": Block("one layer, repeated", "what a layer costs", "lab-cost", (52, 282, 176, 24)),
    "unembedding": Block(
        "Unembedding", "vectors become predictions", "intervene", (8, 324, 224, 26)
    ),
    "training": Block(
        "Loss and training", "how the weights came about", "lab-how-heads-learn", (8, 358, 224, 26)
    ),
}
_BEHIND = """
<rect class="frame" x="42" y="44" width="194" height="270" rx="8"/>
<rect class="frame" x="58" y="50" width="172" height="118" rx="6"/>
<rect class="frame" x="54" y="54" width="174" height="120" rx="6"/>
"""
_ARROWS = """
M20 34V49|M178 34V40H25|M32 100H61|M142 174V181|M142 206V211|M52 224H33|M32 254H51|M52 264H33|
M20 314V323|M120 350V357
"""  # paths of SVG, each with a tip at its end
_SAID = (
    "A transformer as blocks. Token embeddings and positions start the stream of each token. In "
    "each layer, heads read it, compare queries with keys and gather values; what they "
    "gathered goes through concatenation and W_O and is added to the residual stream; so is what "
    "the MLP makes of it. The unembedding turns the last vectors into predictions, and the loss "
    "trains all of it."
)


def draw(parts: Sequence[str] = (), *, key: str = "block-map") -> None:
    """Draw the map; a click on a block leads to its page.

    Args:
        parts: keys of the blocks that are lit.
        key: unique on the page.
    """
    result = _component()(key=key, data={"lit": list(parts)}, on_go_change=_nothing)
    asked = result.get("go") if isinstance(result, Mapping) else None
    pages = st.session_state.get("pages", {})
    if asked in {block.page for block in BLOCKS.values()} & pages.keys():
        st.switch_page(pages[asked])


def _nothing() -> None:
    """Streamlit hands on what a component triggers only where somebody listens."""


def named(parts: Sequence[str]) -> str:
    """The blocks in words, for those who do not see which are lit."""
    return ", ".join(" ".join(BLOCKS[part].label.split()) for part in parts)


def svg() -> str:
    """The drawing, without colours of its own: the style sheet has those of the theme."""
    arrows = "".join(f'<path d="{path}" marker-end="url(#tip)"/>' for path in _ARROWS.split("|"))
    blocks = "".join(_drawn(part, block) for part, block in BLOCKS.items())
    return (
        f'<svg class="map" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="Map of a '
        f'transformer"><desc>{html_text(_SAID)}</desc><defs><marker id="tip" viewBox="0 0 6 6" '
        'refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto-start-reverse">'
        f'<path d="M0 0L6 3L0 6z"/></marker></defs>'
        f'<g aria-hidden="true">{_BEHIND}{arrows}</g>{blocks}</svg>'
    )


def _drawn(part: str, block: Block) -> str:
    x, y, width, height = block.box
    middle = x + width / 2, y + height / 2
    turned = f' transform="rotate(-90 {middle[0]} {middle[1]})"' if height > width else ""
    label = html_text(block.label)
    told = html_text(f"{block.does}. {_page_title(block.page)}")
    return (
        f'<a href="{block.page}" data-part="{part}" data-page="{block.page}" '
        f'aria-label="{label}: {told}"><title>{told}</title>'
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'
        f'<text x="{middle[0]}" y="{middle[1]}"{turned}>{label}</text></a>'
    )


def _page_title(page: str) -> str:
    lab = BY_KEY.get(page.removeprefix("lab-"))
    return "Page Intervene" if lab is None else f"Lab {LABS.index(lab) + 1}: {lab.title}"


@cache
def _component() -> Callable[..., Any]:
    # Not at import, as elsewhere: the server imports this before it can take components.
    return st.components.v2.component(
        "mha_viz.block_map", html=svg(), css=style("block_map"), js=script("block_map")
    )
