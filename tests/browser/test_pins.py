"""Heads that are pinned in Explore are on the board of Compare, in their order, after a reload."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.idle import run_asked_for
from tests.browser.tabs import OpenPage

TEXTS = ("The old dog slept.", "Two cats watched the birds.")


def press(page: Page, name: str, number: int = 0) -> None:
    with run_asked_for(page):
        page.get_by_role("button", name=name, exact=True).nth(number).click()


def cards(page: Page) -> list[str]:
    found = page.locator("[data-testid=stHeading] h2")
    return [text for text in found.all_inner_texts() if text.startswith("L")]


def test_pins_are_reordered_and_there_after_a_reload(
    open_page: OpenPage, wait_idle: Callable[[Page], None]
) -> None:
    page = open_page(f"/?text={TEXTS[0]}&layer=1&head=2")
    press(page, "Pin this head")
    wait_idle(page)
    sentence = page.get_by_label("Sentence", exact=True)
    sentence.fill(TEXTS[1])
    with run_asked_for(page):
        sentence.press("Enter")
    wait_idle(page)
    press(page, "Pin this head")
    wait_idle(page)
    page.get_by_role("button", name="Pins (2)").click()
    expect(page.get_by_role("radio", name="Pins (2)")).to_be_checked()
    wait_idle(page)
    assert cards(page) == ["L1 H2", "L1 H2"]
    note = page.get_by_label("Note on L1 H2").first
    note.fill("about the dog")
    with run_asked_for(page):
        note.press("Enter")
    wait_idle(page)
    press(page, "Move right")
    wait_idle(page)

    def is_ordered() -> None:
        notes = page.get_by_label("Note on L1 H2")
        expect(notes.nth(0)).to_have_value("")
        expect(notes.nth(1)).to_have_value("about the dog")
        said = [page.locator("[data-testid=stCaptionContainer]", has_text=text) for text in TEXTS]
        boxes = [one.first.bounding_box() for one in said]
        assert boxes[0] and boxes[1] and boxes[0]["x"] > boxes[1]["x"]

    is_ordered()
    address = page.url
    assert "section=pins" in address and "pins=" in address
    page.reload()
    wait_idle(page)
    is_ordered()
    assert page.url == address
    press(page, "Remove")
    wait_idle(page)
    expect(page.get_by_role("radio", name="Pins (1)")).to_be_checked()
