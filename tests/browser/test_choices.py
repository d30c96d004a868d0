"""Choices that follow each other: the controls, the picture and the address keep saying the same.

In a real Chromium, because each of them holds a state of its own.
"""

from playwright.sync_api import Page, expect

from tests.browser.ready import next_frame, next_run, wait_ready
from tests.browser.workbench_page import menu_of, name_of, type_text

# The browser writes an address only when `writeAddresses` is called: long after the server asked.
LATE_ADDRESS = """() => {
  const push = history.pushState.bind(history), unwritten = [];
  history.pushState = (...entry) => unwritten.push(entry);
  window.writeAddresses = () => unwritten.splice(0).map((entry) => push(...entry)).length;
}"""


def menu(page: Page, label: str):
    return page.get_by_test_id("stSelectbox").filter(has=page.get_by_text(label, exact=True))


def choose(page: Page, label: str, option: str) -> None:
    box = menu(page, label).locator("input")
    box.scroll_into_view_if_needed()
    next_frame(page)  # an open menu closes when its page is scrolled
    box.click()
    page.get_by_role("option", name=option, exact=True).click()


def says(page: Page, label: str, value: str) -> None:
    expect(menu(page, label).locator("input")).to_have_value(value)


def test_controls_show_what_is_drawn_after_the_sentence_was_emptied(open_page) -> None:
    page = open_page(
        "/?text=Hello+there+friends&layer=2&head=6&scale=log&sort=entropy&least=0.5&words=1"
        "&no_special=1&show=carried"
    )
    for text in ("", "my dog ran away"):
        with next_run(page):
            type_text(page, text)
    expect(name_of(page)).to_have_text("L2 H6")
    expect(menu_of(page, "Sort")).to_have_value("entropy")
    expect(page.get_by_role("spinbutton", name="at least")).to_have_value("0.5")
    for name in ("Log", "Weight × value"):
        expect(page.get_by_role("radio", name=name, exact=True)).to_be_checked()
    for name, on in (
        ("Whole words", True),
        ("Hide special tokens", True),
        ("Hide first token", False),
    ):
        expect(page.get_by_role("checkbox", name=name)).to_be_checked(checked=on)


def test_a_late_address_takes_no_choice_back(open_page) -> None:
    page = open_page("/lab-convolution")
    page.evaluate(LATE_ADDRESS)
    size = page.get_by_role("radio", name="5 × 5", exact=True)
    with next_run(page):
        size.click()
    choices = ("Start from", "Blur"), ("Picture", "Rings")
    for label, option in choices:
        with next_run(page):
            choose(page, label, option)
    assert page.evaluate("writeAddresses()") >= 3
    wait_ready(page)
    expect(size).to_be_checked()
    for label, option in choices:
        says(page, label, option)
