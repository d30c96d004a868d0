"""The Compare page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

import mha_viz as mv
from mha_viz.core.amounts import format_number
from mha_viz.ui.state.views import SECTIONS
from tests.browser.compare_page import (
    LINK,
    TEXT,
    click_cell,
    heading,
)
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage


@pytest.mark.journey
def test_compare_pair_from_the_matrix_and_sections_by_keyboard(open_page: OpenPage) -> None:
    page = open_page(LINK + "twins")
    with next_run(page):
        click_cell(page, 3 * 8 + 1, 8 + 6, rows=32)
    expect(heading(page, "L3 H1 and L1 H6")).to_be_visible()
    expect(page).to_have_url(re.compile("head=1&layer_b=1&head_b=6"))
    page.get_by_text("All measures between them").click()
    record = mv.load("tiny-bert").trace(TEXT)
    distance = float(mv.head_similarity(record, "hellinger")[25, 14])
    hellinger = page.get_by_test_id("stTable").filter(has_text="Hellinger distance")
    expect(hellinger).to_contain_text(format_number(distance))
    wait_ready(page)
    page.get_by_role("radio", name="Twins").focus()
    with next_run(page):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name=SECTIONS["alike"])).to_be_checked()
    expect(heading(page, "L3 H1 and L1 H6")).to_be_visible()
