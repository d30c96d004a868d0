"""Input of the Explore page, typed or put into its address, in a real Chromium."""

import re
from itertools import cycle, islice
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from mha_viz.ui.state.views import SHOWS
from tests.browser.workbench_page import grid, name_of, type_text

TEXT = "The old dog slept while the young cat watched the birds."


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/?sort=bogus", "There is no metric"),
        ("/?only=bogus", "There is no kind of head"),
        ("/?layer=99&head=2", "There is no L99 H2"),
        ("/?model=../../etc/passwd", "is not valid"),
        ("/?model=nobody/nothing", "not on this machine"),
        ("/?mass=nan&scale=rainbow", "is not valid"),
    ],
)
def test_a_bad_link_says_so_and_shows_something(open_page, path, message):
    page = open_page(path)
    expect(page.get_by_text(message).first).to_be_visible()
    expect(grid(page)).to_be_visible()


@pytest.mark.parametrize("path", ["/explore?layer=2&head=3", "/explore/?layer=2&head=3"])
def test_the_first_page_is_found_by_its_name(open_page, path):
    page = open_page(path)
    expect(name_of(page)).to_have_text("L2 H3")
    assert urlsplit(page.url).path == "/" and page.locator("[role=dialog]").count() == 0


ODD_TEXTS = {
    "one": "x",
    "emoji": "👩‍👩‍👧‍👦 👍🏽 🇩🇪",
    "arabic": "مرحبا بالعالم",
    "hebrew": "שלום עולם",
    "control": "a\u202eb\u0000c\u0007",
    "html": "<script>window.hacked = 1</script></div><img src=x onerror='window.hacked=1'>",
    "markdown": "**bold** `code` $x^2$ :material/home: [a](http://b)",
    "long": "the " * 100_000,
}


def odd_text_is_text(page, wait_idle, pictures):
    """Type each odd text, and look at these pictures of it; the last one stays for the next."""
    for name, text in ODD_TEXTS.items():
        type_text(page, text)
        wait_idle(page)
        expect(grid(page)).to_be_visible()
        for picture in pictures(name):
            page.get_by_role("radio", name=picture).click()
            wait_idle(page)
            assert page.locator("[data-testid=stAlertContentError]").count() == 0, name
            expect(page.locator(".workbench .message").first).to_be_hidden()
        assert page.evaluate("window.hacked") is None, name
        cut = page.get_by_text(re.compile("was cut to 128 tokens"))
        expect(cut).to_have_count(1 if name == "long" else 0)


@pytest.mark.journey
def test_odd_text_is_text(open_page, wait_idle):
    """Markup in all pictures, each other text in two of them."""
    every = cycle(reversed(SHOWS.values()))
    odd_text_is_text(
        open_page(), wait_idle, lambda name: islice(every, len(SHOWS) if name == "html" else 1)
    )


def test_odd_text_is_text_in_every_picture(open_page, wait_idle):
    odd_text_is_text(open_page(), wait_idle, lambda name: reversed(SHOWS.values()))


@pytest.mark.parametrize("text", ["", "   "])
def test_no_text_asks_for_one(open_page, wait_idle, text):
    page = open_page()
    type_text(page, text)
    wait_idle(page)
    expect(page.get_by_text("Type a sentence above")).to_be_visible()


@pytest.mark.journey
def test_an_unknown_model_is_refused_and_the_text_stays(open_page, wait_idle):
    page = open_page(f"/?text={TEXT}")
    for name, message in (("/etc", "config.json"), ("nobody/nothing", "could not be fetched")):
        page.get_by_label("Model", exact=True).click()
        page.get_by_role("option", name="Another model").click()
        box = page.get_by_label("Folder or Hub id")
        box.fill(name)
        box.press("Enter")
        wait_idle(page)
        expect(page.get_by_text(message).first).to_be_visible()
        expect(page.get_by_label("Sentence", exact=True)).to_have_value(TEXT)
