"""The map of a block leads to what teaches each part."""

from mha_viz.learn.frame.block_map import BLOCKS
from mha_viz.learn.frame.contents import BY_KEY, LABS
from tests.ui.test_glossary import app


def test_every_block_leads_to_a_page_and_every_lab_has_its_part():
    pages = app().session_state.pages
    for part, block in BLOCKS.items():
        assert block.page in pages, part
        lab = BY_KEY.get(block.page.removeprefix("lab-"))
        assert lab is None or part in lab.parts, part
    for number, lab in enumerate(LABS):
        assert lab.parts and set(lab.parts) <= BLOCKS.keys(), lab.key
        assert {BY_KEY[key] for key in lab.needs} <= set(LABS[:number]), lab.key
