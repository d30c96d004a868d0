"""The Learn section as a whole, in a real Chromium; each lab has a file of its own beside it."""

import itertools
import re
from urllib.parse import urljoin, urlsplit

import pytest
from playwright.sync_api import expect

from mha_viz.learn.frame.contents import LABS
from tests.browser.idle import wait_until


@pytest.mark.journey
def test_the_menu_and_the_list_lead_to_a_lab(open_page, wait_idle):
    page = open_page()
    page.get_by_role("button", name="Learn").click()
    page.get_by_text("All labs", exact=True).click()
    expect(page.get_by_role("heading", name="Learn multi-head attention")).to_be_visible()
    page.get_by_role("link", name="1. Attention as soft lookup").last.click()
    expect(page.get_by_role("heading", name="1. Attention as soft lookup")).to_be_visible()
    wait_idle(page)
    assert page.url.endswith("/lab-soft-lookup")


def test_a_card_shows_its_lab_whole_and_leads_there_wherever_it_is_clicked(open_page, wait_idle):
    page = open_page("/learn")
    picture = page.locator(".st-key-lab-card-own-reflection img")
    expect(picture).to_have_js_property("naturalWidth", 360)
    size = picture.bounding_box()
    assert size["width"] <= 360 and abs(size["width"] / size["height"] - 1.8) < 0.02
    page.mouse.click(size["x"] + size["width"] / 2, size["y"] + size["height"] / 2)
    expect(page.get_by_role("heading", name="2. Without weights")).to_be_visible()
    wait_idle(page)
    assert page.url.endswith("/lab-own-reflection")


def test_cards_stand_three_in_a_row_as_tall_as_each_other_behind_the_first_page(open_page):
    page = open_page("/learn")
    cards = page.locator("[class*=st-key-lab-card-]")
    expect(cards).to_have_count(len(LABS))
    wait_until(page, "() => Array.from(document.images).every(image => image.complete)")
    boxes = [cards.nth(number).bounding_box() for number in range(len(LABS))]
    for first in range(0, len(LABS), 3):  # the last may stand alone
        row = boxes[first : first + 3]
        assert len({(box["y"], box["height"]) for box in row}) == 1
        for left, right in itertools.pairwise(row):
            assert left["x"] + left["width"] < right["x"]
    page.set_viewport_size({"width": 390, "height": 844})
    expect(page.get_by_role("link", name="Start here: follow one sentence")).to_be_in_viewport()
    boxes = [cards.nth(number).bounding_box() for number in range(len(LABS))]
    assert {box["x"] for box in boxes} == {boxes[0]["x"]}
    assert 300 < boxes[0]["width"] < 390


def test_the_map_lights_the_lab_and_leads_on_within_the_session(open_page, wait_idle):
    page = open_page("/lab-soft-lookup")
    lit = page.locator("svg.map a.lit")
    expect(lit).to_have_count(1)
    expect(lit).to_have_attribute("aria-current", "true")
    page.get_by_text("Weight 1 for the key").click()
    wait_idle(page)
    page.locator("svg.map a[data-part=concatenation]").click()
    expect(page.get_by_role("heading", name="4. Step by step")).to_be_visible()
    wait_idle(page)
    expect(page.locator("svg.map a.lit")).to_have_count(5)
    assert urlsplit(page.url).path == "/lab-step-by-step"
    page.go_back()  # the session went on: what was answered is still chosen
    expect(page.get_by_role("radio", name="Weight 1 for the key")).to_be_checked()


def test_the_projector_enlarges_type_and_stays_on(open_page, wait_idle):
    page = open_page("/lab-soft-lookup")
    title = page.get_by_text("How does a token choose").first
    before = title.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
    figure = page.locator(".js-plotly-plot .gtitle").first
    small = figure.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")
    page.get_by_text("Projector").click()
    wait_idle(page)
    assert title.evaluate("e => parseFloat(getComputedStyle(e).fontSize)") > 1.2 * before
    assert figure.evaluate("e => parseFloat(getComputedStyle(e).fontSize)") > 1.2 * small
    page.get_by_role("link", name="All labs").last.click()
    expect(page.get_by_role("heading", name="Learn multi-head attention")).to_be_visible()
    expect(page.get_by_role("switch", name="Projector")).to_be_checked()


def test_the_projector_enlarges_every_page(open_page, wait_idle):
    def size(found) -> float:
        return found.first.evaluate("e => parseFloat(getComputedStyle(e).fontSize)")

    def sizes() -> list[float]:
        wait_idle(page)
        parts = [page.get_by_test_id("stMainBlockContainer").locator("label p")]
        page.get_by_role("link", name="Compare", exact=True).click()
        wait_idle(page)
        parts.append(page.locator(".js-plotly-plot .gtitle"))
        page.locator(".js-plotly-plot .gtitle").first.wait_for()
        figure = [size(part) for part in parts]
        page.get_by_role("link", name="Intervene", exact=True).click()
        wait_idle(page)
        return [*figure, size(page.locator(".head-switches .badge"))]

    page = open_page("/compare")
    small = sizes()
    page.get_by_role("button", name="Settings").click()
    page.get_by_text("Projector").click()
    assert [new / old > 1.25 for old, new in zip(small, sizes(), strict=True)] == [True] * 3
    page.get_by_role("link", name="Explore", exact=True).click()
    wait_idle(page)
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_role("switch", name="Projector")).to_be_checked()


def test_two_tabs_do_not_disturb_each_other(open_page, wait_idle):
    train, other = open_page("/lab-two-places?steps=200"), open_page("/lab-own-reflection")
    train.get_by_role("button", name="Train").click()
    slider = other.get_by_role("slider", name="Tokens").first
    slider.focus()
    slider.press("ArrowRight")
    expect(other).to_have_url(re.compile("tokens=5"))
    wait_idle(other)
    expect(train.get_by_text("Where each head looks")).to_be_visible(timeout=400_000)
    wait_idle(train)
    assert "tokens" not in train.url and "steps=200" in train.url
    assert other.url.endswith("/lab-own-reflection?tokens=5")
    for page in (train, other):
        assert page.get_by_role("alert").filter(has_text="wrong").count() == 0


@pytest.mark.journey
def test_the_glossary_is_searched_and_linked(open_page, wait_idle):
    page = open_page("/learn")
    page.get_by_role("link", name="Glossary").last.click()
    expect(page.get_by_role("heading", name="Glossary")).to_be_visible()
    box = page.get_by_label("Search")
    box.fill("d_head")
    box.press("Enter")
    expect(page).to_have_url(re.compile("find=d_head"))
    wait_idle(page)
    again = open_page(page.url)
    expect(again.get_by_label("Search")).to_have_value("d_head")


def test_a_link_of_the_glossary_opens_the_sentence_and_is_left_by_one_back(open_page, wait_idle):
    page = open_page("/?text=The+old+dog+slept&layer=2&head=3")
    page.get_by_role("button", name="Learn").click()
    page.get_by_text("Glossary", exact=True).click()
    expect(page.get_by_role("heading", name="Glossary")).to_be_visible()
    entry = page.get_by_role("listitem").filter(has_text="Capacity of the best head")
    path = entry.get_by_role("link", name="Compare").get_attribute("href")
    page.goto(urljoin(page.url, path))
    expect(page.get_by_text("Information about the query").first).to_be_visible()
    wait_idle(page)
    expect(page.get_by_label("Sentence").first).to_have_value("The old dog slept")
    page.go_back()
    expect(page.get_by_role("heading", name="Glossary")).to_be_visible()
