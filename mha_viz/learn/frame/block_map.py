"""The map: a transformer as blocks, each a link to what teaches it; a lab's own part is lit.

block_map.js answers to clicks. Must not import torch.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import streamlit as st

from mha_viz.learn.frame.contents import BY_KEY, LABS, read_records
from mha_viz.ui.pages import TITLES
from mha_viz.ui.state.session import session
from mha_viz.web.browser import component_script, style
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
_DRAWING = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def draw(parts: Sequence[str] = (), *, key: str = "block-map") -> None:
    """Draw the map; a click on a block leads to its page."""
    # Streamlit reports a component's trigger only to a callback.
    result = _component()(key=key, data={"lit": list(parts)}, on_go_change=lambda: None)
    clicked = result.get("go") if isinstance(result, Mapping) else None
    pages = session().pages
    if clicked in {block.page for block in BLOCKS.values()} & pages.keys():
        st.switch_page(pages[clicked])


def named(parts: Sequence[str]) -> str:
    """Return the blocks in words, for those who do not see which are lit."""
    return ", ".join(" ".join(BLOCKS[part].label.split()) for part in parts)


def svg() -> str:
    """Return the drawing without colours of its own: the style sheet has those of the theme."""
    arrows = "".join(f'<path d="{p}" marker-end="url(#tip)"/>' for p in _DRAWING["arrows"])
    frames = "".join(
        f'<rect class="frame" x="{x}" y="{y}" width="{width}" height="{height}" rx="{r}"/>'
        for x, y, width, height, r in _DRAWING["frames"]
    )
    blocks = "".join(_drawn(block) for block in BLOCKS.values())
    description = html_text(_DRAWING["description"])
    return (
        f'<svg class="map" viewBox="0 0 {WIDTH} {HEIGHT}" role="group" aria-label="Map of a '
        f'transformer"><desc>{description}</desc><defs><marker id="tip" '
        'viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" '
        'orient="auto-start-reverse">'
        f'<path d="M0 0L6 3L0 6z"/></marker></defs>'
        f'<g aria-hidden="true">{frames}{arrows}</g>{blocks}</svg>'
    )


def _drawn(block: Block) -> str:
    x, y, width, height = block.box
    middle = x + width / 2, y + height / 2
    turned = f' transform="rotate(-90 {middle[0]} {middle[1]})"' if height > width else ""
    label = html_text(block.label)
    lab = BY_KEY.get(block.page.removeprefix("lab-"))
    page = (
        f"Page {TITLES[block.page]}" if lab is None else f"Lab {LABS.index(lab) + 1}: {lab.title}"
    )
    hint = html_text(f"{block.does}. {page}")
    return (
        f'<a href="{block.page}" data-part="{block.key}" data-page="{block.page}" '
        f'aria-label="{label}: {hint}"><title>{hint}</title>'
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>'
        f'<text x="{middle[0]}" y="{middle[1]}"{turned}>{label}</text></a>'
    )


@cache
def _component() -> Callable[..., Any]:
    # Not at import, as elsewhere: the server imports this before it can take components.
    return st.components.v2.component(
        "mha_viz.block_map", html=svg(), css=style("block_map"), js=component_script("block_map")
    )
