"""The page Many texts as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

from mha_viz.ui.state.views import TABS
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage
from tests.browser.test_accessibility import AXE, faults


def open_study(open_page: OpenPage, link: str = "/many_texts", **options: object) -> Page:
    """Open the page and wait for its study, which the first visitor of a server has made."""
    page = open_page(link, **options)
    expect(page.get_by_role("radio", name="Grammar")).to_be_visible()
    wait_ready(page)
    return page


@pytest.mark.journey
def test_many_texts_from_a_lasso_to_a_pair_of_tokens_in_heads(open_page: OpenPage) -> None:
    page = open_page("/?layer=1&head=2")
    with next_run(page):
        page.get_by_role("link", name="Many texts", exact=True).click()
    expect(page.get_by_role("radio", name="Grammar")).to_be_visible()
    wait_ready(page)
    plot = page.locator(".js-plotly-plot .nsewdrag").first
    plot.hover()
    page.locator("[data-attr=dragmode][data-val=lasso]").first.click()
    box = plot.bounding_box()
    assert box is not None
    left, top, right, bottom = (
        *(box["x"] + 1, box["y"] + 1),
        *(box["x"] + box["width"] - 1, box["y"] + box["height"] - 1),
    )
    with next_run(page):  # around all heads
        page.mouse.move(left, top)
        page.mouse.down()
        for x, y in ((right, top), (right, bottom), (left, bottom), (left, top + 2)):
            page.mouse.move(x, y, steps=5)
        page.mouse.up()
    expect(page.get_by_text("32 heads selected:")).to_be_visible()
    with next_run(page):
        page.get_by_role("radio", name="Find").click()
    with next_run(page):
        page.get_by_role("radio", name="Pairs of tokens").click()
    with next_run(page):
        page.get_by_text("All heads", exact=True).click()
    word = page.get_by_label("Token that looks")
    word.fill("because")
    with next_run(page):
        word.press("Enter")
    expect(page.get_by_text("because →").first).to_be_visible()
    expect(page).to_have_url(re.compile("from_word=because"))
    with page.context.expect_page() as tab:
        page.get_by_role("link", name="Open in Heads").last.click()
    heads = tab.value
    expect(heads).to_have_url(re.compile("text=.*query="))
    wait_ready(heads)
    expect(heads.get_by_label("Sentence", exact=True)).to_have_value(re.compile("because"))


@pytest.mark.journey
def test_many_texts_from_the_grammar_of_a_head_to_its_texts_and_random_weights(
    open_page: OpenPage,
) -> None:
    page = open_study(open_page, "/many_texts?layer=0&head=3")
    with next_run(page):
        page.get_by_role("radio", name="Grammar").click()
    expect(page.get_by_role("heading", name="What L0 H3 finds")).to_be_visible()
    with next_run(page):
        page.get_by_role("radio", name="One head").click()
    expect(page.get_by_text(re.compile("^L0 H3 looks at the previous token"))).to_be_visible()
    own = page.get_by_label("Your text")
    own.fill("A cat saw a dog.")
    with next_run(page):
        own.press("Enter")
    with next_run(page):
        page.get_by_role("radio", name="Examples").click()
    expect(page.locator(".decile-texts .typed")).to_be_visible()
    expect(page).to_have_url(re.compile("facet=examples.*typed=A"))
    with next_run(page):
        page.get_by_role("radio", name="Change").click()
    expect(page.get_by_text(re.compile("heads differ by 3 standard errors"))).to_be_visible()
    expect(page.locator(".js-plotly-plot .main-svg").first).to_be_visible()
    expect(page).to_have_url(re.compile("tab=change"))


@pytest.mark.parametrize("tab", TABS)
def test_many_texts_has_no_fault_for_axe(open_page: OpenPage, tab: str) -> None:
    scheme = "dark" if tab in ("grammar", "find") else "light"
    options = {"color_scheme": scheme, "viewport": {"width": 1280, "height": 800}}
    link = f"/many_texts?tab={tab}&from_upos=VERB&any_head=1&kind=relation&gold=1"
    page = open_study(open_page, link, **options)
    page.evaluate(AXE)
    assert not (violations := faults(page)), "\n".join(violations)
