"""Input of the Heads page, typed or put into its address, in a real Chromium."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from mha_viz.ui.state.views import SHOWS
from tests.browser.ready import next_run, wait_ready
from tests.browser.workbench_page import TEXT, choose_folder, grid, name_of, type_text

PERSON = "Object.defineProperty(navigator, 'webdriver', { get: () => false })"
ODD_TEXTS = {
    "emoji": "👩‍👩‍👧‍👦 👍🏽 🇩🇪 مرحبا שלום a\u202eb\u0000c\u0007",
    "markup": "<script>window.hacked = 1</script></div><img src=x onerror='window.hacked=1'> "
    "**bold** `code` $x^2$ :material/home: [a](http://b)",
    "long": "the " * 100_000,
}


@pytest.mark.journey
def test_heads_of_odd_texts_and_unknown_models_goes_on_with_the_text(open_page) -> None:
    page = open_page()
    for name, text in ODD_TEXTS.items():
        with next_run(page):
            type_text(page, text)
        expect(grid(page)).to_be_visible()
        cut = page.get_by_text(re.compile("cut to 128 tokens"))
        expect(cut).to_have_count(1 if name == "long" else 0)
    box = page.get_by_label("Sentence", exact=True)
    box.fill("Two")
    box.press("Shift+Enter")
    box.press_sequentially("lines")
    expect(box).to_have_value("Two\nlines")
    with next_run(page):
        box.press("Enter")
    expect(page.locator(".head-view .word")).to_have_text(["[CLS]", "Two", "lines", "[SEP]"])
    with next_run(page):
        box.fill(TEXT)
        page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".head-view .word").nth(1)).to_have_text("The")
    choose_folder(page, "/etc")
    expect(page.get_by_test_id("stAlertContentError").filter(has_text="etc")).to_be_visible()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TEXT)


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_are_text_in_every_picture(open_page, text) -> None:
    page = open_page(f"/?show={list(SHOWS)[-1]}")
    with next_run(page):
        type_text(page, ODD_TEXTS[text])
    for name in SHOWS.values():
        page.get_by_role("radio", name=name, exact=True).click()
        expect(page.locator("html")).not_to_have_attribute("data-ready", "working")
        expect(page.get_by_test_id("stAlertContentError")).to_have_count(0)
        expect(page.locator(".workbench .message").first).to_be_hidden()
    assert page.evaluate("window.hacked") is None


def test_the_first_page_opens_by_its_name(open_page) -> None:
    page = open_page("/explore?layer=2&head=3")
    expect(name_of(page)).to_have_text("L2 H3")
    assert urlsplit(page.url).path == "/"
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_first_visit_alone_begins_with_the_way_to_the_first_lesson(open_page) -> None:
    # A context of a time zone that no other test has: the script stays with the tab.
    page = open_page("/glossary", timezone_id="Pacific/Kiritimati")
    page.evaluate("localStorage.clear()")
    page.add_init_script(PERSON)
    welcome = page.locator(".st-key-welcome")
    for path in (f"/?text={TEXT}", "/"):  # somebody's link shows what it names
        page.goto(path)
        expect(grid(page)).to_be_visible()
        expect(welcome).to_be_visible(visible=path == "/")
    welcome.get_by_role("link", name="Start here").click()
    expect(page).to_have_url(re.compile("/start$"))
    page.goto("/")
    wait_ready(page)
    expect(welcome).to_be_hidden()
