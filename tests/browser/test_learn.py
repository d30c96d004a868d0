"""The Learn section as a whole, in a real Chromium."""

import re
from urllib.parse import urljoin

import pytest
from playwright.sync_api import expect

from mha_viz.learn.frame.contents import LABS
from tests.browser.ready import next_run, wait_ready
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


def test_glossary_is_searched_and_its_link_opens_the_sentence(open_page: OpenPage) -> None:
    page = open_page("/?text=The+old+dog+slept&layer=2&head=3")
    page.get_by_role("button", name="Learn").click()
    with next_run(page):
        page.get_by_text("Glossary", exact=True).click()
    box = page.get_by_label("Search")
    box.fill("capacity of the best head")
    with next_run(page):
        box.press("Enter")
    expect(page).to_have_url(re.compile("find=capacity"))
    copy = open_page(page.url)
    expect(copy.get_by_label("Search")).to_have_value("capacity of the best head")
    path = page.get_by_role("listitem").get_by_role("link", name="Compare").get_attribute("href")
    page.goto(urljoin(page.url, path))
    wait_ready(page)
    expect(page.get_by_label("Sentence").first).to_have_value("The old dog slept")
    page.go_back()
    expect(page).to_have_url(re.compile("/glossary"))
