"""The first minute of Explore: what a tile is, the tour, and what heads do, in words."""

import re

import pytest
from playwright.sync_api import Page, expect

import mha_viz as mv
from mha_viz.ui.state.views import DEFAULT
from mha_viz.web.payload import encode
from tests.browser.compare_page import query
from tests.browser.workbench_page import click_head, menu_of, name_of, type_text

TYPED = "The old dog saw the young dog, and the young dog saw the old cat."
PERSON = "Object.defineProperty(navigator, 'webdriver', { get: () => false })"


def tour(page: Page):
    return page.get_by_role("dialog", name="Tour")


@pytest.fixture
def visitor(open_page):
    """`visitor(**context)`: a person's browser at the app's first page, where it never was before.

    Contexts of a time zone of its own, which no other test has: the script stays with the tab.
    """

    def open_as_person(**context) -> Page:
        page = open_page("/?text=One.", timezone_id="Pacific/Kiritimati", **context)
        page.evaluate("localStorage.clear()")
        page.add_init_script(PERSON)
        page.goto("/")
        return page

    return open_as_person


@pytest.mark.journey
def test_the_tour_of_a_new_visitor_does_on_the_page_what_it_tells(visitor, wait_idle):
    page = visitor()
    expect(tour(page)).to_contain_text("1 of 5")
    expect(page.get_by_label("Sentence", exact=True)).to_have_value(TYPED)
    wait_idle(page)
    next_ = page.get_by_role("button", name="Next", exact=True)
    expect(next_).to_be_focused()
    page.keyboard.press("Enter")
    report = mv.head_report(record := mv.load("tiny-bert").trace(TYPED), mv.load("tiny-bert"))
    first = report[report.labels.str.contains("Previous token")].iloc[0]
    layer, head = int(first.layer), int(first["head"])
    name = f"L{layer} H{head}"
    expect(tour(page)).to_contain_text(f"{name} is chosen now. Its label is “Previous token”.")
    expect(name_of(page)).to_have_text(name)
    page.keyboard.press("Enter")
    expect(tour(page)).to_contain_text("3 of 5")
    page.keyboard.press("Enter")
    expect(tour(page)).to_contain_text("4 of 5")
    place = int(record.pattern[layer, head, 1:].argmax()) + len(record.tokens)
    looks, looked = divmod(place, len(record.tokens))
    words = [record.tokens[at].text for at in (looks, looked)]
    expect(tour(page)).to_contain_text(f"“{words[0]}” looks at “{words[1]}”")
    expect(page.locator(".head-view .word.looks")).to_have_text(words[0])
    page.get_by_role("button", name="Back").click()
    expect(tour(page)).to_contain_text("3 of 5")
    next_.click()
    next_.click()
    page.get_by_role("button", name=f"Switch {name} off").click()
    expect(page).to_have_url(re.compile(rf"/intervene\?.*off={layer}\.{head}"))
    expect(tour(page)).to_have_count(0)
    page.goto("/")
    wait_idle(page)
    expect(page.locator(".head-grid .badge").first).to_be_visible()  # when it would begin
    expect(tour(page)).to_have_count(0)


def test_the_tour_is_skipped_by_escape_and_keeps_a_text_of_ones_own(open_page, wait_idle):
    page = open_page("/?text=One little cat slept.&model=tiny-bert")
    expect(page.locator(".head-grid .badge").first).to_be_visible()
    expect(tour(page)).to_have_count(0)  # an address that says what to show begins none
    before = page.url
    start = page.get_by_role("button", name="Tour")
    start.click()
    expect(tour(page)).to_be_visible()
    expect(page.get_by_label("Sentence", exact=True)).to_have_value("One little cat slept.")
    page.keyboard.press("Escape")
    expect(tour(page)).to_have_count(0)
    expect(start).to_be_focused()
    wait_idle(page)
    assert page.url == before


def test_how_to_read_is_told_of_the_chosen_head_with_its_strongest_cell(open_page):
    page = open_page(f"/?text={TYPED}&layer=0&head=7")
    expect(
        page.get_by_text(re.compile("a row is the token that looks.*darker means more"))
    ).to_be_visible()
    page.get_by_role("button", name="How to read").focus()
    record = mv.load("tiny-bert").trace(TYPED)
    strongest = int(encode(record.pattern[0, 7].numpy()).argmax())  # the first of equal codes
    looks, looked = divmod(strongest, len(record.tokens))
    words = [record.tokens[at].text for at in (looks, looked)]
    expect(page.get_by_role("tooltip")).to_contain_text(
        f"This is L0 H7. The marked row is “{words[0]}”, which looks; "
        f"the marked column is “{words[1]}”"
    )
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_have_count(0)


def test_labels_are_counted_below_the_grid_and_choose_their_heads(open_page):
    page = open_page(f"/?text={TYPED}&model=tiny-bert")
    labels = mv.head_report(mv.load("tiny-bert").trace(TYPED), mv.load("tiny-bert")).labels
    n = int(labels.str.contains("Previous token").sum())
    summary = page.get_by_role("group", name="Heads by label")
    button = summary.get_by_role("button", name=f"Previous token{n}")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(menu_of(page, "Show")).to_have_value("previous_token")
    expect(page.locator(".head-grid .caption")).to_have_count(n)
    button.click()
    expect(menu_of(page, "Show")).to_have_value("")


def test_the_chosen_head_stays_where_it_is_when_a_text_is_typed(open_page, wait_idle):
    page = open_page()
    opened = name_of(page).inner_text()
    for text in ("The rain fell on the roof.", DEFAULT.text, "She had not seen him before."):
        type_text(page, text)
        expect(page.get_by_label("Sentence", exact=True)).to_have_value(text)
        wait_idle(page)
        expect(name_of(page)).to_have_text(opened)
    click_head(page, 3, 5)
    type_text(page, "And then it rained again.")
    wait_idle(page)
    expect(name_of(page)).to_have_text("L3 H5")
    assert query(page)["head"] == "5"
