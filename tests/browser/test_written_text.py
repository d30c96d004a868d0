"""A text while a model writes it, in the real app: step, play and pause, branch, the address."""

import re
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

LINK = "/?model=tiny-gpt2&text=Once+upon+a+time&written=3"


def address(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


@pytest.mark.extended
@pytest.mark.journey
def test_a_text_is_written_played_and_branched(
    open_page: Callable[..., Page], wait_idle: Callable[[Page], None]
) -> None:
    page = open_page(LINK, reduced_motion="no-preference")
    pieces = page.locator(".written-text .piece:not(.coming)")
    expect(pieces).to_have_count(3)
    page.get_by_role("button", name="Step", exact=True).click()
    expect(pieces).to_have_count(4)
    expect(page).to_have_url(re.compile("written=4"))
    play = page.locator(".written-text .player .press")
    play.click()
    expect(play).to_have_text("Pause")
    expect(pieces.nth(5)).to_be_visible()
    assert address(page)["written"] == "4"  # the address waits until it rests
    play.click()
    expect(play).to_have_text("Play")
    wait_idle(page)
    n = pieces.count()
    expect(page).to_have_url(re.compile(f"written={n}"))
    first, second = (pieces.nth(i).inner_text() for i in (0, 1))
    pieces.nth(1).click()
    other = page.locator(".written-text .other").first
    chosen = other.locator(".token").inner_text()
    other.click()
    expect(pieces).to_have_count(2)
    assert pieces.nth(0).inner_text() == first and pieces.nth(1).inner_text() != second
    expect(page.locator(".written-text .piece.branched .token")).to_have_text(chosen)
    page.get_by_role("button", name="Back", exact=True).click()
    expect(pieces).to_have_count(1)
    page.get_by_role("button", name="Use as the sentence").click()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(
        re.compile("^Once upon a time.")
    )
    expect(page.locator(".written-text .piece")).to_have_count(1)  # what would come next
