"""Choices that follow each other: the controls, the picture and the address keep saying the same.

In a real Chromium, because each of them holds a state of its own.
"""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.compare_page import query
from tests.browser.idle import wait_until
from tests.browser.workbench_page import click_head, menu_of, name_of, type_text

# An address that is written long after the server asked for it, as on a slow machine.
LATE_ADDRESS = """() => {
  const push = history.pushState.bind(history);
  window.unwritten = 0;
  history.pushState = (...entry) => {
    unwritten += 1;
    setTimeout(() => { push(...entry); unwritten -= 1; }, 2500);
  };
}"""

SCROLLED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def menu(page: Page, label: str):
    return page.get_by_test_id("stSelectbox").filter(has=page.get_by_text(label, exact=True))


def choose(page: Page, label: str, option: str) -> None:
    box = menu(page, label).locator("input")
    box.scroll_into_view_if_needed()
    page.evaluate(SCROLLED)  # scrolling closes a menu
    box.click()
    page.get_by_role("option", name=option, exact=True).click()


def says(page: Page, label: str, value: str) -> None:
    expect(menu(page, label).locator("input")).to_have_value(value)


def segment(page: Page, name: str):
    return page.get_by_role("radio", name=name, exact=True)


def framed(page: Page, name: str) -> None:
    """The head in the grid's frame, above its picture and in it."""
    expect(page.locator(".head-grid").first).to_have_attribute("data-selected", name)
    expect(name_of(page)).to_have_text(name)
    expect(page.locator(".heat")).to_have_attribute("data-painted", name)


@pytest.mark.extended
@pytest.mark.journey
def test_the_menus_of_tokens_follow_one_text_after_the_other(open_page, wait_idle):
    page = open_page("/?text=a+b&show=pair")
    choose(page, "Looks (query)", "2 · b")
    wait_idle(page)
    for text, labels in (
        ("the cat sat on a mat", ("2 · cat", "3 · sat")),
        ("my dog ran", ("2 · dog", "3 · ran")),
    ):
        type_text(page, text)
        wait_idle(page)
        assert "query" not in query(page)  # another text has other tokens
        shown = menu(page, "Looks (query)").locator("input").input_value()
        label = next(label for label in labels if label != shown)
        choose(page, "Looks (query)", label)
        wait_idle(page)
        says(page, "Looks (query)", label)
        expect(page.get_by_test_id("stAlert")).to_have_count(0)
        assert query(page)["query"] == label[0] and query(page)["text"] == text


def test_the_menu_of_tokens_of_the_flow_is_the_one_of_the_text(open_page, wait_idle):
    page = open_page("/compare?section=flow&query=2&text=one+two+three")
    says(page, "Into which token", "2 · two")
    for text, label in (("the one old two", "5 · [SEP]"), ("my dog ran", "4 · [SEP]")):
        type_text(page, text)
        says(page, "Into which token", label)
        wait_idle(page)
        assert "query" not in query(page)
    choose(page, "Into which token", "1 · my")
    page.wait_for_url(re.compile("query=1"))


def test_controls_show_what_is_drawn_after_the_sentence_was_emptied(open_page, wait_idle):
    page = open_page(
        "/?text=Hello+there+friends&layer=2&head=6&scale=log&sort=entropy&least=0.5&words=1"
        "&no_special=1&show=carried"
    )
    type_text(page, "")
    expect(page.get_by_text("Type a sentence above")).to_be_visible()
    type_text(page, "my dog ran away")
    expect(name_of(page)).to_have_text("L2 H6")
    wait_idle(page)
    expect(menu_of(page, "Sort")).to_have_value("entropy")
    expect(page.get_by_role("spinbutton", name="at least")).to_have_value("0.5")
    for name in ("Log", "Value-weighted"):
        expect(segment(page, name)).to_be_checked()
    for name, on in (("Whole words", True), ("No special", True), ("No first", False)):
        expect(page.get_by_role("checkbox", name=name)).to_be_checked(checked=on)


