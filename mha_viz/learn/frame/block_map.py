"""The map: a transformer as blocks, each a link to what teaches it; a lab's own part is lit.

block_map.js answers to clicks. Must not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from mha_viz.learn.frame.contents import BY_KEY, LABS
from mha_viz.learn.frame.records import read_records
from mha_viz.web.browser import script, style
from mha_viz.web.labels import html_text

WIDTH, HEIGHT = 240, 392  # units of the drawing; about pixels in the sidebar


@dataclass(frozen=True)
class Block:
    """One block: its key, label and effect, the page it leads to, and its place in the drawing."""

    key: str
    label: str
    does: str
    page: str
    box: tuple[int, int, int, int]  # x, y, width, height


BLOCKS = {
    block.key: block for block in read_records(Block, Path(__file__).with_suffix(".toml"), "block")
}
_FRAMES = """
<rect class="frame" x="42" y="44" width="194" height="270" rx="8"/>
<rect class="frame" x="58" y="50" width="172" height="118" rx="6"/>
<rect class="frame" x="54" y="54" width="174" height="120" rx="6"/>
"""
_ARROWS = """
M20 34V49|M178 34V40H25|M32 100H61|M142 174V181|M142 206V211|M52 224H33|M32 254H51|M52 264H33|
M20 314V323|M120 350V357
"""  # paths of SVG, each with a tip at its end
_DESCRIPTION = (
    "A transformer as blocks. Token embeddings and positions start the stream of each token. In "
    "each layer, heads read it, compare queries with keys and gather values; what they "
    "gathered goes through concatenation and W_O and is added to the residual stream; so is what "
    "the MLP makes of it. The unembedding turns the last vectors into predictions, and the loss "
    "trains all of it."
)


def draw(parts: Sequence[str] = (), *, key: str = "block-map") -> None:
    """Draw the map; a click on a block leads to its page."""
    result = _component()(key=key, data={"lit": list(parts)}, on_go_change=_no_op)
    clicked = result.get("go") if isinstance(result, Mapping) else None
    pages = st.session_state.get("pages", {})
    if clicked in {block.page for block in BLOCKS.values()} & pages.keys():
        st.switch_page(pages[clicked])


def _no_op() -> None:
    """Do nothing: Streamlit reports a component's trigger only to a callback."""


def named(parts: Sequence[str]) -> str:
    """Return the blocks in words, for those who do not see which are lit."""
    return ", ".join(" ".join(BLOCKS[part].label.split()) for part in parts)


def svg() -> str:
    """Return the drawing without colours of its own: the style sheet has those of the theme."""
    arrows = "".join(f'<path d="{path}" marker-end="url(#tip)"/>' for path in _ARROWS.split("|"))
    blocks = "".join(_drawn(block) for block in BLOCKS.values())
    return (
        f'<svg class="map" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="Map of a '
        f'transformer"><desc>{html_text(_DESCRIPTION)}</desc><defs><marker id="tip" '
        'viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" '
        'orient="auto-start-reverse">'
        f'<path d="M0 0L6 3L0 6z"/></marker></defs>'
        f'<g aria-hidden="true">{_FRAMES}{arrows}</g>{blocks}</svg>'
    )


def _drawn(block: Block) -> str:
    x, y, width, height = block.box
    middle = x + width / 2, y + height / 2
    turned = f' transform="rotate(-90 {middle[0]} {middle[1]})"' if height > width else ""
    label = html_text(block.label)
    hint = html_text(f"{block.does}. {_page_title(block.page)}")
    return (
        f'<a href="{block.page}" data-part="{block.key}" data-page="{block.page}" '
        f'aria-label="{label}: {hint}"><title>{hint}</title>'
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
