"""The Compare page as a person uses it, in a real Chromium."""

import re

import pytest
from playwright.sync_api import Page, expect

import mha_viz as mv
from mha_viz.ui.state.link_values import Pin, written
from mha_viz.web.theme import format_number
from tests.browser.compare_page import LINK, TEXT, click_cell, fits, heading, query
from tests.browser.ready import next_run, wait_ready
from tests.browser.tabs import OpenPage

OTHER = "The old cat slept while a dog watched."
HEADS = f"/?text={TEXT}&layer=1&head=2"
PINS = (
    Pin("tiny-bert", TEXT, "", "self", 1, 2),
    Pin("tiny-gpt2", TEXT, "", "self", 0, 3),
    Pin("tiny-bert", OTHER, "", "self", 3, 5),
)
COUNT = "addEventListener('click', (event) => event.isTrusted && (window.clicks += 1), true)"
MOST_LETTERS = 120  # of a sentence that is not folded
# What is cut off of the words of controls, tabs and panels; of a sentence on a panel "…" is meant.
CUT = """() => [...document.querySelectorAll(
  "[data-testid=stMain] :is(button, label, [data-testid=stSelectbox] div, [role=tab], h2, h3)")]
  .filter((part) => part.offsetParent && part.scrollWidth > part.clientWidth + 1
    && getComputedStyle(part).overflowX !== "visible").map((part) => part.textContent)"""
# Every paragraph and caption that nobody has to open, beside names of tokens.
PROSE = """() => [...document.querySelectorAll("[data-testid=stMain] [data-testid=stMarkdown] p")]
  .filter((part) => part.checkVisibility()).map((part) => part.innerText)"""


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
def test_one_head_on_two_sentences_takes_two_clicks_and_typing(open_page: OpenPage) -> None:
    page = open_page(HEADS)
    count_clicks(page)
    to_board(page)
    box = page.get_by_label("+ Sentence", exact=True)
    box.click()
    with next_run(page):
        page.keyboard.type(OTHER)
        page.keyboard.press("Enter")
    expect(page.locator(".board .source").nth(1)).to_contain_text(OTHER)
    assert names(page) == ["A L1 H2", "B L1 H2"] and clicks(page) == 2
    expect(page.locator(".verdict")).to_contain_text("A L1 H2 and B L1 H2 differ")


@pytest.mark.journey
@pytest.mark.parametrize(
    ("menu", "option", "panel"),
    [("+ Head", "L0 H4", "B L0 H4"), ("+ Model", re.compile("tiny-gpt2"), "B L1 H2")],
)
def test_two_heads_or_models_take_three_clicks(open_page, menu, option, panel) -> None:
    page = open_page(HEADS)
    count_clicks(page)
    to_board(page)
    page.get_by_label(menu, exact=True).click()
    with next_run(page):
        page.get_by_role("option", name=option).click()
    expect(page.locator(".board .name").nth(1)).to_have_text(panel)
    assert names(page) == ["A L1 H2", panel] and clicks(page) == 3
    source = page.locator(".board .source").nth(1)
    expect(source).to_contain_text("tiny-gpt2" if menu == "+ Model" else "tiny-bert")


@pytest.mark.journey
def test_what_is_pointed_at_on_one_panel_is_read_on_all_and_panels_are_edited(open_page) -> None:
    page = open_page(f"/compare?text={TEXT}&section=pins&pins={written(PINS)}")
    assert names(page) == ["A L1 H2", "B L0 H3", "C L3 H5"]
    sizes = page.locator(".board canvas.cells").evaluate_all("all => all.map((c) => c.width)")
    assert len(set(sizes)) == 1
    canvas = page.locator(".board canvas.over").first
    canvas.focus()
    page.keyboard.press("ArrowDown")  # from the first cell
    record = mv.load("tiny-bert").trace(TEXT)
    weight = float(record.head(1, 2)[1, 0])
    read = page.locator(".board .weight").first
    expect(read).to_contain_text("The → [CLS]: ")
    shown = float(read.inner_text().split("≈")[1])
    assert shown == pytest.approx(weight, abs=0.02)
    page.keyboard.press("Enter")  # kept, also without the focus
    page.locator(".board .button.left").first.focus()
    expect(read).to_contain_text("The → [CLS]: ")
    expect(page.locator(".board .weight").nth(2)).to_contain_text("The → [CLS]: ")
    with next_run(page):
        page.get_by_role("button", name="Move left: B L0 H3").click()
    assert names(page) == ["A L0 H3", "B L1 H2", "C L3 H5"]
    with next_run(page):
        page.get_by_role("button", name="Remove: B L1 H2").click()
    assert names(page) == ["A L0 H3", "B L3 H5"]
    note = page.get_by_label("Note on B L3 H5")
    note.fill("looks back")
    with next_run(page):
        note.press("Enter")
    with next_run(page):
        page.get_by_role("button", name="Open in Heads: B L3 H5").click()
    expect(page.locator(".head-view h2.name")).to_have_text("L3 H5")
    expect(page.get_by_role("button", name="Board (2)")).to_be_visible()
    page.go_back()
    wait_ready(page)
    expect(page.get_by_label("Note on B L3 H5")).to_have_value("looks back")


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
    with next_run(page):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
    expect(page.get_by_role("radio", name="Similar heads")).to_be_checked()


OLD = {
    "twins": "Similar heads",
    "alike": "Similar heads",
    "sides": "Board",
    "models": "Two models",
    "diversity": "Diversity",
    "flow": "Attention rollout",
    "pins": "Board",
}


@pytest.mark.parametrize("section", OLD)
def test_an_older_address_opens_the_same_in_its_new_place(open_page, section) -> None:
    page = open_page(LINK + section)
    expect(page.get_by_role("radio", name=OLD[section], exact=True)).to_be_checked()
    assert query(page)["section"] == section  # it stays as it was written


def test_the_former_metrics_across_layers_open_on_heads(open_page) -> None:
    page = open_page(LINK + "layers&metric=distance")
    expect(page.locator(".head-view h2.name")).to_have_text("L0 H0")
    assert query(page)["tiles"] == "distance" and "/compare" not in page.url


@pytest.mark.parametrize("section", ["", "similar", "models", "diversity", "flow"])
def test_a_view_has_whole_labels_short_sentences_and_no_more_width(open_page, section) -> None:
    page = open_page(LINK + section if section else f"/compare?text={TEXT}")
    assert page.evaluate(CUT) == []
    prose = " ".join(page.evaluate(PROSE) + page.locator(".verdict").all_inner_texts())
    long = [one for one in re.split(r"(?<=[.!?])\s+", prose) if len(one) > MOST_LETTERS]
    assert not long, long
    assert fits(page)