def test_controls_of_compare_after_the_sentence_was_emptied(open_page, wait_idle):
    page = open_page("/compare?section=twins&order=cluster&clusters=7&text=one+two+three")
    type_text(page, "")
    expect(page.get_by_text("Type a sentence above")).to_be_visible()
    type_text(page, "hello there you")
    expect(segment(page, "Twins")).to_be_checked()
    expect(segment(page, "By likeness")).to_be_checked()
    expect(page.get_by_role("slider", name="Clusters")).to_have_value("7")
    says(page, "Measure", "Hellinger distance")


@pytest.mark.extended
@pytest.mark.journey
def test_back_and_forward_frame_the_head_that_the_address_says(open_page, wait_idle):
    """Right after the clicks, and back to the head that the page opened with."""
    page = open_page("/?text=Hello+there+friends")
    first = name_of(page).inner_text()
    assert first not in ("L0 H3", "L2 H6", "L1 H0")
    for layer, head in ((0, 3), (2, 6), (1, 0)):
        click_head(page, layer, head)
        page.wait_for_url(re.compile(f"layer={layer}.*head={head}"))
        framed(page, f"L{layer} H{head}")
        wait_idle(page)
    for name in ("L2 H6", "L0 H3", first):
        page.go_back()
        framed(page, name)
        wait_idle(page)
    page.go_forward()
    framed(page, "L0 H3")
    wait_idle(page)
    type_text(page, "my dog ran")
    wait_idle(page)
    framed(page, "L0 H3")


def test_a_link_is_one_step_of_the_history(open_page, wait_idle):
    page = open_page("/")
    assert query(page) == {}  # nothing was chosen yet
    first = name_of(page).inner_text()
    page.goto("/?text=Hello+there&layer=1")
    expect(name_of(page)).to_have_text("L1 H0")
    wait_idle(page)
    assert query(page) == {"text": "Hello there", "layer": "1"}
    page.go_back()
    expect(name_of(page)).to_have_text(first)
    assert query(page) == {}


@pytest.mark.parametrize("text", ["Hello there friends", "word " * 400])
def test_a_page_opened_from_the_menu_is_one_step_of_the_history(
    open_page, wait_idle, go_back, text
):
    page = open_page("/?text=one&layer=2")
    type_text(page, text)
    wait_idle(page)
    before, steps = page.url, page.evaluate("history.length")
    page.get_by_role("link", name="Compare").click()
    page.wait_for_url(re.compile("/compare[?].*layer=2"))
    wait_idle(page)
    written = page.url
    assert page.evaluate("history.length") == steps + 1
    page.get_by_text("Twins", exact=True).click()
    page.wait_for_url(re.compile("section=twins"))
    go_back(page)
    expect(page).to_have_url(written)
    expect(segment(page, "Across layers")).to_be_checked()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(text)
    go_back(page)
    expect(page).to_have_url(before)
    expect(page.get_by_role("heading", name="Every attention head")).to_be_visible()
    page.go_forward()
    expect(page).to_have_url(written)
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(text)


def test_back_leads_to_a_text_too_long_for_a_link(open_page, wait_idle):
    page, long = open_page("/?text=one"), "word " * 400
    for text in (long, "two"):
        type_text(page, text)
        wait_idle(page)
    page.go_back()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(long)
    wait_idle(page)
    page.go_back()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("one")


@pytest.mark.parametrize(
    ("path", "first", "second", "third"),
    [
        ("/lab-convolution", "5 × 5", ("Start from", "Blur"), ("Picture", "Rings")),
        ("/lab-value-output?text=one+two", None, ("Head", "H3"), ("Layer", "L2")),
    ],
)
def test_a_late_address_takes_no_choice_back(open_page, wait_idle, path, first, second, third):
    """Choices made while the browser still has the address of some choices ago."""
    page = open_page(path)
    page.evaluate(LATE_ADDRESS)
    expect(menu(page, second[0])).to_be_visible()
    wait_idle(page)
    if first is not None:
        segment(page, first).click()
        wait_idle(page)
    for label, option in (second, third):
        choose(page, label, option)
        wait_idle(page)
    if first is None:  # a run of the whole page, as the lab's own controls are a fragment
        page.get_by_text("Projector", exact=True).click()
        wait_idle(page)
    for label, option in (second, third):
        says(page, label, option)
    if first is not None:
        expect(segment(page, first)).to_be_checked()
    wait_until(page, "() => !unwritten")
    wait_idle(page)
    for label, option in (second, third):
        says(page, label, option)
