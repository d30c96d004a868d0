"""A text while a model writes it, in the real app: step, play and pause, branch, the address."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.compare_page import query
from tests.browser.ready import wait_ready


@pytest.mark.journey
def test_a_continued_text_is_written_played_and_branched(open_page) -> None:
    page = open_page(
        "/?model=tiny-gpt2&text=Once+upon+a+time&written=3", reduced_motion="no-preference"
    )
    pieces = page.locator(".written-text .piece:not(.coming)")
    expect(pieces).to_have_count(3)
    page.get_by_role("button", name="Step", exact=True).click()
    expect(pieces).to_have_count(4)
    expect(page).to_have_url(re.compile("written=4"))
    play = page.locator(".written-text .player .press")
    play.click()
    expect(pieces.nth(5)).to_be_visible()
    play.click()
    expect(page).not_to_have_url(re.compile("written=4"))  # it waits until playing has stopped
    wait_ready(page)
    assert query(page)["written"] == str(pieces.count())
    first, second = (pieces.nth(at).inner_text() for at in (0, 1))
    pieces.nth(1).click()
    other = page.locator(".written-text .other").first
    chosen = other.locator(".token").inner_text()
    other.click()
    expect(page.locator(".written-text .piece.branched .token")).to_have_text(chosen)
    expect(pieces).to_have_count(2)
    assert pieces.nth(0).inner_text() == first and pieces.nth(1).inner_text() != second
    page.get_by_role("button", name="Back", exact=True).click()
    expect(pieces).to_have_count(1)
    page.get_by_role("button", name="Use as the sentence").click()
    sentence = page.get_by_label("Sentence", exact=True)
    expect(sentence).to_have_value(re.compile("^Once upon a time."))
    expect(pieces).to_have_count(0)
