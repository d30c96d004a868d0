"""The map leads to what teaches each block, lights what a lab is about, and says it in words."""

from xml.etree import ElementTree

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.learn.frame import block_map
from mha_viz.learn.frame.block_map import BLOCKS
from mha_viz.learn.frame.contents import BY_KEY, LABS
from tests.ui.test_glossary import app

NAMED = "Embedding, concatenation, W_O, residual stream, MLP, Unembedding".split(", ")


def test_every_block_leads_to_a_page_and_every_lab_has_its_part():
    pages = app().session_state.pages
    for part, block in BLOCKS.items():
        assert block.page in pages, part
        lab = BY_KEY.get(block.page.removeprefix("lab-"))
        assert lab is None or part in lab.parts, part
    for number, lab in enumerate(LABS):
        assert lab.parts and set(lab.parts) <= BLOCKS.keys(), lab.key
        assert {BY_KEY[key] for key in lab.needs} <= set(LABS[:number]), lab.key
    assert set(NAMED) <= {block.label for block in BLOCKS.values()}


def test_the_drawing_is_made_of_links_with_names():
    drawing = ElementTree.fromstring(block_map.svg())
    links = [element for element in drawing if element.tag == "a"]
    assert [link.get("href") for link in links] == [block.page for block in BLOCKS.values()]
    for link, block in zip(links, BLOCKS.values(), strict=True):
        assert block.label in link.get("aria-label") and block.does in link.get("aria-label")
    assert next(drawing.iter("desc")).text


def _page(key: str) -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn.frame import frame
    from mha_viz.learn.frame.contents import BY_KEY

    frame.sidebar(BY_KEY[key])
    frame.begin(BY_KEY[key])


@pytest.mark.parametrize("key", ["soft-lookup", "how-heads-learn"])
def test_a_lab_lights_its_part_and_names_it(key, monkeypatch):
    lit = []
    monkeypatch.setattr(
        block_map, "_component", lambda: lambda **given: lit.append(given["data"]["lit"]) or {}
    )
    page = AppTest.from_function(_page, args=(key,), default_timeout=300).run()
    assert not page.exception and lit == [list(BY_KEY[key].parts)]
