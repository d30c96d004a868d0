"""The Compare page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

import mha_viz as mv
from mha_viz.web.theme import format_number
from tests.browser.compare_page import LINK, TEXT, click_cell, heading, query
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage

OTHER = "The old cat slept while a dog watched."
HEADS = f"/?text={TEXT}&layer=1&head=2"
COUNT = "addEventListener('click', (event) => event.isTrusted && (window.clicks += 1), true)"


def count_clicks(page: Page) -> None:
    """Count a person's clicks from now on; the page stays one document from page to page."""
    page.evaluate(f"() => {{ window.clicks = 0; {COUNT}; }}")


def clicks(page: Page) -> int:
    return int(page.evaluate("window.clicks"))


def names(page: Page) -> list[str]:
    """The names of the heads on the board, once it is drawn."""
    page.locator(".board[data-painted] .panel").first.wait_for()
    return page.locator(".board .panel .name").all_text_contents()


def to_board(page: Page) -> None:
    """Click the button beside the head's name on Heads."""
    with next_run(page):
        page.get_by_role("button", name="+ Compare").click()
    names(page)


@pytest.mark.journey
def test_a_board_grows_by_a_sentence_a_head_and_a_model_and_is_edited(open_page: OpenPage) -> None:
    page = open_page(HEADS)
    count_clicks(page)
    to_board(page)
    page.get_by_label("+ Sentence", exact=True).click()
    with next_run(page):
        page.keyboard.type(OTHER)
        page.keyboard.press("Enter")
    assert names(page) == ["A L1 H2", "B L1 H2"] and clicks(page) == 2
    sources = page.locator(".board .source")
    expect(sources.nth(1)).to_contain_text(OTHER)
    expect(page.locator(".verdict")).to_contain_text("A L1 H2 and B L1 H2 differ")
    for menu, option, model in (
        ("+ Head", "L0 H4", "tiny-bert"),
        ("+ Model", re.compile("tiny-gpt2"), "tiny-gpt2"),
    ):
        page.get_by_label(menu, exact=True).click()
        with next_run(page):
            page.get_by_role("option", name=option).click()
        expect(sources.last).to_contain_text(model)
    assert names(page) == ["A L1 H2", "B L1 H2", "C L0 H4", "D L1 H2"] and clicks(page) == 6
    sizes = page.locator(".board canvas.cells").evaluate_all("all => all.map((c) => c.width)")
    assert len(set(sizes)) == 1
    point_at_a_weight(page)
    edit(page)


def point_at_a_weight(page: Page) -> None:
    """Read one weight of the first panel, and the same cell's of the others."""
    page.locator(".board canvas.over").first.focus()
    page.keyboard.press("ArrowDown")  # from the first cell
    weight = float(mv.load("tiny-bert").trace(TEXT).head(1, 2)[1, 0])
    read = page.locator(".board .weight").first
    expect(read).to_contain_text("The → [CLS]: ")
    assert float(read.inner_text().split("≈")[1]) == pytest.approx(weight, abs=0.02)
    page.keyboard.press("Enter")  # kept, also without the focus
    page.locator(".board .button.left").first.focus()
    expect(read).to_contain_text("The → [CLS]: ")
    expect(page.locator(".board .weight").nth(1)).to_contain_text("The → [CLS]: ")


def edit(page: Page) -> None:
    """Move, remove and note panels, and come back to the board from a head of it."""
    with next_run(page):
        page.get_by_role("button", name="Move left: C L0 H4").click()
    assert names(page) == ["A L1 H2", "B L0 H4", "C L1 H2", "D L1 H2"]
    with next_run(page):
        page.get_by_role("button", name="Remove: A L1 H2").click()
    assert names(page) == ["A L0 H4", "B L1 H2", "C L1 H2"]
    note = page.get_by_label("Note on A L0 H4")
    note.fill("looks back")
    with next_run(page):
        note.press("Enter")
    with next_run(page):
        page.get_by_role("button", name="Open in Heads: A L0 H4").click()
    expect(page.locator(".head-view h2.name")).to_have_text("L0 H4")
    expect(page.get_by_role("button", name="Board (3)")).to_be_visible()
    page.go_back()
    wait_ready(page)
    expect(page.get_by_label("Note on A L0 H4")).to_have_value("looks back")


@pytest.mark.journey
def test_a_pair_of_the_matrix_opens_on_the_board_and_sections_by_keyboard(open_page) -> None:
    page = open_page(LINK + "twins")
    with next_run(page):
        click_cell(page, 3 * 8 + 1, 8 + 6, rows=32)
    expect(heading(page, "L3 H1 and L1 H6")).to_be_visible()
    expect(page).to_have_url(re.compile("head=1&layer_b=1&head_b=6"))
    with next_run(page):
        page.get_by_role("button", name="Compare on the board").click()
    expect(page.get_by_role("radio", name="Board")).to_be_checked()
    assert names(page) == ["A L3 H1", "B L1 H6"]
    with next_run(page):
        page.get_by_text("In detail", exact=True).click()
    record = mv.load("tiny-bert").trace(TEXT)
    distance = float(mv.head_similarity(record, "hellinger")[25, 14])
    hellinger = page.get_by_test_id("stTable").filter(has_text="Hellinger distance")
    expect(hellinger).to_contain_text(format_number(distance))
    page.get_by_role("radio", name="Board").focus()
    for view in ("Similar heads", "Two models"):
        with next_run(page):
            page.keyboard.press("ArrowRight")
            page.keyboard.press("Enter")
        expect(page.get_by_role("radio", name=view)).to_be_checked()
    assert names(page)[0] == "A L3 H1" and len(names(page)) == 2
    expect(page.locator(".board .source").nth(1)).to_contain_text("tiny-gpt2")


def test_the_former_metrics_across_layers_open_on_heads(open_page) -> None:
    page = open_page(LINK + "layers&metric=distance")
    expect(page.locator(".head-view h2.name")).to_have_text("L0 H0")
    assert query(page)["tiles"] == "distance" and "/compare" not in page.url
