"""The map leads to what teaches each block, lights what a lab is about, and says it in words."""

from xml.etree import ElementTree

import pytest
from streamlit.testing.v1 import AppTest

from mha_viz.learn.frame import block_map, frame
from mha_viz.learn.frame.block_map import BLOCKS, HEIGHT, WIDTH
from mha_viz.learn.frame.contents import BY_KEY, LABS
from tests.ui.test_glossary import app

NAMED = "Embedding, concatenation, W_O, residual stream, MLP, Unembedding".split(", ")


def test_every_block_leads_to_a_page_and_every_lab_has_its_part():
    pages = app().session_state.pages
    for part, block in BLOCKS.items():
        assert block.page in pages, part
        lab = BY_KEY.get(block.page.removeprefix("lab-"))
        assert lab is None or part in lab.parts, part
    for lab in LABS:
        assert lab.parts and set(lab.parts) <= BLOCKS.keys(), lab.key
    assert set(NAMED) <= {block.label for block in BLOCKS.values()}


def test_the_drawing_is_made_of_links_with_names():
    drawing = ElementTree.fromstring(block_map.svg())
    links = [element for element in drawing if element.tag == "a"]
    assert [link.get("href") for link in links] == [block.page for block in BLOCKS.values()]
    for link, block in zip(links, BLOCKS.values(), strict=True):
        assert block.label in link.get("aria-label") and block.does in link.get("aria-label")
    text = next(drawing.iter("desc")).text
    assert all(word.lower() in text.lower() for word in NAMED)


def test_blocks_lie_in_the_drawing_and_none_on_another():
    boxes = [block.box for block in BLOCKS.values()]
    for number, (x, y, width, height) in enumerate(boxes):
        assert x >= 0 and y >= 0 and x + width <= WIDTH and y + height <= HEIGHT
        for other_x, other_y, other_width, other_height in boxes[number + 1 :]:
            beside = x + width <= other_x or other_x + other_width <= x
            assert beside or y + height <= other_y or other_y + other_height <= y


def test_labs_build_on_earlier_ones_and_say_what_they_take():
    for number, lab in enumerate(LABS):
        assert {BY_KEY[key] for key in lab.needs} <= set(LABS[:number])
        assert 5 <= lab.minutes <= 45 and f"About {lab.minutes} minutes" in frame.plan(lab)
    assert "builds on labs 1 and 3" in frame.plan(BY_KEY["step-by-step"])


def _page(key: str) -> None:
    """Runs as an app, so it imports what it needs."""
    from mha_viz.learn.frame import frame
    from mha_viz.learn.frame.contents import BY_KEY

    frame.sidebar(BY_KEY[key])
    frame.begin(BY_KEY[key])


@pytest.mark.parametrize("key", BY_KEY)
def test_a_lab_lights_its_part_and_names_it(key, monkeypatch):
    lit = []
    monkeypatch.setattr(
        block_map, "_component", lambda: lambda **given: lit.append(given["data"]["lit"]) or {}
    )
    page = AppTest.from_function(_page, args=(key,), default_timeout=300).run()
    assert not page.exception and lit == [list(BY_KEY[key].parts)]
    assert page.sidebar.caption[0].value.startswith("This lab: ")
    assert page.main.caption[0].value.startswith("Afterwards you can ")
