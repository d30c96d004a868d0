"""The same view after a reload, Back and Forward, and in a second tab."""

import pytest
from playwright.sync_api import Page, expect

from mha_viz.ui.state.link_values import reference
from mha_viz.ui.state.links import GONE_MESSAGES
from mha_viz.ui.state.views import DEFAULT
from tests.browser.compare_page import query
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage
from tests.browser.workbench_page import TEXT, click_head, name_of, type_text, word

ADDRESS = "/?model=tiny-gpt2&off=0.1,1.2&place=300"


def shows_view(page: Page, text: str, head: str, position: int | None) -> None:
    """Expect the text, the head in the grid, above its picture and in it, and the chosen word."""
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(text)
    if position is None:
        expect(page.locator(".head-grid").first).to_have_attribute("data-selected", head)
    else:  # where each head looks from the word stands in place of the grid
        expect(page.locator(".token-rows .row[aria-pressed=true] .name")).to_have_text(head)
    expect(name_of(page)).to_have_text(head)
    expect(page.locator(".heat")).to_have_attribute("data-painted", head)
    pressed = page.locator(".head-view .word[aria-pressed=true]")
    expect(pressed).to_have_count(0 if position is None else 1)
    if position is not None:
        expect(word(page, position)).to_have_attribute("aria-pressed", "true")


@pytest.mark.journey
def test_heads_after_a_reload_back_forward_and_in_a_second_tab_shows_the_same(open_page) -> None:
    page = open_page(f"/?text={TEXT}&layer=1&head=2")
    click_head(page, 3, 3)
    wait_ready(page)
    word(page, 4).click()
    wait_ready(page)
    with next_run(page):
        type_text(page, "my dog ran away")
    views = [
        ("my dog ran away", "L3 H3", None),
        (TEXT, "L3 H3", 4),
        (TEXT, "L3 H3", None),
        (TEXT, "L1 H2", None),
    ]
    shows_view(page, *views[0])
    for view in views[1:]:
        page.go_back()
        shows_view(page, *view)
        wait_ready(page)
    for view in (views[2], views[1]):
        page.go_forward()
        shows_view(page, *view)
        wait_ready(page)
    page.reload()
    shows_view(page, *views[1])
    second = page.context.new_page()
    second.goto(page.url)
    shows_view(second, *views[1])


def shows_switches(page: Page, text: str) -> None:
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(text)
    expect(page.locator(".prediction-view .words")).to_contain_text("Without L0 H1, L1 H2. Next")


def test_an_address_of_a_text_that_is_not_kept_says_so_and_is_no_end_of_the_way_back(
    open_page: OpenPage,
) -> None:
    page = open_page("/?text=one")
    page.goto(f"{ADDRESS}&text={reference('never typed')}")
    expect(page.get_by_text(GONE_MESSAGES[0])).to_be_visible()
    shows_switches(page, DEFAULT.text)
    wait_ready(page)
    assert query(page)["text"] == DEFAULT.text
    page.go_back()
    shows_switches(page, DEFAULT.text)
    wait_ready(page)
    page.go_back()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("one")


def test_a_link_and_a_page_of_the_menu_are_one_step_of_the_history_each(open_page) -> None:
    page = open_page("/")
    assert query(page) == {}  # nothing was chosen yet
    page.goto("/?text=one&layer=2")
    expect(name_of(page)).to_have_text("L2 H0")
    wait_ready(page)
    text = "word " * 400  # for no address
    with next_run(page):
        type_text(page, text)
    heads, steps = page.url, page.evaluate("history.length")
    with next_run(page):
        page.get_by_role("link", name="Compare").click()
    compare = page.url
    assert "/compare?" in compare and page.evaluate("history.length") == steps + 1
    for step, address, head in ((page.go_back, heads, 1), (page.go_forward, compare, 0)):
        step()
        expect(page).to_have_url(address)
        expect(name_of(page)).to_have_count(head)
        expect(page.get_by_label("Sentence", exact=True)).to_have_value(text)
        wait_ready(page)
    page.go_back()
    wait_ready(page)
    page.go_back()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("one")
    wait_ready(page)
    page.go_back()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(DEFAULT.text)
    assert query(page) == {}
