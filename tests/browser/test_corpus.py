"""The Corpus page as a person uses it, in a real Chromium."""

import pytest
from playwright.sync_api import expect

from tests.browser.test_accessibility import nothing_in_light_and_dark

MADE = 120_000  # milliseconds: the study of the sample, on a busy machine


def opened(open_page, wait_idle, link, **options):
    page = open_page(link, **options)
    expect(page.get_by_role("heading", name="Search")).to_be_visible(timeout=MADE)
    wait_idle(page)
    return page


@pytest.mark.extended
@pytest.mark.journey
def test_from_the_menu_to_a_head_and_an_example_of_it_in_explore(open_page, wait_idle):
    page = open_page("/")
    page.get_by_role("link", name="Corpus", exact=True).click()
    expect(page.get_by_role("heading", name="Search")).to_be_visible(timeout=MADE)
    wait_idle(page)
    page.get_by_label("Token that looks").fill("because")
    page.get_by_label("Token that looks").press("Enter")
    expect(page.get_by_text("because →").first).to_be_visible()
    wait_idle(page)
    assert "from_word=because" in page.url
    with page.context.expect_page() as tab:
        page.get_by_role("link", name="Open in Explore").last.click()
    other = tab.value
    assert "text=" in other.url and "query=" in other.url
    other.close()


def test_an_example_has_its_tree_on_a_phone_and_opens_in_explore(open_page, wait_idle):
    phone = {"viewport": {"width": 390, "height": 844}}
    page = opened(open_page, wait_idle, "/corpus?layer=1&head=0&gold=1", **phone)
    first = page.locator(".sentence-arcs").first
    first.scroll_into_view_if_needed()
    labels = first.locator("svg.above text")
    expect(labels).not_to_have_count(0)
    arcs, said = first.locator("svg.above .arc").count(), first.get_by_role("img")
    assert labels.count() == arcs
    assert (said.get_attribute("aria-label") or "").count(" → ") == (
        arcs + first.locator("svg.below .arc").count()
    )
    tops = first.locator("svg.above").evaluate(
        "svg => [...svg.querySelectorAll('.arc')].map((arc) => arc.getBBox()).every("
        "(box) => box.y > 0 && box.x > 0 && box.x + box.width < svg.clientWidth)"
    )
    assert tops and page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_text("With the gold tree").click()
    expect(labels).to_have_count(0)
    wait_idle(page)
    expect(first.locator("svg.above .arc")).not_to_have_count(0)
    assert "gold=1" not in page.url
    with page.context.expect_page() as tab:
        page.get_by_role("link", name="Open in Explore").first.click()
    assert "layer=1&head=0" in tab.value.url
    tab.value.close()


def test_the_contents_stay_in_view_and_lead_to_a_section_by_key(open_page, wait_idle):
    phone = {"viewport": {"width": 390, "height": 844}, "reduced_motion": "reduce"}
    page = opened(open_page, wait_idle, "/corpus?layer=1&head=2", **phone)
    before = page.url
    bar = page.get_by_role("navigation", name="Sections of this page")
    link = bar.get_by_role("link", name="Search")
    link.focus()
    link.press("Enter")
    expect(link).to_have_attribute("aria-current", "location")
    heading = page.get_by_role("heading", name="Search")
    expect(heading).to_be_focused()
    places = [one.bounding_box() for one in (bar, link, heading)]
    row, shown, below = (box for box in places if box is not None)
    assert row["y"] + row["height"] <= below["y"] < 844 / 3
    assert shown["x"] >= 0 and shown["x"] + shown["width"] <= 390
    assert page.url == before
    page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
    expect(bar.get_by_role("link", name="Best heads")).to_have_attribute("aria-current", "location")


def test_nothing_for_axe_to_find_in_light_and_in_dark(open_page, wait_idle):
    link = "/corpus?from_upos=VERB&any_head=1&kind=relation&gold=1"
    page = opened(open_page, wait_idle, link, color_scheme="light")
    nothing_in_light_and_dark(page, wait_idle)
