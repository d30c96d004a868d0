"""The sections of a long page below each other, and a row of links to them that stays in view.

contents_bar.js marks the section that is being read; page.css keeps the row in view.
"""

from collections.abc import Callable, Mapping

import streamlit as st

from mha_viz.ui.widgets.components.component import component

_bar = component("contents_bar")


def sections(parts: Mapping[str, Callable[[], object]]) -> None:
    """Draw parts by their names in the row of links, each with a heading of its own."""
    keys = [f"section-{number}" for number in range(len(parts))]
    links = [{"name": name, "key": key} for name, key in zip(parts, keys, strict=True)]
    _bar(key="contents", data=links)
    for key, draw in zip(keys, parts.values(), strict=True):
        with st.container(key=key):
            draw()
