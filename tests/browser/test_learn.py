"""The Learn section as a whole, in a real Chromium."""

import re
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Page, expect

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


def test_map_lights_the_lab_and_leads_on_within_the_session(open_page: OpenPage) -> None:
    page = open_page("/lab-soft-lookup")
    expect(page.locator("svg.map a.lit")).to_have_attribute("aria-current", "true")
    option = page.locator(".st-key-soft-lookup-predict-temperature label", has_text="largest")
    with next_run(page):
        option.click()
    with next_run(page):
        page.locator("svg.map a[data-part=concatenation]").click()
    expect(page).to_have_url(re.compile("/lab-step-by-step"))
    with next_run(page):
        page.go_back()  # the session went on: what was answered is still chosen
    expect(option.get_by_role("radio")).to_be_checked()


def test_projector_enlarges_type_on_every_page_and_stays_on(open_page: OpenPage) -> None:
    def sizes(page: Page) -> list[float]:
        """Return the font sizes of a label, of a figure's title and of a name of heads."""
        parts = ("[data-testid=stMain] label p", ".js-plotly-plot .gtitle", ".head-switches .badge")
        font_sizes = []
        for name, part in zip(("Explore", "Compare", "Intervene"), parts, strict=True):
            page.get_by_role("link", name=name, exact=True).click()
            expect(page.locator(part).first).to_be_attached()
            wait_ready(page)
            font_sizes.append(
                page.locator(part).first.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
            )
        return font_sizes

    page = open_page("/compare")
    small = sizes(page)
    page.get_by_role("button", name="Options").click()
    with next_run(page):
        page.get_by_text("Projector").click()
    page.keyboard.press("Escape")
    large = sizes(page)
    assert all(new > 1.2 * old for old, new in zip(small, large, strict=True)), (small, large)
    page.get_by_role("button", name="Learn").click()
    with next_run(page):
        page.get_by_text("All labs", exact=True).click()
    expect(page.get_by_role("switch", name="Projector")).to_be_checked()


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
