"""The Learn section as a whole, in a real Chromium."""

import re

import pytest
from playwright.sync_api import expect

from mha_viz.learn.frame.contents import LABS
from tests.browser.ready import next_run
from tests.browser.tabs import OpenPage


@pytest.mark.journey
def test_learn_menu_and_cards_lead_to_a_lab(open_page: OpenPage) -> None:
    page = open_page()
    page.get_by_role("button", name="Learn").click()
    with next_run(page):
        page.get_by_text("All labs", exact=True).click()
    expect(page).to_have_url(re.compile("/learn$"))
    expect(page.locator("[class*=st-key-lab-card-]")).to_have_count(len(LABS))
    picture = page.locator(".st-key-lab-card-own-reflection img")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()  # the whole card is a link: a click anywhere leads there
    assert box
    with next_run(page):
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page).to_have_url(re.compile("/lab-own-reflection$"))
    with next_run(page):
        page.get_by_role("link", name="All labs").last.click()
    expect(page).to_have_url(re.compile("/learn$"))
