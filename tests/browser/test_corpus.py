"""The Corpus page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage
from tests.browser.test_accessibility import AXE, faults


def open_study(open_page: OpenPage, link: str = "/corpus", **options: object) -> Page:
    """Open the page and wait for its study, which the first visitor of a server has made."""
    page = open_page(link, **options)
    expect(page.get_by_role("heading", name="Search")).to_be_visible()
    wait_ready(page)
    return page


@pytest.mark.journey
def test_corpus_from_the_menu_to_an_example_in_explore(open_page: OpenPage) -> None:
    page = open_page("/?layer=1&head=2")
    with next_run(page):
        page.get_by_role("link", name="Corpus", exact=True).click()
    expect(page.get_by_role("heading", name="Search")).to_be_visible()
    wait_ready(page)
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


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_corpus_has_no_fault_for_axe(open_page: OpenPage, scheme: str) -> None:
    link = "/corpus?from_upos=VERB&any_head=1&kind=relation&gold=1"
    page = open_study(open_page, link, color_scheme=scheme)
    page.evaluate(AXE)
    assert not (violations := faults(page)), "\n".join(violations)
